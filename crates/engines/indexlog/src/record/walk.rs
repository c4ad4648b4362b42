//! The records of a block, one after the other.

use halite_blocks::log::frame;
use halite_contract::Result;

use super::Record;

/// Calls `visit` with place, record and footprint of every record of `bytes`, which holds nothing but records, from
/// offset `from` on.
///
/// # Errors
/// The damaged record, named.
pub(crate) fn each_record<'a>(
    bytes: &'a [u8],
    seed: u64,
    block: u32,
    from: u64,
    mut visit: impl FnMut(u64, Record<'a>, u64),
) -> Result<()> {
    let mut at = from;
    while at < bytes.len() as u64 {
        let (record, next) = record_at(bytes, seed, block, at)?;
        visit(at, record, next - at);
        at = next;
    }
    Ok(())
}

/// The record at `at`, and where the next one is.
pub(crate) fn record_at(bytes: &[u8], seed: u64, block: u32, at: u64) -> Result<(Record<'_>, u64)> {
    let rest = &bytes[at as usize..];
    let read = Record::read(rest, frame::place(seed, at));
    let read = read.and_then(|record| match record.next_at(at) {
        next if next <= bytes.len() as u64 => Ok((record, next)),
        _ => Err("the block's used part ends inside its padding"),
    });
    Ok(read.map_err(|why| super::damage(rest, block, at, why))?)
}
