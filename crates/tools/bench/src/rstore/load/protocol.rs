//! The protocols of servers, and their replies.

use super::{memcached, resp};

/// A protocol of requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Redis' RESP2.
    Resp,
    /// memcached's text protocol.
    Memcached,
}

/// The reply at the beginning of the bytes that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived<'a> {
    /// Not all of it.
    Part,
    /// All of it, in so many bytes.
    Reply(usize, Answer<'a>),
    /// Bytes that are no reply.
    Garbage,
}

/// The content of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// A put is done.
    Stored,
    /// A get found this.
    Value(&'a [u8]),
    /// A get found no value.
    Missing,
    /// A scan found so many keys, and goes on from this cursor.
    Keys {
        /// 0: it met the end.
        cursor: u64,
        /// Keys.
        count: u64,
    },
    /// An error, or a reply that does not fit the request.
    Other(&'a [u8]),
}

impl Protocol {
    #[inline]
    pub(super) fn put(self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self {
            Self::Resp => resp::put(out, key, value),
            Self::Memcached => memcached::put(out, key, value),
        }
    }

    #[inline]
    pub(super) fn get(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Self::Resp => resp::get(out, key),
            Self::Memcached => memcached::get(out, key),
        }
    }

    /// The first reply in `bytes`.
    #[inline]
    pub(super) fn reply(self, bytes: &[u8]) -> Arrived<'_> {
        match self {
            Self::Resp => resp::reply(bytes),
            Self::Memcached => memcached::reply(bytes),
        }
    }
}

/// The first line in `bytes`, without its end, and the bytes that it takes.
#[inline]
pub(super) fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// A decimal number.
#[inline]
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}
