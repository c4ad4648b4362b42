//! Words that may be quoted.

/// The words of a line, which may be quoted as on a command line; `None`: a quote is not closed, or does not end a word.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0);
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, more @ ..] = rest
            && is_space(first)
        {
            rest = more;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest {
                [] => break,
                [first, ..] if is_space(first) => break,
                [quote @ (b'"' | b'\''), more @ ..] => {
                    rest = quoted(*quote, more, &mut word)?;
                    if rest.first().is_some_and(|byte| !is_space(byte)) {
                        return None;
                    }
                    break;
                }
                [byte, more @ ..] => {
                    word.push(*byte);
                    rest = more;
                }
            }
        }
        words.push(word);
    }
}

/// Appends what stands before the closing quote, and returns what stands behind it.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    loop {
        rest = match rest {
            [] => return None,
            [first, more @ ..] if *first == quote => return Some(more),
            [b'\\', b'x', high, low, more @ ..]
                if quote == b'"' && digit(*high).is_some() && digit(*low).is_some() =>
            {
                word.push(digit(*high)? << 4 | digit(*low)?);
                more
            }
            [b'\\', byte, more @ ..] if quote == b'"' => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    byte => *byte,
                });
                more
            }
            [b'\\', b'\'', more @ ..] if quote == b'\'' => {
                word.push(b'\'');
                more
            }
            [byte, more @ ..] => {
                word.push(*byte);
                more
            }
        };
    }
}
