//! Replaying the log into memtables.

use std::sync::Arc;

use halite_contract::{Error, Result};
use halite_sim::planted;

use crate::dataset::command::is_command;
use crate::memtable::{Chunks, Memtable};
use crate::message::{Kind, Message};
use crate::record::{Changes, RANGE_DELETE, dataset_of, end_of};
use crate::settings::Settings;
use crate::store::superblock::Superblock;
use crate::tree::Context;

/// The memtables that are made of the log.
pub(super) struct Replay<'a> {
    memory: Arc<Chunks>,
    settings: &'a Settings,
    trees: &'a Context,
    applied: u64,
    first_log: u64,
    pub(super) active: Arc<Memtable>,
    pub(super) frozen: Vec<Arc<Memtable>>,
    pub(super) last: u64,
    pub(super) records: u64,
    /// Whether a repair has given up batches that were in the log.
    is_repaired: bool,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        of: &Superblock,
        trees: &'a Context,
        memory: &Arc<Chunks>,
        is_repaired: bool,
    ) -> Result<Self> {
        let active = Memtable::new(memory, of.applied, of.log_first)?;
        Ok(Self {
            memory: Arc::clone(memory),
            settings,
            trees,
            applied: of.applied,
            first_log: of.log_first,
            active: Arc::new(active),
            frozen: Vec::new(),
            last: of.applied,
            records: 0,
            is_repaired,
        })
    }

    /// Puts the changes of a batch into memtables, but for those that the trees have.
    pub(super) fn replay(&mut self, first: u64, records: u32, payload: &[u8]) -> Result<()> {
        let damaged = |why: &str| Error::Damaged {
            what: format!("batch {first} of the log"),
            why: why.into(),
        };
        if first > self.last + 1 {
            // Batches behind a hole lead to no state that the store has had.
            return match self.is_repaired {
                true => Ok(()),
                false => Err(damaged(&format!("it follows change {}", self.last))),
            };
        }
        if self.active.bytes() >= self.settings.memtable_bytes {
            self.rotate()?;
        }
        let mut sequence = first;
        let mut ends_memtable = false;
        for change in Changes::of(payload) {
            let change = change.map_err(|error| damaged(error.reason()))?;
            if planted!("betree.applied-batch-replayed", true, sequence > self.applied) {
                let (dataset, _) =
                    dataset_of(change.key).ok_or_else(|| damaged("a key has no dataset"))?;
                if dataset == u32::MAX {
                    return Err(damaged("there is no such dataset"));
                }
                let end = end_of(dataset);
                let range = change.key..=&end[..];
                if change.kind == RANGE_DELETE && !range.contains(&change.payload) {
                    return Err(damaged("a range ends outside its dataset"));
                }
                if change.kind != RANGE_DELETE {
                    let kind = Kind::of_code(change.kind).map_err(damaged)?;
                    let message = Message { kind, payload: change.payload };
                    // The blocks of a large value are in no bitmap until a tree leads to it.
                    for piece in message.large().map_err(damaged)?.iter().flat_map(|l| &l.pieces) {
                        self.trees.storage.claim(piece.extent)?;
                    }
                }
                ends_memtable |= is_command(change.key);
                self.active.add(sequence, change)?;
                self.records += 1;
            }
            sequence += 1;
        }
        if sequence - first != u64::from(records) {
            return Err(damaged("it does not have its records"));
        }
        self.last = self.last.max(sequence - 1);
        if ends_memtable { self.rotate() } else { Ok(()) }
    }

    /// Freezes the active memtable.
    fn rotate(&mut self) -> Result<()> {
        let next = Memtable::new(&self.memory, self.last, self.first_log)?;
        let next = Arc::new(next);
        self.active.set_next(Arc::downgrade(&next));
        let frozen = std::mem::replace(&mut self.active, next);
        self.frozen.insert(0, frozen);
        Ok(())
    }
}
