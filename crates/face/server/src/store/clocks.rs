//! When keys were last used, or how often: for the policies of eviction, and for OBJECT IDLETIME and FREQ.
//!
//! ```text
//! slot of a key     digest of the database and the key, modulo the number of slots
//! LRU               time of the last use, in 16 ms; 0: not since the start
//! LFU               known 1 bit │ minute of the last change 16 bits │ counter 8 bits
//! ```
//!
//! A slot is 4 bytes, and there are as many as the partition has records, or up to twice as many, but no more than
//! [`SLOTS_MAX`]. Keys that share a slot share its clock: a cold key may be taken for a hot one, and never the other way
//! round. Nothing of this is stored: after a start, a key counts as used when the table was made. Under a policy that evicts
//! by something else there are only [`SLOTS_MIN`] slots, so few that they stay in the processor's cache: the times of a
//! small database are exact, and those of a large one are too short. The counters of LFU rise by chance, less likely the higher they are, and fall with time, as in Redis.

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Slots of a table, at least and at most.
const SLOTS_MIN: usize = 1 << 12;
const SLOTS_MAX: usize = 1 << 24;

/// The unit of the clock of LRU: 2^4 ms.
const LRU_SHIFT: u32 = 4;

/// The counter of a new key.
const LFU_NEW: u32 = 5;
const LFU_KNOWN: u32 = 1 << 31;
const MINUTE_MS: u64 = 60_000;

/// The use of keys that a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The time of the last one.
    Recent,
    /// How often there was one: the factor by which counters rise less likely, and the minutes in which they fall by one.
    Frequent { log_factor: u32, decay_minutes: u32 },
}

/// The clocks of a partition's keys.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    slots: Vec<u32>,
    usage: Option<Usage>,
    made_ms: u64,
}

impl Clocks {
    /// Makes a table for what is asked for now, if there is none.
    fn begin(&mut self, usage: Usage, now_ms: u64) {
        let is_recent = |usage| usage == Some(Usage::Recent);
        if self.usage.is_none() || is_recent(self.usage) != is_recent(Some(usage)) {
            self.slots = vec![0; SLOTS_MIN.max(self.slots.len())];
            self.made_ms = now_ms;
        }
        self.usage = Some(usage);
    }

    /// Makes as many slots as there are records, if keys are evicted by their use, and otherwise a few.
    pub(super) fn fit(&mut self, records: Option<u64>) {
        let wanted = records.unwrap_or(0) as usize;
        let wanted = wanted.next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        // The slot of a key in the smaller table has its clock.
        while !self.slots.is_empty() && self.slots.len() < wanted {
            self.slots.extend_from_within(..);
        }
        if records.is_none() && self.slots.len() > SLOTS_MIN {
            self.slots.truncate(SLOTS_MIN);
            self.slots.shrink_to_fit();
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    #[inline]
    fn slot(&self, place: usize, key: &[u8]) -> usize {
        digest(place as u64, key) as usize & (self.slots.len() - 1)
    }

    /// Notes that a key was used.
    #[inline]
    pub(super) fn touch(
        &mut self,
        (place, key): (usize, &[u8]),
        usage: Usage,
        now_ms: u64,
        random: &mut Rng,
    ) {
        if self.usage != Some(usage) {
            self.begin(usage, now_ms);
        }
        let slot = self.slot(place, key);
        self.slots[slot] = match usage {
            Usage::Recent => recent(now_ms),
            Usage::Frequent { log_factor, decay_minutes } => {
                let counter = counter(self.slots[slot], decay_minutes, now_ms);
                frequent(rise(counter, log_factor, random), now_ms)
            }
        };
    }

    /// Notes that a key is put. If it is new, it begins to be used.
    pub(super) fn put(&mut self, (place, key): (usize, &[u8]), usage: Usage, now_ms: u64) {
        self.begin(usage, now_ms);
        let slot = self.slot(place, key);
        match usage {
            Usage::Recent => self.slots[slot] = recent(now_ms),
            Usage::Frequent { .. } if self.slots[slot] & LFU_KNOWN == 0 => {
                self.slots[slot] = frequent(LFU_NEW, now_ms);
            }
            Usage::Frequent { .. } => {}
        }
    }

    /// Sets for how long a key counts as idle, in milliseconds.
    pub(super) fn set_idle(&mut self, (place, key): (usize, &[u8]), idle_ms: u64, now_ms: u64) {
        self.begin(Usage::Recent, now_ms);
        let slot = self.slot(place, key);
        // A time that is longer than a clock can tell counts as the longest.
        let idle_ms = idle_ms.min(u64::from(u32::MAX / 2) << LRU_SHIFT);
        self.slots[slot] = recent(now_ms.saturating_sub(idle_ms));
    }

    /// Sets how often a key counts as used.
    pub(super) fn set_frequency(&mut self, (place, key): (usize, &[u8]), count: u8, now_ms: u64) {
        if matches!(self.usage, Some(Usage::Frequent { .. })) {
            let slot = self.slot(place, key);
            self.slots[slot] = frequent(count.into(), now_ms);
        }
    }

    /// Notes that a key is gone.
    pub(super) fn forget(&mut self, place: usize, key: &[u8]) {
        if !self.slots.is_empty() {
            let slot = self.slot(place, key);
            self.slots[slot] = 0;
        }
    }

    /// A time, to the unit of the clocks.
    pub(super) fn unit_of(ms: u64) -> u64 {
        ms >> LRU_SHIFT << LRU_SHIFT
    }

    /// How long ago a key was used, in milliseconds.
    pub(super) fn idle_ms(&self, place: usize, key: &[u8], now_ms: u64) -> u64 {
        if self.usage != Some(Usage::Recent) {
            return 0;
        }
        match self.slots[self.slot(place, key)] {
            0 => now_ms.saturating_sub(self.made_ms),
            used => {
                let units = recent(now_ms).wrapping_sub(used);
                // The clock may have been set back.
                if units > u32::MAX / 2 { 0 } else { u64::from(units) << LRU_SHIFT }
            }
        }
    }

    /// How often a key is used: the counter, up to 255.
    pub(super) fn frequency(&self, place: usize, key: &[u8], now_ms: u64) -> u32 {
        match self.usage {
            Some(Usage::Frequent { decay_minutes, .. }) => {
                counter(self.slots[self.slot(place, key)], decay_minutes, now_ms)
            }
            _ => LFU_NEW,
        }
    }
}

/// The digest of a key of usual length takes a multiplication for each 8 bytes of it.
#[inline]
fn digest(place: u64, key: &[u8]) -> u64 {
    const USUAL_LEN: usize = 32;
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    if key.len() > USUAL_LEN {
        return xxh3_64_with_seed(key, place);
    }
    let mut digest = place ^ ((key.len() as u64) << 32);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        digest = (digest ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
    }
    for byte in rest {
        digest = digest.rotate_left(8) ^ u64::from(*byte);
    }
    // The slot is of the lowest bits.
    let product = digest.wrapping_mul(FACTOR);
    product ^ (product >> 32)
}

fn recent(now_ms: u64) -> u32 {
    ((now_ms >> LRU_SHIFT) as u32).max(1)
}

fn minute(now_ms: u64) -> u32 {
    (now_ms / MINUTE_MS) as u32 & 0xffff
}

fn frequent(counter: u32, now_ms: u64) -> u32 {
    LFU_KNOWN | minute(now_ms) << 8 | counter
}

/// The counter of a slot now.
fn counter(slot: u32, decay_minutes: u32, now_ms: u64) -> u32 {
    if slot & LFU_KNOWN == 0 {
        return LFU_NEW;
    }
    let minutes = minute(now_ms).wrapping_sub(slot >> 8) & 0xffff;
    (slot & 0xff).saturating_sub(minutes.checked_div(decay_minutes).unwrap_or(0))
}

fn rise(counter: u32, log_factor: u32, random: &mut Rng) -> u32 {
    let above = counter.saturating_sub(LFU_NEW);
    let chance = 1.0 / (f64::from(above) * f64::from(log_factor) + 1.0);
    if counter < 255 && random.f64() < chance { counter + 1 } else { counter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_idle_since_its_last_use() {
        let (mut clocks, mut random) = (Clocks::default(), Rng::with_seed(1));
        let now = 1_700_000_000_000;
        assert_eq!((clocks.idle_ms(0, b"a", now), clocks.bytes()), (0, 0));
        clocks.put((0, b"a"), Usage::Recent, now);
        clocks.touch((0, b"b"), Usage::Recent, now + 3200, &mut random);
        assert_eq!(clocks.idle_ms(0, b"a", now + 4800), 4800);
        assert_eq!(clocks.idle_ms(0, b"b", now + 4800), 1600);
        assert_eq!(clocks.idle_ms(0, b"new", now + 4800), 4800);
        assert_eq!(clocks.idle_ms(0, b"a", now - 1600), 0);
        clocks.fit(Some(100_000));
        assert_eq!(clocks.bytes(), 4 << 17);
        assert_eq!(clocks.idle_ms(0, b"b", now + 4800), 1600);
        clocks.forget(0, b"b");
        assert_eq!(clocks.idle_ms(0, b"b", now + 4800), 4800);
        clocks.set_idle((0, b"b"), 3200, now + 4800);
        assert_eq!(clocks.idle_ms(0, b"b", now + 4800), 3200);
        clocks.set_idle((0, b"b"), u64::MAX, now + 4800);
        assert!(clocks.idle_ms(0, b"b", now + 4800) > 1 << 34);
        clocks.fit(None);
        assert_eq!(clocks.bytes(), 4 << 12);
    }

    #[test]
    fn counters_rise_by_chance_and_fall_with_time() {
        let (mut clocks, mut random) = (Clocks::default(), Rng::with_seed(1));
        let usage = Usage::Frequent { log_factor: 10, decay_minutes: 1 };
        let now = 1_700_000_000_000;
        clocks.put((0, b"a"), usage, now);
        assert_eq!(clocks.frequency(0, b"a", now), 5);
        for _ in 0..1000 {
            clocks.touch((0, b"a"), usage, now, &mut random);
        }
        let often = clocks.frequency(0, b"a", now);
        assert!((15..40).contains(&often), "{often}");
        assert_eq!(clocks.frequency(0, b"a", now + 3 * MINUTE_MS), often - 3);
        assert_eq!(clocks.frequency(0, b"a", now + 1000 * MINUTE_MS), 0);
        clocks.put((0, b"a"), usage, now);
        assert_eq!(clocks.frequency(0, b"a", now), often);
        clocks.set_frequency((0, b"a"), 100, now);
        assert_eq!(clocks.frequency(0, b"a", now), 100);
        // Another kind of policy begins anew.
        clocks.touch((0, b"a"), Usage::Recent, now, &mut random);
        assert_eq!(clocks.frequency(0, b"a", now), 5);
    }
}
