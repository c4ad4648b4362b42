//! The records of a partition: where they lie, how they are written, and which of them hide deleted keys.
//!
//! A write's records are appended to the log first; then the view is pointed to them (`apply`), and the records that
//! they supersede are dead, each counted by one that is newer (`liveness`). Collection (`collection`) moves the live
//! ones.

use halite_alloc::{Device, Segments};
use halite_contract::Result;
use halite_sim::locks::RwLock;

use crate::log::Log;
use crate::read::view::View;
use crate::record;
use crate::space::Space;
use crate::space::block_map::BlockMap;
use crate::tombstones::Tombstones;

mod apply;
pub(crate) mod liveness;

/// The records of a partition, for its writer.
///
/// - Every entry of the view's indexes points to a record in a block of `space`, which is counted as live there.
/// - Every dead record on the medium is counted, at least once: by the index entry of its key, or by one of
///   `tombstones`. Those of a block that is being collected, or was and is not free yet, are counted no more.
pub(crate) struct Storage {
    pub(crate) space: Space,
    pub(crate) log: Log,
    pub(crate) tombstones: Tombstones,
    /// Bytes of keys and values that callers have written.
    user_bytes: u64,
}

impl Storage {
    /// No records yet.
    pub(crate) fn new(segments: &Segments, device: Device, map: BlockMap) -> Result<Self> {
        let near = map.near()?;
        Ok(Self {
            space: Space::new(segments, device, map)?,
            log: Log::new(near),
            tombstones: Tombstones::default(),
            user_bytes: 0,
        })
    }

    /// Bytes of keys and values that callers have written.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Bytes of log that this opening has written, more or less.
    pub(crate) fn written(&self) -> u64 {
        self.user_bytes + self.next().wrapping_mul(record::LEN_MIN)
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.log.durability.next()
    }

    /// Makes the records of every write so far durable. One fence, if there is anything to wait for.
    pub(crate) fn sync_records(&mut self) -> Result<()> {
        self.log.sync_records(&mut self.space)
    }

    /// Frees the space in limbo that nothing can reach any more; see [`Space::release_limbo`].
    pub(crate) fn release_limbo(&mut self, view: &RwLock<View>, held_max: usize) -> Result<bool> {
        self.space.release_limbo(view, held_max, &mut self.log.durability)
    }

    /// Makes sure that the change log has room for operations of so many bytes.
    pub(crate) fn make_room_in_changes(&mut self, len: u64) -> Result<()> {
        let mut has_room = self.find_room_in_changes(len)?;
        if !has_room && !self.log.durability.is_complete() {
            // The oldest segment may go when the records of its entries are durable.
            self.sync_records()?;
            has_room = self.find_room_in_changes(len)?;
        }
        if has_room { Ok(()) } else { Err(self.space.full()) }
    }

    fn find_room_in_changes(&mut self, len: u64) -> Result<bool> {
        let durable = self.log.durability.records();
        let Some(changes) = self.log.changes_mut() else { return Ok(true) };
        let made = changes.make_room(len, durable, || self.space.release_snapshots());
        self.space.health.poison_by_room(made)
    }

    /// Gives back the segments that were allocated for a write that is refused for lack of room. One fence for each
    /// segment.
    pub(crate) fn give_back_room(&mut self) -> Result<()> {
        let released = match self.log.changes_mut() {
            Some(changes) => changes.release_spare(),
            None => Ok(()),
        };
        self.space.health.poison_by(released)?;
        self.space.give_back_segments()
    }
}
