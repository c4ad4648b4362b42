//! Requests as a person types them: words on a line, quoted where they hold spaces.
//!
//! In double quotes, `\n \r \t \b \a` and `\xHH` stand for their bytes and a backslash before any other byte for that
//! byte; in single quotes only `\'` is special. A closing quote ends its word, so a space or the line's end must
//! follow.

use std::ops::Range;

use super::ProtocolError;

/// Splits `line` into words: their bytes go to `text`, and where they lie there to `ranges`.
pub(super) fn split(
    line: &[u8],
    text: &mut Vec<u8>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), ProtocolError> {
    // A NUL ends the line: the bytes behind it cannot be typed.
    let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut rest = line;
    loop {
        rest = without_spaces(rest);
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        rest = word(rest, text)?;
        ranges.push(start..text.len());
    }
}

/// Reads one word and returns the rest of the line.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'"' => return closed(double_quoted(tail, text)?),
            b'\'' => return closed(single_quoted(tail, text)?),
            _ if is_space(byte) => break,
            _ => text.push(byte),
        }
        rest = tail;
    }
    Ok(rest)
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                text.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(ProtocolError::Quotes),
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => {
                text.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(ProtocolError::Quotes),
        };
    }
}

fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(ProtocolError::Quotes),
        _ => Ok(rest),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn without_spaces(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| !is_space(byte)).unwrap_or(line.len());
    &line[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        split(line, &mut text, &mut ranges)?;
        Ok(ranges.into_iter().map(|range| text[range].to_vec()).collect())
    }

    #[test]
    fn words_are_split_at_any_run_of_spaces() {
        assert_eq!(words(b"  set \t k   v \r").unwrap(), [&b"set"[..], b"k", b"v"]);
        assert!(words(b"   ").unwrap().is_empty());
    }

    #[test]
    fn quotes_hold_spaces_and_escapes() {
        let line = br#"set "a \x41\n\q\"" 'b \n \''"#;
        assert_eq!(words(line).unwrap(), [&b"set"[..], b"a A\nq\"", br"b \n '"]);
        assert_eq!(words(br#"a"b c" """#).unwrap(), [&b"ab c"[..], b""]);
        assert_eq!(words(br#""\xZZ""#).unwrap(), [b"xZZ"]);
    }

    #[test]
    fn an_open_quote_or_one_that_a_word_follows_is_an_error() {
        for line in [&b"\"abc"[..], b"'abc", b"\"a\"b", b"'a'b", b"\"\"\"k\"\"\" v", b"\"\\"] {
            assert_eq!(words(line), Err(ProtocolError::Quotes), "{}", line.escape_ascii());
        }
    }
}
