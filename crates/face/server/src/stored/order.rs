//! The records of a stored order of a sorted set: an element for each member, behind those of the map (`field`).
//!
//! ```text
//! element                                                                                      value
//! ffffffff │ 2 │ score u64 │ member                                                            none, or 1
//! ffffffff │ 2 │ score u64 │ 1024 bytes of the member │ the member's element in the map, 21    none, or 1
//! ```
//!
//! The second form is that of members which are longer than 1024 bytes. Of a positive score the bits have the sign flipped,
//! and of a negative one all bits, so that they are in the order of the scores. Both zeros are one, as they are equal: the
//! value 1 says that it is the negative one.
//!
//! Long members with one score and one beginning are in the order of their hashes here, and a scan sorts them.

use super::field::{FIELD_IN_KEY_MAX, ORDER, element_of};

/// The place of the member.
pub(crate) const MEMBER_AT: usize = ORDER.len() + size_of::<u64>();

/// The value of a record whose score is the negative zero.
const NEGATIVE_ZERO: u8 = 1;

const SIGN: u64 = 1 << 63;

/// More than the bytes behind the beginning of a long member.
const BEHIND_ALL: [u8; 32] = [u8::MAX; 32];

/// The bits of a score, in the order of the scores.
pub(crate) fn bits_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The place in the order at which these bits of scores begin.
pub(crate) fn start_of(bits: u64) -> Vec<u8> {
    [&ORDER[..], &bits.to_be_bytes()].concat()
}

/// The place in the order before which all members are that are smaller than this one, with its score.
pub(crate) fn start_of_member(score: f64, member: &[u8]) -> Vec<u8> {
    let member = &member[..member.len().min(FIELD_IN_KEY_MAX)];
    [&ORDER[..], &bits_of(score).to_be_bytes(), member].concat()
}

/// The place in the order behind which all members are that are larger than this one, with its score.
pub(crate) fn end_of_member(score: f64, member: &[u8]) -> Vec<u8> {
    let mut end = start_of_member(score, member);
    if member.len() > FIELD_IN_KEY_MAX {
        end.extend(BEHIND_ALL);
    }
    end
}

/// The record of a member.
pub(crate) fn record_of(score: f64, member: &[u8]) -> Vec<u8> {
    let mut record = start_of_member(score, member);
    if member.len() > FIELD_IN_KEY_MAX {
        record.extend(element_of(member));
    }
    record
}

/// The value of the record.
pub(crate) fn value_of(score: f64) -> &'static [u8] {
    if score == 0.0 && score.is_sign_negative() { &[NEGATIVE_ZERO] } else { &[] }
}

/// The score of a record that has this value; `None`: no sorted set has such a record.
pub(crate) fn score_of(record: &[u8], value: &[u8]) -> Option<f64> {
    let bits = u64::from_be_bytes(*record.get(ORDER.len()..)?.first_chunk()?);
    let score = f64::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN });
    match value {
        [] => (!score.is_nan() && bits_of(score) == bits).then_some(score),
        [NEGATIVE_ZERO] => (bits == bits_of(0.0)).then_some(-0.0),
        _ => None,
    }
}

/// The beginning of a member that is longer than a record has room for, and its element in the map.
pub(crate) fn long_member(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let member = record.get(MEMBER_AT..)?;
    (member.len() > FIELD_IN_KEY_MAX).then(|| member.split_at(FIELD_IN_KEY_MAX))
}

/// The score that a member's value in the map has.
pub(crate) fn read_score(value: &[u8]) -> Option<f64> {
    let score = f64::from_le_bytes(value.try_into().ok()?);
    (!score.is_nan()).then_some(score)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            any::<f64>().prop_filter("a score is a number", |score| !score.is_nan()),
        ]
    }

    proptest! {
        #[test]
        fn records_are_in_the_order_of_scores_and_members(
            one in (score(), "[ab]{0,3}"), other in (score(), "[ab]{0,3}"),
        ) {
            let records = [&one, &other].map(|(score, member)| record_of(*score, member.as_bytes()));
            prop_assert_eq!(records[0].cmp(&records[1]), one.partial_cmp(&other).unwrap());
        }

        #[test]
        fn a_score_comes_back(score in score(), member: Vec<u8>) {
            let found = score_of(&record_of(score, &member), value_of(score));
            prop_assert_eq!(found.map(f64::to_bits), Some(score.to_bits()));
        }

        #[test]
        fn bits_of_no_score_are_refused(bits: u64) {
            let record = start_of(bits);
            if let Some(score) = score_of(&record, &[]) {
                prop_assert_eq!(bits_of(score), bits);
            }
        }
    }

    #[test]
    fn no_score_has_other_bits_of_a_zero_or_of_no_number() {
        for bits in [0, u64::MAX, bits_of(f64::INFINITY) + 1, !(-0.0_f64).to_bits()] {
            assert_eq!(score_of(&start_of(bits), &[]), None, "{bits:x}");
        }
        assert_eq!(score_of(&start_of(bits_of(1.0)), &[NEGATIVE_ZERO]), None);
        assert_eq!(score_of(&start_of(bits_of(1.0)), &[2]), None);
        assert_eq!(score_of(&ORDER, &[]), None);
    }
}
