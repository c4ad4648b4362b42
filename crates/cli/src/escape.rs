//! Bytes as printable text.
//!
//! ```text
//! \t tab    \n line feed    \r carriage return    \0 zero byte    \\ backslash
//! \xHH      the byte with the hexadecimal digits HH
//! ```
//!
//! Control characters and bytes that are not UTF-8 are written escaped, all other text as it is.
//! When escapes are read, every other byte stands for itself, so any bytes round-trip.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes `bytes` escaped.
pub(crate) fn write(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        write_text(out, chunk.valid())?;
        write_hex(out, chunk.invalid())?;
    }
    Ok(())
}

/// `bytes` escaped, for messages.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    // A vector takes every write, and escaped bytes are UTF-8.
    let _ = write(&mut text, bytes);
    String::from_utf8_lossy(&text).into_owned()
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut written = 0;
    for (at, char) in text.char_indices().filter(|(_, char)| *char == '\\' || char.is_control()) {
        out.write_all(&text.as_bytes()[written..at])?;
        written = at + char.len_utf8();
        match char {
            '\t' => out.write_all(b"\\t")?,
            '\n' => out.write_all(b"\\n")?,
            '\r' => out.write_all(b"\\r")?,
            '\0' => out.write_all(b"\\0")?,
            '\\' => out.write_all(b"\\\\")?,
            _ => write_hex(out, &text.as_bytes()[at..written])?,
        }
    }
    out.write_all(&text.as_bytes()[written..])
}

fn write_hex(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

/// The bytes that escaped `text` stands for, or why it is invalid.
pub(crate) fn read(text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(first) = text.iter().position(|&byte| byte == b'\\') else {
        return Ok(Cow::Borrowed(text));
    };
    let (clean, mut rest) = text.split_at(first);
    let mut bytes = clean.to_vec();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (byte, taken) = match *rest {
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b'0', ..] => (0, 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => return Err(not_an_escape(&rest[..3])),
            },
            _ => return Err(not_an_escape(&rest[..rest.len().min(1)])),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    Ok(Cow::Owned(bytes))
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn not_an_escape(after_backslash: &[u8]) -> String {
    format!(
        "`\\{}` is not an escape; write a backslash as `\\\\`, other bytes as `\\xHH`",
        after_backslash.escape_ascii()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            let text = to_text(&bytes);
            prop_assert_eq!(&*read(text.as_bytes()).unwrap(), &bytes[..]);
            prop_assert!(!text.chars().any(char::is_control));
        }

        #[test]
        fn any_text_is_read_or_refused(text: Vec<u8>) {
            if let Ok(bytes) = read(&text) {
                prop_assert!(bytes.len() <= text.len());
            }
        }
    }

    #[test]
    fn text_stays_readable() {
        assert_eq!(to_text("köl\t7\u{9b}\u{1b}".as_bytes()), r"köl\t7\xc2\x9b\x1b");
        assert_eq!(to_text(b"\0\xff\\"), r"\0\xff\\");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for text in [r"\q", r"\", r"\x1", r"\xg0", r"a\x"] {
            assert!(read(text.as_bytes()).unwrap_err().contains("is not an escape"), "{text}");
        }
    }
}
