//! The manifest of an append-only file that is in several files, as Redis has them since 7.0.
//!
//! ```text
//! file appendonly.aof.1.base.rdb seq 1 type b
//! file appendonly.aof.1.incr.aof seq 1 type i
//! ```
//!
//! A line is names and values in turns; names that are not known are passed over. A value in quotes may have escapes.
//! Empty lines, and those that begin with `#`, are comments.

use std::fmt;

use crate::decimal;

/// The longest line, in bytes, with its end.
const LINE_LEN_MAX: usize = 1024;

/// The files of an append-only file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The files, in the order of the manifest.
    pub files: Vec<ListedFile>,
}

/// A file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The name, without a folder.
    pub name: String,
    /// The number among the files of its kind.
    pub sequence: u64,
    /// The purpose of the file.
    pub kind: FileKind,
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// All data as it was once.
    Base,
    /// The commands since then.
    Increment,
    /// It has been replaced, and is not read.
    History,
}

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The manifest in a text.
    ///
    /// # Errors
    /// [`ManifestError`] if Redis would refuse it, too.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Self::default();
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            manifest.add(line).map_err(|why| ManifestError { line: number, why })?;
        }
        match manifest.files.is_empty() {
            true => Err(ManifestError { line: 1, why: "it names no file" }),
            false => Ok(manifest),
        }
    }

    /// The files that make up the data, in the order in which they are read.
    pub fn load_order(&self) -> impl Iterator<Item = &ListedFile> {
        let of_kind = |kind| self.files.iter().filter(move |file| file.kind == kind);
        of_kind(FileKind::Base).chain(of_kind(FileKind::Increment))
    }

    fn add(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.len() > LINE_LEN_MAX {
            return Err("it is too long");
        }
        let Some(line) = line.strip_suffix(b"\n") else { return Err("it has no end") };
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let file = file(line)?;
        let mut of_kind = self.files.iter().filter(|other| other.kind == file.kind);
        match file.kind {
            FileKind::Base if of_kind.next().is_some() => return Err("it is a second base"),
            FileKind::Increment if of_kind.any(|other| other.sequence >= file.sequence) => {
                return Err("its number is not higher than that of an increment before");
            }
            _ => {}
        }
        self.files.push(file);
        Ok(())
    }
}

fn file(line: &[u8]) -> Result<ListedFile, &'static str> {
    let (mut name, mut sequence, mut kind) = (None, None, None);
    let mut words = words(line)?.into_iter();
    while let Some(key) = words.next() {
        let value = words.next().ok_or("a name has no value")?;
        match &key.to_ascii_lowercase()[..] {
            b"file" => name = Some(value),
            b"seq" => {
                let number =
                    decimal::parse_i64(&value).and_then(|number| u64::try_from(number).ok());
                sequence =
                    Some(number.filter(|number| *number > 0).ok_or("its `seq` is no number")?);
            }
            b"type" => {
                kind = Some(match &value[..] {
                    b"b" => FileKind::Base,
                    b"i" => FileKind::Increment,
                    b"h" => FileKind::History,
                    _ => return Err("its `type` is none of b, i and h"),
                });
            }
            _ => {}
        }
    }
    let name = String::from_utf8(name.ok_or("it has no `file`")?);
    let name = name.or(Err("its `file` is not UTF-8"))?;
    if name.is_empty() || name.contains(['/', '\\', '\0']) || name == "." || name == ".." {
        return Err("its `file` has to be a name without a folder");
    }
    let sequence = sequence.ok_or("it has no `seq`")?;
    Ok(ListedFile { name, sequence, kind: kind.ok_or("it has no `type`")? })
}

/// The words of a line, taken out of their quotes.
fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const UNBALANCED: &str = "a quote has no end";
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii_start());
    while let [first, after @ ..] = rest {
        let mut word = Vec::new();
        if matches!(first, b'"' | b'\'') {
            let mut text = after;
            rest = loop {
                match text {
                    [quote, behind @ ..] if quote == first => break behind,
                    [b'\\', b'\'', behind @ ..] => {
                        word.push(b'\'');
                        text = behind;
                    }
                    [b'\\', behind @ ..] if *first == b'"' => {
                        text = unescape(behind, &mut word).ok_or(UNBALANCED)?;
                    }
                    [byte, behind @ ..] => {
                        word.push(*byte);
                        text = behind;
                    }
                    [] => return Err(UNBALANCED),
                }
            };
            if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return Err("a word goes on behind its quote");
            }
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            word.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

/// Appends what stands behind a backslash, and returns the rest.
fn unescape<'a>(text: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    if let [b'x', high, low, rest @ ..] = text
        && let (Some(high), Some(low)) =
            (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
    {
        word.push((high << 4 | low) as u8);
        return Some(rest);
    }
    let (byte, rest) = text.split_first()?;
    word.push(match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => *other,
    });
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_are_read_in_their_order() {
        let text =
            b"# made by hand\n\nfile a.2.base.rdb seq 2 type b\nfile a.1.incr.aof seq 1 type h\n\
            file \"a \\x31.incr\\t\" seq 3 type i startoffset 7\nfile 'b c' seq 4 type i\r\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.files[1].kind, FileKind::History);
        let names: Vec<_> = manifest.load_order().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.2.base.rdb", "a 1.incr\t", "b c"]);
    }

    #[test]
    fn wrong_lines_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "line 1: it names no file"),
            ("file a seq 1 type b", "line 1: it has no end"),
            ("file a seq 1 type\n", "line 1: a name has no value"),
            ("seq 1 type b\n", "line 1: it has no `file`"),
            ("file a type b\n", "line 1: it has no `seq`"),
            ("file a seq 1\n", "line 1: it has no `type`"),
            ("file a seq 1 type x\n", "line 1: its `type` is none of b, i and h"),
            ("file a seq 0 type b\n", "line 1: its `seq` is no number"),
            ("file ../a seq 1 type b\n", "line 1: its `file` has to be a name without a folder"),
            ("file \"a seq 1 type b\n", "line 1: a quote has no end"),
            ("file \"a\"b seq 1 type b\n", "line 1: a word goes on behind its quote"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", "line 2: it is a second base"),
            (
                "file a seq 2 type i\nfile b seq 2 type i\n",
                "line 2: its number is not higher than that of an increment before",
            ),
        ] {
            assert_eq!(Manifest::parse(text.as_bytes()).unwrap_err().to_string(), why, "{text}");
        }
        let long = format!("file {} seq 1 type b\n", "a".repeat(1024));
        assert_eq!(Manifest::parse(long.as_bytes()).unwrap_err().why, "it is too long");
    }

    proptest! {
        #[test]
        fn any_text_is_a_manifest_or_refused(text: Vec<u8>, line: String) {
            let _ = Manifest::parse(&text);
            let _ = Manifest::parse(format!("file {line} seq 1 type b\n").as_bytes());
        }
    }
}
