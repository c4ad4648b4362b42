//! Values of Lua from JSON.

use mlua::{LightUserData, Lua, Value};

use super::super::lifted::Lifted;
use super::super::limits::Limits;
use super::{DEPTH_MAX, Options, Wrong};
use crate::double;

type Result<T> = std::result::Result<T, Wrong>;

/// The value of a text.
pub(super) fn decode(
    lua: &Lua,
    options: &Options,
    limits: &Limits<'_>,
    text: &[u8],
) -> Result<Value> {
    if matches!(text, [0, _, ..] | [_, 0, ..]) {
        let why = "JSON parser does not support UTF-16 or UTF-32";
        return Err(Wrong::Text(why.to_owned()));
    }
    let lifted = limits.lift()?;
    let mut parser = Parser { lua, options, limits, lifted: &lifted, text, at: 0 };
    let first = parser.next();
    let value = parser.value(first, 0)?;
    match parser.next() {
        (_, Token::End) => Ok(value),
        other => Err(expected("the end", &other)),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(why) => why,
        }
    }
}

/// A token with its place.
type Placed = (usize, Token);

fn expected(what: &str, (at, found): &Placed) -> Wrong {
    Wrong::Text(format!("Expected {what} but found {} at character {}", found.name(), at + 1))
}

struct Parser<'a> {
    lua: &'a Lua,
    options: &'a Options,
    limits: &'a Limits<'a>,
    lifted: &'a Lifted<'a>,
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, token: Placed, depth: i64) -> Result<Value> {
        self.limits.step(10)?;
        self.lifted.check()?;
        match token {
            (_, Token::String(text)) => Ok(Value::String(self.lua.create_string(text)?)),
            (_, Token::Number(number)) => Ok(Value::Number(number)),
            (_, Token::Boolean(truth)) => Ok(Value::Boolean(truth)),
            (_, Token::Null) => Ok(Value::LightUserData(LightUserData(std::ptr::null_mut()))),
            (_, Token::ObjectBegin) => self.object(depth + 1),
            (_, Token::ArrayBegin) => self.array(depth + 1),
            other => Err(expected("value", &other)),
        }
    }

    fn check_depth(&self, depth: i64) -> Result<()> {
        match depth > self.options.decode_depth_max.min(DEPTH_MAX) {
            true => Err(Wrong::Text(format!(
                "Found too many nested data structures ({depth}) at character {}",
                self.at
            ))),
            false => Ok(()),
        }
    }

    fn object(&mut self, depth: i64) -> Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token.1, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let (_, Token::String(key)) = token else {
                return Err(expected("object key string", &token));
            };
            let key = self.lua.create_string(key)?;
            token = self.next();
            if !matches!(token.1, Token::Colon) {
                return Err(expected("colon", &token));
            }
            token = self.next();
            table.raw_set(key, self.value(token, depth)?)?;
            match self.next() {
                (_, Token::ObjectEnd) => return Ok(Value::Table(table)),
                (_, Token::Comma) => token = self.next(),
                other => return Err(expected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self, depth: i64) -> Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token.1, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            table.raw_set(index, self.value(token, depth)?)?;
            match self.next() {
                (_, Token::ArrayEnd) => break,
                (_, Token::Comma) => token = self.next(),
                other => return Err(expected("comma or array end", &other)),
            }
        }
        Ok(Value::Table(table))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Placed {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        // As in C, a zero byte ends the text.
        let Some(byte) = self.peek().filter(|byte| *byte != 0) else { return (at, Token::End) };
        let token = match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(at),
            b'-' | b'0'..=b'9' => return self.number(at),
            _ => return self.word(at),
        };
        self.at += 1;
        (at, token)
    }

    /// A word, or a number that JSON does not have.
    fn word(&mut self, at: usize) -> Placed {
        let rest = &self.text[at..];
        let words = [
            ("true", Token::Boolean(true)),
            ("false", Token::Boolean(false)),
            ("null", Token::Null),
        ];
        for (word, token) in words {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return (at, token);
            }
        }
        match self.options.decodes_invalid && is_invalid_number(rest) {
            true => self.number(at),
            false => (at, Token::Error("invalid token")),
        }
    }

    fn number(&mut self, at: usize) -> Placed {
        let rest = &self.text[at..];
        if !self.options.decodes_invalid && is_invalid_number(rest) {
            return (at, Token::Error("invalid number"));
        }
        match double::prefix(rest) {
            Some((number, len)) => {
                self.at += len;
                (at, Token::Number(number))
            }
            None => (at, Token::Error("invalid number")),
        }
    }

    fn string(&mut self, at: usize) -> Placed {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return (self.at, Token::Error("unexpected end of string")),
                Some(b'"') => break,
                Some(b'\\') => {
                    if let Err(why) = self.escape(&mut text) {
                        return (self.at, Token::Error(why));
                    }
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        (at, Token::String(text))
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        let byte = match self.text.get(self.at + 1) {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'u') => return self.unicode(text).ok_or("invalid unicode escape code"),
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    /// A character by its number, of which two together may be one.
    fn unicode(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let hex = |at: usize| {
            let digits = std::str::from_utf8(self.text.get(at..at + 4)?).ok()?;
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        };
        let first = hex(self.at + 2)?;
        let (code, len) = match first {
            0xD800..0xDC00 => {
                if self.text.get(self.at + 6..self.at + 8)? != b"\\u" {
                    return None;
                }
                let second = hex(self.at + 8).filter(|code| (0xDC00..0xE000).contains(code))?;
                (0x10000 + ((first & 0x3FF) << 10 | second & 0x3FF), 12)
            }
            _ => (first, 6),
        };
        let character = char::from_u32(code)?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Some(())
    }
}

/// Whether a text begins with a number that C knows and JSON does not: hexadecimal, infinite, none, or with a sign or a zero
/// in front.
fn is_invalid_number(text: &[u8]) -> bool {
    let rest = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        rest => rest,
    };
    let begins = |word: &str| {
        rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    match rest {
        [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
        _ => begins("inf") || begins("nan"),
    }
}
