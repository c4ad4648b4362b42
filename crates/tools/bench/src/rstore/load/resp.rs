//! RESP2, as much of it as the workloads need.

use super::protocol::{Answer, Arrived, line, number};
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

#[inline]
fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    push_decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// The first reply in `bytes`.
#[inline]
pub(super) fn reply(bytes: &[u8]) -> Arrived<'_> {
    if bytes.starts_with(b"+OK\r\n") {
        return Arrived::Reply(5, Answer::Stored);
    }
    match bytes.first() {
        None => Arrived::Part,
        Some(b'$') => match bulk_at(bytes, 0) {
            Bulk::Part => Arrived::Part,
            Bulk::Bytes(value, end) => Arrived::Reply(end, Answer::Value(value)),
            Bulk::Null(end) => Arrived::Reply(end, Answer::Missing),
            Bulk::Garbage => Arrived::Garbage,
        },
        Some(b'*') => keys(bytes),
        Some(b'+' | b'-' | b':') => match line(bytes) {
            None => Arrived::Part,
            Some((line, end)) => Arrived::Reply(end, Answer::Other(line)),
        },
        Some(_) => Arrived::Garbage,
    }
}

enum Bulk<'a> {
    Part,
    Bytes(&'a [u8], usize),
    Null(usize),
    Garbage,
}

/// The bulk string at `at`, and where it ends.
#[inline]
fn bulk_at(bytes: &[u8], at: usize) -> Bulk<'_> {
    let Some((head, head_len)) = line(&bytes[at..]) else { return Bulk::Part };
    if head == b"$-1" {
        return Bulk::Null(at + head_len);
    }
    let len = head.strip_prefix(b"$").and_then(number);
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else { return Bulk::Garbage };
    let start = at + head_len;
    let Some(end) = start.checked_add(len).and_then(|end| end.checked_add(2)) else {
        return Bulk::Garbage;
    };
    match bytes.get(start..end) {
        None => Bulk::Part,
        Some(body) if body.ends_with(b"\r\n") => Bulk::Bytes(&body[..len], end),
        Some(_) => Bulk::Garbage,
    }
}

/// The reply to a scan: an array of a cursor and an array of keys.
fn keys(bytes: &[u8]) -> Arrived<'_> {
    let Some((outer, outer_len)) = line(bytes) else { return Arrived::Part };
    if outer != b"*2" {
        return Arrived::Garbage;
    }
    let (cursor, at) = match bulk_at(bytes, outer_len) {
        Bulk::Part => return Arrived::Part,
        Bulk::Bytes(digits, end) => match number(digits) {
            Some(cursor) => (cursor, end),
            None => return Arrived::Garbage,
        },
        Bulk::Null(_) | Bulk::Garbage => return Arrived::Garbage,
    };
    let Some((inner, inner_len)) = line(&bytes[at..]) else { return Arrived::Part };
    let Some(count) = inner.strip_prefix(b"*").and_then(number) else { return Arrived::Garbage };
    let mut end = at + inner_len;
    for _ in 0..count {
        match bulk_at(bytes, end) {
            Bulk::Part => return Arrived::Part,
            Bulk::Bytes(_, next) => end = next,
            Bulk::Null(_) | Bulk::Garbage => return Arrived::Garbage,
        }
    }
    Arrived::Reply(end, Answer::Keys { cursor, count })
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
