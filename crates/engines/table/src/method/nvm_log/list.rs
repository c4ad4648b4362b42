//! Changes of the lists of memtables: one publication each, behind a fence that makes durable all that was stored before. So
//! no undo log that recovery finds has a word or slot of a memtable that goes.

use std::collections::BTreeSet;

use halite_alloc::heap::{DEAD_OWNERS_MAX, Owner, Publication};
use halite_sim::planted;

use super::directory::LogIndex;
use super::memtable::{Memtable, owners};
use super::{FIRST_OWNER, MEMTABLES_MAX, NvmLog, SEGMENTS};
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::{OWNERS_END, owner};
use crate::{IndexId, Result};

impl NvmLog {
    /// Makes the mutable memtable of an index immutable, and gives the index another one: one publication. Without room, it
    /// stays mutable until more is written.
    pub(super) fn mark_immutable(&mut self, index: IndexId) -> Result<()> {
        if self.index(index)?.memtables.len() >= MEMTABLES_MAX {
            return Ok(());
        }
        let number = self.take_owner();
        match self.extend_list(index, number) {
            Err(error) if error.is_refusal() => {
                self.give_up(number)?;
                let full = self.options.memtable_bytes;
                if let Some(index) = self.indexes.get_mut(&index) {
                    index.memtables[0].bytes = full - full / 16;
                }
                Ok(())
            }
            extended => extended,
        }
    }

    fn extend_list(&mut self, index: IndexId, number: Owner) -> Result<()> {
        let (mut made, len) = (Publication::new(), self.options.node_len);
        let tree = NonVolatileTree::create(&mut self.heap, number, len, &mut made)?;
        let before = self.index(index)?;
        let (mut list, building) =
            (vec![Memtable { tree, bytes: 0, filter: None }], before.building);
        list.extend(before.memtables.iter().cloned());
        planted!(
            "table.nvm-log-immutable-first",
            self.publish_list(index, list, building, Publication::new())
                .and_then(|()| Ok(self.heap.publish(&mut made)?)),
            self.publish_list(index, list, building, made)
        )
    }

    /// Publishes another list of an index's memtables, and what a publication has besides.
    pub(super) fn publish_list(
        &mut self,
        index: IndexId,
        memtables: Vec<Memtable>,
        building: Option<NonVolatileTree>,
        mut publication: Publication,
    ) -> Result<()> {
        let (before, list) = (self.indexes.get(&index), (memtables, building));
        let listed = LogIndex::write(&mut self.heap, index, list, before, &mut publication)?;
        self.heap.fence()?;
        self.heap.publish(&mut publication)?;
        self.indexes.insert(index, listed);
        Ok(())
    }

    /// An even number that no slot's owner has, nor the one above it.
    pub(super) fn take_owner(&mut self) -> Owner {
        let dropped = self.heap.dropped_owners();
        let listed = self.indexes.values().flat_map(|index| index.trees()).flat_map(owners);
        let used: BTreeSet<u32> = dropped.chain(listed).map(Owner::number).collect();
        loop {
            let number = self.next_owner;
            self.next_owner = if number + 3 < OWNERS_END { number + 2 } else { FIRST_OWNER };
            if !used.contains(&number) && !used.contains(&(number + 1)) {
                return owner(number);
            }
        }
    }

    /// Gives up the slots of a memtable that nothing leads to.
    pub(super) fn give_up(&mut self, number: Owner) -> Result<()> {
        self.make_room(2)?;
        self.heap.fence()?;
        let mut publication = Publication::new();
        publication.drop_owner(number);
        publication.drop_owner(owner(number.number() + 1));
        Ok(self.heap.publish(&mut publication)?)
    }

    /// Reclaims dropped owners if so many more are too many.
    pub(super) fn make_room(&mut self, owners: usize) -> Result<()> {
        while self.heap.dropped_owners().count() + owners > DEAD_OWNERS_MAX {
            self.heap.reclaim(SEGMENTS)?;
        }
        Ok(())
    }

    /// Drops the indexes that the catalog has no more.
    pub(super) fn drop_leftovers(&mut self) -> Result<()> {
        let roots = self.heap.roots().filter_map(|(name, word)| {
            let id = IndexId(name.strip_prefix("index ")?.parse().ok()?);
            (!self.indexes.contains_key(&id)).then_some((id, word))
        });
        for (id, word) in roots.collect::<Vec<_>>() {
            let index = LogIndex::read(&self.heap, id, word)?;
            self.make_room(2 * index.trees().count())?;
            self.heap.fence()?;
            let mut publication = Publication::new();
            index.drop(id, &mut publication);
            self.heap.publish(&mut publication)?;
        }
        Ok(())
    }

    /// Drops what a compaction of an index was building.
    pub(super) fn drop_building(&mut self, index: IndexId) -> Result<()> {
        let Some(tree) = self.index(index)?.building else { return Ok(()) };
        self.make_room(2)?;
        self.heap.fence()?;
        let mut publication = Publication::new();
        self.index(index)?.set_building(&self.heap, None, &mut publication);
        owners(&tree).into_iter().for_each(|owner| publication.drop_owner(owner));
        self.heap.publish(&mut publication)?;
        if let Some(index) = self.indexes.get_mut(&index) {
            index.building = None;
        }
        Ok(())
    }
}
