//! A batch as it lies in a file; the format stands in the documentation of the crate.

use halite_codec::{CHECKSUM, Reader, Seed, check_front, put_front};
use halite_sim::planted;

/// Bytes of a batch before its payload.
pub const HEADER: usize = 24;

/// Where a batch's length is.
const LEN: usize = 20;

/// A batch that was read; with no record it is the end of its file.
pub struct Logged<'a> {
    /// The sequence of the first record.
    pub sequence: u64,
    /// How many records it has: sequences that it takes.
    pub records: u32,
    /// The bytes that its writer gave it.
    pub payload: &'a [u8],
}

impl Logged<'_> {
    /// Bytes that the batch takes in its file.
    pub(crate) fn len(&self) -> u64 {
        (HEADER + self.payload.len()) as u64
    }
}

/// Appends a batch to bytes of its file. Returns how many bytes it takes.
pub(crate) fn put(
    to: &mut Vec<u8>,
    seed: Seed,
    sequence: u64,
    records: u32,
    payload: impl FnOnce(&mut Vec<u8>),
) -> u64 {
    let start = to.len();
    to.extend_from_slice(&[0; CHECKSUM]);
    to.extend_from_slice(&sequence.to_le_bytes());
    to.extend_from_slice(&records.to_le_bytes());
    to.extend_from_slice(&[0; 4]);
    payload(to);
    let len = (to.len() - start - HEADER) as u32;
    to[start + LEN..start + HEADER].copy_from_slice(&len.to_le_bytes());
    put_front(&mut to[start..], seed);
    (to.len() - start) as u64
}

/// Appends the end of a file, behind which there is no batch: a batch of no record. Returns how many bytes it takes.
pub(crate) fn put_end(to: &mut Vec<u8>, seed: Seed, sequence: u64) -> u64 {
    put(to, seed, sequence, 0, |_| ())
}

/// The bytes that a batch with this header takes; not checked.
pub(crate) fn len(header: &[u8]) -> usize {
    HEADER + u32::from_le_bytes(header[LEN..HEADER].try_into().expect("4 bytes")) as usize
}

/// The batch at the start of `bytes`, or the end of the file, if it is whole and has no sequence above a limit.
pub(crate) fn read(bytes: &[u8], seed: Seed, sequence_max: u64) -> Option<Logged<'_>> {
    let mut reader = Reader(bytes.get(CHECKSUM..)?);
    let (sequence, records) = (reader.u64().ok()?, reader.u32().ok()?);
    let payload = reader.sized().ok()?;
    let batch = &bytes[..HEADER + payload.len()];
    let is_checked = planted!("wal.torn-log-taken", true, check_front(batch, seed).is_ok());
    let last = sequence.checked_add(records.into());
    let is_sane =
        (records > 0 || payload.is_empty()) && last.is_some_and(|last| last <= sequence_max);
    (is_checked && is_sane).then_some(Logged { sequence, records, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs of all versions have batches of these bytes.
    #[test]
    fn the_stored_form_stays_and_every_changed_bit_shows() {
        let seed = Seed::new(5);
        let mut bytes = b"before".to_vec();
        assert_eq!(put(&mut bytes, seed, 77, 3, |to| to.extend(b"payload")), 31);
        let batch = &bytes[6..];
        let fields = [&77_u64.to_le_bytes()[..], &[3, 0, 0, 0, 7, 0, 0, 0], b"payload"].concat();
        assert_eq!(*batch, *[&seed.checksum(&fields).to_le_bytes()[..], &fields].concat());
        assert_eq!(len(&batch[..HEADER]), batch.len());
        let read = |bytes: &[u8], max| read(bytes, seed, max).map(|batch| batch.payload.to_vec());
        assert_eq!(read(batch, 80), Some(b"payload".to_vec()));
        assert_eq!(read(&[batch, b"more"].concat(), 80), Some(b"payload".to_vec()));
        assert_eq!((read(batch, 79), read(&batch[..30], 80)), (None, None));
        for bit in 0..batch.len() * 8 {
            let mut flipped = batch.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped, u64::MAX), None, "bit {bit}");
        }
    }
}
