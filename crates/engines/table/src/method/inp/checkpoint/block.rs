//! Blocks of a checkpoint, within its compressed stream.
//!
//! ```text
//! block   = length u32 | check of the length u32 | check of the payload u64 | payload
//! payload = 1 | position | catalog                  begin: the first block
//!         | 2 | table | (length | image)..          rows of a table
//!         | 3 | position | number of rows u64       end: the last one
//! position = sequence u64 | file u64 | bytes u64
//! ```
//!
//! Both checks are seeded with the store, the checkpoint's number and the block's, so that no block is taken for another
//! one. Table and lengths are varints.

use halite_codec::{Head, Reader, Result, Seed};

use crate::method::redo_log::Position;

pub(super) const BEGIN: u8 = 1;
pub(super) const ROWS: u8 = 2;
pub(super) const END: u8 = 3;

/// The head of the block with a number that has this payload.
///
/// # Panics
/// If it has 4 GiB or more: one row has less than 2.
pub(super) fn head(payload: &[u8], seed: Seed, number: u64) -> Head {
    let len = u32::try_from(payload.len()).expect("a block is below 4 GiB");
    let checksum = of_payload(seed, number).checksum(payload);
    Head { first: len, second: len_check(len, seed, number), checksum }
}

/// The length of the payload behind a head, if that is checked.
pub(super) fn len_of(head: Head, seed: Seed, number: u64) -> Option<u64> {
    let is_right = head.second == len_check(head.first, seed, number);
    is_right.then_some(head.first.into())
}

fn len_check(len: u32, seed: Seed, number: u64) -> u32 {
    seed.at(number).checksum(&len.to_le_bytes()) as u32
}

fn of_payload(seed: Seed, number: u64) -> Seed {
    Seed::new(!seed.at(number).bits())
}

pub(super) fn put_position(to: &mut Vec<u8>, Position { sequence, file, len }: Position) {
    for number in [sequence, file, len] {
        to.extend_from_slice(&number.to_le_bytes());
    }
}

pub(super) fn read_position(from: &mut Reader<'_>) -> Result<Position> {
    Ok(Position { sequence: from.u64()?, file: from.u64()?, len: from.u64()? })
}
