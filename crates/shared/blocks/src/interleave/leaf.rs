//! Leaves of an FPTree (van Renen §3.5.1): pairs of a key and a value of 8 bytes each, unsorted, found by
//! fingerprints of one byte.
//!
//! ```text
//! a range   ┌──────────────────────────┬────────┬────────┬─
//!           │ header: magic, n, seal   │ leaf 0 │ leaf 1 │ ...
//!           └──────────────────────────┴────────┴────────┴─
//!             64 bytes                   576      576
//! a leaf    ┌───────────────┬───────────────────┬─────────┬────────────────────────┐
//!           │ used, check   │ fingerprints 0-31 │ nothing │ (key, value) 0-31      │
//!           └───────────────┴───────────────────┴─────────┴────────────────────────┘
//!             8 bytes         32                  24         512
//! ```
//!
//! An insert writes its pair and makes it durable; then it stores the fingerprint and, in the same line,
//! sets the slot's bit, and makes that durable. On an ordinary file, whose lines keep no order, the fingerprint is
//! stored with the pair, and durable as early. So a bit that is set after a crash has its pair and its
//! fingerprint; the contents of other slots have no meaning. A pair does not change, and no slot is freed.
//!
//! Between its slot's reservation and its second fence an insert is in a list in DRAM: no other insert gets
//! its slot, an insert of the same key waits for it, and lookups do not see it before it is durable. An
//! insert that is dropped before its end, or whose fence fails, may have happened or not, as after a crash;
//! the next [`Leaves::open`] decides. After a failed fence, the leaves take no insert.

use std::cell::{Cell, RefCell};

use halite_pmem::{Fenced, Flushed, Fresh, LINE, Pool, Words};

use super::Group;
use super::slots::{self, FINGERPRINT_WORDS, Fingerprints, SLOTS, fingerprint};
use crate::{Error, Result};

/// The length of a leaf in bytes.
pub const LEAF_LEN: u64 = LINE + SLOTS as u64 * PAIR_LEN;

/// The length of the header in bytes.
const HEADER_LEN: u64 = LINE;

/// Where the header's last word is.
const SEAL_AT: u64 = 16;

const PAIR_LEN: u64 = 16;

/// The format and its version.
const MAGIC: u64 = u64::from_le_bytes(*b"hl-leaf1");

/// Leaves in a range of a pool. They belong to one thread.
pub struct Leaves {
    words: Words,
    offset: u64,
    leaves: u64,
    inserting: RefCell<Vec<Inserting>>,
    /// Whether a fence of an insert failed.
    failed: Cell<bool>,
}

/// An insert that is not durable yet.
#[derive(Clone, Copy)]
struct Inserting {
    leaf: u64,
    slot: u32,
    key: u64,
    /// The run of the executor that polls it.
    run: u64,
}

/// The run of inserts outside an executor, which borrow the leaves exclusively.
pub(super) const NO_RUN: u64 = u64::MAX;

/// The slot of an insert, until it is durable or given up.
pub(super) struct Reservation<'a> {
    leaves: &'a Leaves,
    insert: Inserting,
}

/// The next step of an insert that has no slot yet.
pub(super) enum Search<'a> {
    /// The pair of this slot may have the key: fetch and compare it.
    Compare(u32),
    /// Another insert of the key is on its way: its end decides.
    Wait,
    /// The key is not there, and has this slot now.
    Reserved(Reservation<'a>),
}

impl Leaves {
    /// Makes empty leaves of a range, as many as fit. Three fences; four where lines keep no order.
    ///
    /// # Errors
    /// The pool's errors.
    ///
    /// # Panics
    /// If the range has no room for a leaf, or is not aligned to lines.
    pub fn format(mut fresh: Fresh) -> Result<Self> {
        let leaves = Self::fit(&fresh);
        assert!(leaves > 0 && fresh.offset().is_multiple_of(LINE), "a range for leaves");
        // After a failed sync, the old leaves may reappear when the pool is opened again.
        fresh.pool().check_synced()?;
        // Without a seal, the bytes behind the header are no leaves, in any state that a crash leaves. A
        // missing seal may not be durable, as a process may have been killed before its fence; so it is
        // stored again.
        fresh.write_words(SEAL_AT, &[0]);
        fresh.pool().fence([fresh.flush(0..HEADER_LEN)])?;
        fresh.persist_stream(|stream| {
            let mut empty = [0; LEAF_LEN as usize];
            for leaf in 0..leaves {
                empty[..8].copy_from_slice(&slots::used_word(leaf, 0).to_le_bytes());
                stream.write(HEADER_LEN + leaf * LEAF_LEN, &empty);
            }
        })?;
        // With the seal, the others are there.
        fresh.write_words(0, &[MAGIC, leaves]);
        fresh.order(0..SEAL_AT)?;
        fresh.write_words(SEAL_AT, &[slots::seal(MAGIC, leaves)]);
        fresh.pool().fence([fresh.flush(0..HEADER_LEN)])?;
        Ok(Self::new(fresh, leaves))
    }

    /// Opens leaves: checks the header and the first line of each leaf, and makes them durable, as a killed
    /// process may not have done that. [`Leaves::verify`] checks the pairs. One fence, one flush a leaf.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Damaged`]; the pool's errors.
    pub fn open(fresh: Fresh) -> Result<Self> {
        let fit = Self::fit(&fresh);
        let foreign = |found| Err(Error::foreign(&fresh, "leaves", found));
        if fit == 0 || !fresh.offset().is_multiple_of(LINE) {
            return foreign("a space that cannot have any");
        }
        let (words, _) = fresh.read(0, HEADER_LEN).as_chunks();
        let [magic, leaves, seal] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
        if seal == 0 || magic != MAGIC {
            return foreign("something else");
        }
        if seal != slots::seal(magic, leaves) || leaves == 0 || leaves > fit {
            let what = format!("a header of {leaves} leaves, with the seal {seal:#x}");
            return Err(Error::damaged(&fresh, what));
        }
        let found = Self::new(fresh, leaves);
        let mut flushed = vec![found.words.flush(0..HEADER_LEN)];
        for leaf in 0..leaves {
            found.first_line(leaf)?;
            let at = Self::place(leaf);
            flushed.push(found.words.flush(at..at + LINE));
        }
        found.pool().fence_found(&flushed)?;
        Ok(found)
    }

    /// How many leaves fit into a range.
    fn fit(fresh: &Fresh) -> u64 {
        fresh.len().saturating_sub(HEADER_LEN) / LEAF_LEN
    }

    fn new(fresh: Fresh, leaves: u64) -> Self {
        let offset = fresh.offset();
        let (inserting, failed) = (RefCell::default(), Cell::new(false));
        Self { words: fresh.into_words(), offset, leaves, inserting, failed }
    }

    /// How many there are.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    /// The pool that they are in.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.words.pool()
    }

    /// The value of a key in a leaf, in turn with the other operations of a group.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`], [`Error::Damaged`].
    pub async fn look_up(&self, group: &Group, leaf: u64, key: u64) -> Result<Option<u64>> {
        self.check(leaf)?;
        group.fetch(&self.words, Self::place(leaf)).await;
        let mut candidates = self.candidates(leaf, key)?;
        while let Some(slot) = slots::lowest(candidates) {
            group.fetch(&self.words, Self::pair(leaf, slot)).await;
            if let Some(value) = self.compare(leaf, slot, key)? {
                return Ok(Some(value));
            }
            candidates &= candidates - 1;
        }
        Ok(None)
    }

    /// The value of a key in a leaf.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`], [`Error::Damaged`].
    pub fn look_up_alone(&self, leaf: u64, key: u64) -> Result<Option<u64>> {
        self.check(leaf)?;
        for slot in slots::each(self.candidates(leaf, key)?) {
            if let Some(value) = self.compare(leaf, slot, key)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Inserts a pair, in turn with the other operations of a group. It is durable when this ends. All
    /// inserts that are on their way belong to one group: they may wait for each other.
    ///
    /// # Errors
    /// [`Error::KeyExists`], [`Error::LeafFull`], [`Error::NoSuchLeaf`], [`Error::Damaged`];
    /// [`Error::SharedFence`] or [`Error::Pool`] if a fence fails, and [`Error::LeavesFailed`] for all
    /// later inserts.
    ///
    /// # Panics
    /// If it is not awaited in the group's [`interleave`](super::interleave), or another one's insert of
    /// the key is on its way: it would never end.
    pub async fn insert(&self, group: &Group, leaf: u64, key: u64, value: u64) -> Result<()> {
        self.check(leaf)?;
        group.fetch(&self.words, Self::place(leaf)).await;
        let mut compared = 0;
        let reserved = loop {
            match self.search(leaf, key, compared, group.run())? {
                Search::Reserved(reserved) => break reserved,
                Search::Wait => group.give_way().await,
                Search::Compare(slot) => {
                    group.fetch(&self.words, Self::pair(leaf, slot)).await;
                    self.refuse_existing(leaf, slot, key)?;
                    compared |= 1 << slot;
                }
            }
        };
        group.fetch(&self.words, reserved.pair()).await;
        let written = reserved.write_pair(value)?;
        let [fenced] = self.known(group.fence([written]).await)?;
        let set = reserved.set_bit(&fenced)?;
        self.known(group.fence([set]).await)?;
        Ok(())
    }

    /// Inserts a pair, durably. Two fences. No group inserts meanwhile: it would borrow these leaves.
    ///
    /// # Errors
    /// [`Error::KeyExists`], [`Error::LeafFull`], [`Error::NoSuchLeaf`], [`Error::Damaged`]; the pool's
    /// errors, and [`Error::LeavesFailed`] for all later inserts.
    pub fn insert_alone(&mut self, leaf: u64, key: u64, value: u64) -> Result<()> {
        self.check(leaf)?;
        self.forget_inserts();
        let mut compared = 0;
        let reserved = loop {
            match self.search(leaf, key, compared, NO_RUN)? {
                Search::Reserved(reserved) => break reserved,
                Search::Wait => unreachable!("nobody else inserts"),
                Search::Compare(slot) => {
                    self.refuse_existing(leaf, slot, key)?;
                    compared |= 1 << slot;
                }
            }
        };
        let written = reserved.write_pair(value)?;
        let [fenced] = self.known(self.pool().fence([written]))?;
        let set = reserved.set_bit(&fenced)?;
        self.known(self.pool().fence([set]))?;
        Ok(())
    }

    /// The pairs of a leaf, in no order, each compared with its fingerprint.
    ///
    /// # Errors
    /// [`Error::NoSuchLeaf`], [`Error::Damaged`].
    pub fn pairs(&self, leaf: u64) -> Result<Vec<(u64, u64)>> {
        self.check(leaf)?;
        let (used, fingerprints) = self.first_line(leaf)?;
        let pair = |slot| {
            let [key, value] = self.words.load_many(Self::pair(leaf, slot));
            if slots::matching(fingerprints, fingerprint(key)) & 1 << slot == 0 {
                return Err(self.not_its_fingerprint(leaf, slot));
            }
            Ok((key, value))
        };
        slots::each(used & !self.inserting(leaf)).map(pair).collect()
    }

    /// Checks every pair of every leaf.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn verify(&self) -> Result<()> {
        (0..self.leaves).try_for_each(|leaf| self.pairs(leaf).map(drop))
    }

    /// The outcome of a fence of inserts. If it failed, the state of their bytes is unknown, and later
    /// inserts are refused.
    pub(super) fn known<T, E: Into<Error>>(&self, fenced: std::result::Result<T, E>) -> Result<T> {
        fenced.map_err(|error| {
            self.failed.set(true);
            error.into()
        })
    }

    /// Refuses to change leaves whose state is not fully known: a pair that may not be durable looks like
    /// any other, and its slot like a free one.
    fn check_known(&self) -> Result<()> {
        if self.failed.get() {
            let (path, offset) = (self.pool().path().to_owned(), self.offset);
            return Err(Error::LeavesFailed { path, offset });
        }
        Ok(())
    }

    /// Whether there is such a leaf.
    pub(super) fn check(&self, leaf: u64) -> Result<()> {
        let leaves = self.leaves;
        if leaf < leaves { Ok(()) } else { Err(Error::NoSuchLeaf { leaf, leaves }) }
    }

    /// Asks for the first line of a leaf.
    pub(super) fn prefetch(&self, leaf: u64) {
        self.words.prefetch(Self::place(leaf));
    }

    /// Asks for the line of a slot's pair.
    pub(super) fn prefetch_pair(&self, leaf: u64, slot: u32) {
        self.words.prefetch(Self::pair(leaf, slot));
    }

    /// Drops inserts that cannot complete any more: the caller is the only user of the leaves, so their
    /// futures were leaked.
    pub(super) fn forget_inserts(&mut self) {
        self.inserting.get_mut().clear();
    }

    /// The slots that may have a key, by their fingerprints.
    #[inline]
    pub(super) fn candidates(&self, leaf: u64, key: u64) -> Result<u32> {
        let (used, fingerprints) = self.first_line(leaf)?;
        let matching = slots::matching(fingerprints, fingerprint(key));
        Ok(used & matching & !self.inserting(leaf))
    }

    /// The value of a used slot, if it has the key.
    #[inline]
    pub(super) fn compare(&self, leaf: u64, slot: u32, key: u64) -> Result<Option<u64>> {
        let [found, value] = self.words.load_many(Self::pair(leaf, slot));
        if found == key {
            return Ok(Some(value));
        }
        if fingerprint(found) != fingerprint(key) {
            return Err(self.not_its_fingerprint(leaf, slot));
        }
        Ok(None)
    }

    /// Compares as [`Leaves::compare`], for an insert.
    pub(super) fn refuse_existing(&self, leaf: u64, slot: u32, key: u64) -> Result<()> {
        match self.compare(leaf, slot, key)? {
            Some(_) => Err(Error::KeyExists { leaf, key }),
            None => Ok(()),
        }
    }

    /// Looks for a place for a key. `compared` are slots that do not have it. The search that reserves a
    /// slot has looked at the leaf's current state, however long the insert waited before.
    ///
    /// # Panics
    /// If an insert of the key is under way in another run: it cannot continue before this run ends.
    pub(super) fn search(
        &self,
        leaf: u64,
        key: u64,
        compared: u32,
        run: u64,
    ) -> Result<Search<'_>> {
        let (used, fingerprints) = self.first_line(leaf)?;
        let matching = slots::matching(fingerprints, fingerprint(key));
        let candidates = used & matching & !self.inserting(leaf);
        if let Some(slot) = slots::lowest(candidates & !compared) {
            return Ok(Search::Compare(slot));
        }
        let mut inserting = self.inserting.borrow_mut();
        let mut taken = used;
        for other in inserting.iter().filter(|other| other.leaf == leaf) {
            if other.key == key {
                assert!(other.run == run, "inserts that are on their way belong to one group");
                return Ok(Search::Wait);
            }
            taken |= 1 << other.slot;
        }
        let slot = slots::lowest(!taken).ok_or(Error::LeafFull { leaf })?;
        let insert = Inserting { leaf, slot, key, run };
        inserting.push(insert);
        Ok(Search::Reserved(Reservation { leaves: self, insert }))
    }

    /// Slots of inserts that are not durable yet.
    fn inserting(&self, leaf: u64) -> u32 {
        let inserting = self.inserting.borrow();
        let of_leaf = inserting.iter().filter(|other| other.leaf == leaf);
        of_leaf.fold(0, |slots, other| slots | 1 << other.slot)
    }

    /// The used slots of a leaf, and its fingerprints.
    #[inline]
    fn first_line(&self, leaf: u64) -> Result<(u32, Fingerprints)> {
        let [word, fingerprints @ ..] =
            self.words.load_many::<{ 1 + FINGERPRINT_WORDS }>(Self::place(leaf));
        match slots::used_slots(leaf, word) {
            Some(used) => Ok((used, fingerprints)),
            None => Err(self.not_its_slots(leaf, word)),
        }
    }

    #[cold]
    fn not_its_slots(&self, leaf: u64, word: u64) -> Error {
        self.damaged(leaf, &format!("the word of its used slots is {word:#x}, its check is wrong"))
    }

    #[cold]
    fn not_its_fingerprint(&self, leaf: u64, slot: u32) -> Error {
        self.damaged(leaf, &format!("the key in slot {slot} is not that of its fingerprint"))
    }

    #[cold]
    fn damaged(&self, leaf: u64, why: &str) -> Error {
        let (path, offset) = (self.pool().path().to_owned(), self.offset);
        Error::Damaged { path, offset, what: format!("leaf {leaf}: {why}") }
    }

    /// Returns where a leaf begins.
    fn place(leaf: u64) -> u64 {
        HEADER_LEN + leaf * LEAF_LEN
    }

    /// Returns where a pair begins.
    fn pair(leaf: u64, slot: u32) -> u64 {
        Self::place(leaf) + LINE + u64::from(slot) * PAIR_LEN
    }
}

impl Reservation<'_> {
    /// Returns where the pair will be.
    fn pair(&self) -> u64 {
        Leaves::pair(self.insert.leaf, self.insert.slot)
    }

    /// Asks for the line of the pair.
    pub(super) fn prefetch(&self) {
        self.leaves.words.prefetch(self.pair());
    }

    /// The first phase: writes the pair.
    pub(super) fn write_pair(&self, value: u64) -> Result<Flushed> {
        self.leaves.check_known()?;
        let (words, at) = (&self.leaves.words, self.pair());
        words.store(at, self.insert.key);
        words.store(at + 8, value);
        let from = match self.leaves.pool().domain().orders_lines() {
            true => at,
            false => {
                self.store_fingerprint()?;
                Leaves::place(self.insert.leaf)
            }
        };
        Ok(words.flush(from..at + PAIR_LEN))
    }

    /// The second phase, with the proof that the pair is durable: stores the fingerprint and sets the
    /// bit.
    pub(super) fn set_bit(&self, pair: &Fenced) -> Result<Flushed> {
        self.leaves.check_known()?;
        let Inserting { leaf, slot, .. } = self.insert;
        let (words, at) = (&self.leaves.words, Leaves::place(leaf));
        let used = self.store_fingerprint()?;
        words.publish(at, slots::used_word(leaf, used | 1 << slot), pair);
        Ok(words.flush(at..at + LINE))
    }

    /// Stores the fingerprint. Returns the used slots.
    fn store_fingerprint(&self) -> Result<u32> {
        let Inserting { leaf, slot, key, .. } = self.insert;
        let (words, at) = (&self.leaves.words, Leaves::place(leaf));
        let (used, fingerprints) = self.leaves.first_line(leaf)?;
        // Other fingerprints of the word are in use: they are stored again unchanged.
        let (word, shift) = (slot / 8, slot % 8 * 8);
        let others = fingerprints[word as usize] & !(0xff << shift);
        words.store(at + 8 + u64::from(word) * 8, others | u64::from(fingerprint(key)) << shift);
        Ok(used)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut inserting = self.leaves.inserting.borrow_mut();
        let Inserting { leaf, slot, .. } = self.insert;
        if let Some(at) = inserting.iter().position(|one| one.leaf == leaf && one.slot == slot) {
            inserting.swap_remove(at);
        }
    }
}
