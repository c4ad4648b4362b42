//! BITOP: the bits of several values, combined.

use crate::call::{Call, is};
use crate::failure::{Outcome, SYNTAX};
use crate::notifications::EventClass;
use crate::store::NewDeadline;
use crate::stored::StringValue;

use super::super::strings::note_raw;
use super::words::combine;

/// How bits at the same place become one. `X` is the first value, `Y` stands for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// In `X`, and in no `Y`.
    Diff,
    /// In some `Y`, and not in `X`.
    Diff1,
    /// In `X`, and in some `Y`.
    AndOr,
    /// In exactly one value.
    One,
}

impl Operation {
    fn parse(word: &[u8]) -> Option<Self> {
        let names = [
            ("AND", Self::And),
            ("OR", Self::Or),
            ("XOR", Self::Xor),
            ("NOT", Self::Not),
            ("DIFF", Self::Diff),
            ("DIFF1", Self::Diff1),
            ("ANDOR", Self::AndOr),
            ("ONE", Self::One),
        ];
        names.iter().find(|(name, _)| is(word, name)).map(|(_, operation)| *operation)
    }

    /// Refuses numbers of values that an operation does not take.
    fn check(self, name: &[u8], values: usize) -> Outcome {
        match self {
            Self::Not if values != 1 => {
                Err("ERR BITOP NOT must be called with a single source key.".into())
            }
            Self::Diff | Self::Diff1 | Self::AndOr if values < 2 => {
                let name = String::from_utf8_lossy(name).to_ascii_uppercase();
                Err(format!("ERR BITOP {name} must be called with at least two source keys.")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The combined value, as long as the longest of them. `go_on` is asked at each value.
    fn apply(self, values: &[&[u8]], go_on: impl Fn() -> Outcome) -> Outcome<Vec<u8>> {
        let len = values.iter().map(|value| value.len()).max().unwrap_or(0);
        let Some((first, others)) = values.split_first() else { return Ok(Vec::new()) };
        let mut result = padded(first, len);
        match self {
            Self::And => fold(&mut result, others, go_on, |a, b| a & b)?,
            Self::Or => fold(&mut result, others, go_on, |a, b| a | b)?,
            Self::Xor => fold(&mut result, others, go_on, |a, b| a ^ b)?,
            Self::Not => combine(&mut result, &[], |a, _| !a),
            Self::Diff | Self::Diff1 | Self::AndOr => {
                let mut some = vec![0; len];
                fold(&mut some, others, go_on, |a, b| a | b)?;
                let word = match self {
                    Self::Diff => |x: u64, y: u64| x & !y,
                    Self::Diff1 => |x: u64, y: u64| !x & y,
                    _ => |x: u64, y: u64| x & y,
                };
                combine(&mut result, &some, word);
            }
            Self::One => {
                let mut several = vec![0; len];
                for other in others {
                    go_on()?;
                    let mut both = result.clone();
                    combine(&mut both, other, |a, b| a & b);
                    combine(&mut several, &both, |a, b| a | b);
                    combine(&mut result, other, |a, b| a | b);
                }
                combine(&mut result, &several, |a, b| a & !b);
            }
        }
        Ok(result)
    }
}

/// Combines a value with each of some others.
fn fold(
    result: &mut [u8],
    others: &[&[u8]],
    go_on: impl Fn() -> Outcome,
    word: impl Fn(u64, u64) -> u64 + Copy,
) -> Outcome {
    for other in others {
        go_on()?;
        combine(result, other, word);
    }
    Ok(())
}

/// A value with zeros behind it.
fn padded(value: &[u8], len: usize) -> Vec<u8> {
    let mut padded = Vec::with_capacity(len);
    padded.extend_from_slice(value);
    padded.resize(len, 0);
    padded
}

pub(in super::super) fn bitop(call: &mut Call<'_>) -> Outcome {
    let (name, key) = (call.arg(1), call.arg(2));
    let operation = Operation::parse(name).ok_or(SYNTAX)?;
    let sources = call.args.from(3);
    operation.check(name, sources.len())?;
    let mut values: Vec<Option<StringValue>> = Vec::new();
    for source in sources {
        call.check_ending()?;
        values.push(call.read(source)?);
    }
    let values: Vec<_> = values.iter().map(|value| value.as_deref().unwrap_or_default()).collect();
    let result = operation.apply(&values, || call.check_ending())?;
    let (store, db) = (&mut call.service.store, call.client.db);
    if !result.is_empty() {
        store.put(db, key, &result, NewDeadline::Clear)?;
        note_raw(call, key, result.len());
        call.notify(EventClass::String, "set", key);
    } else if store.remove(db, key)? {
        call.notify(EventClass::Generic, "del", key);
    }
    call.reply().integer(result.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bit that an operation makes of the bits at one place.
    fn expected(operation: Operation, bits: &[bool]) -> bool {
        let some = || bits[1..].iter().any(|bit| *bit);
        match operation {
            Operation::And => bits.iter().all(|bit| *bit),
            Operation::Or => bits.iter().any(|bit| *bit),
            Operation::Xor => bits.iter().filter(|bit| **bit).count() % 2 == 1,
            Operation::Not => !bits[0],
            Operation::Diff => bits[0] && !some(),
            Operation::Diff1 => !bits[0] && some(),
            Operation::AndOr => bits[0] && some(),
            Operation::One => bits.iter().filter(|bit| **bit).count() == 1,
        }
    }

    proptest! {
        #[test]
        fn each_bit_is_what_the_operation_says(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..5)
        ) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let len = values.iter().map(|value| value.len()).max().unwrap();
            for name in ["and", "Or", "XOR", "NOT", "DIFF", "diff1", "AndOr", "one"] {
                let operation = Operation::parse(name.as_bytes()).unwrap();
                let values = if operation == Operation::Not { &values[..1] } else { &values };
                let result = operation.apply(values, || Ok(())).unwrap();
                let len = if operation == Operation::Not { values[0].len() } else { len };
                prop_assert_eq!(result.len(), len);
                for at in 0..len as u64 * 8 {
                    let bits: Vec<_> =
                        values.iter().map(|value| super::super::is_set(value, at)).collect();
                    let wanted = expected(operation, &bits);
                    prop_assert_eq!(super::super::is_set(&result, at), wanted, "{} {}", name, at);
                }
            }
        }
    }
}
