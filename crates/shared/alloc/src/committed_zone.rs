//! Committed zones: segments that are appended to by many threads up to a durable end, and released at once
//! (Yan §3.4.2).
//!
//! ```text
//! 0        64       128
//! ┌────────┬────────┬────────────────────────────────────┐
//! │ header │ end    │ appended bytes                     │
//! └────────┴────────┴────────────────────────────────────┘
//! ```
//!
//! The end is a word: how many bytes are committed, with a check. An allocation walks [`CommittedZone::get`] (one
//! atomic step; a crash forgets it) → the caller writes the [`Grant`] and publishes it → [`CommittedZone::commit`]:
//! the word, one flush and one fence for all bytes that were published without a gap, by any thread.
//! Appended bytes are released with their zone, by one fence.
//!
//! Data that proves itself, such as records with checksums, needs no such word, and takes its zones from a
//! [`Device`].

use std::sync::Arc;

use halite_pmem::{Fresh, Grant, Published, SharedAppender, Words};

use crate::segment_header::{HEADER_LEN, Header};
use crate::{Device, Error, Result, SEGMENT, check};

/// Where the end is, in bytes from the segment's start.
const END_AT: u64 = HEADER_LEN;

/// Where the appended bytes begin.
const SPACE_AT: u64 = 2 * HEADER_LEN;

/// Bytes of a zone.
pub const COMMITTED_ZONE_LEN: u64 = SEGMENT - SPACE_AT;

/// Zones in the segments of a device. A zone has the logical number of its segment.
pub struct CommittedZonePool {
    device: Device,
    salt: u64,
}

impl CommittedZonePool {
    /// The zones in the segments of `device`, which have no other user.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), salt: device.segments().salt() }
    }

    /// The zones that there are, ascending.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.device.logical_segments()
    }

    /// Makes an empty zone at the place `number`, which has none, durably. Two flushes, two fences.
    ///
    /// # Errors
    /// [`Error::Full`]; the pool's errors.
    ///
    /// # Panics
    /// If there is a zone at `number`.
    pub fn create(&self, number: u32) -> Result<CommittedZone> {
        let grant = self.device.get(number)?;
        let mut fresh = grant.claim(0, SPACE_AT)?;
        let mut bytes = self.header(number).encode(self.salt).to_vec();
        let end = encode(self.salt, self.place(number), 0);
        bytes.extend_from_slice(&end.to_le_bytes());
        let written = fresh.write_stream(0, &bytes);
        fresh.pool().fence([written])?;
        let space = grant.claim(SPACE_AT, COMMITTED_ZONE_LEN)?;
        grant.commit()?;
        Ok(self.zone(number, fresh, space, 0))
    }

    /// Opens the zone at `number`. Committed bytes can be read, and new ones are appended behind them. One
    /// fence.
    ///
    /// # Errors
    /// [`Error::NotObjects`] if it has other contents; [`Error::Damaged`], also if there is none;
    /// [`Error::Pool`] if it is open already.
    pub fn open(&self, number: u32) -> Result<CommittedZone> {
        let fresh = self.device.claim(number, 0, SPACE_AT)?;
        let pool = fresh.pool();
        self.header(number).check(fresh.read(0, HEADER_LEN), pool, self.salt)?;
        // The process that stored the end may have died before its fence.
        pool.fence_found(&[fresh.flush(END_AT..END_AT + 8)])?;
        let word = fresh.read(END_AT, 8).first_chunk().copied().map(u64::from_le_bytes);
        let end =
            word.and_then(|word| self.decode(number, word)).ok_or_else(|| Error::Damaged {
                path: pool.path().to_owned(),
                what: format!("zone {number} of device {}", self.device.id()),
                why: "its end does not have its check".into(),
            })?;
        let space = self.device.claim(number, SPACE_AT, COMMITTED_ZONE_LEN)?;
        Ok(self.zone(number, fresh, space, end))
    }

    /// Releases the zone at `number` and all its bytes, durably. Its handles, and readers' references to
    /// its bytes, have been dropped before. One flush, one fence.
    ///
    /// # Errors
    /// [`Error::Damaged`] if there is none; [`Error::Pool`] if it is in use, and the pool's errors.
    pub fn release(&self, number: u32) -> Result<()> {
        drop(self.device.claim(number, 0, SEGMENT)?);
        self.device.release(number)
    }

    fn zone(&self, number: u32, fresh: Fresh, space: Fresh, end: u64) -> CommittedZone {
        let (salt, place) = (self.salt, self.place(number));
        let space = space.into_shared_appender(end);
        CommittedZone { number, salt, place, end: fresh.into_words(), space }
    }

    fn decode(&self, number: u32, word: u64) -> Option<u64> {
        let end = word >> 16;
        let is_right = encode(self.salt, self.place(number), end) == word;
        (is_right && end <= COMMITTED_ZONE_LEN && end.is_multiple_of(halite_pmem::LINE))
            .then_some(end)
    }

    fn header(&self, number: u32) -> Header {
        Header { device: self.device.id(), number, object_len: 0, count: 0 }
    }

    fn place(&self, number: u32) -> u64 {
        u64::from(self.device.id()) << 48 | u64::from(number)
    }
}

fn encode(salt: u64, place: u64, end: u64) -> u64 {
    end << 16 | check::of(salt, place, end << 16)
}

/// An open zone, to be shared by threads. Places are counted from the first byte that was appended.
pub struct CommittedZone {
    number: u32,
    salt: u64,
    place: u64,
    end: Words,
    space: SharedAppender,
}

impl CommittedZone {
    /// Its number in its device.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Gets the next `len` bytes, or `None` if they do not fit. A crash forgets them until they are
    /// committed. Their contents are undefined. The caller publishes them before that; revealing them is
    /// not enough.
    ///
    /// # Panics
    /// If `len` is not some whole lines.
    pub fn get(&self, len: u64) -> Option<Grant<'_>> {
        self.space.grant(len)
    }

    /// Commits, durably, all bytes that were published without a gap; returns where they end. One flush,
    /// one fence.
    ///
    /// # Errors
    /// The pool's errors; the next open then tells which bytes are committed.
    pub fn commit(&self) -> Result<u64> {
        self.end.pool().check_synced()?;
        let end = self.space.published().len();
        let word = encode(self.salt, self.place, end);
        let mut now = self.end.load(END_AT);
        while now >> 16 < end
            && let Err(other) = self.end.compare_exchange(END_AT, now, word)
        {
            now = other;
        }
        // Another thread may have stored the word, and its fence may not have returned yet; so this thread
        // fences, too.
        self.end.pool().fence([self.end.flush(END_AT..END_AT + 8)])?;
        Ok(end)
    }

    /// The readable bytes.
    #[must_use]
    pub fn published(&self) -> &Arc<Published> {
        self.space.published()
    }

    /// Bytes that still fit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.space.remaining()
    }
}
