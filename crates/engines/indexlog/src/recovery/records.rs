//! The records that the blocks of a partition hold, in the order of their keys.
//!
//! Opening a store finds millions of them, so little is kept of each: its place, its number, and the 16 bytes of its
//! key behind the prefix that all keys of the key space share. To read a key again is a cache miss, and on most media
//! a TLB miss too; so keys are read again only where these bytes do not tell them apart, and the index is built from
//! starts of keys.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use halite_contract::Result;
use halite_index::SortedKey;
use halite_pmem::Published;

use crate::entry::Entry;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::record::walk::each_record;
use crate::record::{self, KEY_AT, Kind};
use crate::recovery::stop::go_on;
use crate::tombstones::{RangeTombstone, Stale};

/// Common prefixes are looked for up to this length, in bytes: a prefix that a head leaves out may have to be put
/// back.
const COMMON_MAX: usize = 1024;

/// A run of no more records than this is sorted by their whole keys.
const FEW: usize = 32;

/// How often a run's common prefix is left out anew, before its keys are compared whole.
const LEVELS_MAX: usize = 64;

/// Records that are sorted between two checks of whether to go on.
const SORTED_AT_ONCE: usize = 2 << 20;

/// Records ahead of the one at hand whose keys are brought into the cache.
const AHEAD: usize = 16;

/// Bytes of a key that are kept.
const HEAD_LEN: usize = size_of::<u128>();

/// A put or a delete.
#[derive(Clone, Copy)]
pub(crate) struct RecordRef {
    /// Bytes of the key, padded with zeros.
    head: u128,
    /// Its entry, with the flags below in place of the count of stale versions.
    place: u64,
    pub(crate) seq: u64,
}

const PUT: u64 = 1 << 63;
const COPY: u64 = 1 << 62;
/// The key is that of the record before.
const SAME: u64 = 1 << 61;
/// The head does not tell the key from others.
const SHARED: u64 = 1 << 60;
/// How many bytes of the head are of the key; more than the head has, if the key is longer.
const LEN_SHIFT: u32 = 53;
const LEN: u64 = 31 << LEN_SHIFT;

impl RecordRef {
    fn new(rest: &[u8], place: u64, seq: u64) -> Self {
        let len = rest.len().min(HEAD_LEN + 1) as u64;
        Self { head: head_of(rest), place: place | len << LEN_SHIFT, seq }
    }

    pub(crate) fn entry(self) -> Entry {
        Entry::from_bits(self.place).with_stale(0)
    }

    pub(crate) fn is_put(self) -> bool {
        self.place & PUT != 0
    }

    pub(crate) fn is_copy(self) -> bool {
        self.place & COPY != 0
    }

    /// How many bytes of the head are of the key; `None` if the key is longer.
    fn whole_len(self) -> Option<usize> {
        Some(((self.place & LEN) >> LEN_SHIFT) as usize).filter(|&len| len <= HEAD_LEN)
    }

    /// Puts bytes back that the head left out.
    fn prepend(&mut self, bytes: &[u8]) {
        let len = ((self.place & LEN) >> LEN_SHIFT) + bytes.len() as u64;
        self.place = self.place & !LEN | len.min(HEAD_LEN as u64 + 1) << LEN_SHIFT;
        self.head = match bytes.len() {
            0 => self.head,
            len @ 1..HEAD_LEN => head_of(bytes) | self.head >> (8 * len),
            _ => head_of(bytes),
        };
    }

    /// Orders records with one key: the newest comes first; of a record and its copy the copy, so that a block whose
    /// collection was interrupted has no live record.
    fn age(self) -> (Reverse<u64>, Reverse<bool>) {
        (Reverse(self.seq), Reverse(self.is_copy()))
    }
}

/// The start of a key: enough to tell it from its neighbours.
pub(crate) enum Start<'a> {
    /// The first bytes of a key that goes on behind them, or does not.
    Part { bytes: [u8; START_LEN_MAX], len: usize, whole: Option<(&'a Keys<'a>, RecordRef)> },
    /// The whole key.
    Whole(&'a [u8]),
}

/// Bytes of a key's start that is not the whole key.
const START_LEN_MAX: usize = 40;

impl SortedKey for Start<'_> {
    fn start(&self) -> &[u8] {
        match self {
            Self::Part { bytes, len, .. } => &bytes[..*len],
            Self::Whole(key) => key,
        }
    }

    fn whole(&self) -> &[u8] {
        match self {
            Self::Part { whole: Some((keys, found)), .. } => keys.of(found),
            _ => self.start(),
        }
    }
}

/// The records of a key space.
#[derive(Default)]
pub(crate) struct SpaceRecords {
    pub(crate) records: Vec<RecordRef>,
    /// The first key, or its start.
    first: Vec<u8>,
    /// How many bytes of it all keys have in common.
    common: usize,
    /// Indexes of records, each with the length of the prefix that the heads before it leave out, where that is
    /// longer.
    cuts: Vec<(usize, usize)>,
}

impl SpaceRecords {
    fn push(&mut self, key: &[u8], place: u64, seq: u64) {
        if self.records.is_empty() {
            self.first = key[..key.len().min(COMMON_MAX)].to_vec();
            self.common = self.first.len();
        } else if !key.starts_with(&self.first[..self.common]) {
            self.cuts.push((self.records.len(), self.common));
            self.common = common_prefix(key, &self.first[..self.common]);
        }
        self.records.push(RecordRef::new(&key[self.common..], place, seq));
    }

    /// Sorts the records by key, and those with one key by age.
    ///
    /// # Errors
    /// That of [`go_on`].
    pub(crate) fn sort(&mut self, keys: &Keys<'_>, stop: &AtomicBool) -> Result<()> {
        let mut start = 0;
        for &(end, common) in &self.cuts {
            let left_out = &self.first[self.common..common];
            self.records[start..end].iter_mut().for_each(|found| found.prepend(left_out));
            start = end;
        }
        sort(&mut self.records, keys, LEVELS_MAX, stop)
    }

    /// The sorted records in groups with one key each. If keys are going to be read, they are prefetched.
    pub(crate) fn versions<'a>(
        &'a self,
        keys: &'a Keys<'a>,
        are_read: bool,
    ) -> impl Iterator<Item = &'a [RecordRef]> {
        let mut rest = &self.records[..];
        std::iter::from_fn(move || {
            let (_, behind) = rest.split_first()?;
            let count = 1 + behind.iter().take_while(|found| found.place & SAME != 0).count();
            let (versions, behind) = rest.split_at(count);
            rest = behind;
            for found in rest.iter().skip(AHEAD).take(count) {
                if are_read || found.place & SHARED != 0 {
                    keys.prefetch(found);
                }
            }
            Some(versions)
        })
    }

    /// The start of a record's key.
    pub(crate) fn start_of<'a>(&self, found: &RecordRef, keys: &'a Keys<'a>) -> Start<'a> {
        let len = self.common + found.whole_len().unwrap_or(HEAD_LEN);
        if found.place & SHARED != 0 || len > START_LEN_MAX {
            return Start::Whole(keys.of(found));
        }
        let mut bytes = [0; START_LEN_MAX];
        bytes[..self.common].copy_from_slice(&self.first[..self.common]);
        bytes[self.common..len].copy_from_slice(&found.head.to_be_bytes()[..len - self.common]);
        let whole = found.whole_len().is_none().then_some((keys, *found));
        Start::Part { bytes, len, whole }
    }
}

/// The keys of the records of all blocks.
pub(crate) struct Keys<'a> {
    /// By the block's number.
    blocks: Vec<Option<(&'a Published, &'a [u8])>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(view: &'a View, blocks: u32) -> Self {
        let bytes = |block| {
            let published = &*view.block(block)?.published;
            Some((published, published.bytes()))
        };
        Self { blocks: (0..blocks).map(bytes).collect() }
    }

    /// The key of a record that was checked when it was found.
    #[inline]
    pub(crate) fn of(&self, found: &RecordRef) -> &'a [u8] {
        let entry = found.entry();
        let block = self.blocks.get(entry.block() as usize).copied().flatten();
        let record = block.and_then(|(_, bytes)| bytes.get(entry.offset() as usize..));
        record.and_then(record::key_of).unwrap_or_default()
    }

    #[inline]
    fn prefetch(&self, found: &RecordRef) {
        let entry = found.entry();
        if let Some(Some((published, _))) = self.blocks.get(entry.block() as usize) {
            published.prefetch(entry.offset() + KEY_AT);
        }
    }
}

/// Sorts records by their heads, and where these are equal by more of their keys.
fn sort(
    records: &mut [RecordRef],
    keys: &Keys<'_>,
    levels: usize,
    stop: &AtomicBool,
) -> Result<()> {
    sort_heads(records, SORTED_AT_ONCE, stop)?;
    let mut runs = records.chunk_by_mut(|a, b| a.head == b.head).filter(|run| run.len() > 1);
    runs.try_for_each(|run| sort_run(run, keys, levels, stop))
}

/// Sorts records by their heads alone, no more than `at_once` in one step.
fn sort_heads(records: &mut [RecordRef], at_once: usize, stop: &AtomicBool) -> Result<()> {
    go_on(stop)?;
    if records.len() <= at_once {
        records.sort_unstable_by_key(|found| found.head);
        return Ok(());
    }
    let middle = records.len() / 2;
    let (low, _, high) = records.select_nth_unstable_by_key(middle, |found| found.head);
    sort_heads(low, at_once, stop)?;
    sort_heads(high, at_once, stop)
}

/// Sorts records whose heads are equal.
fn sort_run(
    run: &mut [RecordRef],
    keys: &Keys<'_>,
    levels: usize,
    stop: &AtomicBool,
) -> Result<()> {
    go_on(stop)?;
    run.iter().take(AHEAD).for_each(|found| keys.prefetch(found));
    let first = keys.of(&run[0]);
    let (mut common, mut are_same) = (first.len(), true);
    for at in 1..run.len() {
        if let Some(later) = run.get(at + AHEAD) {
            keys.prefetch(later);
        }
        let key = keys.of(&run[at]);
        common = common.min(common_prefix(key, first));
        are_same &= key == first;
    }
    if are_same {
        run.sort_unstable_by_key(|found| found.age());
        run[1..].iter_mut().for_each(|found| found.place |= SAME);
        return Ok(());
    }
    run.iter_mut().for_each(|found| found.place |= SHARED);
    if run.len() > FEW && levels > 0 {
        let mut are_equal = true;
        for at in 0..run.len() {
            if let Some(later) = run.get(at + AHEAD) {
                keys.prefetch(later);
            }
            run[at].head = head_of(&keys.of(&run[at])[common..]);
            are_equal &= run[at].head == run[0].head;
        }
        if !are_equal {
            return sort(run, keys, levels - 1, stop);
        }
    }
    run.sort_unstable_by(|a, b| keys.of(a).cmp(keys.of(b)).then_with(|| a.age().cmp(&b.age())));
    for at in 1..run.len() {
        if keys.of(&run[at - 1]) == keys.of(&run[at]) {
            run[at].place |= SAME;
        }
    }
    Ok(())
}

/// All records of the blocks.
#[derive(Default)]
pub(crate) struct AllRecords {
    pub(crate) spaces: BTreeMap<u32, SpaceRecords>,
    /// Key space, whether it is a copy, and the tombstone.
    pub(crate) ranges: Vec<(u32, bool, RangeTombstone)>,
    pub(crate) seq_max: u64,
}

impl AllRecords {
    /// How many records there are.
    pub(crate) fn len(&self) -> u64 {
        let records: usize = self.spaces.values().map(|space| space.records.len()).sum();
        (records + self.ranges.len()) as u64
    }

    /// Adds the records of a block from offset `from` on, if it is a block of records. Returns how many bytes they
    /// take.
    pub(crate) fn read_block(&mut self, view: &View, block: u32, from: u64) -> Result<u64> {
        let Some(Readable { published, seed: Some(seed) }) = view.block(block) else {
            return Ok(0);
        };
        let bytes = published.bytes();
        if from >= bytes.len() as u64 {
            return Ok(0);
        }
        published.read_ahead(from);
        // Nearly all records of a block are of one key space.
        let (mut number, mut space) = (None, SpaceRecords::default());
        let read = each_record(bytes, *seed, block, from, |at, record, footprint| {
            self.seq_max = self.seq_max.max(record.seq());
            let entry = Entry::new(block, at, footprint, record.has_overflow());
            let of_space = record.header.space.get();
            if record.kind == Kind::DeleteRange {
                let tombstone = RangeTombstone {
                    seq: record.seq(),
                    start: record.key.into(),
                    end: record.range_end().map(Into::into),
                    entry,
                    stale: Stale::default(),
                };
                self.ranges.push((of_space, record.is_relocated(), tombstone));
                return;
            }
            if number != Some(of_space) {
                let other = self.spaces.remove(&of_space).unwrap_or_default();
                let last = std::mem::replace(&mut space, other);
                number.replace(of_space).map(|number| self.spaces.insert(number, last));
            }
            let put = if record.kind == Kind::Put { PUT } else { 0 };
            let copy = if record.is_relocated() { COPY } else { 0 };
            space.push(record.key, entry.bits() | put | copy, record.seq());
        });
        number.map(|number| self.spaces.insert(number, space));
        read.map(|()| bytes.len() as u64 - from)
    }
}

/// The length of the common prefix of two keys.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first bytes as a number, padded with zeros.
#[inline]
fn head_of(bytes: &[u8]) -> u128 {
    if let Some(bytes) = bytes.first_chunk() {
        return u128::from_be_bytes(*bytes);
    }
    let mut padded = [0; HEAD_LEN];
    padded[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(padded)
}

const _: () = assert!(size_of::<RecordRef>() == 32);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use halite_contract::Error;

    proptest! {
        #[test]
        fn heads_are_sorted_in_parts_as_they_are_at_once(
            heads in prop::collection::vec(0..50_u64, 0..300),
            at_once in 1..100_usize,
        ) {
            let found = |head: &u64| RecordRef::new(&head.to_be_bytes(), 0, *head);
            let mut records: Vec<_> = heads.iter().map(found).collect();
            sort_heads(&mut records, at_once, &AtomicBool::new(false)).unwrap();
            let mut sorted = heads;
            sorted.sort_unstable();
            prop_assert!(records.iter().map(|found| found.seq).eq(sorted));
        }
    }

    #[test]
    fn sorting_is_given_up_when_the_store_is_closed() {
        let mut records = vec![RecordRef::new(b"key", 0, 1); 10];
        let stopped = sort_heads(&mut records, 3, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(Error::Poisoned { .. })));
    }
}
