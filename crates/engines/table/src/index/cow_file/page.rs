//! Pages: their head, their seeds, and where they are.

use halite_codec::{CHECKSUM, Seed, check_front, put_front};

/// Bytes before the content of a page.
pub(super) const HEAD: usize = CHECKSUM + 1;

/// Bytes of the file before the first page that is not a master record's.
pub(super) const MASTERS: u64 = 8 << 10;

/// The kinds that are not levels of nodes.
pub(super) const CHAIN: u8 = 255;
pub(super) const MAP: u8 = 254;

/// The longest value in bytes.
pub const VALUE_LEN_MAX: usize = 1 << 20;

/// The pages of a file, by their numbers: page n begins at n times the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) len: usize,
    pub(super) seed: Seed,
}

impl Pages {
    /// Whether a page may have so many bytes.
    pub(super) fn is_len(len: usize) -> bool {
        len.is_power_of_two() && (256..=16 << 10).contains(&len)
    }

    pub(super) fn of(store_id: u128, len: usize) -> Self {
        Self { len, seed: Seed::of_store(store_id) }
    }

    pub(super) fn place(self, page: u32) -> u64 {
        u64::from(page) * self.len as u64
    }

    /// The first page behind the master records.
    pub(super) fn first(self) -> u32 {
        MASTERS.div_ceil(self.len as u64) as u32
    }

    /// Sets the checksum of a page.
    pub(super) fn seal(self, page: u32, bytes: &mut [u8]) {
        put_front(bytes, self.seed.at(page.into()));
    }

    /// The kind and the content of a page.
    pub(super) fn check(self, page: u32, bytes: &[u8]) -> Result<(u8, &[u8]), &'static str> {
        let behind = check_front(bytes, self.seed.at(page.into()))?;
        let (&kind, content) = behind.split_first().ok_or("it is empty")?;
        Ok((kind, content))
    }
}

/// A page with no content.
pub(super) fn blank(len: usize, kind: u8) -> Box<[u8]> {
    let mut bytes = vec![0; len].into_boxed_slice();
    bytes[CHECKSUM] = kind;
    bytes
}
