//! The bytes of a value, in the form that Redis chooses by its default thresholds: that of the version it is written for.
//!
//! | value | small | otherwise |
//! |---|---|---|
//! | list | nodes of listpacks of up to 8 KiB | an element that is longer is a node of its own |
//! | set | an intset of up to 512 integers; a listpack of up to 128 members of 64 bytes | members |
//! | hash | a listpack of up to 512 fields of 64 bytes | fields and values |
//! | sorted set | a listpack of up to 128 members of 64 bytes | members and binary scores, the highest first |
//! | stream | nodes of up to 100 entries or 4 KiB (`stream`) | |
//!
//! Redis 7.0 knows no sets in listpacks: theirs are members. Its streams have no times at which consumers got an entry.
//! Hashes whose fields expire have the forms of Redis 7.4, which no older one reads.

mod stream;

use std::io::{self, Write};

use crate::Value;
use crate::codes::{nodes, types};
use crate::decimal;
use crate::packed::{Builder, intset};
use crate::sink::Sink;
use crate::value::{HashField, in_set_order};
use crate::version::Version;

/// The most members of an intset.
const INTEGERS_MAX: usize = 512;
/// The most members of a set or sorted set in a listpack, and the most fields of a hash.
const MEMBERS_MAX: usize = 128;
const FIELDS_MAX: usize = 512;
/// The longest string in a listpack that is not of a list or stream, in bytes.
const SMALL_LEN_MAX: usize = 64;
/// The longest node of a list, in bytes.
const NODE_LEN_MAX: usize = 8 << 10;

/// Why a value has no form in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unwritable {
    /// It is a module's, and its content is not known.
    #[error("a value of the module type {name} has been passed over, and cannot be written")]
    Module {
        /// The name of the module's type.
        name: String,
    },
    /// It is a collection without elements.
    #[error("a {type_name} without elements is no value")]
    Empty {
        /// The name of the type.
        type_name: &'static str,
    },
    /// A score of a sorted set is NaN.
    #[error("a score is not a number")]
    NotANumber,
    /// A pending entry of a stream's group names no consumer of the group.
    #[error("a pending entry of a stream has no consumer")]
    NoConsumer,
    /// Fields of a hash expire, for which versions before 12 of the format have no form.
    #[error("fields of a hash expire; that takes version 12 of the format")]
    FieldsExpire,
}

impl From<Unwritable> for io::Error {
    fn from(why: Unwritable) -> Self {
        Self::new(io::ErrorKind::InvalidInput, why)
    }
}

/// A value that can be written, with its form.
pub(crate) struct Encoded<'a> {
    value: &'a Value,
    code: u8,
    /// The members of a set that are written as an intset, in ascending order.
    integers: Vec<i64>,
}

impl<'a> Encoded<'a> {
    /// The value in a form that a version of Redis reads.
    pub(crate) fn new(value: &'a Value, version: Version) -> Result<Self, Unwritable> {
        let is_before = |first: Version| version.number() < first.number();
        let mut integers = Vec::new();
        let code = match value {
            Value::Module { name, .. } => return Err(Unwritable::Module { name: name.clone() }),
            Value::List(elements) if elements.is_empty() => return empty("list"),
            Value::Set(members) if members.is_empty() => return empty("set"),
            Value::Hash(fields) if fields.is_empty() => return empty("hash"),
            Value::SortedSet(members) if members.is_empty() => return empty("sorted set"),
            Value::String(_) => types::STRING,
            Value::List(_) => types::LIST_QUICKLIST_2,
            Value::Set(members) => {
                integers = integers_of(members);
                match members.len() <= MEMBERS_MAX && are_short(members) {
                    _ if !integers.is_empty() => types::SET_INTSET,
                    true if !is_before(Version::Redis72) => types::SET_LISTPACK,
                    _ => types::SET,
                }
            }
            Value::Hash(fields) => hash_code(fields),
            Value::SortedSet(members) => {
                if members.iter().any(|(_, score)| score.is_nan()) {
                    return Err(Unwritable::NotANumber);
                }
                let names = members.iter().map(|(member, _)| member);
                match members.len() <= MEMBERS_MAX && are_short(names) {
                    true => types::SORTED_SET_LISTPACK,
                    false => types::SORTED_SET_2,
                }
            }
            Value::Stream(stream) => {
                stream::check(stream)?;
                match is_before(Version::Redis72) {
                    true => types::STREAM_2,
                    false => types::STREAM_3,
                }
            }
        };
        if code > types::STREAM_3 && is_before(Version::Redis74) {
            return Err(Unwritable::FieldsExpire);
        }
        Ok(Self { value, code, integers })
    }

    /// The code of the type.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The oldest version of the format that has the value's form, of those that are written: 9 is that of Redis 5.
    pub(crate) fn oldest(&self) -> u16 {
        match self.code {
            code if code <= types::STREAM => 9,
            code if code <= types::STREAM_2 => 10,
            code if code <= types::STREAM_3 => 11,
            _ => 12,
        }
    }

    /// Writes the value, without the code of its type.
    pub(crate) fn write<W: Write>(&self, sink: &mut Sink<W>) -> io::Result<()> {
        match self.value {
            Value::String(string) => sink.string(string),
            Value::List(elements) => list(sink, elements),
            Value::Set(members) => match self.code {
                types::SET_INTSET => sink.string(&intset(&self.integers)),
                types::SET_LISTPACK => sink.string(&listpack(members)),
                _ => {
                    sink.length(members.len() as u64)?;
                    members.iter().try_for_each(|member| sink.string(member))
                }
            },
            Value::Hash(fields) => hash(sink, fields, self.code),
            Value::SortedSet(members) => sorted_set(sink, members, self.code),
            Value::Stream(stream) => stream::write(sink, stream, self.code),
            // `Encoded::new` refused it.
            Value::Module { name, .. } => Err(Unwritable::Module { name: name.clone() }.into()),
        }
    }
}

fn empty<T>(type_name: &'static str) -> Result<T, Unwritable> {
    Err(Unwritable::Empty { type_name })
}

/// Whether strings are so short that a collection is packed into a listpack.
fn are_short<'a>(strings: impl IntoIterator<Item = &'a Vec<u8>>) -> bool {
    strings.into_iter().all(|string| string.len() <= SMALL_LEN_MAX)
}

/// The members of a set in ascending order, if they are integers and not too many.
fn integers_of(members: &[Vec<u8>]) -> Vec<i64> {
    if members.len() > INTEGERS_MAX {
        return Vec::new();
    }
    let integers = members.iter().map(|member| decimal::parse_i64(member));
    let mut integers: Vec<_> = integers.collect::<Option<_>>().unwrap_or_default();
    integers.sort_unstable();
    integers
}

fn listpack(strings: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = Builder::new();
    strings.iter().for_each(|string| builder.push(string));
    builder.finish()
}

fn list<W: Write>(sink: &mut Sink<W>, elements: &[Vec<u8>]) -> io::Result<()> {
    let nodes = nodes_of(elements);
    sink.length(nodes.len() as u64)?;
    for node in nodes {
        match node {
            [element] if element.len() > NODE_LEN_MAX => {
                sink.length(nodes::PLAIN)?;
                // Unlike other strings, a node is never an integer: this one is too long to be.
                sink.string(element)?;
            }
            node => {
                sink.length(nodes::PACKED)?;
                sink.string(&listpack(node))?;
            }
        }
    }
    Ok(())
}

/// The elements of each node of a list.
fn nodes_of(elements: &[Vec<u8>]) -> Vec<&[Vec<u8>]> {
    let (mut nodes, mut begin, mut len) = (Vec::new(), 0, 0);
    for (at, element) in elements.iter().enumerate() {
        len += element.len() + Builder::ITEM_BYTES;
        if len > NODE_LEN_MAX && begin < at {
            nodes.push(&elements[begin..at]);
            (begin, len) = (at, element.len() + Builder::ITEM_BYTES);
        }
    }
    nodes.push(&elements[begin..]);
    nodes
}

fn hash_code(fields: &[HashField]) -> u8 {
    let strings = fields.iter().flat_map(|field| [&field.name, &field.value]);
    let is_small = fields.len() <= FIELDS_MAX && are_short(strings);
    let expire = fields.iter().any(|field| field.expires_ms.is_some());
    match (is_small, expire) {
        (true, false) => types::HASH_LISTPACK,
        (false, false) => types::HASH,
        (true, true) => types::HASH_LISTPACK_EXPIRING,
        (false, true) => types::HASH_EXPIRING,
    }
}

fn hash<W: Write>(sink: &mut Sink<W>, fields: &[HashField], code: u8) -> io::Result<()> {
    let earliest = fields.iter().filter_map(|field| field.expires_ms).min().unwrap_or(0);
    if code == types::HASH_EXPIRING || code == types::HASH_LISTPACK_EXPIRING {
        sink.bytes(&earliest.to_le_bytes())?;
    }
    let mut builder = Builder::new();
    match code {
        types::HASH_LISTPACK => {
            for field in fields {
                builder.push(&field.name);
                builder.push(&field.value);
            }
            sink.string(&builder.finish())
        }
        types::HASH_LISTPACK_EXPIRING => {
            let mut fields: Vec<_> = fields.iter().collect();
            // In the order of their expiry; those without are last.
            fields.sort_by_key(|field| field.expires_ms.unwrap_or(u64::MAX));
            for field in fields {
                builder.push(&field.name);
                builder.push(&field.value);
                builder.push_integer(field.expires_ms.unwrap_or(0).cast_signed());
            }
            sink.string(&builder.finish())
        }
        _ => {
            sink.length(fields.len() as u64)?;
            for field in fields {
                if code == types::HASH_EXPIRING {
                    sink.length(
                        field.expires_ms.map_or(0, |expires_ms| expires_ms - earliest + 1),
                    )?;
                }
                sink.string(&field.name)?;
                sink.string(&field.value)?;
            }
            Ok(())
        }
    }
}

fn sorted_set<W: Write>(
    sink: &mut Sink<W>,
    members: &[(Vec<u8>, f64)],
    code: u8,
) -> io::Result<()> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by(|one, other| in_set_order(one, other));
    if code == types::SORTED_SET_LISTPACK {
        let mut builder = Builder::new();
        for (member, score) in members {
            builder.push(member);
            match decimal::score_as_integer(*score) {
                Some(number) => builder.push_integer(number),
                None => builder.push(&decimal::score(*score)),
            }
        }
        return sink.string(&builder.finish());
    }
    sink.length(members.len() as u64)?;
    for (member, score) in members.into_iter().rev() {
        sink.string(member)?;
        sink.bytes(&score.to_le_bytes())?;
    }
    Ok(())
}
