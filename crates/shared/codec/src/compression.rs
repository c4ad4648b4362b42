//! The compression of blocks.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::{Error, Plain, Result};
use zstandard::Zstandard;

/// How blocks are compressed. Each block names its own compression: earlier ones stay unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: fast; compressible data shrinks to about half.
    #[default]
    Lz4,
    /// Zstandard, level 3: smaller, and several times slower. Only in builds with the feature `zstd`, which
    /// needs a C compiler: other builds refuse to write it ([`Compression::is_built_in`]), and blocks compressed with
    /// it, by [`Error::NotBuiltIn`].
    Zstd,
}

impl Compression {
    /// Whether this build has the codec: Zstandard is a library in C, and there by the feature `zstd` alone.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        self != Self::Zstd || cfg!(feature = "zstd")
    }

    /// All codecs that this build has.
    #[cfg(test)]
    pub(crate) fn built_in() -> impl Iterator<Item = Self> {
        [Self::None, Self::Lz4, Self::Zstd].into_iter().filter(|codec| codec.is_built_in())
    }

    /// The code of the codec, as it is stored beside a block.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    /// The codec of a code.
    ///
    /// # Errors
    /// [`Error::UnknownCompression`].
    pub fn of_code(code: u8) -> Result<Self> {
        Ok(match code {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd,
            _ => return Err(Error::UnknownCompression),
        })
    }
}

#[cfg(feature = "zstd")]
mod zstandard {
    use std::cell::RefCell;

    use zstd::bulk::{Compressor, Decompressor};

    /// A compressor, made when it is first used.
    #[derive(Default)]
    pub(super) struct Zstandard(Option<Compressor<'static>>);

    impl Zstandard {
        /// Compresses into `out`; how long that is then.
        pub(super) fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Option<usize> {
            out.resize(zstd::zstd_safe::compress_bound(plain.len()), 0);
            if self.0.is_none() {
                self.0 = Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).ok();
            }
            self.0.as_mut()?.compress_to_buffer(plain, &mut out[..]).ok()
        }
    }

    pub(super) fn decompress(stored: &[u8], plain: &mut [u8]) -> Option<usize> {
        thread_local! {
            static KEPT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
        }
        KEPT.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Decompressor::new().ok();
            }
            kept.as_mut()?.decompress_to_buffer(stored, plain).ok()
        })
    }
}

#[cfg(not(feature = "zstd"))]
mod zstandard {
    /// A store that is to have it does not open, and a block that has it is refused before.
    #[derive(Default)]
    pub(super) struct Zstandard;

    impl Zstandard {
        pub(super) fn compress(&mut self, _plain: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
            None
        }
    }

    pub(super) fn decompress(_stored: &[u8], _plain: &mut [u8]) -> Option<usize> {
        None
    }
}

/// No block shrinks to less than one in so many: what LZ4 cannot exceed. A reader allocates no more than
/// that for what it has read.
pub(crate) const RATIO_MAX: usize = 255;

/// The state of a compressor that is kept from one block to the next.
pub struct BlockCompressor {
    zstd: Zstandard,
    small: CompressTable,
    large: CompressTable,
    out: Vec<u8>,
}

impl Default for BlockCompressor {
    fn default() -> Self {
        let (small, large) = (CompressTable::small(), CompressTable::large());
        Self { zstd: Default::default(), small, large, out: Vec::new() }
    }
}

impl BlockCompressor {
    /// A compressor that has no buffer yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of a block whose compression, length and checksum are stored elsewhere, and how they are compressed:
    /// not at all if that saves less than an eighth. [`unpack`] reads them.
    pub fn pack<'a>(&'a mut self, plain: &'a [u8], wanted: Compression) -> (&'a [u8], Compression) {
        self.compress(plain, wanted, 0)
    }

    /// The bytes of a block that is to be stored, and how they are compressed: not at all if that saves
    /// less than an eighth, for which it is not worth to decompress at each read. Then so many zeros follow.
    pub(crate) fn compress<'a>(
        &'a mut self,
        plain: &'a [u8],
        wanted: Compression,
        padding: usize,
    ) -> (&'a [u8], Compression) {
        // A buffer for a value of hundreds of megabytes is not kept for blocks of 4 KiB.
        if self.out.capacity() > 16 * (plain.len() + (64 << 10)) {
            self.out = Vec::new();
        }
        let (mut len, mut used) = (None, wanted);
        if wanted == Compression::Zstd {
            len = self.zstd.compress(plain, &mut self.out);
            if len.is_some_and(|len| len * RATIO_MAX < plain.len()) {
                used = Compression::Lz4;
            }
        }
        if used == Compression::Lz4 {
            len = self.lz4(plain);
        }
        match len {
            Some(len) if len <= plain.len() - plain.len() / 8 && len < plain.len() => {
                (&self.out[..len], used)
            }
            _ if padding > 0 => {
                self.out.clear();
                self.out.extend_from_slice(plain);
                self.out.resize(plain.len() + padding, 0);
                (&self.out, Compression::None)
            }
            _ => (plain, Compression::None),
        }
    }

    fn lz4(&mut self, plain: &[u8]) -> Option<usize> {
        self.out.resize(get_maximum_output_size(plain.len()), 0);
        let is_small = plain.len() < usize::from(u16::MAX);
        let table = if is_small { &mut self.small } else { &mut self.large };
        compress_into_with_table(plain, &mut self.out, table).ok()
    }
}

/// Decompresses `stored` into exactly all of `plain`.
pub(crate) fn decompress(stored: &[u8], plain: &mut [u8], codec: Compression) -> Result<()> {
    let len = match codec {
        Compression::None => None,
        Compression::Lz4 => lz4_flex::block::decompress_into(stored, plain).ok(),
        Compression::Zstd => zstandard::decompress(stored, plain),
    };
    match len {
        Some(len) if len == plain.len() => Ok(()),
        _ => Err(Error::NotDecompressed),
    }
}

/// The block of `plain_len` bytes that [`BlockCompressor::pack`] stored so. No more is allocated than the stored bytes can
/// decompress to.
///
/// # Errors
/// [`Error::NotBuiltIn`], [`Error::WrongLength`], [`Error::ImpossibleLength`], [`Error::NotDecompressed`].
pub fn unpack(stored: &[u8], plain_len: usize, codec: Compression) -> Result<Plain> {
    match codec {
        Compression::None if stored.len() == plain_len => Ok(Plain::from(stored)),
        Compression::None => Err(Error::WrongLength),
        codec if !codec.is_built_in() => Err(Error::NotBuiltIn),
        codec if plain_len <= stored.len().saturating_mul(RATIO_MAX) => {
            Plain::filled(plain_len, |plain| decompress(stored, plain, codec))
        }
        _ => Err(Error::ImpossibleLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all sorts come back, and none is stored in less than a reader would allow for.
    #[test]
    fn what_is_compressed_comes_back() {
        let mut compressor = BlockCompressor::new();
        let noise: Vec<u8> =
            (0..9000_u64).map(|n| ((n * n * n) >> 7) as u8 ^ (n * 31) as u8).collect();
        let blocks = [vec![], vec![7], vec![0; 5 << 20], b"the same again ".repeat(300), noise];
        for wanted in Compression::built_in() {
            for plain in &blocks {
                let (stored, used) = compressor.pack(plain, wanted);
                assert_eq!(unpack(stored, plain.len(), used).as_deref(), Ok(&plain[..]));
                assert!(unpack(stored, plain.len() + 1, used).is_err());
                assert!(unpack(stored, usize::MAX, used).is_err());
                if used == Compression::None {
                    assert_eq!(stored, plain);
                    continue;
                }
                assert!(stored.len() < plain.len() && plain.len() <= stored.len() * RATIO_MAX);
                let mut back = vec![1; plain.len()];
                assert_eq!(decompress(stored, &mut back, used), Ok(()));
                assert_eq!(&back, plain);
                assert!(decompress(stored, &mut back[1..], used).is_err());
                assert!(decompress(&stored[1..], &mut back, used).is_err());
            }
        }
        if !Compression::Zstd.is_built_in() {
            return;
        }
        assert_eq!(compressor.compress(&blocks[2], Compression::Zstd, 0).1, Compression::Lz4);
        assert_eq!(compressor.compress(&blocks[3], Compression::Zstd, 0).1, Compression::Zstd);
    }
}
