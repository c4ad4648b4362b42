//! Replies, in the protocol that the client speaks.
//!
//! RESP3 has types for values that RESP2 encodes by conventions: a missing value, maps, sets, text that is meant for
//! people. A command states the meaning, and [`Reply`] writes it in either protocol, into a buffer that the connection
//! reuses.

use crate::double;
use crate::number::Decimal;

/// The version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

impl Protocol {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Writes replies to a buffer.
pub(crate) struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) protocol: Protocol,
}

impl Reply<'_> {
    #[inline]
    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line breaks.
    pub(crate) fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end_line();
    }

    /// An error: its code, a space, and a text. Line breaks in it become spaces, and those at its end are left out.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.out.push(b'-');
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
        let bytes = text[..end.map_or(0, |end| end + 1)].iter().copied();
        self.out.extend(bytes.map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.end_line();
    }

    #[inline]
    pub(crate) fn integer(&mut self, number: i64) {
        self.header(b':', Decimal::new(number));
    }

    /// 1 or 0.
    pub(crate) fn flag(&mut self, flag: bool) {
        self.integer(i64::from(flag));
    }

    #[inline]
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', Decimal::unsigned(bytes.len() as u64));
        self.out.extend_from_slice(bytes);
        self.end_line();
    }

    /// A floating-point number, given in decimal.
    pub(crate) fn decimal(&mut self, number: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(number.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(number.as_bytes());
                self.end_line();
            }
        }
    }

    /// A value, or its absence.
    #[inline]
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    #[inline]
    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes that there is no array.
    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// An array; its elements follow.
    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', Decimal::unsigned(len as u64));
    }

    /// A map; its keys and values follow in turn.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(2 * pairs),
            Protocol::Resp3 => self.header(b'%', Decimal::unsigned(pairs as u64)),
        }
    }

    /// A set; its elements follow.
    pub(crate) fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.header(b'~', Decimal::unsigned(len as u64)),
        }
    }

    /// A double-precision number, which is no NaN.
    pub(crate) fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                let mut text = Vec::new();
                double::write(&mut text, number);
                self.bulk(&text);
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                double::write(self.out, number);
                self.end_line();
            }
        }
    }

    /// A number that has a text of its own.
    pub(crate) fn double_text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text.as_bytes());
                self.end_line();
            }
        }
    }

    /// A message that answers no request; its elements follow. RESP2 has no form of its own for it.
    pub(crate) fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.header(b'>', Decimal::unsigned(len as u64)),
        }
    }

    /// Text for people.
    pub(crate) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                // The prefix `txt:` is the format of the text, and is part of its length.
                self.header(b'=', Decimal::unsigned(text.len() as u64 + 4));
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end_line();
            }
        }
    }

    /// An array of texts.
    pub(crate) fn texts(&mut self, texts: &[&str]) {
        self.array(texts.len());
        texts.iter().for_each(|text| self.bulk(text.as_bytes()));
    }

    /// An array of short texts without line breaks.
    pub(crate) fn simples(&mut self, texts: &[&str]) {
        self.array(texts.len());
        texts.iter().for_each(|text| self.simple(text));
    }

    #[inline]
    fn header(&mut self, mark: u8, number: Decimal) {
        self.out.push(mark);
        self.out.extend_from_slice(number.as_bytes());
        self.end_line();
    }

    #[inline]
    fn end_line(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply { out: &mut out, protocol });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_protocol_has_its_own_words() {
        let everything = |reply: &mut Reply<'_>| {
            reply.map(1);
            reply.set(1);
            reply.push(2);
            reply.null();
            reply.null_array();
            reply.verbatim("text");
            reply.bulk(b"bytes");
            reply.integer(-5);
            reply.double(1.5);
        };
        assert_eq!(
            written(Protocol::Resp2, everything),
            "*2\r\n*1\r\n*2\r\n$-1\r\n*-1\r\n$4\r\ntext\r\n$5\r\nbytes\r\n:-5\r\n$3\r\n1.5\r\n"
        );
        assert_eq!(
            written(Protocol::Resp3, everything),
            "%1\r\n~1\r\n>2\r\n_\r\n_\r\n=8\r\ntxt:text\r\n$5\r\nbytes\r\n:-5\r\n,1.5\r\n"
        );
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let text = written(Protocol::Resp2, |reply| reply.error(b"ERR no\r\n+OK"));
        assert_eq!(text, "-ERR no  +OK\r\n");
    }
}
