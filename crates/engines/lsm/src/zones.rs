//! The zones of one memtable: fragments, appended, and read where they lie.
//!
//! They outlive the memtable: when that is merged, its zones belong to the global index, whose addresses point to
//! them, and when their records are on the SSD, they go back to the pool.
//!
//! The memtable's object in the pool (64 bytes) is:
//!
//! ```text
//!  0  id      u64  never used twice
//!  8  tree    u32
//! 12  check   u32  of id and tree, seeded with the pool's salt
//! 16  gidx    u64  line behind the last commit and behind the one before it << 32 (Yan Fig. 6)
//! 24  before  u64  id of the tree's memtable before, if there was one: it is there until it is in the levels
//! ```
//!
//! A zone is a segment without an end that is stored: fragments prove themselves by their checksums. Zones with a
//! durable end are `halite_alloc::CommittedZone`, and this engine has none.
//!
//! Lines are counted from the memtable's first zone on. Its number among the objects is the memtable's slot.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use halite_alloc::{Device, Object, ObjectPool};
use halite_contract::{Error, Result};
use halite_pmem::{Flushed, Fresh, Grant, LINE, SharedAppender, Words};
use halite_sim::locks::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::address::{Address, SLOTS_MAX, ZONE, ZONES_MAX, logical};
use crate::fragment::HEADER;
use crate::record::{HEAD, Lens, Record, Seed};

/// Lines of a zone.
pub(crate) const LINES: u64 = ZONE / LINE;

/// Bytes of a memtable's object.
pub(crate) const OBJECT_LEN: u64 = 64;

const GIDX: u64 = 16;

const BEFORE: u64 = 24;

/// The zones of one memtable.
pub(crate) struct Zones {
    pub(crate) slot: u32,
    pub(crate) id: u64,
    pub(crate) tree: usize,
    pub(crate) seed: Seed,
    device: Device,
    objects: Arc<ObjectPool>,
    /// The object; `None` when it went back to the pool.
    words: Option<Words>,
    zones: Box<[OnceLock<SharedAppender>]>,
    /// The zone that is appended to.
    current: AtomicU32,
    /// Whether the pool gets everything back when no reader uses it any more.
    released: AtomicBool,
    /// Held by the thread that adds a zone.
    adding: Mutex<()>,
}

/// Space for a fragment.
pub(crate) struct Granted<'a> {
    pub(crate) address: Address,
    pub(crate) grant: Grant<'a>,
    /// The grant for the mark of the end of the zone before.
    pub(crate) end: Option<Grant<'a>>,
}

impl Granted<'_> {
    /// The lines of the memtable that it is in, with that of the mark.
    pub(crate) fn lines(&self) -> Range<u32> {
        let zone = self.address.zone() as u64 * LINES;
        let line = |grant: &Grant<'_>| grant.at() / LINE;
        let start =
            self.end.as_ref().map_or(zone + line(&self.grant), |end| zone - LINES + line(end));
        start as u32..(zone + line(&self.grant) + self.grant.len() / LINE) as u32
    }
}

/// The first 16 bytes of a memtable's object.
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) tree: usize,
}

impl Identity {
    pub(crate) fn encode(&self, salt: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.tree as u32).to_le_bytes());
        let check = (xxh3_64_with_seed(&bytes[..12], salt) >> 32) as u32;
        bytes[12..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The identity in an object's first bytes, if they are those of a memtable.
    pub(crate) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let id = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let tree = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?) as usize;
        let identity = Self { id, tree };
        (bytes.get(..16)? == identity.encode(salt)).then_some(identity)
    }
}

/// The slot of an object.
pub(crate) fn slot_of(index: u64) -> Result<u32> {
    let slot = u32::try_from(index).ok().filter(|&slot| slot < SLOTS_MAX);
    slot.ok_or_else(|| Error::Full {
        used: index,
        limit: u64::from(SLOTS_MAX),
        held: 0,
        holder: None,
    })
}

/// Writes a new object, with nothing committed, and commits it. Two fences.
pub(crate) fn write_object(
    mut object: Object<'_>,
    salt: u64,
    identity: &Identity,
    before: Option<u64>,
) -> Result<Words> {
    let mut bytes = [0; OBJECT_LEN as usize];
    bytes[..16].copy_from_slice(&identity.encode(salt));
    bytes[BEFORE as usize..][..8].copy_from_slice(&before.unwrap_or(0).to_le_bytes());
    object.write(0, &bytes);
    let flushed = object.flush(0..OBJECT_LEN);
    object.pool().fence([flushed])?;
    Ok(object.commit()?.into_words())
}

impl Zones {
    /// The zones of a new memtable: none yet. It comes behind the memtable `before`. Its object is durable on return.
    /// Two fences.
    pub(crate) fn create(
        objects: &Arc<ObjectPool>,
        device: &Device,
        salt: u64,
        identity: &Identity,
        before: Option<u64>,
    ) -> Result<Self> {
        let object = objects.get()?;
        let slot = slot_of(object.index())?;
        let words = write_object(object, salt, identity, before)?;
        Ok(Self::new(objects, device, slot, salt, identity, words))
    }

    /// The zones of a memtable that the pool has; which of them are read, and how far, recovery finds out
    /// ([`Zones::open_zone`]).
    pub(crate) fn new(
        objects: &Arc<ObjectPool>,
        device: &Device,
        slot: u32,
        salt: u64,
        identity: &Identity,
        words: Words,
    ) -> Self {
        Self {
            slot,
            id: identity.id,
            tree: identity.tree,
            seed: Seed::new(salt, identity.id),
            device: device.clone(),
            objects: Arc::clone(objects),
            words: Some(words),
            zones: (0..ZONES_MAX).map(|_| OnceLock::new()).collect(),
            current: AtomicU32::new(0),
            released: AtomicBool::new(false),
            adding: Mutex::new(()),
        }
    }

    /// Takes a zone that the pool has for this memtable, to be read and perhaps appended to.
    pub(crate) fn claim_zone(&self, zone: u32) -> Result<Fresh> {
        Ok(self.device.claim(logical(self.slot, zone), 0, ZONE)?)
    }

    /// Lets a zone be read up to `readable`, and appended to behind it.
    pub(crate) fn open_zone(&self, zone: u32, fresh: Fresh, readable: u64) {
        let set = self.zones[zone as usize].set(fresh.into_shared_appender(readable));
        assert!(set.is_ok(), "a zone is opened once");
        self.current.fetch_max(zone, Ordering::Relaxed);
    }

    /// Lets the next fragment go to this zone, or one behind it.
    pub(crate) fn end_at(&self, zone: u32) {
        self.current.store(zone, Ordering::Relaxed);
    }

    /// The records of the fragment at an address, if so many bytes may be read there.
    pub(crate) fn payload(&self, address: Address, len: usize) -> Option<&[u8]> {
        let zone = self.zones.get(address.zone())?.get()?.published();
        let start = address.offset() + HEADER as u64;
        zone.read(start..start + len as u64)
    }

    /// Makes sure that fragments of these lengths will be granted space, in this order: [`Zones::grant`]. In the turn
    /// of the thread that writes them. Where a new zone is needed, two fences, and perhaps the pool's growth.
    ///
    /// Returns whether there is room; there is not if the memtable would have too many zones.
    pub(crate) fn reserve(&self, lens: impl Iterator<Item = u64>) -> Result<bool> {
        let mut zone = self.current.load(Ordering::Relaxed);
        let mut free = match self.zones[zone as usize].get() {
            Some(zone) => zone.remaining(),
            None => 0,
        };
        for len in lens {
            if len > free {
                zone += u32::from(self.zones[zone as usize].get().is_some());
                if zone == ZONES_MAX {
                    return Ok(false);
                }
                self.add_zone(zone)?;
                free = ZONE;
            }
            free -= len;
        }
        Ok(true)
    }

    /// Bytes that are left of the zone that is appended to.
    pub(crate) fn left(&self) -> u64 {
        let current = self.current.load(Ordering::Relaxed);
        self.zones[current as usize].get().map_or(0, SharedAppender::remaining)
    }

    /// Zones that [`Zones::reserve`] would add for fragments of these lengths.
    pub(crate) fn missing(&self, lens: impl Iterator<Item = u64>) -> u64 {
        let mut zone = self.current.load(Ordering::Relaxed);
        let has = |zone: u32| self.zones.get(zone as usize).and_then(OnceLock::get);
        let (mut free, mut missing) = (has(zone).map_or(0, SharedAppender::remaining), 0);
        for len in lens {
            if len > free {
                zone += u32::from(has(zone).is_some() || missing > 0);
                missing += u64::from(has(zone).is_none());
                free = ZONE;
            }
            free -= len;
        }
        missing
    }

    /// Grants space for a fragment that [`Zones::reserve`] found room for, and, if that is in the next zone, for
    /// the mark of this one's end.
    pub(crate) fn grant(&self, len: u64) -> Granted<'_> {
        let current = self.current.load(Ordering::Relaxed);
        let of = |zone: u32| self.zones[zone as usize].get().expect("room was reserved");
        let place = |zone: u32, grant: &Grant<'_>| Address::new(self.slot, zone, grant.at());
        if let Some(grant) = of(current).grant(len) {
            return Granted { address: place(current, &grant), grant, end: None };
        }
        let end = of(current).grant(LINE);
        self.current.store(current + 1, Ordering::Relaxed);
        let grant = of(current + 1).grant(len).expect("room was reserved");
        Granted { address: place(current + 1, &grant), grant, end }
    }

    /// Adds a zone if there is none of that number yet. The bytes that it held before are no fragment at its start.
    fn add_zone(&self, number: u32) -> Result<()> {
        let _adding = self.adding.lock();
        if self.zones[number as usize].get().is_some() {
            return Ok(());
        }
        let grant = self.device.get(logical(self.slot, number))?;
        let mut fresh = grant.claim(0, ZONE)?;
        let zeroed = fresh.zero(0..LINE);
        fresh.pool().fence([zeroed])?;
        grant.commit()?;
        let set = self.zones[number as usize].set(fresh.into_shared_appender(0));
        assert!(set.is_ok(), "zones are added one at a time");
        Ok(())
    }

    /// Adds the zone that will be needed next, so that the thread that needs it does not wait.
    pub(crate) fn prepare_next(&self) -> Result<()> {
        let current = self.current.load(Ordering::Relaxed);
        let next = current + u32::from(self.zones[current as usize].get().is_some());
        if next < ZONES_MAX { self.add_zone(next) } else { Ok(()) }
    }

    /// Bytes of the pool that the zones take.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.zones.iter().take_while(|zone| zone.get().is_some()).count() as u64 * ZONE
    }

    /// Bytes that were granted, and left over in zones before the current one.
    pub(crate) fn used_bytes(&self) -> u64 {
        let current = self.current.load(Ordering::Relaxed);
        let tail = self.zones[current as usize].get().map_or(0, SharedAppender::tail);
        u64::from(current) * ZONE + tail
    }

    /// The record at an address, which an index or another record has; its check is not compared. `None` if no
    /// record can be there.
    #[inline]
    pub(crate) fn record(&self, address: Address) -> Option<Record<'_>> {
        let zone = self.zones.get(address.zone())?.get()?.published();
        let padded = |head: &[u8]| Lens::of(head).padded() as u64;
        Record::read(zone.read_sized(address.offset(), HEAD as u64, padded)?)
    }

    /// Prefetches the record at an address: the lines that short ones take.
    #[inline]
    pub(crate) fn prefetch(&self, address: Address) {
        if let Some(zone) = self.zones.get(address.zone()).and_then(OnceLock::get) {
            zone.published().prefetch(address.offset());
            zone.published().prefetch(address.offset() + LINE);
        }
    }

    /// [`Zones::record`], if its check is right.
    #[inline]
    pub(crate) fn checked(&self, address: Address) -> Result<Record<'_>> {
        let record = self.record(address).filter(|record| record.is_whole(self.seed));
        record.ok_or_else(|| self.damaged(address, "a record does not have its checksum"))
    }

    /// The damage at an address.
    pub(crate) fn damaged(&self, address: Address, why: &str) -> Error {
        let (zone, offset) = (address.zone(), address.offset());
        let what =
            format!("memtable {} of tree {}, zone {zone}, offset {offset}", self.id, self.tree);
        Error::Damaged { what, why: why.to_owned() }
    }

    /// The key of the record at an address.
    #[inline]
    pub(crate) fn key(&self, address: Address) -> &[u8] {
        // The reader that gets the record compares its check; here there is no error to return.
        self.record(address).map_or(&[], |record| record.key())
    }

    /// The sequence of the record at an address.
    #[inline]
    pub(crate) fn sequence(&self, address: Address) -> u64 {
        let zone = self.zones.get(address.zone()).and_then(OnceLock::get);
        let at = address.offset();
        let head = zone.and_then(|zone| zone.published().read(at..at + 8));
        head.map_or(0, |head| u64::from_le_bytes(head.try_into().expect("8 bytes")) >> 8)
    }

    /// Starts the write-back of the bytes that were revealed between two lines of the memtable.
    pub(crate) fn flush(&self, lines: Range<u32>, flushed: &mut Vec<Flushed>) {
        let mut line = u64::from(lines.start);
        let end = u64::from(lines.end);
        while line < end {
            let (zone, from) = (line / LINES, line % LINES);
            let to = (end - zone * LINES).min(LINES);
            if let Some(zone) = self.zones[zone as usize].get() {
                // The bytes that are left over at the end of a zone were never granted.
                let to = (to * LINE).min(zone.published().len());
                if from * LINE < to {
                    flushed.push(zone.published().flush(from * LINE..to));
                }
            }
            line = (zone + 1) * LINES;
        }
    }

    fn words(&self) -> &Words {
        self.words.as_ref().expect("the object is there as long as the zones are read")
    }

    /// `gidx`: the line behind the last batch that was committed, and behind the one before it.
    pub(crate) fn gidx(&self) -> (u32, u32) {
        let word = self.words().load(GIDX);
        (word as u32, (word >> 32) as u32)
    }

    /// The memtable before, if there was one.
    pub(crate) fn before(&self) -> Option<u64> {
        Some(self.words().load(BEFORE)).filter(|&before| before > 0)
    }

    /// Moves `gidx` behind the next batch. Not durable.
    pub(crate) fn advance_gidx(&self, line: u32) {
        let (last, _) = self.gidx();
        self.words().store(GIDX, u64::from(last) << 32 | u64::from(line));
    }

    /// Starts the write-back of `gidx`.
    pub(crate) fn flush_gidx(&self) -> Flushed {
        self.words().flush(GIDX..GIDX + 8)
    }

    /// Gives everything back to the pool when no reader uses it any more.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }
}

impl Drop for Zones {
    fn drop(&mut self) {
        if !*self.released.get_mut() {
            return;
        }
        for (number, zone) in self.zones.iter_mut().enumerate() {
            let Some(zone) = zone.take() else { continue };
            // The memtable that gets it next claims it.
            drop(zone);
            // Zones that cannot be given back now are when the pool is opened next.
            let _ = self.device.release(logical(self.slot, number as u32));
        }
        drop(self.words.take());
        let _ = self.objects.release(u64::from(self.slot));
    }
}
