//! Which ranges of a pool have an owner.
//!
//! **Why the safe interface is sound.** No two [`Fresh`](crate::Fresh) cover the same byte, and nothing can be read while
//! a `Fresh` can write it. Both hold in every build, whatever a caller does:
//!
//! 1. A range is taken from the claims of its pool, which is locked for that: by a `Fresh`, or as a whole by
//!    [`Parcels`](crate::Parcels). Claimed ranges do not overlap, and each is given back once, by its last owner.
//! 2. A parcel takes its grains from the bits of its range by read-modify-writes. Those of one word have an order, so of
//!    two takers of a grain the second sees the bit of the first, and is refused. A refused taker clears only bits that
//!    it set, so that it frees no other's grain.
//! 3. The bits of a parcel are cleared by its one owner: by the drop of its region, or, once it is kept, by the one thread
//!    whose compare-and-exchange takes the word of its window to zero. [`Parcels::end`](crate::Parcels::end) gives the
//!    range back only if it could take every grain itself, and then clears no bit again.
//! 4. Keeping a parcel consumes the `Fresh` that writes it. So kept bytes have no writer; a pin is had only while the
//!    window's word says that the parcel is kept, and the word goes to zero only from no pins. From the pin's release over
//!    the word's acquire, the clearing of the bits (release) and their taking (acquire), all reads of a pin happen before
//!    all writes of the next owner; from the keeping (release) to the pin (acquire), all writes before all reads.
//! 5. A pin, a parcel and its `Fresh` hold their `Parcels`, and these the pool: the bytes stay mapped, and claimed.
//!
//! So ranges of the pool meet at one lock when they are claimed, and parcels of different ranges never meet: an engine
//! claims each of its segments once, and carves within.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The owned ranges, by start. This check at run time, once in the life of a range, makes the safe
/// interface of the pool sound for every caller.
#[derive(Default)]
pub(crate) struct Claims {
    ends: Mutex<BTreeMap<u64, u64>>,
}

impl Claims {
    /// Takes `start..end` if no part of it has an owner.
    pub(crate) fn take(&self, start: u64, end: u64) -> bool {
        let mut ends = self.ends.lock();
        let before = ends.range(..end).next_back();
        if before.is_some_and(|(_, &before_end)| before_end > start) {
            return false;
        }
        ends.insert(start, end);
        true
    }

    /// Gives back the range that starts at `start`.
    pub(crate) fn give_back(&self, start: u64) {
        let owned = self.ends.lock().remove(&start);
        debug_assert!(owned.is_some(), "a range is given back once");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Pool, PoolOptions, UNIT};

    /// Threads whose parcels are of different ranges meet nowhere: no parcel waits for the claims.
    #[test]
    fn parcels_are_taken_while_the_claims_are_locked() {
        let options = PoolOptions { in_memory: true, ..PoolOptions::default() };
        let pool = Pool::create(Path::new("memory"), &options).unwrap();
        let parcels = pool.claim_parcels(0, UNIT).unwrap();
        let locked = pool.claims().ends.lock();
        parcels.take(0, 5000).unwrap().write(&[1; 5000]);
        let (in_flight, flushed) = parcels.take(8192, 4000).unwrap().stream(&[2; 4000]);
        in_flight.keep(&pool.fence([flushed]).unwrap()[0]);
        assert_eq!(parcels.pin(0, 5000).map(|pinned| pinned[4999]), Some(1));
        assert!(parcels.reclaim(0) && parcels.reclaim(8192));
        // A range of records is a parcel too.
        let records = parcels.take(0, 128 << 10).unwrap().into_fresh().into_appender(0);
        drop(records);
        drop(locked);
        assert!(parcels.end());
    }

    #[test]
    fn a_byte_has_one_owner() {
        let claims = Claims::default();
        assert!(claims.take(64, 128) && claims.take(0, 64) && claims.take(128, 129));
        for (start, end) in [(0, 1), (63, 65), (100, 101), (0, 200), (128, 256)] {
            assert!(!claims.take(start, end), "{start}..{end}");
        }
        claims.give_back(64);
        assert!(!claims.take(64, 129));
        assert!(claims.take(65, 128));
    }
}
