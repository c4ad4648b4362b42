//! Buffers at aligned addresses, and the alignment that direct I/O asks for.

use std::ops::{Deref, DerefMut};

/// The multiples that direct I/O asks for, in bytes: powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Of the address of a buffer.
    pub memory: usize,
    /// Of the place in the file, and of the length.
    pub offset: u64,
}

impl Alignment {
    /// The alignment that every device known accepts: a page.
    pub const PAGE: Self = Self { memory: 4096, offset: 4096 };

    /// Whether a write of so many bytes at `at` is aligned; their address is not looked at.
    #[must_use]
    pub fn fits(self, at: u64, len: u64) -> bool {
        at.is_multiple_of(self.offset) && len.is_multiple_of(self.offset)
    }

    /// Whether the address of a buffer is aligned.
    #[must_use]
    pub fn fits_memory(self, bytes: &[u8]) -> bool {
        bytes.as_ptr().addr().is_multiple_of(self.memory)
    }
}

/// Bytes at an aligned address: a buffer that direct I/O reads from and writes to without a copy.
pub struct AlignedBuffer {
    /// Longer than the buffer, as the allocator chooses the address. It never grows, so that the address stays.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` zeros, whose address is a multiple of `alignment`.
    ///
    /// # Panics
    /// If `alignment` is no power of two.
    #[must_use]
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        assert!(
            alignment.is_power_of_two(),
            "an alignment of {alignment} bytes is no power of two"
        );
        let bytes = vec![0; len + alignment - 1];
        let start = bytes.as_ptr().addr().next_multiple_of(alignment) - bytes.as_ptr().addr();
        Self { bytes, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_multiple_of_its_alignment_and_has_its_length() {
        for alignment in [1, 8, 512, 4096, 1 << 16] {
            for len in [0, 1, 511, 512, 70_000] {
                let mut buffer = AlignedBuffer::zeroed(len, alignment);
                assert_eq!((buffer.len(), buffer.as_ptr().addr() % alignment), (len, 0));
                assert!(buffer.iter().all(|&byte| byte == 0));
                buffer.fill(7);
                assert!(buffer.iter().all(|&byte| byte == 7));
            }
        }
    }

    #[test]
    fn an_alignment_covers_place_length_and_address() {
        let alignment = Alignment { memory: 4, offset: 512 };
        assert!(alignment.fits(0, 0) && alignment.fits(512, 1024));
        assert!(!alignment.fits(256, 512) && !alignment.fits(512, 256));
        let buffer = AlignedBuffer::zeroed(8, 4);
        assert!(alignment.fits_memory(&buffer) && !alignment.fits_memory(&buffer[1..]));
    }
}
