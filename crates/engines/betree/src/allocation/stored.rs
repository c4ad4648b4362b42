//! The stored form of a segment's bitmap, a value of the root tree: the shorter of two.
//!
//! ```text
//!  bitmap   0 u8 | words u64 x 4096                     the lowest block is the lowest bit of the first word
//!  runs     1 u8 | (clear varint | set varint) ...      lengths of runs, from block 0 on; the rest is clear
//! ```
//!
//! An empty segment takes 1 byte, a full one 5, any other at most 32 KiB and 1 byte. Runs are as long as they can be,
//! so none is empty but the first clear one. The checksum is the business of the layer above; all lengths are checked
//! here all the same.

use halite_codec::{Reader, put_varint};

use super::bits::{Bits, SEGMENT, WORDS};

/// The form with all bits.
const BITMAP: u8 = 0;

/// The form with the lengths of runs.
const RUNS: u8 = 1;

/// Bytes of the longest stored form.
pub(crate) const STORED_MAX: usize = 1 + WORDS * 8;

/// The stored form of a set.
pub(crate) fn encode(bits: &Bits) -> Vec<u8> {
    let mut bytes = vec![RUNS];
    let mut end = 0;
    for run in bits.runs() {
        put_varint(&mut bytes, (run.start - end).into());
        put_varint(&mut bytes, (run.end - run.start).into());
        end = run.end;
        if bytes.len() >= STORED_MAX {
            let words = (0..WORDS).flat_map(|at| bits.word(at).to_le_bytes());
            return [BITMAP].into_iter().chain(words).collect();
        }
    }
    bytes
}

/// The set that is stored in these bytes.
///
/// # Errors
/// The defect of bytes that [`encode`] does not make.
pub(crate) fn decode(bytes: &[u8]) -> Result<Bits, &'static str> {
    let (&form, body) = bytes.split_first().ok_or("the bitmap has no bytes")?;
    match form {
        BITMAP => decode_bitmap(body),
        RUNS => decode_runs(body),
        _ => Err("the form of the bitmap is unknown"),
    }
}

fn decode_bitmap(body: &[u8]) -> Result<Bits, &'static str> {
    let (words, rest) = body.as_chunks();
    if words.len() != WORDS || !rest.is_empty() {
        return Err("the bitmap has not the length of a segment");
    }
    Ok(Bits::of_words(words.iter().map(|&word| u64::from_le_bytes(word)).collect()))
}

fn decode_runs(body: &[u8]) -> Result<Bits, &'static str> {
    let mut bits = Bits::default();
    let (mut reader, mut end) = (Reader(body), 0);
    while !reader.is_empty() {
        let (clear, set) = (reader.varint_u32()?, reader.varint_u32()?);
        if set == 0 || (clear == 0 && end > 0) {
            return Err("a run of the bitmap is empty");
        }
        let too_long = "the bitmap is longer than a segment";
        let start = clear.checked_add(end).filter(|&start| start < SEGMENT).ok_or(too_long)?;
        end = set.checked_add(start).filter(|&end| end <= SEGMENT).ok_or(too_long)?;
        bits.set(start..end);
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::allocation::bits::tests::{blocks, range};

    #[test]
    fn the_forms_stay_and_the_shorter_is_taken() {
        let mut bits = Bits::default();
        assert_eq!(encode(&bits), [1]);
        bits.set(0..3);
        bits.set(200..201);
        assert_eq!(encode(&bits), [1, 0, 3, 0xc5, 1, 1]);
        bits.set(0..SEGMENT);
        assert_eq!(encode(&bits), [1, 0, 0x80, 0x80, 0x10]);
        // Every run takes two bytes: with 2^14 of them they are as long as the bitmap.
        (0..SEGMENT).step_by(16).for_each(|block| bits.clear(block..block + 1));
        let bytes = encode(&bits);
        assert_eq!((bytes.len(), &bytes[..3]), (STORED_MAX, &[0, 0xfe, 0xff][..]));
        assert_eq!(blocks(&decode(&bytes).unwrap()), blocks(&bits));
        bits.set(16..17);
        assert_eq!((encode(&bits).len(), encode(&bits)[0]), (STORED_MAX - 2, RUNS));
    }

    #[test]
    fn bytes_that_no_set_has_are_refused() {
        let long = vec![0; STORED_MAX + 1];
        let refused: [&[u8]; 12] = [
            &[],
            &[2],
            &[0],
            &long[..STORED_MAX - 1],
            &long,
            &[1, 0],
            &[1, 0, 0],
            &[1, 0, 1, 0, 1],
            &[1, 0x80, 0x80, 0x10, 1],
            &[1, 1, 0x80, 0x80, 0x10],
            &[1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1],
        ];
        for bytes in refused {
            assert!(decode(bytes).is_err(), "{:?}", &bytes[..bytes.len().min(10)]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_set_comes_back(ranges in prop::collection::vec(range(), 0..40)) {
            let mut bits = Bits::default();
            ranges.into_iter().for_each(|range| bits.set(range));
            let bytes = encode(&bits);
            prop_assert!(bytes.len() <= STORED_MAX);
            prop_assert_eq!(blocks(&decode(&bytes).unwrap()), blocks(&bits));
        }

        #[test]
        fn any_bytes_are_refused_or_a_set_of_a_segment(
            form in 0..3_u8,
            body in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..40),
        ) {
            if let Ok(bits) = decode(&[&[form][..], &body].concat()) {
                prop_assert_eq!(blocks(&decode(&encode(&bits)).unwrap()), blocks(&bits));
            }
        }
    }
}
