//! memcached's text protocol, as much of it as the workloads need.

use super::protocol::{Answer, Arrived, line, number};
use crate::kv::records::push_decimal;

#[inline]
pub(super) fn put(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    // No flags, and it does not expire.
    out.extend_from_slice(b" 0 0 ");
    push_decimal(out, value.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
pub(super) fn get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

const END: &[u8] = b"\r\nEND\r\n";

/// The first reply in `bytes`.
#[inline]
pub(super) fn reply(bytes: &[u8]) -> Arrived<'_> {
    let Some((head, start)) = line(bytes) else { return Arrived::Part };
    let Some(item) = head.strip_prefix(b"VALUE ") else {
        let answer = match head {
            b"STORED" => Answer::Stored,
            b"END" => Answer::Missing,
            _ => Answer::Other(head),
        };
        return Arrived::Reply(start, answer);
    };
    // The key, the flags, the length.
    let len = item.rsplit(|byte| *byte == b' ').next().and_then(number);
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else { return Arrived::Garbage };
    let Some(end) = start.checked_add(len).and_then(|end| end.checked_add(END.len())) else {
        return Arrived::Garbage;
    };
    match bytes.get(start..end) {
        None => Arrived::Part,
        Some(body) if body.ends_with(END) => Arrived::Reply(end, Answer::Value(&body[..len])),
        Some(_) => Arrived::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_and_blocks() {
        let mut out = Vec::new();
        put(&mut out, b"key", b"a value...");
        get(&mut out, b"key");
        assert_eq!(out, b"set key 0 0 10\r\na value...\r\nget key\r\n");
    }

    #[test]
    fn every_reply_is_found_whole_and_no_part_of_it_is() {
        for (bytes, answer) in [
            (&b"STORED\r\n"[..], Answer::Stored),
            (b"END\r\n", Answer::Missing),
            (b"VALUE key 0 5\r\nab\r\nc\r\nEND\r\n", Answer::Value(b"ab\r\nc")),
            (b"SERVER_ERROR out of memory\r\n", Answer::Other(b"SERVER_ERROR out of memory")),
        ] {
            let followed = [bytes, b"END"].concat();
            assert_eq!(reply(&followed), Arrived::Reply(bytes.len(), answer));
            for len in 0..bytes.len() {
                assert_eq!(reply(&bytes[..len]), Arrived::Part, "{}", bytes[..len].escape_ascii());
            }
        }
        for bytes in [&b"VALUE key 0 x\r\n"[..], b"VALUE k 0 1\r\nabcdefghijk"] {
            assert_eq!(reply(bytes), Arrived::Garbage);
        }
    }
}
