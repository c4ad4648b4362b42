//! A value, of its bytes.
//!
//! The code of its type says how a value goes on. This file has the types whose elements are strings of their own;
//! `small` has those that are packed into one string, or, for lists, into some; `stream` and `module` have the rest.

mod module;
mod small;
mod stream;

use std::collections::HashSet;
use std::io::BufRead;

pub(crate) use module::skip as skip_module;

use crate::Value;
use crate::codes::types;
use crate::decimal;
use crate::error::{Defect, Error, Result, Why};
use crate::source::Source;
use crate::value::{HashField, in_set_order};

/// Elements for which memory is taken before they have arrived.
const RESERVED_MAX: u64 = 1024;

/// The value whose type has the code `code`, which was read at `offset`.
pub(crate) fn value<R: BufRead>(source: &mut Source<R>, code: u8, offset: u64) -> Result<Value> {
    match code {
        types::STRING => source.string("a string").map(Value::String),
        types::LIST => strings(source, "a list").map(Value::List),
        types::SET => {
            let begin = source.offset();
            let members = strings(source, "a set")?;
            unique(members.iter().map(Vec::as_slice))
                .map_err(|why| Error::new(begin, "a set", why))?;
            Ok(Value::Set(members))
        }
        types::SORTED_SET => sorted_set(source, text_score),
        types::SORTED_SET_2 => sorted_set(source, |source| {
            source.array("a score of a sorted set").map(f64::from_le_bytes)
        }),
        types::HASH => hash(source, |_| Ok(None)),
        types::HASH_EXPIRING_RC => {
            hash(source, |source| source.length("the expiry of a field of a hash").map(Some))
        }
        types::HASH_EXPIRING => {
            let earliest = u64::from_le_bytes(source.array("the earliest expiry of a hash")?);
            hash(source, |source| {
                let after = source.length("the expiry of a field of a hash")?;
                Ok(after.checked_sub(1).map(|after| earliest.saturating_add(after)))
            })
        }
        types::LIST_ZIPLIST
        | types::LIST_QUICKLIST
        | types::LIST_QUICKLIST_2
        | types::SET_INTSET
        | types::SET_LISTPACK
        | types::SORTED_SET_ZIPLIST
        | types::SORTED_SET_LISTPACK
        | types::HASH_ZIPMAP
        | types::HASH_ZIPLIST
        | types::HASH_LISTPACK
        | types::HASH_LISTPACK_EXPIRING_RC
        | types::HASH_LISTPACK_EXPIRING => small::value(source, code),
        types::STREAM | types::STREAM_2 | types::STREAM_3 => {
            stream::stream(source, code).map(Value::Stream)
        }
        types::MODULE => {
            source.refuse("a value of a module of Redis 4.0", offset, Why::ReleaseCandidate)
        }
        types::MODULE_2 => module::value(source),
        _ => source.refuse("a type of a value", offset, Why::UnknownType { code }),
    }
}

/// The strings behind their number.
fn strings<R: BufRead>(source: &mut Source<R>, part: &'static str) -> Result<Vec<Vec<u8>>> {
    let count = source.length(part)?;
    let mut strings = reserved(count);
    for _ in 0..count {
        strings.push(source.string(part)?);
    }
    Ok(strings)
}

/// An empty vector for `count` elements, of which none has arrived.
fn reserved<T>(count: u64) -> Vec<T> {
    Vec::with_capacity(count.min(RESERVED_MAX) as usize)
}

fn sorted_set<R: BufRead>(
    source: &mut Source<R>,
    mut score: impl FnMut(&mut Source<R>) -> Result<f64>,
) -> Result<Value> {
    let begin = source.offset();
    let count = source.length("a sorted set")?;
    let mut members = reserved(count);
    for _ in 0..count {
        let member = source.string("a member of a sorted set")?;
        members.push((member, score(source)?));
    }
    in_order(members).map_err(|why| Error::new(begin, "a sorted set", why))
}

/// A sorted set of members in any order.
fn in_order(mut members: Vec<(Vec<u8>, f64)>) -> std::result::Result<Value, Defect> {
    if members.iter().any(|(_, score)| score.is_nan()) {
        return Err(Defect::new("a score is not a number"));
    }
    unique(members.iter().map(|(member, _)| member.as_slice()))?;
    members.sort_by(in_set_order);
    Ok(Value::SortedSet(members))
}

/// A score as text: its length, which is above 252 for what has no digits, and its digits.
fn text_score<R: BufRead>(source: &mut Source<R>) -> Result<f64> {
    const PART: &str = "a score of a sorted set";
    let begin = source.offset();
    match source.byte(PART)? {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        len => {
            let mut text = [0; 252];
            let text = &mut text[..len.into()];
            for byte in &mut *text {
                *byte = source.byte(PART)?;
            }
            let score = decimal::parse_score(text);
            score.map_or_else(|| source.refuse(PART, begin, Defect::new("it is no number")), Ok)
        }
    }
}

fn hash<R: BufRead>(
    source: &mut Source<R>,
    mut expiry: impl FnMut(&mut Source<R>) -> Result<Option<u64>>,
) -> Result<Value> {
    let begin = source.offset();
    let count = source.length("a hash")?;
    let mut fields = reserved(count);
    for _ in 0..count {
        let expires_ms = expiry(source)?;
        let name = source.string("a name of a field of a hash")?;
        let value = source.string("a value of a field of a hash")?;
        fields.push(HashField { name, value, expires_ms });
    }
    checked_hash(fields).map_err(|why| Error::new(begin, "a hash", why))
}

/// A hash of fields that may be of one name, or expire too late. An expiry of 0 stands for none.
fn checked_hash(mut fields: Vec<HashField>) -> std::result::Result<Value, Defect> {
    unique(fields.iter().map(|field| field.name.as_slice()))?;
    for field in &mut fields {
        field.expires_ms = field.expires_ms.filter(|expires_ms| *expires_ms != 0);
        if field.expires_ms.is_some_and(|expires_ms| expires_ms > HashField::EXPIRES_MS_MAX) {
            return Err(Defect::new("a field expires later than any can"));
        }
    }
    Ok(Value::Hash(fields))
}

/// Refuses two elements that are alike.
fn unique<'a>(
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
) -> std::result::Result<(), Defect> {
    let mut seen = HashSet::with_capacity(elements.len());
    for element in elements {
        if !seen.insert(element) {
            return Err(Defect::new("two of its elements are alike"));
        }
    }
    Ok(())
}
