//! The line that a reply, or an item of one, begins with.

use thiserror::Error;

/// Bytes that are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a server sent bytes that are no reply of RESP; check that its address is right")]
pub struct Malformed;

/// A line of a reply, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Null,
    /// So many bytes follow, and the end of a line.
    Bulk(usize),
    Verbatim(usize),
    /// So many items follow.
    Array(usize),
    Set(usize),
    Push(usize),
    /// So many pairs of items follow.
    Map(usize),
}

impl<'a> Head<'a> {
    #[inline]
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, rest) = line.split_first().ok_or(Malformed)?;
        match kind {
            b'$' | b'*' if rest == b"-1" => Ok(Self::Null),
            b'$' => len(rest).map(Self::Bulk),
            b'+' => Ok(Self::Status(rest)),
            b'-' => Ok(Self::Error(rest)),
            b':' => integer(rest).map(Self::Integer),
            b'*' => len(rest).map(Self::Array),
            b'_' if rest.is_empty() => Ok(Self::Null),
            b'=' => len(rest).map(Self::Verbatim),
            b'~' => len(rest).map(Self::Set),
            b'>' => len(rest).map(Self::Push),
            b'%' => len(rest).map(Self::Map),
            _ => Err(Malformed),
        }
    }
}

fn integer(digits: &[u8]) -> Result<i64, Malformed> {
    str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Malformed)
}

#[inline]
fn len(digits: &[u8]) -> Result<usize, Malformed> {
    // 18 digits fit; no server has so much memory.
    if digits.is_empty() || digits.len() > 18 {
        return Err(Malformed);
    }
    digits.iter().try_fold(0_usize, |len, digit| {
        digit.is_ascii_digit().then(|| len * 10 + usize::from(digit - b'0')).ok_or(Malformed)
    })
}
