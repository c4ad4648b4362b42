//! MONITOR: the line that tells of a command.

use std::io::Write as _;
use std::time::Duration;

use crate::address::Address;
use crate::resp::Args;
use crate::secrets::is_secret;

/// Appends the line of a command as a reply: the time since 1970, the database and the address of the client, or `lua` for
/// a script's, and the words in quotes. Passwords are not shown.
pub(crate) fn write_line(
    out: &mut Vec<u8>,
    now: Duration,
    db: usize,
    addr: Option<&Address>,
    args: Args<'_>,
) {
    let (seconds, micros) = (now.as_secs(), now.subsec_micros());
    // Writing to a vector does not fail.
    let _ = match addr {
        None => write!(out, "+{seconds}.{micros:06} [{db} lua]"),
        Some(Address::Ip(addr)) => write!(out, "+{seconds}.{micros:06} [{db} {addr}]"),
        Some(Address::Unix(path)) => write!(out, "+{seconds}.{micros:06} [{db} unix:{path}]"),
    };
    for (index, word) in args.iter().enumerate() {
        out.push(b' ');
        match is_secret(args, index) {
            true => quote(out, b"(redacted)"),
            false => quote(out, word),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a word between quotes, with what is no printable ASCII escaped.
fn quote(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line() {
        let words: [&[u8]; 3] = [b"SET", b"a \"b\\\r\n", b"\0\x07\x08\t\xff"];
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        for word in words {
            ranges.push(bytes.len()..bytes.len() + word.len());
            bytes.extend_from_slice(word);
        }
        let mut line = Vec::new();
        let (now, addr) =
            (Duration::from_micros(1_500_000_001), Address::Ip(([127, 0, 0, 1], 5).into()));
        write_line(&mut line, now, 3, Some(&addr), Args::new(&bytes, &ranges));
        let expected = concat!(
            "+1500.000001 [3 127.0.0.1:5] \"SET\" \"a \\\"b\\\\\\r\\n\" ",
            "\"\\x00\\a\\b\\t\\xff\"\r\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
