//! Blocks as they lie in a file: the stored bytes, and 16 bytes that check them.
//!
//! ```text
//! stored bytes
//!  0  compression  u8, and 3 bytes of zeros
//!  4  plain len    u32
//!  8  checksum     u64   xxh3 of the stored bytes, seeded with the first 8 of these 16, the seed of
//!                        the file and the block's offset: a block in a wrong place is damage
//! ```
//!
//! A block that is not compressed and would end shortly before the end of a page is stored with zeros behind it,
//! so that the next one begins with a page ([`padding`]): the disk is read by pages, and one that has a block is
//! enough.

use crate::compression::{BlockCompressor, Compression, unpack};
use crate::frame::{HEAD, Head};
use crate::{Error, Plain, Result, Seed};

/// Bytes behind each block.
pub const TRAILER: usize = HEAD;

/// Bytes that a disk reads at once.
const PAGE: usize = 4096;

/// Less than this may be left over of a page.
const LEFT_OVER: usize = PAGE / 8;

/// The longest block, in bytes: a value of 512 MiB, its key, and room to spare.
pub const BLOCK_LEN_MAX: usize = (512 << 20) + (1 << 20);

fn checksum(stored: &[u8], file: Seed, offset: u64, (code, plain_len): (u32, u32)) -> u64 {
    let head = u64::from(code) | u64::from(plain_len) << 32;
    file.at(offset).with(head).checksum(stored)
}

/// How many zeros are stored behind a block of so many bytes at an offset.
fn padding(len: usize, offset: u64) -> usize {
    let end = (offset % PAGE as u64) as usize + len + TRAILER;
    let left = end.next_multiple_of(PAGE) - end;
    if left < LEFT_OVER { left } else { 0 }
}

/// A block to be written at `offset` of a file: the stored bytes, and the trailer behind them.
///
/// # Panics
/// If the block is longer than [`BLOCK_LEN_MAX`].
pub fn seal<'a>(
    plain: &'a [u8],
    compression: Compression,
    compressor: &'a mut BlockCompressor,
    file: Seed,
    offset: u64,
) -> (&'a [u8], [u8; TRAILER]) {
    assert!(plain.len() <= BLOCK_LEN_MAX, "a block of {} bytes", plain.len());
    let padding = padding(plain.len(), offset);
    let (stored, used) = compressor.compress(plain, compression, padding);
    let (first, second) = (u32::from(used.code()), plain.len() as u32);
    let checksum = checksum(stored, file, offset, (first, second));
    (stored, Head { first, second, checksum }.bytes())
}

/// The block that `fill` reads: `len` bytes with the trailer behind them, from `offset` of its file. The
/// bytes of one that is not compressed are not copied.
///
/// # Errors
/// The error of `fill`, or what `unopened` makes of the block's defect: [`Error::TooLong`], [`Error::Checksum`],
/// [`Error::UnknownCompression`], [`Error::NotBuiltIn`], [`Error::WrongLength`], [`Error::ImpossibleLength`],
/// [`Error::NotDecompressed`].
pub fn unseal<E>(
    len: usize,
    file: Seed,
    offset: u64,
    fill: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    unopened: impl Fn(Error) -> E,
) -> std::result::Result<Plain, E> {
    if len > BLOCK_LEN_MAX + LEFT_OVER {
        return Err(unopened(Error::TooLong));
    }
    let bytes = Plain::filled(len + TRAILER, fill)?;
    let checked = check(&bytes, file, offset);
    let plain = checked.and_then(|(stored, trailer)| open(stored, trailer));
    plain.map_err(unopened).map(|opened| match opened {
        Opened::Plain(len) => bytes.cut(len),
        Opened::Decompressed(plain) => plain,
    })
}

/// The block that lies in `bytes`, the trailer at their end, and in its file at `offset`.
///
/// # Errors
/// [`Error::Truncated`] of bytes that have no trailer, and those of [`unseal`].
pub fn unseal_copy(bytes: &[u8], file: Seed, offset: u64) -> Result<Plain> {
    let (stored, trailer) = check(bytes, file, offset)?;
    Ok(match open(stored, trailer)? {
        Opened::Plain(len) => Plain::from(&stored[..len]),
        Opened::Decompressed(plain) => plain,
    })
}

/// The stored bytes, and the trailer, if the checksum is right.
fn check(bytes: &[u8], file: Seed, offset: u64) -> Result<(&[u8], Head)> {
    let (stored, trailer) = bytes.split_last_chunk::<TRAILER>().ok_or(Error::Truncated)?;
    let trailer = Head::of_bytes(trailer);
    match trailer.checksum == checksum(stored, file, offset, (trailer.first, trailer.second)) {
        true => Ok((stored, trailer)),
        false => Err(Error::Checksum),
    }
}

/// The stored form of a block.
enum Opened {
    /// The first so many bytes are it.
    Plain(usize),
    Decompressed(Plain),
}

fn open(stored: &[u8], trailer: Head) -> Result<Opened> {
    let plain_len = trailer.second as usize;
    match Compression::of_code(trailer.first as u8)? {
        Compression::None if (0..LEFT_OVER).contains(&stored.len().wrapping_sub(plain_len)) => {
            Ok(Opened::Plain(plain_len))
        }
        Compression::None => Err(Error::WrongLength),
        codec if !codec.is_built_in() => Err(Error::NotBuiltIn),
        codec if plain_len <= BLOCK_LEN_MAX => {
            Ok(Opened::Decompressed(unpack(stored, plain_len, codec)?))
        }
        _ => Err(Error::ImpossibleLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Seed = Seed::new(5);

    #[test]
    fn a_block_that_nearly_fills_a_page_fills_it() {
        let mut compressor = BlockCompressor::new();
        let mut end = |len: usize, offset| {
            let plain: Vec<u8> = (0..len).map(|n| ((n * n) >> 5) as u8).collect();
            let (stored, trailer) = seal(&plain, Compression::None, &mut compressor, FILE, offset);
            assert_eq!(
                unseal_copy(&[stored, &trailer].concat(), FILE, offset).unwrap()[..],
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
        let head = |second| Head { first: 0, second, checksum: 0 };
        assert!(open(&[0; 1000], head(1000 - 511)).is_ok());
        assert!(open(&[0; 1000], head(1000 - 512)).is_err() && open(&[0; 9], head(10)).is_err());
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn a_block_of_a_codec_that_this_build_is_without_is_not_called_damaged() {
        let (first, second) = (u32::from(Compression::Zstd.code()), 9);
        let checksum = checksum(&[7; 5], FILE, 0, (first, second));
        let bytes = [&[7; 5][..], &Head { first, second, checksum }.bytes()].concat();
        assert_eq!(unseal_copy(&bytes, FILE, 0).err(), Some(Error::NotBuiltIn));
        assert_eq!(unseal_copy(&bytes, Seed::new(2), 0).err(), Some(Error::Checksum));
    }

    #[test]
    fn a_block_is_found_damaged_wherever_a_bit_is_flipped_and_wherever_else_it_lies() {
        let mut compressor = BlockCompressor::new();
        let plain =
            b"some bytes, some bytes, some bytes, some bytes, and some more bytes".repeat(2);
        for compression in Compression::built_in() {
            let (stored, trailer) = seal(&plain, compression, &mut compressor, FILE, 4096);
            let sealed = [stored, &trailer].concat();
            let read = |bytes: &[u8], seed, offset| {
                let fill = |to: &mut [u8]| {
                    to.copy_from_slice(bytes);
                    Ok(())
                };
                unseal(bytes.len() - TRAILER, seed, offset, fill, |why| why)
            };
            assert_eq!(read(&sealed, FILE, 4096).unwrap()[..], plain[..]);
            assert_eq!(unseal_copy(&sealed, FILE, 4096).unwrap()[..], plain[..]);
            assert!(unseal_copy(&sealed, Seed::new(6), 4096).is_err());
            assert!(
                read(&sealed, Seed::new(6), 4096).is_err() && read(&sealed, FILE, 4097).is_err()
            );
            for bit in 0..sealed.len() * 8 {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&flipped, FILE, 4096).is_err(), "bit {bit}");
            }
        }
    }

    /// Tables of all versions have trailers of these bytes.
    #[test]
    fn the_stored_form_stays() {
        use xxhash_rust::xxh3::xxh3_64_with_seed;
        let mut compressor = BlockCompressor::new();
        let (stored, trailer) = seal(&[7; 500], Compression::Lz4, &mut compressor, FILE, 700);
        let head = 1 | 500_u64 << 32;
        let place = 700_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = 5 ^ place ^ head.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let checksum = xxh3_64_with_seed(stored, seed);
        assert_eq!(trailer, *[head.to_le_bytes(), checksum.to_le_bytes()].concat());
    }
}
