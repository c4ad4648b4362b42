//! The header of the segments of object pools and zones: the root of trust for the rest of the segment.

use halite_pmem::{LINE, Pool};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Error, Result};

/// The first bytes. The line ends show a transfer that took them for text.
const MAGIC: [u8; 8] = *b"Halloc\r\n";

/// The format that this program writes and reads.
const VERSION: u32 = 1;

/// Bytes of a header, padding included.
pub(crate) const HEADER_LEN: u64 = LINE;

/// The identity of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) device: u16,
    /// The logical number in the device.
    pub(crate) number: u32,
    /// Bytes of an object; zero in a zone.
    pub(crate) object_len: u32,
    /// Objects; zero in a zone.
    pub(crate) count: u32,
}

/// The stored form. Magic and version keep their places in every version.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stored {
    magic: [u8; 8],
    version: U32,
    device: U32,
    number: U32,
    object_len: U32,
    count: U32,
    reserved: U32,
    /// XXH3 of all bytes before, seeded with the pool's salt.
    checksum: U64,
}

impl Stored {
    fn sum(&self, salt: u64) -> u64 {
        let bytes = self.as_bytes();
        xxh3_64_with_seed(&bytes[..bytes.len() - size_of::<U64>()], salt)
    }
}

impl Header {
    /// The bytes, of which the last ones are padding.
    pub(crate) fn encode(&self, salt: u64) -> [u8; HEADER_LEN as usize] {
        let mut stored = Stored {
            magic: MAGIC,
            version: VERSION.into(),
            device: u32::from(self.device).into(),
            number: self.number.into(),
            object_len: self.object_len.into(),
            count: self.count.into(),
            reserved: 0.into(),
            checksum: 0.into(),
        };
        stored.checksum = stored.sum(salt).into();
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..size_of::<Stored>()].copy_from_slice(stored.as_bytes());
        bytes
    }

    /// Refuses a segment that does not begin with this header.
    pub(crate) fn check(&self, bytes: &[u8], pool: &Pool, salt: u64) -> Result<()> {
        let path = || pool.path().to_owned();
        let what = format!("device {}, segment {}", self.device, self.number);
        let foreign =
            |why: String| Err(Error::NotObjects { path: path(), what: what.clone(), why });
        let Ok((stored, _)) = Stored::ref_from_prefix(bytes) else {
            return foreign("it is too short for a header".into());
        };
        if stored.magic != MAGIC {
            return foreign("it does not begin as one".into());
        }
        if stored.version.get() != VERSION {
            let found = stored.version.get();
            return foreign(format!("it has version {found}, this program reads {VERSION}"));
        }
        let damaged =
            |why: &str| Err(Error::Damaged { path: path(), what: what.clone(), why: why.into() });
        if stored.checksum.get() != stored.sum(salt) {
            return damaged("the header does not have its checksum");
        }
        let (device, number) = (stored.device.get(), stored.number.get());
        if (device, number) != (self.device.into(), self.number) {
            return damaged(&format!("it has the header of device {device}, segment {number}"));
        }
        let (object_len, count) = (stored.object_len.get(), stored.count.get());
        if (object_len, count) != (self.object_len, self.count) {
            return foreign(format!(
                "it has {count} objects of {object_len} bytes, not {} of {}",
                self.count, self.object_len
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use halite_pmem::PoolOptions;

    use super::*;

    #[test]
    fn only_the_same_header_passes() {
        let mut options = PoolOptions::default();
        options.in_memory = true;
        let pool = Pool::create("memory".as_ref(), &options).unwrap();
        let header = Header { device: 3, number: 7, object_len: 128, count: 5 };
        let bytes = header.encode(11);
        header.check(&bytes, &pool, 11).unwrap();
        let refused =
            |header: Header, bytes: &[u8], salt| header.check(bytes, &pool, salt).unwrap_err();
        for other in [Header { device: 4, ..header }, Header { number: 8, ..header }] {
            let error = refused(other, &bytes, 11);
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
        }
        for other in [Header { object_len: 192, ..header }, Header { count: 6, ..header }] {
            let error = refused(other, &bytes, 11);
            assert!(matches!(error, Error::NotObjects { .. }), "{error}");
        }
        assert!(matches!(refused(header, &bytes, 12), Error::Damaged { .. }), "another pool's");
        for at in 0..size_of::<Stored>() {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            let error = refused(header, &bytes, 11);
            let is_foreign = matches!(error, Error::NotObjects { .. });
            assert_eq!(is_foreign, at < 12, "{at}: {error}");
        }
        assert!(matches!(refused(header, &bytes[..39], 11), Error::NotObjects { .. }));
    }
}
