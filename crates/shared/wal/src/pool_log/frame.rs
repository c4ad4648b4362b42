//! Frames of a log on a pool, and the header of its segments. All of them begin with a line, and are padded to lines.
//!
//! ```text
//!  header of a segment                          frame
//!   0  magic    u64  "halitWAL"                  0  check     u64  xxh3 of all that follows, mixed with the seed
//!   8  version  u64                              8  sequence  u64  of the batch's first record
//!  16  number   u64                             16  lag       u32  sequence - lag: everything below was durable
//!  24  salt     u64  of this use                20  records   u32  of the batch
//!  32  check    u64                             24  len       u32  bytes that follow the header
//!                                               28  left      u32  bytes of the batch in the frames behind
//!                                               32  salt      u64  of the next segment, if left > 0
//!                                                   payload
//! ```
//!
//! A frame without records is a mark: with `left` 0 the *end* of its segment, which is followed by the salt of the next
//! one; with `left` 1 a *resumption*, behind which the frames are those of another life of the log. The `sequence` of
//! a mark is that of the next batch, and its lag states nothing.
//!
//! The seed has the store's id, the segment's number, the salt of the life and the offset in it. So a frame is valid
//! in one place, of one use of a segment, in one life: bytes of an earlier use are none, and neither are those that a
//! crash tore once the log was resumed.

use halite_codec::{CHECKSUM, Reader, Seed};

/// Bytes of a line, which every frame begins with.
pub(super) const LINE: usize = halite_pmem::LINE as usize;

/// Bytes of a frame before its payload.
pub(super) const HEADER: usize = 32;

/// Bytes of a salt.
pub(super) const SALT: usize = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"halitWAL");
const VERSION: u64 = 1;

/// The `left` of marks.
const END: u32 = 0;
const RESUMPTION: u32 = 1;

/// The lag of a frame that states nothing.
const LAG_UNKNOWN: u32 = u32::MAX;

/// The use of a segment, in one life of the log: what its frames' checks are seeded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// Of the store and the segment.
    segment: u64,
    pub(super) salt: u64,
}

impl Life {
    pub(super) fn new(store_id: u128, number: u32, salt: u64) -> Self {
        Self { segment: Seed::of_file(store_id, number.into()).bits(), salt }
    }

    /// The life that a resumption at this offset begins. It needs no number of its own: a life is resumed at one
    /// offset at most, as the next resumption lies behind that one.
    pub(super) fn resumed(self, at: u64) -> Self {
        Self { salt: Seed::new(self.salt).at(at).checksum(b"resumed"), ..self }
    }

    /// The check of a frame's bytes behind the check, at an offset.
    fn check(self, at: u64, bytes: &[u8]) -> u64 {
        Seed::NONE.checksum(bytes) ^ Seed::new(self.segment ^ self.salt).at(at).bits()
    }
}

/// The first line of a segment.
pub(super) fn header(store_id: u128, number: u32, salt: u64) -> [u8; LINE] {
    let mut line = [0; LINE];
    let words = [MAGIC, VERSION, number.into(), salt];
    line[..32].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
    let check = Seed::of_file(store_id, number.into()).checksum(&line[..32]);
    line[32..40].copy_from_slice(&check.to_le_bytes());
    line
}

/// The salt of a segment that begins with its header.
pub(super) fn salt(bytes: &[u8], store_id: u128, number: u32) -> Option<u64> {
    let salt = u64::from_le_bytes(*bytes.get(24..)?.first_chunk()?);
    (*bytes.get(..LINE)? == header(store_id, number, salt)).then_some(salt)
}

/// The fields that a batch's frames have alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    /// The sequence below which everything was durable when the frame was written; at most its own.
    pub(super) durable: u64,
    pub(super) records: u32,
}

/// A frame of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) batch: Batch,
    pub(super) payload: &'a [u8],
    /// Bytes of the payload that follow, and the salt of the segment that they are in.
    pub(super) goes_on: Option<(u32, u64)>,
}

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame<'a> {
    Part(Part<'a>),
    /// The log goes on in the next segment, which has this salt.
    End {
        sequence: u64,
        salt: u64,
    },
    /// The log goes on behind it in another life.
    Resumption {
        sequence: u64,
    },
}

/// Bytes that a frame takes, for so many behind its header.
pub(super) fn footprint(len: usize) -> usize {
    (HEADER + len).next_multiple_of(LINE)
}

/// Completes a frame: `bytes` are room for the header, and all that follows it. Pads it to lines.
fn seal(bytes: &mut Vec<u8>, life: Life, at: u64, batch: Batch, left: u32) {
    let len = (bytes.len() - HEADER) as u32;
    let lag = u32::try_from(batch.sequence - batch.durable).unwrap_or(LAG_UNKNOWN);
    bytes[8..16].copy_from_slice(&batch.sequence.to_le_bytes());
    let words = [lag, batch.records, len, left];
    bytes[16..HEADER].copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
    let check = life.check(at, &bytes[CHECKSUM..]);
    bytes[..CHECKSUM].copy_from_slice(&check.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(LINE), 0);
}

/// Completes the only frame of a batch: `bytes` are room for the header, and the payload.
pub(super) fn seal_whole(bytes: &mut Vec<u8>, life: Life, at: u64, batch: Batch) {
    seal(bytes, life, at, batch, 0);
}

/// Makes `bytes` a frame of a batch that has others.
pub(super) fn put_part(bytes: &mut Vec<u8>, life: Life, at: u64, part: &Part<'_>) {
    bytes.clear();
    bytes.resize(HEADER, 0);
    if let Some((_, salt)) = part.goes_on {
        bytes.extend_from_slice(&salt.to_le_bytes());
    }
    bytes.extend_from_slice(part.payload);
    seal(bytes, life, at, part.batch, part.goes_on.map_or(0, |(left, _)| left));
}

/// The end of a segment, behind which the next batch lies in a segment of this salt.
pub(super) fn end(life: Life, at: u64, sequence: u64, salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes.extend_from_slice(&salt.to_le_bytes());
    seal(&mut bytes, life, at, Batch { sequence, durable: sequence, records: 0 }, END);
    bytes
}

/// A resumption.
pub(super) fn resumption(life: Life, at: u64, sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    seal(&mut bytes, life, at, Batch { sequence, durable: sequence, records: 0 }, RESUMPTION);
    bytes
}

/// Bytes behind the header of the frame at an offset, as it says, if they are inside.
pub(super) fn len(bytes: &[u8], at: u64) -> Option<usize> {
    let mut header = Reader(bytes.get(usize::try_from(at).ok()?..)?);
    header.take(24).ok()?;
    let len = header.u32().ok()? as usize;
    header.u32().ok()?;
    (len <= header.0.len()).then_some(len)
}

/// The frame at an offset of a segment's bytes, if there is a whole one of this life.
pub(super) fn read(bytes: &[u8], life: Life, at: u64) -> Option<Frame<'_>> {
    let len = len(bytes, at)?;
    let bytes = &bytes[at as usize..][..HEADER + len];
    let mut reader = Reader(bytes);
    if reader.u64().ok()? != life.check(at, &bytes[CHECKSUM..]) {
        return None;
    }
    let sequence = reader.u64().ok()?;
    let (lag, records) = (reader.u32().ok()?, reader.u32().ok()?);
    let (_, left) = (reader.u32().ok()?, reader.u32().ok()?);
    if records == 0 {
        return match (left, len) {
            (END, SALT) => Some(Frame::End { sequence, salt: reader.u64().ok()? }),
            (RESUMPTION, 0) => Some(Frame::Resumption { sequence }),
            _ => None,
        };
    }
    let durable = if lag == LAG_UNKNOWN { 0 } else { sequence.checked_sub(lag.into())? };
    sequence.checked_add(records.into())?;
    let goes_on = if left > 0 { Some((left, reader.u64().ok()?)) } else { None };
    let batch = Batch { sequence, durable, records };
    Some(Frame::Part(Part { batch, payload: reader.0, goes_on }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 128;
    const BATCH: Batch = Batch { sequence: 77, durable: 70, records: 3 };

    fn life() -> Life {
        Life::new(5, 9, 0x1234)
    }

    /// A segment with a frame.
    fn segment(frame: &[u8]) -> Vec<u8> {
        [&[7; AT as usize][..], frame, &[7; 64]].concat()
    }

    fn frames() -> [Vec<u8>; 4] {
        let (mut whole, mut part) = ([&[0; HEADER][..], b"payload"].concat(), Vec::new());
        seal_whole(&mut whole, life(), AT, BATCH);
        let goes_on = Some((500, 0xfeed));
        put_part(&mut part, life(), AT, &Part { batch: BATCH, payload: b"first", goes_on });
        [whole, part, end(life(), AT, 80, 0xfeed), resumption(life(), AT, 80)]
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let [whole, part, end, resumption] = frames().map(|frame| {
            assert_eq!(frame.len() % LINE, 0);
            segment(&frame)
        });
        let Some(Frame::Part(part_of)) = read(&whole, life(), AT) else { panic!() };
        assert_eq!((part_of.payload, part_of.goes_on), (&b"payload"[..], None));
        let Batch { sequence, durable, records } = part_of.batch;
        assert_eq!((sequence, durable, records), (77, 70, 3));
        let Some(Frame::Part(part_of)) = read(&part, life(), AT) else { panic!() };
        assert_eq!((part_of.payload, part_of.goes_on), (&b"first"[..], Some((500, 0xfeed))));
        let is_end = |frame| matches!(frame, Some(Frame::End { sequence: 80, salt: 0xfeed }));
        assert!(is_end(read(&end, life(), AT)));
        let frame = read(&resumption, life(), AT);
        assert!(matches!(frame, Some(Frame::Resumption { sequence: 80 })));
    }

    #[test]
    fn every_changed_bit_and_every_other_place_shows() {
        for frame in frames() {
            let bytes = segment(&frame);
            let len = HEADER + len(&bytes, AT).unwrap();
            for bit in 0..len * 8 {
                let mut flipped = bytes.clone();
                flipped[AT as usize + bit / 8] ^= 1 << (bit % 8);
                assert!(read(&flipped, life(), AT).is_none(), "bit {bit}");
            }
            let moved = [&[7; LINE][..], &bytes].concat();
            assert!(read(&moved, life(), AT + LINE as u64).is_none());
            for other in [Life::new(6, 9, 0x1234), Life::new(5, 8, 0x1234), Life::new(5, 9, 0x1235)]
            {
                assert!(read(&bytes, other, AT).is_none());
            }
            assert!(read(&bytes, life().resumed(64), AT).is_none());
            for len in 0..AT as usize + len {
                assert!(read(&bytes[..len], life(), AT).is_none());
            }
        }
        assert!(
            read(&[0; 4096], life(), AT).is_none() && read(&[0; 64], life(), u64::MAX).is_none()
        );
    }

    #[test]
    fn a_header_is_that_of_its_segment_alone() {
        let line = header(5, 9, 0x1234);
        assert_eq!(salt(&line, 5, 9), Some(0x1234));
        assert!(
            salt(&line, 5, 8).is_none()
                && salt(&line, 6, 9).is_none()
                && salt(&line[..63], 5, 9).is_none()
        );
        for bit in 0..LINE * 8 {
            let mut flipped = line;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(salt(&flipped, 5, 9), None, "bit {bit}");
        }
    }
}
