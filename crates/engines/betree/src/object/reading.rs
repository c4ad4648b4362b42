//! Reading an object in one state of its datasets.

use std::ops::Range;

use halite_contract::{Error, KeyRange, Result};

use super::keys::{chunk_key, chunk_of, fixed_key, name_key};
use super::limits::CHUNK_LEN;
use super::metadata::{Metadata, ObjectInfo};
use super::shared::Reader;
use crate::large::Wanted;
use crate::tree::lookup::FoundValue;

const CHUNK: u64 = CHUNK_LEN as u64;

/// The id of the object of a name.
pub(super) fn find(reader: &Reader, dataset: u32, name: &[u8]) -> Result<Option<u64>> {
    let value = reader.get(dataset, &name_key(name))?;
    value.map(|value| read_id(&value)).transpose()
}

/// A stored id. Zero is none.
pub(super) fn read_id(value: &[u8]) -> Result<u64> {
    let id = value.try_into().map(u64::from_le_bytes).ok().filter(|id| *id > 0);
    id.ok_or_else(|| Error::Damaged {
        what: "the name of an object".into(),
        why: "it has no id".into(),
    })
}

/// The fixed metadata of an object, if there is that.
pub(super) fn metadata_of(reader: &Reader, dataset: u32, id: u64) -> Result<Option<Metadata>> {
    let value = reader.get(dataset, &fixed_key(id))?;
    value.map(|value| Metadata::decode(id, &value)).transpose()
}

/// The state of an object, if there is that.
pub(super) fn info_of(reader: &Reader, dataset: u32, id: u64) -> Result<Option<ObjectInfo>> {
    Ok(metadata_of(reader, dataset, id)?.map(|metadata| metadata.info(id)))
}

/// Reads bytes from an offset on, which are all of the object: one chunk by a lookup, more by a scan, which finds where
/// they lie; then they are read side by side.
pub(super) fn read_range(
    reader: &Reader,
    dataset: u32,
    id: u64,
    offset: u64,
    to: &mut [u8],
) -> Result<()> {
    to.fill(0);
    let Some(behind) = (to.len() as u64).checked_sub(1) else { return Ok(()) };
    let (first, last) = ((offset / CHUNK) as u32, ((offset + behind) / CHUNK) as u32);
    if first == last {
        if let Some(value) = reader.get(dataset, &chunk_key(id, first))? {
            copy(first, &value, offset, to);
        }
        return Ok(());
    }
    let range = KeyRange::new(chunk_key(id, first), Some(chunk_key(id, last + 1).to_vec()));
    let (mut scan, mut large) = (reader.scan(dataset, &range), Vec::new());
    while let Some((key, found)) = scan.next_found()? {
        let chunk = chunk_of(&key).ok_or_else(|| Error::Damaged {
            what: format!("a chunk of object #{id}"),
            why: "its key has no number".into(),
        })?;
        match found {
            FoundValue::Value(value) => copy(chunk, &value, offset, to),
            FoundValue::Extents(value) => large.push((chunk, value)),
        }
    }
    let (mut rest, mut done) = (to, 0);
    let len = rest.len();
    let wanted = large.iter().map(|(chunk, large)| {
        let (from, within) = overlap(*chunk, large.len as usize, offset, len);
        let (_, behind) = std::mem::take(&mut rest).split_at_mut(within.start - done);
        let (to, behind) = behind.split_at_mut(within.len());
        (rest, done) = (behind, within.end);
        Wanted { large, from, to }
    });
    reader.read_large(wanted)
}

/// The bytes of a chunk, whose value has a length, that are in the range from `offset` on of a length: where they begin
/// in the value, and where they are in the range.
fn overlap(chunk: u32, value_len: usize, offset: u64, len: usize) -> (usize, Range<usize>) {
    let start = u64::from(chunk) * CHUNK;
    let from = offset.saturating_sub(start).min(CHUNK) as usize;
    let at = start.saturating_sub(offset).min(len as u64) as usize;
    let stored = value_len.min(CHUNK_LEN).saturating_sub(from);
    (from, at..at + stored.min(len - at))
}

/// Copies the bytes of a chunk that are in the range from `offset` on, of the length of `to`.
fn copy(chunk: u32, value: &[u8], offset: u64, to: &mut [u8]) {
    let (from, within) = overlap(chunk, value.len(), offset, to.len());
    let len = within.len();
    to[within].copy_from_slice(value.get(from..from + len).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_chunk_that_is_in_a_range_is_copied_and_nothing_else() {
        let value: Vec<u8> = (0..CHUNK_LEN + 9).map(|n| (n % 250) as u8 + 1).collect();
        for (len, offset, room) in [
            (CHUNK_LEN, CHUNK - 5, 3 * CHUNK_LEN),
            (CHUNK_LEN, CHUNK + 5, 10),
            (CHUNK_LEN, CHUNK + 5, 2 * CHUNK_LEN),
            (7, CHUNK + 5, 10),
            (3, CHUNK + 5, 10),
            (CHUNK_LEN + 9, CHUNK, 2 * CHUNK_LEN),
            (CHUNK_LEN, 0, CHUNK_LEN),
            (CHUNK_LEN, 2 * CHUNK, 5),
        ] {
            let mut to = vec![0; room];
            copy(1, &value[..len], offset, &mut to);
            for (at, byte) in to.into_iter().enumerate() {
                let of_chunk = (offset + at as u64).checked_sub(CHUNK).map(|at| at as usize);
                let expected = of_chunk.filter(|at| *at < len.min(CHUNK_LEN));
                assert_eq!(byte, expected.map_or(0, |at| value[at]), "{len} {offset} {at}");
            }
        }
    }
}
