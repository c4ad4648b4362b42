//! Reading a snapshot of the index.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use halite_alloc::SEGMENT;
use halite_blocks::log::frame;
use halite_index::{Fate, Ghosts, PartialKeyTree, PartialLen, TreeReader};
use halite_sim::planted;

use super::{Area, Fit, ITEM_HEAD, NUMBER_MAX, ODD, Unfit, VERSION, item, tree};
use crate::entry::Entry;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::record::SEQ_MAX;
use crate::recovery::stop::go_on;
use crate::storage::Storage;
use crate::tombstones::{PARTIAL_LEN, RangeTombstone, Stale};

/// The content of a snapshot, as far as it still holds.
pub(super) struct Loaded {
    /// The number of the last record.
    pub(super) seq: u64,
    /// By key space.
    pub(super) indexes: BTreeMap<u32, PartialKeyTree>,
    /// The tombstones of keys.
    pub(super) points: BTreeMap<u32, PartialKeyTree>,
    /// The tombstones of ranges, by key space and number, and whether their records are there.
    pub(super) ranges: BTreeMap<(u32, u64), (RangeTombstone, bool)>,
    /// Entries whose records are not there, with their counts, by key space.
    pub(super) ghosts: BTreeMap<u32, Vec<Ghosts>>,
    /// Bytes of live records and tombstones of keys, by block.
    pub(super) live: Vec<u64>,
    /// Whether an entry has a value in blocks of its own.
    pub(super) has_overflow: bool,
    /// Bytes of the snapshot.
    pub(super) len: u64,
    blocks: Vec<Known>,
}

/// A block, as a snapshot knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    /// The block had records of the snapshot, and has been collected since.
    Gone,
    /// So many bytes of the block were used.
    Used(u64),
}

impl Loaded {
    /// Reads the newest snapshot that is whole, if there is one that fits the blocks of a partition. Gives up soon if
    /// `stop` is set.
    pub(super) fn read(
        area: &mut Area,
        partial: PartialLen,
        storage: &Storage,
        view: &View,
        stop: &AtomicBool,
    ) -> Fit<Self> {
        let mut found: Vec<_> = [0, 1]
            .into_iter()
            .filter_map(|parity| {
                let number = area.with_frame(Area::place(parity, 0), number_of).ok()??;
                number.is_multiple_of(2).eq(&(parity == 0)).then_some(number)
            })
            .filter(|&number| area.has_end(number))
            .collect();
        found.sort_unstable();
        let read = found.into_iter().rev().find_map(|number| {
            area.number = number;
            Self::read_number(area, partial, storage, view, stop).ok()
        });
        read.ok_or(Unfit)
    }

    /// How much of a block the snapshot covers, in bytes.
    pub(super) fn covered(&self, block: u32) -> u64 {
        match self.blocks.get(block as usize) {
            Some(Known::Used(used)) => {
                planted!("indexlog.snapshot-forgets-tail", crate::BLOCK, *used)
            }
            _ => 0,
        }
    }

    fn read_number(
        area: &Area,
        partial: PartialLen,
        storage: &Storage,
        view: &View,
        stop: &AtomicBool,
    ) -> Fit<Self> {
        let number = area.number;
        let blocks = storage.space.blocks().len() as usize;
        let mut loading = Loading {
            loaded: Self {
                seq: 0,
                indexes: BTreeMap::new(),
                points: BTreeMap::new(),
                ranges: BTreeMap::new(),
                ghosts: BTreeMap::new(),
                live: vec![0; blocks],
                has_overflow: false,
                len: 0,
                blocks: vec![Known::Nothing; blocks],
            },
            partial,
            last: None,
            reader: None,
        };
        for segment in 0..ODD {
            go_on(stop)?;
            area.with_frame(Area::place(number, segment), |frame| {
                if number_of(frame) != Some(number) {
                    return Err(Unfit);
                }
                loading.loaded.len += (frame::HEADER_LEN + frame.len()) as u64;
                loading.read_items(&frame[size_of::<u64>()..], storage, view)
            })??;
            if loading.last == Some(item::END) {
                return Ok(loading.loaded);
            }
        }
        Err(Unfit)
    }
}

impl Area {
    /// Whether the last segment of a snapshot seems to end it: a snapshot that a crash interrupted is not worth
    /// reading.
    fn has_end(&self, number: u64) -> bool {
        let places = self.device.logical_segments().into_iter();
        let last = places.filter(|&place| Self::is_of(number, place)).max();
        let ends = |frame: &[u8]| frame.ends_with(&[item::END, 0, 0, 0, 0]);
        last.is_some_and(|place| self.with_frame(place, ends).unwrap_or(false))
    }

    /// Calls `read` with the payload of the frame of a segment.
    fn with_frame<R>(&self, place: u32, read: impl FnOnce(&[u8]) -> R) -> Fit<R> {
        let fresh = self.device.claim(place, 0, SEGMENT).map_err(|_| Unfit)?;
        fresh.read_ahead();
        let payload = frame::read(fresh.bytes(), self.seed(place)).map_err(|_| Unfit)?;
        Ok(read(payload))
    }
}

/// The number of the snapshot that a frame belongs to, if it is one.
fn number_of(frame: &[u8]) -> Option<u64> {
    let number = frame.first_chunk().map(|number| u64::from_le_bytes(*number));
    number.filter(|number| *number <= NUMBER_MAX)
}

/// A snapshot that is being read.
struct Loading {
    loaded: Loaded,
    partial: PartialLen,
    /// The kind of the last item.
    last: Option<u8>,
    /// The tree whose leaves are read: its key space and its kind.
    reader: Option<(u32, u8, TreeReader)>,
}

impl Loading {
    fn read_items(&mut self, mut rest: &[u8], storage: &Storage, view: &View) -> Fit<()> {
        while !rest.is_empty() {
            let (head, behind) = rest.split_first_chunk::<ITEM_HEAD>().ok_or(Unfit)?;
            let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            let (bytes, behind) = behind.split_at_checked(len as usize).ok_or(Unfit)?;
            rest = behind;
            if !item::may_follow(self.last, head[0]) {
                return Err(Unfit);
            }
            self.last = Some(head[0]);
            match head[0] {
                item::HEAD => self.read_head(bytes).ok_or(Unfit)?,
                item::BLOCKS => self.read_blocks(bytes, storage, view)?,
                item::TREE => self.begin_tree(bytes)?,
                item::LEAF => self.read_leaf(bytes).ok_or(Unfit)?,
                item::RANGE => self.read_range(bytes).ok_or(Unfit)?,
                item::END => self.end_tree()?,
                _ => return Err(Unfit),
            }
        }
        Ok(())
    }

    fn read_head(&mut self, bytes: &[u8]) -> Option<()> {
        let (version, bytes) = bytes.split_first_chunk()?;
        let (partial, bytes) = bytes.split_first_chunk()?;
        self.loaded.seq = u64::from_le_bytes(bytes.try_into().ok()?);
        let is_of_this_form = u32::from_le_bytes(*version) == VERSION
            && u32::from_le_bytes(*partial) as usize == self.partial.bytes();
        (is_of_this_form && self.loaded.seq <= SEQ_MAX).then_some(())
    }

    fn read_blocks(&mut self, bytes: &[u8], storage: &Storage, view: &View) -> Fit<()> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || !words.len().is_multiple_of(3) {
            return Err(Unfit);
        }
        for known in words.chunks_exact(3) {
            let block = u32::from_le_bytes([known[0][0], known[0][1], known[0][2], known[0][3]]);
            let life = u32::from_le_bytes([known[0][4], known[0][5], known[0][6], known[0][7]]);
            let (used, sum) = (u64::from_le_bytes(known[1]), known[2]);
            let found = match view.block(block) {
                Some(Readable { published, seed: Some(_) }) => {
                    let is_same = storage.space.blocks().incarnation(block) == life
                        && published.read(0..8).is_some_and(|first| first == sum);
                    is_same.then(|| published.len())
                }
                _ => None,
            };
            let now = planted!(
                "indexlog.snapshot-trusts-reused-block",
                found.or(Some(crate::BLOCK)),
                found
            );
            if block >= storage.space.map().len() {
                return Err(Unfit);
            }
            // A block that was given back with its segment is not even counted any more.
            let at = block as usize;
            if at >= self.loaded.blocks.len() {
                self.loaded.blocks.resize(at + 1, Known::Nothing);
                self.loaded.live.resize(at + 1, 0);
            }
            self.loaded.blocks[at] = match now {
                // Some of the records that the snapshot points to are not there.
                Some(now) if now < used => return Err(Unfit),
                Some(_) => Known::Used(used),
                None => Known::Gone,
            };
        }
        Ok(())
    }

    fn begin_tree(&mut self, bytes: &[u8]) -> Fit<()> {
        self.end_tree()?;
        let (space, what) = bytes.split_first_chunk().ok_or(Unfit)?;
        let (space, [what]) = (u32::from_le_bytes(*space), what) else { return Err(Unfit) };
        let partial = if *what == tree::INDEX { self.partial } else { PARTIAL_LEN };
        self.reader = Some((space, *what, TreeReader::new(partial)));
        Ok(())
    }

    fn end_tree(&mut self) -> Fit<()> {
        let Some((space, what, reader)) = self.reader.take() else { return Ok(()) };
        let (read, ghosts) = reader.finish().ok_or(Unfit)?;
        self.loaded.ghosts.entry(space).or_default().push(ghosts);
        let trees = match what {
            tree::INDEX => &mut self.loaded.indexes,
            tree::TOMBSTONES => &mut self.loaded.points,
            _ => return Err(Unfit),
        };
        if trees.insert(space, read).is_some() { Err(Unfit) } else { Ok(()) }
    }

    fn read_leaf(&mut self, bytes: &[u8]) -> Option<()> {
        let Self { loaded: Loaded { blocks, live, has_overflow, .. }, reader, .. } = self;
        let (_, what, reader) = reader.as_mut()?;
        let is_index = *what == tree::INDEX;
        let mut is_fit = true;
        reader.read_leaf(bytes, |bits| {
            let entry = Entry::from_bits(bits);
            match fit(blocks, entry) {
                Some(true) => {
                    if is_index || entry.stale() > 0 {
                        live[entry.block() as usize] += entry.footprint();
                    }
                    *has_overflow |= entry.has_overflow();
                    Fate::Keep
                }
                Some(false) if entry.stale() > 0 => Fate::Ghost,
                Some(false) => Fate::Drop,
                None => {
                    is_fit = false;
                    Fate::Drop
                }
            }
        })?;
        is_fit.then_some(())
    }

    fn read_range(&mut self, bytes: &[u8]) -> Option<()> {
        let (space, bytes) = bytes.split_first_chunk()?;
        let (seq, bytes) = bytes.split_first_chunk()?;
        let (entry, bytes) = bytes.split_first_chunk()?;
        let (stale, bytes) = bytes.split_first_chunk()?;
        let (start_len, bytes) = bytes.split_first_chunk()?;
        let (has_end, bytes) = bytes.split_first()?;
        let (start, end) = bytes.split_at_checked(u32::from_le_bytes(*start_len) as usize)?;
        let entry = Entry::from_bits(u64::from_le_bytes(*entry));
        let tombstone = RangeTombstone {
            seq: u64::from_le_bytes(*seq),
            start: start.into(),
            end: (*has_end != 0).then(|| end.into()),
            entry,
            stale: Stale::from_bits(u64::from_le_bytes(*stale)),
        };
        let is_there =
            fit(&self.loaded.blocks, entry).filter(|_| tombstone.seq <= self.loaded.seq)?;
        let key = (u32::from_le_bytes(*space), tombstone.seq);
        self.loaded.ranges.insert(key, (tombstone, is_there)).is_none().then_some(())
    }
}

/// Whether an entry points to a record that is still there; `None` if it never pointed to one.
fn fit(blocks: &[Known], entry: Entry) -> Option<bool> {
    match *blocks.get(entry.block() as usize)? {
        Known::Used(used) => {
            (entry.footprint() > 0 && entry.offset() + entry.footprint() <= used).then_some(true)
        }
        Known::Gone => Some(false),
        Known::Nothing => None,
    }
}
