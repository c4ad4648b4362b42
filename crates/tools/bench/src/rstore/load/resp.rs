//! RESP2, as much of it as the workloads need.

use halite_resp_client::{Malformed, Token, bulk, token};

use super::protocol::{Answer, Arrived, number};
use crate::kv::records::push_decimal;

#[inline]
pub(super) fn put(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    bulk(out, key);
    bulk(out, value);
}

#[inline]
pub(super) fn get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    bulk(out, key);
}

pub(super) fn scan(out: &mut Vec<u8>, cursor: u64, count: u64) {
    out.extend_from_slice(b"*4\r\n$4\r\nSCAN\r\n");
    let mut digits = Vec::new();
    push_decimal(&mut digits, cursor);
    bulk(out, &digits);
    bulk(out, b"COUNT");
    digits.clear();
    push_decimal(&mut digits, count);
    bulk(out, &digits);
}

/// The first reply in `bytes`.
#[inline]
pub(super) fn reply(bytes: &[u8]) -> Arrived<'_> {
    if bytes.starts_with(b"+OK\r\n") {
        return Arrived::Reply(5, Answer::Stored);
    }
    match token(bytes) {
        Ok(None) => Arrived::Part,
        Ok(Some((Token::Bulk(value), end))) => Arrived::Reply(end, Answer::Value(value)),
        Ok(Some((Token::Null, end))) => Arrived::Reply(end, Answer::Missing),
        Ok(Some((Token::Array(2), end))) => keys(bytes, end),
        Ok(Some((Token::Status(_) | Token::Error(_) | Token::Integer(_), end))) => {
            Arrived::Reply(end, Answer::Other(bytes[..end].trim_ascii_end()))
        }
        Ok(Some(_)) | Err(Malformed) => Arrived::Garbage,
    }
}

/// The reply to a scan, an array of two, whose items begin at `at`: a cursor and an array of keys.
fn keys(bytes: &[u8], at: usize) -> Arrived<'_> {
    let (cursor, at) = match token(&bytes[at..]) {
        Ok(None) => return Arrived::Part,
        Ok(Some((Token::Bulk(digits), len))) => match number(digits) {
            Some(cursor) => (cursor, at + len),
            None => return Arrived::Garbage,
        },
        Ok(Some(_)) | Err(Malformed) => return Arrived::Garbage,
    };
    let (count, mut end) = match token(&bytes[at..]) {
        Ok(None) => return Arrived::Part,
        Ok(Some((Token::Array(count), len))) => (count, at + len),
        Ok(Some(_)) | Err(Malformed) => return Arrived::Garbage,
    };
    for _ in 0..count {
        match token(&bytes[end..]) {
            Ok(None) => return Arrived::Part,
            Ok(Some((Token::Bulk(_), len))) => end += len,
            Ok(Some(_)) | Err(Malformed) => return Arrived::Garbage,
        }
    }
    Arrived::Reply(end, Answer::Keys { cursor, count: count as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        put(&mut out, b"key", b"a value...");
        get(&mut out, b"key");
        scan(&mut out, 17, 100);
        let expected = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\na value...\r\n\
            *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*4\r\n$4\r\nSCAN\r\n$2\r\n17\r\n$5\r\nCOUNT\r\n$3\r\n100\r\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn every_reply_is_found_whole_and_no_part_of_it_is() {
        for (bytes, answer) in [
            (&b"+OK\r\n"[..], Answer::Stored),
            (b"$5\r\nab\r\nc\r\n", Answer::Value(b"ab\r\nc")),
            (b"$0\r\n\r\n", Answer::Value(b"")),
            (b"$-1\r\n", Answer::Missing),
            (b"-OOM no room\r\n", Answer::Other(b"-OOM no room")),
            (b"*2\r\n$1\r\n0\r\n*0\r\n", Answer::Keys { cursor: 0, count: 0 }),
            (
                b"*2\r\n$2\r\n42\r\n*2\r\n$1\r\na\r\n$2\r\nbc\r\n",
                Answer::Keys { cursor: 42, count: 2 },
            ),
        ] {
            let followed = [bytes, b"+OK"].concat();
            assert_eq!(reply(&followed), Arrived::Reply(bytes.len(), answer));
            for len in 0..bytes.len() {
                assert_eq!(reply(&bytes[..len]), Arrived::Part, "{}", bytes[..len].escape_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_garbage() {
        for bytes in [
            &b"OK\r\n"[..],
            b"$x\r\n",
            b"$3\r\nabcde",
            b"$99999999999999999999\r\n",
            b"$18446744073709551615\r\n",
            b"*3\r\n",
            b"*2\r\n$1\r\nx\r\n",
            b"*2\r\n$1\r\n0\r\n*1\r\n$-1\r\n",
        ] {
            assert_eq!(reply(bytes), Arrived::Garbage, "{}", bytes.escape_ascii());
        }
    }
}
