//! The block map: one word a block, in segments of the map device.
//!
//! ```text
//! bits 63..42        41..18                        17..16   15..0
//!      incarnation   used / 16, or first number    state    check
//! ```
//!
//! A word changes with one 8-byte store, so failure-atomically. The incarnation changes whenever the block is taken
//! for records; it seeds their checksums. The check is over the other bits, the block's number and the pool's salt.
//!
//! An open block is one that the log is appended to, or was last: its records tell where it ends. The number of its
//! first record (24 bits of it, wrapping) tells the order in which blocks were opened, and the missing number if that
//! record is missing. A sealed block's first `used` bytes are records, all durable before it was sealed.
//!
//! Before the words of the blocks, the first segment has 256 bytes for the partition itself: a record number
//! not far from the newest, and one up to which all records were durable.

use halite_alloc::{Device, SEGMENT, Segments};
use halite_contract::{Error, Result};
use halite_pmem::{Fenced, Flushed, Pool, Words};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{ALIGN, BLOCK, BLOCKS_PER_SEGMENT};

/// Words in a map segment.
const WORDS: u32 = (SEGMENT / 8) as u32;

/// Words before those of the blocks: a block of the medium (256 bytes).
const HEAD: u32 = 32;

/// The offset of the record number, in bytes.
const NEAR_AT: u64 = 0;

/// The offset of the number up to which all records were durable when a snapshot of the index was last taken, or a
/// block was last collected in a partition with a change log.
const DURABLE_AT: u64 = NEAR_AT + 8;

/// The record number is kept without so many of its last bits: 1 Mi.
const NEAR_BITS: u32 = 20;

/// The numbers of first records wrap at this.
pub(crate) const FIRSTS: u32 = 1 << 24;

/// The incarnations of a block wrap at this.
pub(crate) const INCARNATIONS: u32 = 1 << 22;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing, or a part of a value that a live record refers to.
    Free,
    /// Records, appended lately. The number is that of the first of them, modulo [`FIRSTS`].
    Open(u32),
    /// Records in so many bytes.
    Sealed(u64),
}

/// The life of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) state: State,
    pub(crate) incarnation: u32,
}

impl Life {
    pub(crate) const NEVER_USED: Self = Self { state: State::Free, incarnation: 0 };
}

/// The words of all blocks, and which of them wait for a fence.
pub(crate) struct BlockMap {
    device: Device,
    pool: Pool,
    salt: u64,
    segments: Vec<Words>,
    dirty: Vec<u32>,
    /// Whether the durable number waits for a fence.
    head_is_dirty: bool,
}

impl BlockMap {
    /// Takes the segments of the map device `device` that exist.
    pub(crate) fn open(segments: &Segments, device: Device, salt: u64) -> Result<Self> {
        let mut map = Self {
            pool: segments.pool().clone(),
            salt,
            segments: Vec::new(),
            dirty: Vec::new(),
            head_is_dirty: false,
            device,
        };
        for (expected, logical) in map.device.logical_segments().into_iter().enumerate() {
            if logical as usize != expected {
                return Err(Error::Damaged {
                    what: format!("block map, segment {expected}"),
                    why: "it is missing from the allocation table".into(),
                });
            }
            let words = map.device.claim(logical, 0, SEGMENT)?.into_words();
            let before = u64::from(map.len());
            map.segments.push(words);
            // The process that stored these words may have died before its fence.
            let used = map.blocks_max().saturating_sub(before);
            let end =
                ((u64::from(HEAD) + used) * 8).next_multiple_of(halite_pmem::LINE).min(SEGMENT);
            let words = &map.segments[expected];
            map.pool.fence_found(&[words.flush(0..end)])?;
        }
        Ok(map)
    }

    /// Blocks that the pool can have used.
    fn blocks_max(&self) -> u64 {
        self.pool.len() / SEGMENT * u64::from(BLOCKS_PER_SEGMENT)
    }

    /// Blocks that the map has words for.
    pub(crate) fn len(&self) -> u32 {
        (self.segments.len() as u32 * WORDS).saturating_sub(HEAD)
    }

    /// The seed of the partition's checksums.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// A record number that is not far from the newest, so that the map need not have all bits of
    /// the numbers in it.
    pub(crate) fn near(&self) -> Result<u64> {
        let word = self.segments[0].load(NEAR_AT);
        let near = word >> 16 << NEAR_BITS;
        if word != self.encode_near(near) {
            return Err(Error::Damaged {
                what: "block map, the number of a record".into(),
                why: format!("the word {word:#018x} does not have its check"),
            });
        }
        Ok(near)
    }

    /// Stores a record number near the newest. One fence.
    #[track_caller]
    pub(crate) fn set_near(&self, seq: u64) -> Result<()> {
        let head = &self.segments[0];
        head.store(NEAR_AT, self.encode_near(seq));
        self.pool.fence([head.flush(NEAR_AT..NEAR_AT + 8)])?;
        Ok(())
    }

    fn encode_near(&self, seq: u64) -> u64 {
        let word = seq >> NEAR_BITS << 16;
        // The number zero has no check, as in a new map.
        if word == 0 { 0 } else { word | xxh3_64_with_seed(&word.to_le_bytes(), self.salt) >> 48 }
    }

    /// The number up to which all records were durable when it was set last.
    pub(crate) fn durable(&self) -> Result<u64> {
        let word = self.segments[0].load(DURABLE_AT);
        if word != self.encode_durable(word >> 16) {
            return Err(Error::Damaged {
                what: "block map, the number of what was durable".into(),
                why: format!("the word {word:#018x} does not have its check"),
            });
        }
        Ok(word >> 16)
    }

    /// Stores the number up to which all records are durable, to be durable with the next fence over
    /// [`BlockMap::flush`].
    pub(crate) fn set_durable(&mut self, seq: u64) {
        self.segments[0].store(DURABLE_AT, self.encode_durable(seq));
        self.head_is_dirty = true;
    }

    fn encode_durable(&self, seq: u64) -> u64 {
        let word = seq << 16;
        let seed = self.salt.wrapping_add(DURABLE_AT);
        if word == 0 { 0 } else { word | xxh3_64_with_seed(&word.to_le_bytes(), seed) >> 48 }
    }

    /// Makes room for the words of `blocks` blocks. A new segment costs 2 fences.
    pub(crate) fn extend(&mut self, blocks: u32) -> Result<()> {
        while self.len() < blocks {
            let grant = self.device.get(self.segments.len() as u32)?;
            let mut fresh = grant.claim(0, SEGMENT)?;
            // Zeros may be there only until the power is cut: the process that wrote them may have been killed before
            // the fence.
            let is_zero = fresh.bytes().iter().all(|&byte| byte == 0);
            let zeroed = if is_zero { fresh.flush(0..SEGMENT) } else { fresh.zero(0..SEGMENT) };
            self.pool.fence_found(&[zeroed])?;
            grant.commit()?;
            self.segments.push(fresh.into_words());
        }
        Ok(())
    }

    /// The life of a block; `None` if its word was never written.
    pub(crate) fn get(&self, block: u32) -> Result<Option<Life>> {
        let (words, at) = self.word(block);
        let word = words.load(at);
        if word == 0 {
            return Ok(None);
        }
        let number = (word >> 18) as u32 & (FIRSTS - 1);
        let incarnation = (word >> 42) as u32;
        let state = match word >> 16 & 3 {
            1 => Some(State::Free),
            2 => Some(State::Open(number)),
            3 if number == 0 => None,
            3 => Some(State::Sealed(u64::from(number) * ALIGN)),
            _ => None,
        };
        let life = state.map(|state| Life { state, incarnation });
        match life.filter(|life| self.encode(block, *life) == word) {
            Some(life) => Ok(Some(life)),
            None => Err(Error::Damaged {
                what: format!("block map, block {block}"),
                why: format!("the word {word:#018x} does not have its check"),
            }),
        }
    }

    /// Stores the life of a block, to be durable with the next fence over [`BlockMap::flush`]. A state that points to
    /// records takes the proof that they are durable.
    pub(crate) fn set(&mut self, block: u32, life: Life, proof: Option<&Fenced>) {
        let word = self.encode(block, life);
        let (words, at) = self.word(block);
        match (life.state, proof) {
            (State::Sealed(_), Some(proof)) => words.publish(at, word, proof),
            (State::Sealed(_), None) => unreachable!("a block is sealed after its last fence"),
            (State::Free | State::Open(_), _) => words.store(at, word),
        }
        self.dirty.push(block);
    }

    /// A sum over all words that the pool can have used, and the durable number. It is stored at a clean close, so
    /// that the next opening notices a line that has gone back to its earlier content, whose words have their checks.
    pub(crate) fn digest(&self) -> u64 {
        let end = self.blocks_max().min(self.len().into()) as u32;
        let of_blocks = (0..end).map(|block| {
            let (words, at) = self.word(block);
            (block, words.load(at))
        });
        let durable = self.segments.first().map(|head| (u32::MAX, head.load(DURABLE_AT)));
        let sum = of_blocks.chain(durable).fold(0_u64, |sum, (block, word)| {
            if word == 0 {
                // Never written: it does not matter how many of these there are.
                return sum;
            }
            let mut input = [0; 12];
            input[..8].copy_from_slice(&word.to_le_bytes());
            input[8..].copy_from_slice(&block.to_le_bytes());
            sum.wrapping_add(xxh3_64_with_seed(&input, !self.salt))
        });
        sum.max(1)
    }

    /// Whether words wait for a fence.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.head_is_dirty
    }

    /// Starts the write-back of all words that wait, each line once; the caller fences them.
    #[track_caller]
    pub(crate) fn flush(&mut self, flushed: &mut Vec<Flushed>) {
        const LINE_WORDS: u32 = halite_pmem::LINE as u32 / 8;
        if std::mem::take(&mut self.head_is_dirty) {
            flushed.push(self.segments[0].flush(NEAR_AT..NEAR_AT + halite_pmem::LINE));
        }
        self.dirty.sort_unstable();
        self.dirty.dedup_by_key(|block| *block / LINE_WORDS);
        for block in std::mem::take(&mut self.dirty) {
            let (words, at) = self.word(block / LINE_WORDS * LINE_WORDS);
            flushed.push(words.flush(at..at + halite_pmem::LINE));
        }
    }

    fn word(&self, block: u32) -> (&Words, u64) {
        let at = HEAD + block;
        (&self.segments[(at / WORDS) as usize], u64::from(at % WORDS) * 8)
    }

    fn encode(&self, block: u32, life: Life) -> u64 {
        let (state, number) = match life.state {
            State::Free => (1, 0),
            State::Open(first) => (2, u64::from(first)),
            State::Sealed(used) => (3, used / ALIGN),
        };
        let word = u64::from(life.incarnation) << 42 | number << 18 | state << 16;
        let mut input = [0; 12];
        input[..8].copy_from_slice(&word.to_le_bytes());
        input[8..].copy_from_slice(&block.to_le_bytes());
        word | xxh3_64_with_seed(&input, self.salt) >> 48
    }
}

const _: () = assert!(BLOCK / ALIGN < FIRSTS as u64);
const _: () = assert!(WORDS.is_multiple_of(BLOCKS_PER_SEGMENT));
const _: () = assert!(HEAD.is_multiple_of(BLOCKS_PER_SEGMENT));

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::result::Result;
    use std::sync::Arc;

    use halite_lab::{Action, Digest, Effort, Explorer, Random, Refusal, Rules, Subject, World};
    use halite_pmem::{Medium, Pool, PoolOptions};

    use super::*;

    /// A pool with a map, and the events that it goes through.
    struct MapOf(Vec<Action<Step>>);

    impl MapOf {
        fn new(steps: &[Step]) -> Self {
            Self(steps.iter().cloned().map(Action::Step).collect())
        }

        /// A pool whose first free segment has something in it, and then becomes the map.
        fn in_used_segment() -> Self {
            Self::new(&[Step::Use, Step::Extend])
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Use,
        Extend,
        /// The record number.
        Near(u64),
    }

    const OTHER_DEVICE: u16 = 7;

    fn open_map(segments: &Arc<Segments>) -> halite_contract::Result<BlockMap> {
        BlockMap::open(segments, segments.device(0), segments.salt())
    }

    fn use_and_release(segments: &Arc<Segments>) -> halite_alloc::Result<()> {
        let device = segments.device(OTHER_DEVICE);
        let grant = device.get(0)?;
        let mut fresh = grant.claim(0, 512)?;
        fresh.write(0, &[0xa5; 512]);
        segments.pool().fence([fresh.flush(0..512)])?;
        drop(fresh);
        grant.commit()?;
        device.release(0)
    }

    impl Subject for MapOf {
        type Step = Step;
        type Open = Arc<Segments>;

        fn name(&self) -> &str {
            "map"
        }

        fn capacity(&self) -> u64 {
            16 << 20
        }

        fn history(&self, _: &mut Random) -> Vec<Action<Step>> {
            self.0.clone()
        }

        fn afterlife(&self, _: &mut Random) -> Vec<Step> {
            vec![Step::Extend]
        }

        fn open(&self, medium: &Medium) -> Result<Arc<Segments>, Refusal> {
            let mut options = PoolOptions::default();
            options.medium = Some(medium.clone());
            let path = Path::new("pool");
            let opened = if Pool::exists(path, &options) {
                Segments::open(path, &options)
            } else {
                Segments::create(path, &options).and_then(|segments| {
                    segments.install()?;
                    Ok(segments)
                })
            };
            opened.map_err(|error| Refusal::Failed(error.to_string()))
        }

        fn apply(&self, open: &mut Arc<Segments>, step: &Step) -> Result<(), String> {
            let done = match step {
                Step::Use => use_and_release(open).map_err(Error::from),
                Step::Extend => open_map(open).and_then(|mut map| map.extend(1)),
                Step::Near(seq) => open_map(open).and_then(|map| map.set_near(*seq)),
            };
            done.map_err(|error| error.to_string())
        }

        fn model(&self, world: &mut World, step: &Step) -> bool {
            match step {
                Step::Use => {}
                Step::Extend => drop(world.insert(b"map".to_vec(), Digest::of(b""))),
                Step::Near(seq) => {
                    let kept = seq >> NEAR_BITS << NEAR_BITS;
                    world.insert(b"near".to_vec(), Digest::of(&kept.to_le_bytes()));
                }
            }
            true
        }

        fn world(&self, open: &mut Arc<Segments>) -> Result<World, Refusal> {
            let refused = |error: Error| Refusal::Failed(error.to_string());
            let released = open.device(OTHER_DEVICE).retain(|_| false);
            released.map_err(|error| refused(error.into()))?;
            let map = open_map(open).map_err(refused)?;
            let used = (0..map.len().min(64)).find(|&block| !matches!(map.get(block), Ok(None)));
            match used {
                Some(block) => {
                    Err(Refusal::Failed(format!("block {block} was never used, and has a word")))
                }
                None if map.len() > 0 => {
                    let mut world = World::from([(b"map".to_vec(), Digest::of(b""))]);
                    let near = map.near().map_err(refused)?;
                    if near > 0 {
                        world.insert(b"near".to_vec(), Digest::of(&near.to_le_bytes()));
                    }
                    Ok(world)
                }
                None => Ok(World::new()),
            }
        }

        fn look_up(
            &self,
            open: &mut Arc<Segments>,
            name: &[u8],
        ) -> Result<Option<Digest>, Refusal> {
            Ok(self.world(open)?.get(name).copied())
        }

        fn verify(&self, _: &mut Arc<Segments>) -> Result<(), Refusal> {
            Ok(())
        }
    }

    /// The requests to the medium made in this file that a map has to make.
    fn needed(map: &MapOf) -> usize {
        let mut explorer = Explorer::new(map, Rules::Memory, Effort::default());
        let violation = explorer.explore(0);
        assert!(violation.is_none(), "{violation:?}");
        let is_missed = |request| {
            let mut explorer = Explorer::new(map, Rules::Memory, Effort::default());
            explorer.disregard(Some(request));
            explorer.explore(0).is_some()
        };
        let here = explorer.requests.iter().filter(|(site, _)| site.file() == file!());
        here.filter(|request| is_missed(**request)).count()
    }

    #[test]
    fn a_map_begins_empty_whatever_its_segment_held() {
        assert!(needed(&MapOf::in_used_segment()) >= 2, "neither the zeros nor their fence can go");
    }

    #[test]
    fn zeros_that_a_killed_process_left_are_made_durable() {
        for rules in [Rules::Memory, Rules::PageCache] {
            for events in 6..14 {
                let mut map = MapOf::in_used_segment();
                map.0.insert(1, Action::KillWithin(Some(Step::Extend), events));
                let mut explorer = Explorer::new(&map, rules, Effort::default());
                let violation = explorer.explore(0);
                assert!(violation.is_none(), "killed after {events}: {violation:?}");
            }
        }
    }

    #[test]
    fn the_number_of_a_record_is_the_last_one_stored_wherever_the_power_is_cut() {
        let steps = [Step::Extend, Step::Near(5 << 20), Step::Near(9 << 20 | 77)];
        assert!(
            needed(&MapOf::new(&steps)) >= 2,
            "neither the flush of the word nor its fence can go"
        );
    }

    #[test]
    fn the_number_of_a_record_has_a_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let segments = Segments::create(&path, &PoolOptions::default()).unwrap();
        let mut map = open_map(&segments).unwrap();
        map.extend(1).unwrap();
        assert_eq!(map.near().unwrap(), 0);
        map.set_near(7 << NEAR_BITS | 3).unwrap();
        assert_eq!(map.near().unwrap(), 7 << NEAR_BITS);
        let word = map.segments[0].load(NEAR_AT);
        for bit in 0..64 {
            map.segments[0].store(NEAR_AT, word ^ 1 << bit);
            let damage = map.near().unwrap_err().damage();
            assert!(damage.is_some_and(|damage| damage.what.contains("number")), "bit {bit}");
        }
    }
}
