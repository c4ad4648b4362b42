//! Compaction: merges immutable memtables into a larger one, in steps after commits.
//!
//! ```text
//! list            mutable │ 3 │ 2 │ 1 │ 0          mutable │ 3 │ 2 │ 1 │ 0          mutable │ 3 │ output │ 0
//!                                             ──►      building ─► output    ──►
//!                           one publication                steps                    one publication
//! ```
//!
//! Memtables are of one **tier** if they are about as large: as a mutable one, as `fanout` of those, and so on. As soon as
//! `fanout` are of one tier, they are merged with all that are newer. So a row is copied about once in each tier, and there
//! are about `fanout` memtables for each power of it in the number of rows. As soon as the newer ones have as many bytes as
//! the oldest, and as two mutable ones, all are merged: so what later entries hide takes no more space than that. A commit
//! has compaction go on by 16 keys for each that it changes, as soon as they make a step.
//!
//! **The output** is built by steps, which store their changes without a log: nothing leads to it but the word of what is
//! being built, and after a crash it is dropped with its owners, whatever it has. Rows are copied, and have their deltas in
//! them; deltas without a row below are made one; a tombstone stays while an older memtable has its key. The publication
//! that lists the output in the place of the inputs drops these, behind a fence that makes all of the output durable. So no
//! crash leaks a slot, and none is in two memtables that count.
//!
//! **Filters.** A memtable that has become immutable gets a filter in the same steps, if it is not merged first; until then
//! lookups search its tree. The hashes of the keys are in DRAM until they are all known, 8 bytes a key, and then the filter
//! is written at once.
//!
//! Costs: a fence for each step, those of the output's leaves that are divided, and two for each change of the list.

use std::ops::Bound;

use halite_alloc::heap::{AnyPtr, NvPtr, Publication};
use halite_sim::planted;

use super::bytes::{Delta, PrimaryKey};
use super::commit::ENTRY;
use super::delta::{DELTA_LEN_MAX, encode};
use super::filter::Filter;
use super::memtable::{Lead, Memtable, TOMBSTONE, owners};
use super::merge::MergeScan;
use super::read::read_key;
use super::{MEMTABLES_MAX, NvmLog, Options, SEGMENTS, bytes, filter};
use crate::index::Direction;
use crate::index::nonvolatile::{Change, NonVolatileTree, TreeHeader};
use crate::tuple::{Form, Tuples, cancel};
use crate::{Error, IndexId, Result, Row, Table};

/// Bytes of rows that a step merges, about.
const STEP_BYTES: usize = 256 << 10;

/// A compaction, or the building of a filter.
pub(super) struct Job {
    pub(super) index: IndexId,
    /// The memtables that are merged, the newest first; or the one that gets a filter.
    inputs: Vec<NvPtr<TreeHeader>>,
    output: Option<NonVolatileTree>,
    /// The least key that is left.
    from: Vec<u8>,
    /// The hashes of the keys before it.
    hashes: Vec<u64>,
    /// Bytes that were written to the output, about.
    bytes: u64,
}

/// What the entries of a key come to in the output.
enum Item {
    Row(Row),
    Delta(Vec<u8>),
    Key(Vec<u8>),
    Tombstone,
    Nothing,
}

impl NvmLog {
    /// Does some work that waits: reclaims dropped memtables, merges so many keys, or begins to. Returns whether there was
    /// any. For lack of room, a compaction is given up.
    pub(super) fn work(&mut self, keys: usize) -> Result<bool> {
        if self.heap.dropped_owners().next().is_some() {
            self.heap.reclaim(SEGMENTS)?;
            return Ok(true);
        }
        let mut job = match self.job.take() {
            Some(job) => job,
            None => match self.begin()? {
                Some(job) => job,
                None => return Ok(false),
            },
        };
        // The undo log is durably empty then.
        self.heap.fence()?;
        let done = match job.output {
            Some(output) => self.merge(&mut job, output, keys),
            None => self.add_hashes(&mut job, keys),
        };
        match done {
            Ok(true) => {}
            Ok(false) => self.job = Some(job),
            Err(error) => {
                if error.is_refusal() {
                    self.drop_building(job.index)?;
                }
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Begins a compaction, or a filter if none is needed: of the index with the most memtables that needs one.
    fn begin(&mut self) -> Result<Option<Job>> {
        let wanted = self.indexes.iter().filter_map(|(&id, index)| {
            let immutable = index.immutable();
            let bytes: Vec<_> = immutable.iter().map(|memtable| memtable.bytes).collect();
            let inputs = match merged(&bytes, self.options) {
                0 => immutable
                    .iter()
                    .rfind(|memtable| memtable.filter.is_none())
                    .into_iter()
                    .collect(),
                count => immutable[..count].iter().collect::<Vec<_>>(),
            };
            let inputs: Vec<_> = inputs.iter().map(|memtable| memtable.tree.header()).collect();
            (!inputs.is_empty()).then_some((immutable.len(), id, inputs))
        });
        let Some((_, index, inputs)) = wanted.max_by_key(|&(len, ..)| len) else {
            return Ok(None);
        };
        let output = if inputs.len() > 1 { Some(self.build(index)?) } else { None };
        let (from, hashes) = (Vec::new(), Vec::new());
        Ok(Some(Job { index, inputs, output, from, hashes, bytes: 0 }))
    }

    /// Makes the tree of an output.
    fn build(&mut self, index: IndexId) -> Result<NonVolatileTree> {
        let (mut publication, number) = (Publication::new(), self.take_owner());
        let len = self.options.node_len;
        let made = NonVolatileTree::create(&mut self.heap, number, len, &mut publication);
        let tree = match made.map_err(Error::from) {
            Err(error) if error.is_refusal() => {
                self.give_up(number)?;
                return Err(error);
            }
            made => made?,
        };
        self.index(index)?.set_building(&self.heap, Some(&tree), &mut publication);
        self.heap.fence()?;
        self.heap.publish(&mut publication)?;
        if let Some(index) = self.indexes.get_mut(&index) {
            index.building = Some(tree);
        }
        Ok(tree)
    }

    /// The places of a job's inputs in the list of memtables. Newer ones may have come since it began.
    fn inputs(&self, job: &Job) -> Result<std::ops::Range<usize>> {
        let memtables = &self.index(job.index)?.memtables;
        let first = memtables.iter().position(|memtable| memtable.tree.header() == job.inputs[0]);
        let first = first.expect("the inputs of a job stay until it ends");
        Ok(first..first + job.inputs.len())
    }

    /// Reads so many keys of a memtable that gets a filter, and writes that when they are all. Returns whether it is done.
    fn add_hashes(&mut self, job: &mut Job, keys: usize) -> Result<bool> {
        let at = self.inputs(job)?.start;
        let tree = self.index(job.index)?.memtables[at].tree;
        let from = (Bound::Included(&job.from[..]), Bound::Unbounded);
        let mut scan = tree.scan(&self.heap, from, Direction::Forward)?;
        for _ in 0..keys {
            let Some((key, _)) = scan.next()? else {
                return self.add_filter(job, at).map(|()| true);
            };
            job.hashes.push(filter::hash(&self.heap, key));
            job.from = [key, &[0]].concat();
        }
        Ok(false)
    }

    fn add_filter(&mut self, job: &Job, at: usize) -> Result<()> {
        let mut publication = Publication::new();
        let index = self.index(job.index)?;
        let (mut memtables, building) = (index.memtables.clone(), index.building);
        let owner = memtables[at].tree.owner();
        let filter = Filter::write(&mut self.heap, owner, &job.hashes, &mut publication)?;
        let slots: Vec<_> = filter.slots().collect();
        memtables[at].filter = Some(filter);
        let listed = self.publish_list(job.index, memtables, building, publication);
        if listed.as_ref().is_err_and(Error::is_refusal) {
            cancel(&mut self.heap, &slots)?;
        }
        listed
    }

    /// Merges so many keys, and swaps the output in when they are all. Returns whether it is done.
    fn merge(&mut self, job: &mut Job, output: NonVolatileTree, keys: usize) -> Result<bool> {
        let inputs = self.inputs(job)?;
        let (table, position) = self.catalog.index_by_id(job.index).ok_or_else(|| {
            Error::UnknownIndex { table: "?".into(), index: format!("#{}", job.index.0).into() }
        })?;
        let table = table.clone();
        let items = self.items(job, &table, position.is_none(), keys)?;
        let is_over = items.len() < keys
            && items.iter().map(|(_, item)| item.len()).sum::<usize>() < STEP_BYTES;
        if let Some((key, _)) = items.last() {
            job.from = [&key[..], &[0]].concat();
        }
        self.write(job, (&table, output), &items)?;
        if !is_over {
            return Ok(false);
        }
        let mut publication = Publication::new();
        let index = self.index(job.index)?;
        let mut memtables = index.memtables.clone();
        let mut dropped: Vec<_> =
            memtables[inputs.clone()].iter().flat_map(|memtable| owners(&memtable.tree)).collect();
        self.make_room(dropped.len() + 2)?;
        let mut merged = None;
        if job.hashes.is_empty() {
            dropped.extend(owners(&output));
        } else {
            let owner = output.owner();
            let filter = Filter::write(&mut self.heap, owner, &job.hashes, &mut publication)?;
            merged = Some(Memtable { tree: output, bytes: job.bytes, filter: Some(filter) });
        }
        memtables.splice(inputs, merged);
        dropped.into_iter().for_each(|owner| publication.drop_owner(owner));
        self.publish_list(job.index, memtables, None, publication)?;
        Ok(true)
    }

    /// What the next keys of a job's inputs come to.
    fn items(
        &self,
        job: &Job,
        table: &Table,
        is_primary: bool,
        keys: usize,
    ) -> Result<Vec<(Vec<u8>, Item)>> {
        let (inputs, memtables) = (self.inputs(job)?, &self.index(job.index)?.memtables);
        let older = &memtables[inputs.end..];
        let from = (Bound::Included(&job.from[..]), Bound::Unbounded);
        let mut scan =
            MergeScan::new(&self.heap, &memtables[inputs.clone()], from, Direction::Forward)?;
        let (mut items, mut len) = (Vec::new(), 0);
        while items.len() < keys && len < STEP_BYTES {
            let Some((key, words)) = scan.next()? else { break };
            let item = match is_primary {
                true => self.merge_row(table, key, &words, older)?,
                false => read_key(&self.heap, words[0])?.map_or(Item::Tombstone, Item::Key),
            };
            let item = match item {
                Item::Tombstone if !self.has_older(job.index, inputs.end, key)? => Item::Nothing,
                item => item,
            };
            len += item.len();
            items.push((key.to_vec(), item));
        }
        Ok(items)
    }

    /// Whether a memtable behind the inputs of a compaction has an entry of a key.
    fn has_older(&self, index: IndexId, behind: usize, key: &[u8]) -> Result<bool> {
        planted!(
            "table.nvm-log-tombstone-dropped-early",
            Ok(false),
            self.is_below(index, behind - 1, key)
        )
    }

    /// What the words of a row's key come to, the newest first.
    fn merge_row(
        &self,
        table: &Table,
        key: &[u8],
        words: &[u64],
        older: &[Memtable],
    ) -> Result<Item> {
        let mut coalescing = self.coalescing(table)?;
        for &word in words {
            if let Some(row) = coalescing.add(word)? {
                return Ok(row.map_or(Item::Tombstone, Item::Row));
            }
        }
        let delta = encode(coalescing.fields());
        // How much of the row it has is not known without a look at the older memtables.
        if !older.is_empty() && delta.len() <= DELTA_LEN_MAX {
            return Ok(Item::Delta(delta));
        }
        let row = coalescing.add_all(older, (key, filter::hash(&self.heap, key)))?;
        Ok(row.map_or(Item::Tombstone, Item::Row))
    }

    /// Adds items to an output: without a log, as nothing counts of it yet.
    fn write(
        &mut self,
        job: &mut Job,
        (table, output): (&Table, NonVolatileTree),
        items: &[(Vec<u8>, Item)],
    ) -> Result<()> {
        let [_, owner] = owners(&output);
        let tuples =
            Tuples { schema: table.schema(), owner, seed: self.heap.salt(), form: Form::Slots };
        let (mut slots, mut changes): (Vec<AnyPtr>, Vec<Change<'_>>) = (Vec::new(), Vec::new());
        for (key, item) in items {
            let word = match item {
                Item::Row(row) => {
                    let inserted = tuples.insert(&mut self.heap, row.view(table.schema())?)?;
                    slots.extend(inserted.slots);
                    Lead::Whole(inserted.tuple).word()
                }
                Item::Delta(delta) => {
                    let slot = bytes::write::<Delta>(&mut self.heap, owner, delta)?;
                    slots.push(slot.any());
                    Lead::Delta(slot).word()
                }
                Item::Key(primary) => {
                    let slot = bytes::write::<PrimaryKey>(&mut self.heap, owner, primary)?;
                    slots.push(slot.any());
                    slot.word()
                }
                Item::Tombstone => TOMBSTONE,
                Item::Nothing => continue,
            };
            changes.push(Change::Put(key, word));
            job.bytes += ENTRY + key.len() as u64;
            let is_hashed = planted!(
                "table.nvm-log-filter-without-tombstones",
                !matches!(item, Item::Tombstone),
                true
            );
            if is_hashed {
                job.hashes.push(filter::hash(&self.heap, key));
            }
        }
        for &slot in &slots {
            job.bytes += self.heap.len_of(slot)?;
            planted!("table.nvm-log-output-not-flushed", Ok(()), self.heap.flush(slot))?;
        }
        let prepared = output.prepare(&mut self.heap, &changes)?;
        for slot in slots {
            self.heap.activate(slot)?;
        }
        Ok(prepared.show(&mut self.heap)?)
    }
}

impl Item {
    /// Its bytes, about.
    fn len(&self) -> usize {
        match self {
            Self::Row(row) => row.bytes().len(),
            Self::Delta(bytes) | Self::Key(bytes) => bytes.len(),
            Self::Tombstone | Self::Nothing => 0,
        }
    }
}

/// How many of some immutable memtables are to be merged, by their bytes, the newest first: none or at least two.
fn merged(immutable: &[u64], Options { memtable_bytes, fanout, .. }: Options) -> usize {
    let Some((oldest, newer)) = immutable.split_last() else { return 0 };
    let bytes = newer.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_hidden = bytes >= (*oldest).max(memtable_bytes.saturating_mul(2)) && !newer.is_empty();
    if is_hidden || immutable.len() >= MEMTABLES_MAX - 1 {
        return immutable.len();
    }
    let fanout = fanout.max(2);
    // Halfway to the next tier, a memtable is of that: what is merged of `fanout` has a little less than they had.
    let tier = |bytes: u64| {
        (bytes.saturating_mul(2) / memtable_bytes.max(1)).checked_ilog(fanout).unwrap_or(0)
    };
    let largest = immutable.iter().map(|bytes| tier(*bytes)).max().unwrap_or(0);
    let counts = (0..=largest).filter_map(|of| {
        let newest = immutable.iter().map(|bytes| tier(*bytes)).take_while(|tier| *tier <= of);
        let (count, alike) =
            newest.fold((0, 0), |(count, alike), tier| (count + 1, alike + u64::from(tier == of)));
        (alike >= fanout).then_some(count)
    });
    counts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(memtable_bytes: u64, fanout: u64) -> Options {
        Options { memtable_bytes, fanout, ..Options::default() }
    }

    #[test]
    fn memtables_of_a_tier_are_merged_and_all_when_the_oldest_is_hidden() {
        for (bytes, count) in [
            (&[][..], 0),
            (&[64], 0),
            (&[64, 50], 0),
            (&[64, 64, 50], 3),
            (&[64, 64, 64, 1_000], 0),
            (&[64, 64, 64, 64, 1_000], 4),
            (&[64, 200, 64, 200, 200, 200, 5_000], 6),
            (&[64, 200, 200, 200, 5_000], 0),
            (&[64, 200, 200, 200, 600], 5),
        ] {
            assert_eq!(merged(bytes, options(64, 4)), count, "{bytes:?}");
        }
    }

    /// Rows that are overwritten for ever, in any order: what is merged has each of them once.
    #[test]
    fn overwriting_reaches_a_space_and_a_number_of_memtables() {
        const FULL: u64 = 64;
        for live in [1, 50, 70, 130, 300, 1_000, 20_000] {
            let (mut list, mut copied) = (vec![live], 0);
            for _ in 0..2_000 {
                list.insert(0, FULL);
                while let count @ 1.. = merged(&list, options(FULL, 4)) {
                    let bytes = list.drain(..count).sum::<u64>().min(live);
                    list.insert(0, bytes);
                    copied += bytes;
                }
                assert!(list.iter().sum::<u64>() <= live + live.max(3 * FULL), "{live}: {list:?}");
                assert!(list.len() <= 3 + 3 * 5, "{live}: {list:?}");
            }
            let copies = copied as f64 / (2_000 * FULL) as f64;
            println!("{live}: {copies} copies");
            assert!(copies <= 1.0 + f64::from((live / FULL).max(1).ilog(4)), "{live}: {copies}");
        }
    }

    #[test]
    fn no_options_let_memtables_become_too_many() {
        for (memtable_bytes, fanout) in [0, 1, 64, u64::MAX]
            .into_iter()
            .flat_map(|bytes| [0, 1, 2, 64, u64::MAX].map(|fanout| (bytes, fanout)))
        {
            for bytes in [0, 1, 64, u64::MAX] {
                let counts = (0..MEMTABLES_MAX)
                    .map(|len| merged(&vec![bytes; len], options(memtable_bytes, fanout)));
                let counts: Vec<_> = counts.collect();
                assert!(counts.iter().enumerate().all(|(len, &count)| count != 1 && count <= len));
                assert!(counts[MEMTABLES_MAX - 1] > 1, "{memtable_bytes}, {fanout}");
            }
        }
    }
}
