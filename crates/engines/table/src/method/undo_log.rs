//! The undo log of a partition in a heap: one slot, that of the transaction that commits.
//!
//! ```text
//! slots written, indexes prepared ──► the log │ fence │ states, words of tuples and of leaves │ fence │ log emptied, tidying
//! ```
//!
//! What a transaction adds is in slots that are only reserved, and its indexes' entries are prepared unseen
//! ([`NonVolatileTree::prepare`]). Its log names what is about to change: the slots that become persisted or free, and words
//! with what is in them before and after. Then the changes are stored in their places ([`UndoLog::carry_out`]).
//!
//! ```text
//!  words u64 | check u64 | activated n | groups n | words n
//!            | pointer.. | (owner 20 bits, length in 8 bytes 18, n 26), pointer.. | .. | (pointer, at, before, after)..
//! ```
//!
//! Slots that are freed are in groups of one owner and length. A check of zero says that the log is empty: it is no transaction's. A log that is torn does not have its check, and its
//! transaction has changed nothing yet.
//!
//! **Recovery** undoes a transaction of which not all changes are in their places. One of which all are is kept: the power
//! may have been cut behind its second fence, when it was acknowledged, and before the store that empties the log was
//! durable. Nothing changes any of these places again before it is: each transaction's changes follow its log, and an index
//! has it made durable before it frees a leaf. Either way everything is stored again, though it may be there already: a sync
//! that failed may have lost it. So recovery may be interrupted and repeated.
//!
//! **A full heap** takes removals, which free nothing before they are logged: the log is lengthened while the heap grows, so
//! that it has room for the pointers of nearly all that the heap may have, up to 2 MiB.
//!
//! Costs: 8 bytes a slot that is inserted or freed, 8 a group of those, 32 a changed word, and 40 each transaction; 1/32 of
//! the heap; two fences each time that the log is lengthened.

use halite_alloc::heap::{
    AnyPtr, Heap, NvPtr, Owner, Publication, SLOT_LEN_MAX, SlotState, Tag, Tagged,
};
use halite_alloc::{Error as SpaceError, SEGMENT};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::catalog_slot::owner;
use super::house::HOUSE;
use crate::component::Component;
use crate::index::Error as IndexError;
use crate::index::nonvolatile::{LeafNode, NonVolatileTree, Prepared};
use crate::tuple::Tuple;
use crate::{Error, Result};

/// The root that leads to the log.
const LOG: &str = "log";

/// Bytes of a log's slot at first, unless the options say another length.
pub(super) const LEN: u64 = 30 << 10;

/// The words before those of the changes: their number, and their check.
const HEAD: u64 = 16;

/// Where the check is.
const CHECK_AT: u64 = 8;

/// The part of a heap's segments, but the first one, that a log is long at least. Of slots of 1,000 bytes, pointers are
/// half of that.
const SHARE: u64 = 64;

/// Bits of the number of a group's slots, and of their length.
const COUNT_BITS: u32 = 26;
const LEN_BITS: u32 = 18;

/// In the place of a word: the slot is a leaf's.
const OF_LEAF: u64 = 1 << 63;

#[derive(Debug)]
enum LogSlot {}

impl Tagged for LogSlot {
    const TAG: Tag = Tag::new(4);
}

/// A slot that is freed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freed {
    pub(super) slot: AnyPtr,
    pub(super) owner: Owner,
    pub(super) len: u64,
}

/// The slot that a changed word is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Tuple(NvPtr<Tuple>),
    Leaf(NvPtr<LeafNode>),
}

/// A word that changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    pub(super) place: Place,
    pub(super) at: u64,
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The changes of a transaction to what is persisted.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) activated: Vec<AnyPtr>,
    pub(super) freed: Vec<Freed>,
    pub(super) words: Vec<Word>,
}

/// The log.
#[derive(Debug)]
pub(super) struct UndoLog {
    slot: NvPtr<LogSlot>,
    len: u64,
    /// Bytes of the heap, when it was last looked whether the log is long enough for it.
    fits: u64,
}

/// Slots that are freed, of one owner and one length.
struct Group<'a>(&'a [Freed]);

impl Freed {
    fn kind(&self) -> (Owner, u64) {
        (self.owner, self.len)
    }
}

impl Word {
    fn store(&self, heap: &mut Heap, value: u64) -> Result<()> {
        Ok(match self.place {
            Place::Tuple(slot) => heap.store_word(slot, self.at, value),
            Place::Leaf(slot) => heap.store_word(slot, self.at, value),
        }?)
    }

    /// The word that is in the place; `None` if the slot is no more.
    fn load(&self, heap: &Heap) -> Option<u64> {
        match self.place {
            Place::Tuple(slot) => heap.word(slot, self.at).ok(),
            Place::Leaf(slot) => heap.word(slot, self.at).ok(),
        }
    }
}

impl Group<'_> {
    fn head(&self) -> u64 {
        let Freed { owner, len, .. } = self.0[0];
        let (owner, count) = (u64::from(owner.number()), self.0.len() as u64);
        debug_assert!(
            len.is_multiple_of(8) && len >> 3 >> LEN_BITS == 0 && count >> COUNT_BITS == 0
        );
        owner << (LEN_BITS + COUNT_BITS) | len >> 3 << COUNT_BITS | count
    }

    /// The owner, the length and the number that a head has.
    fn of_head(head: u64) -> Option<(Owner, u64, usize)> {
        let owner = Owner::new((head >> (LEN_BITS + COUNT_BITS)) as u32)?;
        let len = (head >> COUNT_BITS & ((1 << LEN_BITS) - 1)) << 3;
        Some((owner, len, (head & ((1 << COUNT_BITS) - 1)) as usize))
    }
}

impl Changes {
    /// Brings slots of one owner and length together.
    fn group(&mut self) {
        self.freed.sort_unstable_by_key(Freed::kind);
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.freed.chunk_by(|one, next| one.kind() == next.kind()).map(Group)
    }

    /// Words of a log, without its head.
    fn len(&self) -> usize {
        let freed = self.groups().count() + self.freed.len();
        3 + self.activated.len() + freed + 4 * self.words.len()
    }

    fn encode(&self) -> Vec<u64> {
        let counts = [self.activated.len(), self.groups().count(), self.words.len()];
        let mut log = Vec::with_capacity(self.len());
        log.extend(counts.map(|count| count as u64));
        log.extend(self.activated.iter().map(|slot| slot.word()));
        for group in self.groups() {
            log.push(group.head());
            log.extend(group.0.iter().map(|freed| freed.slot.word()));
        }
        for Word { place, at, before, after } in &self.words {
            let (slot, at) = match place {
                Place::Tuple(slot) => (slot.word(), *at),
                Place::Leaf(slot) => (slot.word(), at | OF_LEAF),
            };
            log.extend([slot, at, *before, *after]);
        }
        log
    }

    fn decode(log: &[u64]) -> Option<Self> {
        let (&[activated, groups, words], rest) = log.split_first_chunk()?;
        let (activated, mut rest) = rest.split_at_checked(usize::try_from(activated).ok()?)?;
        let mut freed = Vec::new();
        for _ in 0..groups {
            let (&head, behind) = rest.split_first()?;
            let (owner, len, count) = Group::of_head(head)?;
            let (slots, behind) = behind.split_at_checked(count)?;
            let slots = slots.iter().map(|&slot| AnyPtr::from_word(slot));
            freed.extend(slots.map(|slot| Freed { slot, owner, len }));
            rest = behind;
        }
        if rest.len() as u64 != words.checked_mul(4)? {
            return None;
        }
        let words = rest.as_chunks().0.iter().map(|&[slot, at, before, after]| {
            let place = match at & OF_LEAF {
                0 => Place::Tuple(NvPtr::from_word(slot)),
                _ => Place::Leaf(NvPtr::from_word(slot)),
            };
            Word { place, at: at & !OF_LEAF, before, after }
        });
        Some(Self {
            activated: activated.iter().map(|&word| AnyPtr::from_word(word)).collect(),
            freed,
            words: words.collect(),
        })
    }

    /// Adds what was prepared in an index.
    pub(super) fn add(&mut self, tree: &NonVolatileTree, prepared: &Prepared) {
        self.activated.extend(prepared.new_keys.iter().map(|key| key.pointer.any()));
        self.freed.extend(prepared.old_keys.iter().map(|key| Freed {
            slot: key.pointer.any(),
            owner: tree.owner(),
            len: key.len,
        }));
        self.words.extend(prepared.words.iter().map(|word| Word {
            place: Place::Leaf(word.leaf),
            at: word.at,
            before: word.before,
            after: word.after,
        }));
    }

    /// Stores the changes in their places. No fence.
    fn show(&self, heap: &mut Heap) -> Result<()> {
        for &slot in &self.activated {
            heap.activate(slot)?;
        }
        for word in &self.words {
            word.store(heap, word.after)?;
        }
        for freed in &self.freed {
            heap.free(freed.slot)?;
        }
        Ok(())
    }

    /// Whether all changes are in their places.
    fn are_there(&self, heap: &Heap) -> bool {
        let is_persisted = |slot| heap.state(slot).is_ok_and(|state| state == SlotState::Persisted);
        self.activated.iter().all(|&slot| is_persisted(slot))
            && self.freed.iter().all(|freed| !is_persisted(freed.slot))
            && self.words.iter().all(|word| word.load(heap) == Some(word.after))
    }

    /// Stores changes again that are all there. No fence.
    fn keep(&self, heap: &mut Heap) -> Result<()> {
        for &slot in &self.activated {
            let len = heap.len_of(slot)?;
            heap.restore(slot, owner(HOUSE), len)?;
        }
        for word in &self.words {
            word.store(heap, word.after)?;
        }
        for freed in &self.freed {
            heap.revoke(freed.slot)?;
        }
        Ok(())
    }

    /// Undoes the changes, those too that are not there. No fence.
    fn undo(&self, heap: &mut Heap) -> Result<()> {
        for freed in &self.freed {
            heap.restore(freed.slot, freed.owner, freed.len)?;
        }
        for word in &self.words {
            word.store(heap, word.before)?;
        }
        for &slot in &self.activated {
            heap.revoke(slot)?;
        }
        Ok(())
    }
}

impl UndoLog {
    /// Makes an empty log with room for so many bytes, which is there once the publication has happened.
    pub(super) fn create(heap: &mut Heap, len: u64, publication: &mut Publication) -> Result<()> {
        Self::reserve(heap, len.clamp(HEAD, SLOT_LEN_MAX), publication).map(drop)
    }

    fn reserve(heap: &mut Heap, len: u64, publication: &mut Publication) -> Result<NvPtr<LogSlot>> {
        let slot = heap.reserve::<LogSlot>(owner(HOUSE), len)?;
        heap.write(slot, 0, &[0; HEAD as usize])?;
        publication.activate(slot);
        publication.set_root(LOG, slot.word());
        Ok(slot)
    }

    /// Opens the log, and undoes what the last transaction has changed, if it has not changed all.
    pub(super) fn open(heap: &mut Heap) -> Result<Self> {
        let slot = NvPtr::<LogSlot>::from_word(heap.root(LOG).unwrap_or(0));
        let bytes = heap.read(slot)?;
        let len = bytes.len() as u64;
        let (words, _) = bytes.as_chunks();
        let [count, stored, rest @ ..] = words else {
            return Err(Error::damaged("the undo log", "it is too short"));
        };
        let (count, stored) = (u64::from_le_bytes(*count), u64::from_le_bytes(*stored));
        let log = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let log = log.filter(|log| stored != 0 && stored == check(heap, log.as_flattened()));
        let opened = Self { slot, len, fits: 0 };
        if let Some(log) = log {
            let malformed =
                || Error::damaged("the undo log", "its check is right, and its parts are not");
            let log: Vec<u64> = log.iter().map(|&word| u64::from_le_bytes(word)).collect();
            let changes = Changes::decode(&log).ok_or_else(malformed)?;
            let is_whole = planted!("table.nvm-inp-undoes-whole", false, changes.are_there(heap));
            match is_whole {
                true => planted!("table.nvm-inp-kept-not-stored", Ok(()), changes.keep(heap))?,
                false => planted!("table.nvm-log-undo-skipped", Ok(()), changes.undo(heap))?,
            }
            planted!("table.nvm-inp-undo-not-fenced", Ok(()), heap.fence())?;
        }
        // Also a log that is found empty may not be durably so.
        opened.empty(heap)?;
        heap.fence()?;
        Ok(opened)
    }

    /// The slot, for a check of what is reachable.
    pub(super) fn slot(&self) -> AnyPtr {
        self.slot.any()
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Makes room for the log of changes. Two fences if it is lengthened.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]; the heap's, also for lack of room. Nothing has changed then.
    pub(super) fn prepare(&mut self, heap: &mut Heap, changes: &mut Changes) -> Result<()> {
        let _in = Component::Recovery.enter();
        changes.group();
        let len = HEAD + 8 * changes.len() as u64;
        if len > SLOT_LEN_MAX {
            return Err(Error::TransactionTooLarge { len, max: SLOT_LEN_MAX });
        }
        self.keep_up(heap)?;
        match len > self.len {
            true => self.lengthen(heap, len),
            false => Ok(()),
        }
    }

    /// Lengthens the log if the heap has grown, to twice the least share, as long as there is room.
    fn keep_up(&mut self, heap: &mut Heap) -> Result<()> {
        let bytes = heap.bytes();
        if bytes == self.fits {
            return Ok(());
        }
        self.fits = bytes;
        let least = ((bytes - SEGMENT) / SHARE).min(SLOT_LEN_MAX);
        if self.len >= least {
            return Ok(());
        }
        match self.lengthen(heap, (2 * least).min(SLOT_LEN_MAX)) {
            Err(error) if error.is_refusal() => Ok(()),
            lengthened => lengthened,
        }
    }

    /// Puts a longer slot in the place of the one that is there. Two fences.
    fn lengthen(&mut self, heap: &mut Heap, len: u64) -> Result<()> {
        // The log that is there may be one to be undone on the medium.
        heap.fence()?;
        let mut publication = Publication::new();
        let slot = Self::reserve(heap, len, &mut publication)?;
        publication.free(self.slot);
        if let Err(error) = heap.publish(&mut publication) {
            heap.cancel(slot)?;
            return Err(error.into());
        }
        (self.slot, self.len) = (slot, heap.len_of(slot)?);
        Ok(())
    }

    /// Makes changes, for whose log there is room, and tidies the indexes that have some of them. Two fences, and those of
    /// tidying.
    pub(super) fn carry_out(
        &self,
        heap: &mut Heap,
        changes: &Changes,
        indexes: &[(NonVolatileTree, Prepared)],
    ) -> Result<()> {
        {
            let _in = Component::Recovery.enter();
            self.write(heap, changes)?;
            planted!("table.nvm-inp-changes-before-log", Ok(()), heap.fence())?;
        }
        changes.show(heap)?;
        planted!("table.nvm-inp-commit-not-fenced", Ok(()), heap.fence())?;
        self.empty(heap)?;
        for (tree, Prepared { words, .. }) in indexes {
            match tree.tidy(heap, words) {
                // The leaves stay as they are until there is room.
                Err(IndexError::Heap(SpaceError::Full { .. })) => {}
                tidied => tidied?,
            }
        }
        Ok(())
    }

    /// Writes the log of changes, for which there is room. It is durable by the next fence.
    fn write(&self, heap: &mut Heap, changes: &Changes) -> Result<()> {
        let log = changes.encode();
        let mut bytes = vec![0; HEAD as usize];
        bytes.extend(log.iter().flat_map(|word| word.to_le_bytes()));
        let (head, stored) = bytes.split_at_mut(HEAD as usize);
        let words = [log.len() as u64, check(heap, stored)];
        head.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        Ok(heap.write(self.slot, 0, &bytes)?)
    }

    /// Empties the log. It is durable by the next fence.
    fn empty(&self, heap: &mut Heap) -> Result<()> {
        let _in = Component::Recovery.enter();
        Ok(heap.store_word(self.slot, CHECK_AT, 0)?)
    }
}

/// The check of a log, which is not zero.
fn check(heap: &Heap, log: &[u8]) -> u64 {
    xxh3_64_with_seed(log, heap.salt()).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn slot() -> impl Strategy<Value = AnyPtr> {
        (1..u64::MAX).prop_map(AnyPtr::from_word)
    }

    fn freed() -> impl Strategy<Value = Freed> {
        let len = prop_oneof![Just(16), Just(1_024), Just(SLOT_LEN_MAX)];
        (slot(), 1..4_u32, len).prop_map(|(slot, number, len)| Freed {
            slot,
            owner: owner(number),
            len,
        })
    }

    fn word() -> impl Strategy<Value = Word> {
        (any::<bool>(), slot(), 0..100_u64, any::<[u64; 2]>()).prop_map(
            |(is_leaf, slot, at, [before, after])| {
                let place = match is_leaf {
                    true => Place::Leaf(NvPtr::from_word(slot.word())),
                    false => Place::Tuple(NvPtr::from_word(slot.word())),
                };
                Word { place, at: 8 * at, before, after }
            },
        )
    }

    fn changes() -> impl Strategy<Value = Changes> {
        let parts = (vec(slot(), 0..5), vec(freed(), 0..9), vec(word(), 0..5));
        parts.prop_map(|(activated, freed, words)| {
            let mut changes = Changes { activated, freed, words };
            changes.group();
            changes
        })
    }

    proptest! {
        #[test]
        fn a_log_is_read_as_it_was_written_and_not_beyond_its_end(
            changes in changes(),
            cut in any::<prop::sample::Index>(),
            (at, word) in (0..3_usize, any::<u64>()),
        ) {
            let mut log = changes.encode();
            prop_assert_eq!(log.len(), changes.len());
            let read = Changes::decode(&log).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{changes:?}"));
            prop_assert!(Changes::decode(&log[..cut.index(log.len())]).is_none());
            log[at] = word;
            let _ = Changes::decode(&log);
        }
    }

    #[test]
    fn slots_of_a_kind_take_a_word_each() {
        let freed = |number: u64| Freed {
            slot: AnyPtr::from_word(8 + number),
            owner: owner(HOUSE),
            len: 16 << (number % 2),
        };
        let mut changes = Changes { freed: (0..100).map(freed).collect(), ..Changes::default() };
        changes.group();
        assert_eq!(changes.len(), 3 + 2 + 100);
    }
}
