//! The heap's parts, and how it opens, settles and closes.

use super::chunk_word::{ChunkWord, Purpose};
use super::dead::{self, DeadOwners};
use super::ground::Ground;
use super::layout::{
    CHUNKS, ChunkId, DEAD_OWNERS_MAX, HEAP_ROOTS_MAX, META_CHUNKS, chunk_word_at, dead_word_at,
    root_word_at,
};
use super::log::Log;
use super::owner::Owner;
use super::pointer::SEGMENTS_MAX;
use super::reclaim::Pass;
use super::record;
use super::recovery;
use super::roots::Roots;
use super::space::Space;
use super::table::{LookedAt, Table, header};
use crate::{Device, Error, Result, SEGMENT};

/// A persistent heap, with one user at a time. The module describes it.
pub struct Heap {
    pub(super) ground: Ground,
    pub(super) table: Table,
    pub(super) space: Space,
    pub(super) log: Log,
    pub(super) roots: Roots,
    pub(super) dead: DeadOwners,
    pub(super) pass: Option<Pass>,
    /// Slots that were freed without a fence: free once the next one that the caller asks for has returned.
    pub(super) freed: Vec<(ChunkId, Option<u32>)>,
}

impl Heap {
    /// Opens the heap in the segments of `device`, which have no other user; without a segment, it makes an empty one.
    /// Slots that were reserved are free. One fence; two more after a crash. The time is that of the claims of its
    /// segments, of its roots and of at most two publications; no other chunk is looked at.
    ///
    /// # Errors
    /// [`Error::NotObjects`] if there are segments with other contents; [`Error::Damaged`]; [`Error::Full`] for a new
    /// heap; the pool's errors.
    pub fn open(device: &Device) -> Result<Self> {
        let (mut ground, mut table) = (Ground::new(device), Table::default());
        let segments = device.logical_segments();
        for (number, logical) in (0..).zip(&segments) {
            if number != *logical {
                let why = format!("segment {logical} is there without it");
                return Err(ground.damaged(format!("segment {number}"), why));
            }
            ground.push(device.claim(number, 0, SEGMENT)?);
            table.push_segment();
        }
        if segments.is_empty() {
            add_segment(&mut ground, &mut table)?;
        }
        let head = ground.read(0, crate::segment_header::HEADER_LEN);
        header(device.id(), 0).check(head, ground.pool(), ground.salt())?;
        let log = recovery::recover(&mut ground, &mut table)?;
        let roots = Roots::read(&ground, &table)?;
        let dead = DeadOwners::read(&ground)?;
        let count = ground.segments();
        // The sequence number differs from one opening to the next.
        let space = Space::of_unknown(count, (log.sequence() % u64::from(count)) as u32);
        Ok(Self { ground, table, space, log, roots, dead, pass: None, freed: Vec::new() })
    }

    /// Makes all that was stored through the heap to persisted slots durable, and their states. One fence, if there is
    /// anything to make durable.
    ///
    /// # Errors
    /// The pool's errors.
    #[track_caller]
    pub fn fence(&mut self) -> Result<()> {
        self.check_synced()?;
        self.ground.fence()?;
        self.after_fence();
        Ok(())
    }

    /// A number that differs from pool to pool: a seed for the checks of what is in slots, so that bytes of another pool are
    /// not taken for this one's.
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.ground.salt()
    }

    /// Bytes of its segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.ground.segments()) * SEGMENT
    }

    /// The parts of the heap that were looked at since it was opened.
    #[must_use]
    pub fn looked_at(&self) -> LookedAt {
        self.table.looked_at()
    }

    /// The value of a named root.
    #[must_use]
    pub fn root(&self, name: &str) -> Option<u64> {
        self.roots.by_name.get(name).map(|root| root.value)
    }

    /// The named roots and their values, by name.
    pub fn roots(&self) -> impl Iterator<Item = (&str, u64)> {
        self.roots.by_name.iter().map(|(name, root)| (name.as_str(), root.value))
    }

    /// The owners that were dropped and are not reclaimed.
    pub fn dropped_owners(&self) -> impl Iterator<Item = Owner> {
        self.dead.iter().map(|(_, owner)| owner)
    }

    pub(super) fn check_synced(&self) -> Result<()> {
        Ok(self.ground.pool().check_synced()?)
    }

    /// Refuses an owner that was dropped.
    pub(super) fn check_owner(&self, owner: Owner) -> Result<()> {
        if self.dead.contains(owner) {
            return Err(Error::OwnerDropped { owner: owner.number() });
        }
        Ok(())
    }

    /// Lets slots be reserved that were freed before the fence which has returned. The heap's own fences do not: the caller
    /// may still have to undo the free.
    pub(super) fn after_fence(&mut self) {
        for (chunk, index) in std::mem::take(&mut self.freed) {
            self.release(chunk, index);
        }
    }

    /// Settles the publications that opening would apply again, if a change of these bytes has to wait for that. Two
    /// fences then.
    pub(super) fn make_way(&mut self, place: u64, len: u64) -> Result<()> {
        if self.log.touches(place, len) { self.settle() } else { Ok(()) }
    }

    /// Makes the words of publications durable in their places, so that none is applied again. Two fences.
    pub(super) fn settle(&mut self) -> Result<()> {
        // After a failed sync, no barrier may be stored: what it promises is not durable.
        self.check_synced()?;
        self.ground.fence()?;
        recovery::settle(&mut self.ground, &self.table, &mut self.log)
    }

    /// Adds a segment. Two fences, and those of the pool's growth.
    pub(super) fn grow(&mut self) -> Result<()> {
        let segment = add_segment(&mut self.ground, &mut self.table)?;
        self.look_at(segment)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // A heap that is closed has nothing to apply. If this fails, or after a bug, opening does it.
        if self.log.is_live() && !std::thread::panicking() {
            let _ = self.settle();
        }
    }
}

/// Makes the next segment of a heap: all its chunks are free. The first one also has no root, no dropped owner and
/// nothing published.
fn add_segment(ground: &mut Ground, table: &mut Table) -> Result<u32> {
    let number = ground.segments();
    let device = ground.device().clone();
    if number == SEGMENTS_MAX {
        let (path, limit) = (ground.pool().path().to_owned(), u64::from(number) * SEGMENT);
        return Err(Error::Full { reason: halite_pmem::Error::SizeLimit { path, limit } });
    }
    let grant = device.get(number)?;
    let mut fresh = grant.claim(0, SEGMENT)?;
    let mut bytes = header(device.id(), number).encode(ground.salt()).to_vec();
    let meta_chunks = if number == 0 { META_CHUNKS } else { 1 };
    let words = (0..CHUNKS).map(|chunk| {
        let purpose = if chunk < meta_chunks { Purpose::Meta } else { Purpose::Free };
        ChunkWord { purpose, generation: 0 }.encode(ground, number * CHUNKS + chunk)
    });
    bytes.extend(words.flat_map(u64::to_le_bytes));
    debug_assert_eq!(bytes.len() as u64, chunk_word_at(CHUNKS - 1) + 8);
    let written = fresh.write_stream(0, &bytes);
    if number > 0 {
        ground.pool().fence([written])?;
        grant.commit()?;
        ground.push(fresh);
        table.push_segment();
        return Ok(number);
    }
    ground.push(fresh);
    table.push_segment();
    let places = (0..HEAP_ROOTS_MAX).map(root_word_at);
    let places = places.chain((0..DEAD_OWNERS_MAX).map(dead_word_at));
    let words = places.map(|place| ground.checked(place, dead::payload(None)));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    ground.write(root_word_at(0), &bytes);
    ground.note(root_word_at(0), bytes.len() as u64);
    record::erase(ground, 0);
    record::write(ground, table, 1, &[])?;
    ground.fence_with(written)?;
    grant.commit()?;
    Ok(number)
}
