//! The fixed metadata of an object.
//!
//! ```text
//!  0  size        u64   bytes of the object
//!  8  mtime       u64   nanoseconds since 1970
//! 16  preference  u8
//! 17  pattern     u8
//! ```
//!
//! **The rule of size and mtime.** Every change of an object replaces its fixed metadata whole. The new one is made in the
//! change's turn, of that which the change before has left: so the size is the largest end of all writes since the last
//! truncation, and the time never goes back, with as many writers as there may be. There is nothing to merge, and so no
//! second rule that might differ.

use std::time::{Duration, SystemTime};

pub use halite_contract::{AccessPattern, ObjectInfo, Preference};
use halite_contract::{Error, Result};

use super::limits::OBJECT_LEN_MAX;
use crate::placement::PREFERENCES;

/// Bytes of encoded fixed metadata.
const LEN: usize = 18;

const PATTERNS: [AccessPattern; 5] = [
    AccessPattern::Unknown,
    AccessPattern::ReadMostly,
    AccessPattern::WriteMostly,
    AccessPattern::Sequential,
    AccessPattern::Random,
];

/// Fixed metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Metadata {
    pub(super) size: u64,
    /// In nanoseconds since 1970.
    pub(super) mtime: u64,
    pub(super) preference: Preference,
    pub(super) access_pattern: AccessPattern,
}

/// A time as it is stored. All before 1970, and after 2554, are one.
pub(super) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Metadata {
    pub(super) fn encode(self) -> [u8; LEN] {
        let mut to = [0; LEN];
        to[..8].copy_from_slice(&self.size.to_le_bytes());
        to[8..16].copy_from_slice(&self.mtime.to_le_bytes());
        to[16] = self.preference as u8;
        to[17] = self.access_pattern as u8;
        to
    }

    /// Reads the metadata of an object.
    pub(super) fn decode(id: u64, bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes).ok_or_else(|| Error::Damaged {
            what: format!("the metadata of object #{id}"),
            why: "it is none".into(),
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (size, mtime) = (number(0), number(8));
        let preference = *PREFERENCES.get(usize::from(bytes[16]))?;
        let access_pattern = *PATTERNS.get(usize::from(bytes[17]))?;
        let metadata = Self { size, mtime, preference, access_pattern };
        (size <= OBJECT_LEN_MAX).then_some(metadata)
    }

    /// The metadata behind a change of the bytes at a time.
    pub(super) fn changed(self, size: u64, now: u64) -> Self {
        Self { size, mtime: self.mtime.max(now), ..self }
    }

    pub(super) fn info(self, id: u64) -> ObjectInfo {
        let Self { size, mtime, preference, access_pattern } = self;
        let mtime = SystemTime::UNIX_EPOCH + Duration::from_nanos(mtime);
        ObjectInfo { id, size, mtime, preference, access_pattern }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn metadata_comes_back_and_damage_is_found_or_harmless(
            size in 0..=OBJECT_LEN_MAX,
            mtime in any::<u64>(),
            (preference, access_pattern) in (0_usize..5, 0_usize..5),
            (at, byte) in (0..LEN, any::<u8>()),
        ) {
            let (preference, access_pattern) = (PREFERENCES[preference], PATTERNS[access_pattern]);
            let metadata = Metadata { size, mtime, preference, access_pattern };
            let mut bytes = metadata.encode();
            prop_assert_eq!(Metadata::decode(1, &bytes).unwrap(), metadata);
            prop_assert!(Metadata::decode(1, &bytes[..LEN - 1]).is_err());
            prop_assert_eq!(nanoseconds(metadata.info(1).mtime), mtime);
            bytes[at] = byte;
            if let Ok(damaged) = Metadata::decode(1, &bytes) {
                prop_assert!(damaged.size <= OBJECT_LEN_MAX);
            }
        }
    }

    #[test]
    fn a_time_never_goes_back_and_times_out_of_range_are_the_last_ones() {
        let metadata = Metadata { mtime: 7, ..Metadata::default() };
        assert_eq!((metadata.changed(3, 5).mtime, metadata.changed(3, 9).mtime), (7, 9));
        assert_eq!(nanoseconds(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(nanoseconds(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)), u64::MAX);
    }
}
