//! Copies of ranges.
//!
//! A copy is one record in the log, whatever the size of the range, and readers see it at once, through a graft
//! (`layers.rs`). The flush of its memtable reads the range and writes it as keys of the destination, large values
//! included, piece by piece. A link to a subtree that both have would be cheaper: it needs extents that several live trees
//! own, and births tell of one.
//!
//! | | cost |
//! |---|---|
//! | commit | one record; the nodes within the range are read, for an estimate of its bytes |
//! | reader, until the flush | that of the source |
//! | flush | reads the range once, and writes it as often as a message on its way to its leaf |

use std::sync::Arc;

use halite_contract::{Durability, KeySpaceId, RangeCopy, Result};

use crate::catalogue::Catalogue;
use crate::dataset::command::Command;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::view::{Behind, Graft, GraftPart, Grafting, View};
use crate::{Betree, Error};

/// Bytes by which copies may make the keys of a dataset longer than the longest key of a put.
pub(crate) const GROWTH_MAX: usize = 4 << 10;

/// The commit of a copy.
struct Copy {
    command: Command,
    spaces: [KeySpaceId; 2],
    catalogue: Option<Catalogue>,
    grafting: Option<Grafting>,
}

impl Commit for Copy {
    fn check(&mut self, store: &Store) -> Result<()> {
        let catalogue = store.catalogue.load();
        self.spaces.iter().try_for_each(|space| catalogue.check(*space))?;
        self.grafting = Grafting::for_commit(store, &self.command)?;
        Ok(())
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }

    fn ends_memtable(&self) -> bool {
        true
    }

    fn behind(&mut self) -> Option<Behind> {
        self.grafting.take().map(Behind::Graft)
    }
}

impl Betree {
    /// Copies a range of keys, with another prefix, to a dataset; what the destination had in the range of the new keys is
    /// gone then. It is one atomic commit, durable when this returns, and takes one record of the log, whatever the size
    /// of the range. Source and destination may overlap: the source is what it was before the commit.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::CopyGrowsKeys`]; [`Error::NoSpace`]; those of a write.
    pub fn copy_range(&self, copy: &RangeCopy<'_>) -> Result<()> {
        let RangeCopy { source, range, old_prefix, destination, new_prefix } = *copy;
        let store = &*self.store;
        // The growth of keys is in the catalogue.
        let _changing = store.cataloguing.lock();
        let catalogue = store.catalogue.load_full();
        catalogue.check(source)?;
        catalogue.check(destination)?;
        let part = GraftPart::of_range(source.0, range, old_prefix, new_prefix);
        let is_empty = part.end.as_ref().is_some_and(|end| *end <= part.start);
        let Some(replaced) = part.destination().filter(|_| !is_empty) else { return Ok(()) };
        let mut batch = Batch::default();
        let growth = new_prefix.len().saturating_sub(old_prefix.len());
        let growth = catalogue.growth(source.0) + growth;
        if growth > GROWTH_MAX {
            return Err(Error::CopyGrowsKeys { growth, max: GROWTH_MAX }.into());
        }
        let changed = catalogue.with_growth(destination, growth, &mut batch);
        // Transactions see a change of all these keys.
        batch.push_range(destination.0, &replaced.start, replaced.end.as_deref());
        let changes = batch.changes() + 1;
        let command = Command::Copy { dataset: destination.0, changes, part };
        command.push(&mut batch);
        let spaces = [source, destination];
        let commit = || {
            let (command, catalogue) = (command.clone(), Some(changed.clone()));
            let mut commit = Copy { command, spaces, catalogue, grafting: None };
            store.commit(&batch, Purpose::Put, Durability::Immediate, &mut commit)
        };
        match commit() {
            Err(error) if error.lacks_space() && store.room.take_removed() => {
                store.make_room()?;
                commit()
            }
            committed => committed,
        }
    }
}

/// Makes the grafts of an opened store's memtables, which the log has brought back.
pub(crate) fn regraft(store: &Store) -> Result<()> {
    let view = store.view();
    let mut frozen = view.frozen.clone();
    let mut grafts = Vec::new();
    while let Some(memtable) = frozen.pop() {
        let Some(command) = Command::of_memtable(&memtable)? else { continue };
        let Some((_, changes)) = command.grafts() else { continue };
        let older = view.frozen.iter().filter(|other| other.last() <= memtable.before);
        let then = View {
            active: Arc::clone(&memtable),
            frozen: older.cloned().collect(),
            grafts: grafts.clone(),
            ..View::clone(&view)
        };
        let (sequence, then) = (memtable.last(), Arc::new(then));
        let at = sequence.saturating_sub(changes.into());
        if let Some(of) = Grafting::of_command(&store.trees, (&then, at), &command)? {
            let graft = Graft { of, sequence, view: then, at };
            grafts.push(Arc::new(graft));
        }
    }
    if !grafts.is_empty() {
        store.publish(Vec::new(), |view| View { grafts, ..view.clone() });
    }
    Ok(())
}
