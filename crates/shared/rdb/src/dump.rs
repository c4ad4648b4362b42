//! The payloads of DUMP and RESTORE, and of FUNCTION DUMP and FUNCTION RESTORE.
//!
//! ```text
//! type, 1 | value                 of DUMP
//! (245, 1 | code of a library)... of FUNCTION DUMP
//!
//! behind either: version, 2 | CRC-64 of all before, 8      the lowest byte first
//! ```

use crate::codes::ops;
use crate::crc64::crc64;
use crate::decode;
use crate::encode::{Encoded, Unwritable};
use crate::error::{Defect, Error};
use crate::sink::Sink;
use crate::source::Source;
use crate::version::Version;
use crate::{Limits, Value};

/// The latest version that is read.
pub(crate) const VERSION_MAX: u16 = 12;

/// The version of a string's payload: the oldest that is written.
const STRING_VERSION: u16 = 9;

/// Why a payload is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is shorter than version and checksum.
    #[error("the payload has {len} bytes, which is too short")]
    TooShort {
        /// Its length, in bytes.
        len: usize,
    },
    /// It is of a newer Redis.
    #[error("the payload has version {found}; versions up to {VERSION_MAX} are known")]
    Version {
        /// Its version.
        found: u16,
    },
    /// It is damaged.
    #[error("the checksum of the payload is not that of its bytes")]
    Checksum,
    /// It is of no value.
    #[error("the payload is of no value: {0}")]
    Value(#[from] Error),
    /// It is a module's value, which only the module can read.
    #[error("the payload is of a value of the module type {name}")]
    Module {
        /// The name of the module's type.
        name: String,
    },
}

/// The payload of a value, of the oldest version that can have it: Redis 7.0 reads it, unless fields of a hash expire, for
/// which it takes 7.4. Of a stream's consumers it does not have when they last got an entry.
///
/// # Errors
/// [`Unwritable`] if the value has no form.
pub fn dump(value: &Value) -> Result<Vec<u8>, Unwritable> {
    let encoded = Encoded::new(value, Version::Redis70).or_else(|why| match why {
        Unwritable::FieldsExpire => Encoded::new(value, Version::Redis74),
        why => Err(why),
    })?;
    let mut sink = Sink::new(vec![encoded.code()]);
    // A vector takes all that is written.
    let written = encoded.write(&mut sink);
    debug_assert!(written.is_ok(), "{written:?}");
    Ok(with_foot(sink.into_inner(), encoded.oldest()))
}

/// The payload of a string, which [`dump`] would have to copy.
#[must_use]
pub fn dump_string(string: &[u8]) -> Vec<u8> {
    let mut sink = Sink::new(vec![crate::codes::types::STRING]);
    let written = sink.string(string);
    debug_assert!(written.is_ok(), "{written:?}");
    with_foot(sink.into_inner(), STRING_VERSION)
}

/// The payload of libraries of functions, by their codes.
#[must_use]
pub fn dump_functions<'a>(codes: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sink = Sink::new(Vec::new());
    for code in codes {
        let written = sink.byte(ops::FUNCTION).and_then(|()| sink.string(code));
        debug_assert!(written.is_ok(), "{written:?}");
    }
    with_foot(sink.into_inner(), Version::Redis70.number())
}

/// The value of a payload.
///
/// # Errors
/// [`RestoreError`]. Redis says of the first three kinds that version or checksum are wrong, of the others that the
/// format is bad.
pub fn restore(payload: &[u8], limits: Limits) -> Result<Value, RestoreError> {
    let content = without_foot(payload)?;
    let mut source = Source::new(content, limits);
    let code = source.byte("a type of a value")?;
    let value = decode::value(&mut source, code, 0)?;
    let end = source.offset();
    if end < content.len() as u64 {
        source.refuse("the payload", end, Defect::new("it goes on behind the value"))?;
    }
    match value {
        Value::Module { name, .. } => Err(RestoreError::Module { name }),
        value if value.is_empty() => Ok(source.refuse(
            "the payload",
            0,
            Defect::new("it is of a collection without elements"),
        )?),
        value => Ok(value),
    }
}

/// The codes of the libraries of functions in a payload.
///
/// # Errors
/// [`RestoreError`].
pub fn restore_functions(payload: &[u8], limits: Limits) -> Result<Vec<Vec<u8>>, RestoreError> {
    const PART: &str = "a library of functions";
    let mut source = Source::new(without_foot(payload)?, limits);
    let mut codes = Vec::new();
    while source.peek(PART)?.is_some() {
        let offset = source.offset();
        if source.byte(PART)? != ops::FUNCTION {
            return Ok(source.refuse(PART, offset, Defect::new("it is none"))?);
        }
        codes.push(source.string(PART)?);
    }
    Ok(codes)
}

fn with_foot(mut content: Vec<u8>, version: u16) -> Vec<u8> {
    content.extend(version.to_le_bytes());
    let crc = crc64(0, &content);
    content.extend(crc.to_le_bytes());
    content
}

/// The content of a payload whose version and checksum are right.
fn without_foot(payload: &[u8]) -> Result<&[u8], RestoreError> {
    let too_short = RestoreError::TooShort { len: payload.len() };
    let Some((checked, crc)) = payload.split_last_chunk() else { return Err(too_short) };
    let Some((content, version)) = checked.split_last_chunk() else { return Err(too_short) };
    let found = u16::from_le_bytes(*version);
    if found > VERSION_MAX {
        return Err(RestoreError::Version { found });
    }
    match crc64(0, checked) == u64::from_le_bytes(*crc) {
        true => Ok(content),
        false => Err(RestoreError::Checksum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version and checksum.
    const FOOT_LEN: usize = 10;

    #[test]
    fn wrong_payloads_are_refused_with_the_reason() {
        let good = dump_string(b"hello");
        assert_eq!(restore(&good, Limits::default()).unwrap(), Value::String(b"hello".to_vec()));
        assert_eq!(good, dump(&Value::String(b"hello".to_vec())).unwrap());
        for len in 0..good.len() {
            let refused = restore(&good[..len], Limits::default()).unwrap_err();
            let is_named = match refused {
                RestoreError::TooShort { len: found } => len < FOOT_LEN && found == len,
                RestoreError::Checksum | RestoreError::Version { .. } => len >= FOOT_LEN,
                _ => false,
            };
            assert!(is_named, "{len}");
        }
        let of = |content: &[u8], version: u16| {
            let mut payload = [content, &version.to_le_bytes()].concat();
            let crc = crc64(0, &payload);
            payload.extend(crc.to_le_bytes());
            restore(&payload, Limits::default()).unwrap_err().to_string()
        };
        assert_eq!(of(b"\0\x01a", 13), "the payload has version 13; versions up to 12 are known");
        for (content, why) in [
            (&b""[..], "at byte 0, in a type of a value: it ends too early"),
            (b"\x08", "at byte 0, in a type of a value: there is no type with the code 8"),
            (b"\0\x01ab", "at byte 3, in the payload: it goes on behind the value"),
            (b"\x02\0", "at byte 0, in the payload: it is of a collection without elements"),
        ] {
            assert_eq!(of(content, 11), format!("the payload is of no value: {why}"));
        }
        assert_eq!(of(b"\x07\0\0", 9), "the payload is of a value of the module type AAAAAAAAA");
    }

    #[test]
    fn libraries_of_functions_come_back() {
        let codes = [&b"#!lua name=a\n"[..], b"#!lua name=b\n-- a comment that is longer"];
        let payload = dump_functions(codes);
        assert_eq!(restore_functions(&payload, Limits::default()).unwrap(), codes);
        let none = dump_functions([]);
        assert!(restore_functions(&none, Limits::default()).unwrap().is_empty());
        assert!(restore_functions(&dump_string(b"hello"), Limits::default()).is_err());
    }
}
