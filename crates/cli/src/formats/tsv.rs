//! Tab-separated values.
//!
//! ```text
//! key TAB value          a record; the value begins after the first tab
//! \space TAB name        the records below are of the key space `name`
//! ```
//!
//! Keys, values and names are escaped as in [`crate::escape`]; a line ends with `\n` or `\r\n`.

use std::io::{self, BufRead, Write};
use std::rc::Rc;

use super::Record;
use super::lines::Lines;
use crate::{Result, escape};

/// No key begins like this: `\s` is not an escape.
const SPACE: &[u8] = b"\\space";

pub(super) fn read<R: BufRead>(mut lines: Lines<R>) -> impl Iterator<Item = Result<Record>> {
    let mut space: Option<Rc<str>> = None;
    std::iter::from_fn(move || {
        lines.next_record(|line| {
            let tab = line
                .iter()
                .position(|&byte| byte == b'\t')
                .ok_or("no tab; a line is a key, a tab and a value")?;
            let (key, value) = (&line[..tab], escape::read(&line[tab + 1..])?);
            if key == SPACE {
                let name = std::str::from_utf8(&value)
                    .map_err(|_| "the name of a key space is not UTF-8".to_owned())?;
                space = Some(name.into());
                return Ok(None);
            }
            let key = escape::read(key)?.into_owned();
            Ok(Some(Record { space: space.clone(), key, value: value.into_owned() }))
        })
    })
}

pub(super) fn write(out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    escape::write(out, key)?;
    out.write_all(b"\t")?;
    escape::write(out, value)?;
    out.write_all(b"\n")
}

pub(super) fn write_key(out: &mut impl Write, key: &[u8]) -> io::Result<()> {
    escape::write(out, key)?;
    out.write_all(b"\n")
}

pub(super) fn write_space(out: &mut impl Write, name: &str) -> io::Result<()> {
    out.write_all(SPACE)?;
    out.write_all(b"\t")?;
    escape::write(out, name.as_bytes())?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<Vec<Record>> {
        read(Lines::new("in.tsv".into(), text.as_bytes())).collect()
    }

    #[test]
    fn a_line_is_a_key_a_tab_and_a_value() {
        let records =
            read_all("a\t1\nb\t\n\tempty key\nrow\tx\ty\nesc\\taped\t\\x00\\\\\n").unwrap();
        let pairs: Vec<_> = records.iter().map(|r| (&r.key[..], &r.value[..])).collect();
        let expected: [(&[u8], &[u8]); 5] = [
            (b"a", b"1"),
            (b"b", b""),
            (b"", b"empty key"),
            (b"row", b"x\ty"),
            (b"esc\taped", b"\0\\"),
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn records_after_a_space_line_are_of_that_key_space() {
        let records = read_all("a\t1\n\\space\tdb0:expires\na\t2\n\\\\space\t3\n").unwrap();
        let spaces: Vec<_> = records.iter().map(|r| (r.space.as_deref(), &r.key[..])).collect();
        let expected: [(_, &[u8]); 3] =
            [(None, b"a"), (Some("db0:expires"), b"a"), (Some("db0:expires"), b"\\space")];
        assert_eq!(spaces, expected);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [("a\t1\nno tab\n", 2), ("a\t\\q\n", 1), ("\\space\t\\xff\n", 1)] {
            let error = read_all(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("in.tsv:{line}: ")), "{error}");
        }
    }
}
