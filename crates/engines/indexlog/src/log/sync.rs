//! Makes written bytes durable.
//!
//! One fence makes everything durable that waits: records, entries of the change log, values, and words of the map.
//! A block that the log has left is sealed when all of it is durable.

use halite_contract::Result;
use halite_pmem::{Fenced, Flushed};

use super::Log;
use super::overflow::Streamed;
use crate::durability::UNSEALED_MAX;
use crate::space::Space;

impl Log {
    /// Makes every write so far durable: in the change log, if there is one. One fence, if there is
    /// anything to wait for.
    pub(crate) fn sync(&mut self, space: &mut Space) -> Result<()> {
        space.health.check()?;
        let synced = if self.waits_for_records() {
            self.sync_pending(space, Vec::new(), Vec::new()).map(drop)
        } else {
            self.sync_changes(space, Vec::new())
        };
        space.health.poison_by(synced)
    }

    /// Makes the records of every write so far durable. One fence, if there is anything to wait for.
    pub(crate) fn sync_records(&mut self, space: &mut Space) -> Result<()> {
        space.health.check()?;
        let synced = self.sync_pending(space, Vec::new(), Vec::new()).map(drop);
        space.health.poison_by(synced)
    }

    /// Makes records durable if too many blocks wait for that.
    pub(crate) fn bound_unsealed(&mut self, space: &mut Space) -> Result<()> {
        if self.durability.unsealed() > UNSEALED_MAX { self.sync_records(space) } else { Ok(()) }
    }

    /// Ends the tail's block, durably, so that the next opening finds a clean end. Returns the digest of the map.
    pub(crate) fn close(&mut self, space: &mut Space) -> Result<u64> {
        self.sync_records(space)?;
        self.leave_block(space);
        if self.changes.is_some() {
            space.map_mut().set_durable(self.durability.records());
        }
        // Sealing the block that was just fenced takes a second fence, this one.
        let closed = self.sync_pending(space, Vec::new(), Vec::new());
        space.health.poison_by(closed)?;
        Ok(space.map().digest())
    }

    /// Whether a write is durable only with its record: there is no change log, or a block was left.
    pub(crate) fn waits_for_records(&self) -> bool {
        self.changes.is_none() || self.durability.unsealed() > 0
    }

    /// Makes the pending entries of the change log durable, and the pending values with them.
    pub(super) fn sync_changes(&mut self, space: &mut Space, streamed: Streamed) -> Result<()> {
        let mut flushed = Vec::new();
        self.flush_changes(&mut flushed);
        if !flushed.is_empty() {
            self.fence_with_values(space, flushed, streamed)?;
        }
        self.end_changes_sync();
        Ok(())
    }

    pub(crate) fn end_changes_sync(&mut self) {
        if let Some(changes) = &self.changes {
            changes.end_sync(self.durability.next() - 1);
            self.durability.prove_stated();
        }
    }

    /// Notes that the records of all writes so far are durable.
    pub(super) fn note_durable(&mut self) {
        self.durability.complete();
        if self.changes.is_none() {
            self.durability.prove_stated();
        }
    }

    /// Flushes and fences all that is pending, behind `flushed`, whose proofs come first, and with it the
    /// values that were streamed.
    #[track_caller]
    pub(crate) fn sync_pending(
        &mut self,
        space: &mut Space,
        mut flushed: Vec<Flushed>,
        streamed: Streamed,
    ) -> Result<Vec<Fenced>> {
        let given = flushed.len();
        let waits_in_log = self.durability.flush_pending(&mut flushed);
        let appended = flushed.len();
        self.flush_changes(&mut flushed);
        let proofs = self.fence_with_values(space, flushed, streamed)?;
        // All that was ever appended is durable now, so every proof of appended bytes will do.
        let last = appended.checked_sub(1).and_then(|last| proofs.get(last));
        debug_assert!(waits_in_log == (appended > given));
        self.end_sync(space, last, waits_in_log);
        Ok(proofs)
    }

    /// Notes that everything is durable. `last` is the proof of the last bytes that were appended, if
    /// any were; in the log's current block, if they waited there.
    pub(crate) fn end_sync(
        &mut self,
        space: &mut Space,
        last: Option<&Fenced>,
        waits_in_log: bool,
    ) {
        self.note_durable();
        self.end_changes_sync();
        let Some(proof) = last else { return };
        let next = self.durability.next();
        for (block, used) in self.durability.take_unsealed() {
            space.seal(block, used, proof, next);
        }
        if waits_in_log {
            self.tail.prove(proof.clone());
        }
    }

    /// Fences `flushed` together with all values that wait, and the words of the map. Readers may read the streamed
    /// values then.
    #[track_caller]
    fn fence_with_values(
        &mut self,
        space: &mut Space,
        mut flushed: Vec<Flushed>,
        streamed: Streamed,
    ) -> Result<Vec<Fenced>> {
        let given = flushed.len();
        let (parcels, tokens): (Vec<_>, Vec<_>) = streamed.into_iter().unzip();
        flushed.extend(tokens);
        self.durability.flush_values(&mut flushed);
        let proofs = space.fence_with_map(flushed)?;
        for (parcel, proof) in parcels.into_iter().zip(&proofs[given.min(proofs.len())..]) {
            parcel.keep(proof);
        }
        Ok(proofs)
    }
}
