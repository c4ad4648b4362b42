//! Where a record lies: an offset in the device of all memtables' zones.

use halite_alloc::SEGMENT;

/// Bytes of a zone: one segment of the pool.
pub(crate) const ZONE: u64 = SEGMENT;

/// Zones that a memtable has at the most: 2 GiB, so that the largest batch fits.
pub(crate) const ZONES_MAX: u32 = 1024;

/// Slots of memtables, in all trees together.
pub(crate) const SLOTS_MAX: u32 = 8192;

/// The place of a record: slot of the memtable, zone of that, offset in the zone. A multiple of 8, not zero:
/// a zone begins with a fragment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(u64);

impl Address {
    pub(crate) fn new(slot: u32, zone: u32, offset: u64) -> Self {
        debug_assert!(slot < SLOTS_MAX && zone < ZONES_MAX && offset < ZONE);
        Self(u64::from(logical(slot, zone)) * ZONE + offset)
    }

    /// The address that an index or a record has.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The slot; of untrusted bits, perhaps none that there is.
    pub(crate) fn slot(self) -> usize {
        (self.0 / ZONE / u64::from(ZONES_MAX)) as usize
    }

    pub(crate) fn zone(self) -> usize {
        (self.0 / ZONE % u64::from(ZONES_MAX)) as usize
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 % ZONE
    }
}

/// The logical segment of a memtable's zone.
pub(crate) fn logical(slot: u32, zone: u32) -> u32 {
    slot * ZONES_MAX + zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_parts() {
        let address = Address::new(SLOTS_MAX - 1, ZONES_MAX - 1, ZONE - 8);
        assert_eq!(address.slot(), SLOTS_MAX as usize - 1);
        assert_eq!(address.zone(), ZONES_MAX as usize - 1);
        assert_eq!(address.offset(), ZONE - 8);
        assert_eq!(Address::from_bits(address.to_bits()), address);
        assert!(address.to_bits() < 1 << 56, "an index keeps 56 bits");
    }
}
