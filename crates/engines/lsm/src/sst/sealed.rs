//! Blocks as they lie in a file: the stored bytes, and 16 bytes that check them.
//!
//! ```text
//! stored bytes
//!  0  compression  u8, and 3 bytes of zeros
//!  4  plain len    u32
//!  8  checksum     u64   xxh3 of the stored bytes, seeded with the first 8 of these 16, the store's id, the
//!                        table's number and the block's offset: a block in a wrong place is damage
//! ```
//!
//! A block that is not compressed and would end shortly before the end of a page is stored with zeros behind it,
//! so that the next one begins with a page ([`padding`]): the disk is read by pages, and one that has a block is
//! enough.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Parsed;
use super::cache::Plain;
use super::compression::{self, BlockCompressor, Compression, RATIO_MAX, decompress};

/// Bytes behind each block.
pub(crate) const TRAILER: usize = 16;

/// Bytes that a disk reads at once.
const PAGE: usize = 4096;

/// Less than this may be left over of a page.
const LEFT_OVER: usize = PAGE / 8;

/// The longest block, in bytes: a value of 512 MiB, its key, and room to spare.
pub(crate) const BLOCK_LEN_MAX: usize = (512 << 20) + (1 << 20);

/// The seed of a file's checksums: of the store's number and the file's own.
pub(crate) fn file_seed(store_id: u128, number: u64) -> u64 {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&store_id.to_le_bytes());
    bytes[16..].copy_from_slice(&number.to_le_bytes());
    xxh3_64(&bytes)
}

fn checksum(stored: &[u8], file_seed: u64, offset: u64, head: u64) -> u64 {
    // Odd multipliers keep offset and head apart from each other.
    let place = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seed = file_seed ^ place ^ head.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    xxh3_64_with_seed(stored, seed)
}

/// How many zeros are stored behind a block of so many bytes at an offset.
fn padding(len: usize, offset: u64) -> usize {
    let end = (offset % PAGE as u64) as usize + len + TRAILER;
    let left = end.next_multiple_of(PAGE) - end;
    if left < LEFT_OVER { left } else { 0 }
}

/// A block to be written: the bytes, and the trailer behind them.
pub(crate) fn seal<'a>(
    plain: &'a [u8],
    compression: Compression,
    compressor: &'a mut BlockCompressor,
    file_seed: u64,
    offset: u64,
) -> (&'a [u8], [u8; TRAILER]) {
    assert!(plain.len() <= BLOCK_LEN_MAX, "a block of {} bytes", plain.len());
    let padding = padding(plain.len(), offset);
    let (stored, used) = compressor.compress(plain, compression, padding);
    let head = u64::from(compression::code(used)) | (plain.len() as u64) << 32;
    let mut trailer = [0; TRAILER];
    trailer[..8].copy_from_slice(&head.to_le_bytes());
    trailer[8..].copy_from_slice(&checksum(stored, file_seed, offset, head).to_le_bytes());
    (stored, trailer)
}

/// The block that `fill` reads: `len` bytes with the trailer behind them, from `offset` of its file. The
/// bytes of one that is not compressed are not copied.
pub(crate) fn unseal<E>(
    len: usize,
    file_seed: u64,
    offset: u64,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    unopened: impl Fn(Unopened) -> E,
) -> Result<Plain, E> {
    if len > BLOCK_LEN_MAX + LEFT_OVER {
        return Err(unopened("it is longer than any block".into()));
    }
    let bytes = Plain::filled(len + TRAILER, fill)?;
    let checked = check(&bytes, file_seed, offset).map_err(Unopened::Damaged);
    let plain = checked.and_then(|(stored, head)| open(stored, head));
    plain.map_err(unopened).map(|opened| match opened {
        Opened::Plain(len) => bytes.cut(len),
        Opened::Decompressed(plain) => plain,
    })
}

/// The block that lies in `bytes`, the trailer at their end, and in its file at `offset`.
pub(crate) fn unseal_copy(bytes: &[u8], file_seed: u64, offset: u64) -> Result<Plain, Unopened> {
    let (stored, head) = check(bytes, file_seed, offset)?;
    Ok(match open(stored, head)? {
        Opened::Plain(len) => Plain::from(&stored[..len]),
        Opened::Decompressed(plain) => plain,
    })
}

/// The stored bytes, and the trailer's first half, if the checksum is right.
fn check(bytes: &[u8], file_seed: u64, offset: u64) -> Parsed<(&[u8], u64)> {
    let (stored, trailer) = bytes.split_at(bytes.len() - TRAILER);
    let head = u64::from_le_bytes(trailer[..8].try_into().expect("8 bytes"));
    match trailer[8..] == checksum(stored, file_seed, offset, head).to_le_bytes() {
        true => Ok((stored, head)),
        false => Err("its checksum is wrong"),
    }
}

/// Why a block is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It is damaged, and why.
    Damaged(&'static str),
    /// It is compressed with a codec that this build does not have.
    NotBuiltIn,
}

impl From<&'static str> for Unopened {
    fn from(what: &'static str) -> Self {
        Self::Damaged(what)
    }
}

/// The stored form of a block.
enum Opened {
    /// The first so many bytes are it.
    Plain(usize),
    Decompressed(Plain),
}

fn open(stored: &[u8], head: u64) -> Result<Opened, Unopened> {
    let plain_len = (head >> 32) as usize;
    match compression::of_code(head as u8)? {
        Compression::None if (0..LEFT_OVER).contains(&stored.len().wrapping_sub(plain_len)) => {
            Ok(Opened::Plain(plain_len))
        }
        Compression::None => Err("its length is not what it says".into()),
        codec if !compression::is_built_in(codec) => Err(Unopened::NotBuiltIn),
        codec if plain_len <= (stored.len() * RATIO_MAX).min(BLOCK_LEN_MAX) => {
            let plain = Plain::filled(plain_len, |plain| decompress(stored, plain, codec));
            Ok(Opened::Decompressed(plain?))
        }
        _ => Err("it says that it is longer than it can be".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_nearly_fills_a_page_fills_it() {
        let mut compressor = BlockCompressor::new();
        let mut end = |len: usize, offset| {
            let plain: Vec<u8> = (0..len).map(|n| ((n * n) >> 5) as u8).collect();
            let (stored, trailer) = seal(&plain, Compression::None, &mut compressor, 5, offset);
            assert_eq!(
                unseal_copy(&[stored, &trailer].concat(), 5, offset).unwrap()[..],
                plain[..]
            );
            offset + (stored.len() + TRAILER) as u64
        };
        assert_eq!(end(3000, 0), 3016);
        assert_eq!(end(4096 - 16, 0), 4096);
        assert_eq!(end(3700, 4096), 8192);
        assert_eq!(end(3000, 700), 4096);
        assert_eq!(end(4096, 0), 4112, "it is left, though it is little over a page");
        assert_eq!(end(8000, 0), 8192);
        let head = |len: u64| len << 32;
        assert!(open(&[0; 1000], head(1000 - 511)).is_ok());
        assert!(open(&[0; 1000], head(1000 - 512)).is_err() && open(&[0; 9], head(10)).is_err());
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn a_block_of_a_codec_that_this_build_is_without_is_not_called_damaged() {
        let head = u64::from(compression::code(Compression::Zstd)) | 9 << 32;
        let mut bytes = vec![7; 5];
        bytes.extend(head.to_le_bytes());
        bytes.extend(checksum(&[7; 5], 1, 0, head).to_le_bytes());
        assert_eq!(unseal_copy(&bytes, 1, 0).err(), Some(Unopened::NotBuiltIn));
        assert!(matches!(unseal_copy(&bytes, 2, 0), Err(Unopened::Damaged(_))));
    }

    #[test]
    fn a_block_is_found_damaged_wherever_a_bit_is_flipped_and_wherever_else_it_lies() {
        let mut compressor = BlockCompressor::new();
        let plain =
            b"some bytes, some bytes, some bytes, some bytes, and some more bytes".repeat(2);
        for compression in compression::built_in() {
            let (stored, trailer) = seal(&plain, compression, &mut compressor, 5, 4096);
            let sealed = [stored, &trailer].concat();
            let read = |bytes: &[u8], seed, offset| {
                let fill = |to: &mut [u8]| {
                    to.copy_from_slice(bytes);
                    Ok(())
                };
                unseal(bytes.len() - TRAILER, seed, offset, fill, |why| why)
            };
            assert_eq!(read(&sealed, 5, 4096).unwrap()[..], plain[..]);
            assert_eq!(unseal_copy(&sealed, 5, 4096).unwrap()[..], plain[..]);
            assert!(unseal_copy(&sealed, 6, 4096).is_err());
            assert!(read(&sealed, 6, 4096).is_err() && read(&sealed, 5, 4097).is_err());
            for bit in 0..sealed.len() * 8 {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&flipped, 5, 4096).is_err(), "bit {bit}");
            }
        }
    }
}
