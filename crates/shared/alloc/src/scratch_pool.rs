//! Volatile memory from the same pool (Yan §3.4.3).
//!
//! Zones that are never committed: after a crash, or an end, they are free. Ranges are cut from one zone
//! after the other, and a zone is free when the last of its ranges is dropped. So the pool need not be
//! divided between persistent and volatile data.
//!
//! A caller that appends, such as a cache, takes a whole zone that the pool can spare ([`ScratchPool::get_spare`]).
//!
//! Yan's zones are registered with jemalloc as arenas. Our ranges have one kind of user: indexes whose
//! nodes have few lengths, and which free all of them at once. These have their own slots, in shards and
//! classes, cut from slabs of up to 2 MiB (`halite-index`); a range is one slab. A general allocator
//! between the two would ask for the same slabs, through C callbacks (its extent hooks) in a crate that
//! needs no `unsafe` at all, and would add size classes, thread caches and page runs of its own that the
//! indexes do not use. Nor would it be faster: a radix tree of a million random keys takes 12 MiB of nodes,
//! so that an insert waits for an allocation only now and then.

use std::sync::Arc;

use halite_pmem::{Fresh, LINE, Scratch, SharedAppender};
use halite_sim::locks::Mutex;

use crate::{Device, Error, Grant, Result, SEGMENT};

/// Volatile memory in the segments of a device, to be shared by threads.
pub struct ScratchPool {
    device: Device,
    /// The zone that ranges are cut from, and where the next one begins.
    current: Mutex<Option<(Arc<Zone>, u64)>>,
    numbers: Arc<Mutex<Numbers>>,
}

/// Logical numbers of zones.
#[derive(Default)]
struct Numbers {
    /// Numbers that were given back.
    free: Vec<u32>,
    next: u32,
}

/// A whole zone of volatile memory that threads append to and read, by the pool's interface: their stores
/// and loads count, and cost the medium's time, but are never written back. An appending thread reveals the
/// bytes that it wrote.
pub struct ScratchZone {
    appender: SharedAppender,
    // Dropped after the appender, which has the range.
    _zone: Zone,
}

impl ScratchZone {
    /// The appender of its bytes.
    #[must_use]
    #[inline]
    pub fn appender(&self) -> &SharedAppender {
        &self.appender
    }
}

/// A zone that is never committed.
struct Zone {
    /// The grant; there until this is dropped.
    grant: Option<Grant>,
    number: u32,
    numbers: Arc<Mutex<Numbers>>,
}

impl ScratchPool {
    /// The volatile memory in the segments of `device`, which have no other user. There are none yet.
    ///
    /// # Errors
    /// [`Error::NotObjects`] if there are: a segment was committed there.
    pub fn new(device: &Device) -> Result<Self> {
        if let Some(number) = device.logical_segments().first() {
            return Err(Error::NotObjects {
                path: device.segments().pool().path().to_owned(),
                what: format!("device {}, segment {number}", device.id()),
                why: "it is committed, and volatile memory never is".into(),
            });
        }
        Ok(Self { device: device.clone(), current: Mutex::default(), numbers: Arc::default() })
    }

    /// Gets `len` bytes, whole lines, at most [`SEGMENT`]. A range of [`SEGMENT`] bytes is aligned to that, so
    /// that it may be a large page; others are aligned to a line.
    ///
    /// # Errors
    /// [`Error::Full`]; the pool's errors.
    ///
    /// # Panics
    /// If `len` is zero, not some whole lines, or more than [`SEGMENT`].
    pub fn get(&self, len: u64) -> Result<Scratch> {
        let is_right = len > 0 && len.is_multiple_of(LINE) && len <= SEGMENT;
        assert!(is_right, "volatile memory of {len} bytes: not whole lines, or too long");
        let mut current = self.current.lock();
        let (zone, at) = match current.as_mut().filter(|(_, at)| *at + len <= SEGMENT) {
            Some((zone, next)) => {
                let at = *next;
                *next += len;
                (Arc::clone(zone), at)
            }
            None => {
                let zone = Arc::new(self.zone()?);
                if len < SEGMENT {
                    *current = Some((Arc::clone(&zone), len));
                }
                (zone, 0)
            }
        };
        drop(current);
        Ok(zone.claim(at, len)?.into_scratch().kept_by(zone))
    }

    /// Gets a whole zone that the pool has free already, if so many other segments stay free.
    ///
    /// # Errors
    /// The pool's errors.
    pub fn get_spare(&self, others: u64) -> Result<Option<ScratchZone>> {
        let mut numbers = self.numbers.lock();
        let number = numbers.following();
        let Some(grant) = self.device.get_spare(number, others) else { return Ok(None) };
        let zone = self.zone_of(grant, number, &mut numbers);
        drop(numbers);
        let appender = zone.claim(0, SEGMENT)?.into_shared_appender(0);
        Ok(Some(ScratchZone { appender, _zone: zone }))
    }

    fn zone(&self) -> Result<Zone> {
        let mut numbers = self.numbers.lock();
        let number = numbers.following();
        let grant = self.device.get(number)?;
        Ok(self.zone_of(grant, number, &mut numbers))
    }

    fn zone_of(&self, grant: Grant, number: u32, numbers: &mut Numbers) -> Zone {
        if numbers.free.pop().is_none() {
            numbers.next += 1;
        }
        Zone { grant: Some(grant), number, numbers: Arc::clone(&self.numbers) }
    }
}

impl Numbers {
    /// The number that the next zone will have.
    fn following(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.next)
    }
}

impl Zone {
    fn claim(&self, at: u64, len: u64) -> Result<Fresh> {
        self.grant.as_ref().expect("it is not dropped").claim(at, len)
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        // Its number is free only once its segment is.
        drop(self.grant.take());
        self.numbers.lock().free.push(self.number);
    }
}
