//! Comma-separated values, as RFC 4180 has them.
//!
//! ```text
//! record  = field, ("," field)..      and a line end: LF, CR LF or CR; the last one may be missing
//! field   = nothing                   NULL
//!         | characters                none of them , " CR LF
//!         | " characters "            with "" for each "
//! ```
//!
//! A library takes the quotes off. It reads a field at a time, so that the bytes it took tell whether the field had
//! quotes: `""` is empty text, and nothing is NULL. Quotes that are not closed are refused: their file was cut off.

use std::io::{self, BufRead, ErrorKind, Write};

use csv_core::ReadFieldResult;
use halite_table::ValueRef;
use halite_table::schema::COLUMNS_MAX;
use halite_table::value::FIELD_LEN_MAX;

use crate::{Error, Result};

/// Bytes of the longest field: those of the longest column in hexadecimal digits.
const LEN_MAX: usize = 2 * FIELD_LEN_MAX as usize + 2;

/// Bytes by which a record's room grows.
const GROWTH: usize = 1 << 12;

/// The mark by which Windows programs begin a file of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Its bytes without quotes.
    pub(super) bytes: &'a [u8],
    pub(super) is_quoted: bool,
}

/// A record, whose room is used again for the next one.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The number of the line where it begins.
    pub(super) line: u64,
    bytes: Vec<u8>,
    /// Of each field, the end of its bytes, and whether it is quoted.
    ends: Vec<(usize, bool)>,
}

impl Record {
    pub(super) fn fields(&self) -> impl ExactSizeIterator<Item = Field<'_>> {
        (0..self.ends.len()).map(|at| {
            let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
            let (end, is_quoted) = self.ends[at];
            Field { bytes: &self.bytes[begin..end], is_quoted }
        })
    }
}

/// The field that is being read, as it is in the file.
#[derive(Default)]
struct Raw {
    first: Option<u8>,
    quotes: usize,
}

/// The records of a file.
pub(super) struct Reader<R> {
    /// The file's name in errors.
    name: String,
    input: R,
    parser: csv_core::Reader,
    line: u64,
    is_at_beginning: bool,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(name: String, input: R) -> Self {
        Self { name, input, parser: csv_core::Reader::new(), line: 1, is_at_beginning: true }
    }

    /// Reads the next record; false at the end of the file. Empty lines are none.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<bool> {
        record.ends.clear();
        record.line = self.line;
        let (mut begin, mut end) = (0, 0);
        let mut raw = Raw::default();
        loop {
            if record.bytes.len() < end + GROWTH {
                record.bytes.resize(end + 2 * GROWTH, 0);
            }
            let input = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                input => input
                    .map_err(|error| Error::io(format!("{}:{}", self.name, self.line), error))?,
            };
            if std::mem::take(&mut self.is_at_beginning) && input.starts_with(BYTE_ORDER_MARK) {
                // By itself it would look like the end to the parser.
                self.input.consume(BYTE_ORDER_MARK.len());
                continue;
            }
            let (result, taken, written) = self.parser.read_field(input, &mut record.bytes[end..]);
            let mut bytes = &input[..taken];
            if raw.first.is_none() && record.ends.is_empty() {
                // Empty lines, and the rest of a line end.
                let of_lines = bytes.iter().take_while(|&byte| b"\r\n".contains(byte)).count();
                self.line += count(&bytes[..of_lines], b'\n');
                bytes = &bytes[of_lines..];
                record.line = self.line;
            }
            raw.first = raw.first.or(bytes.first().copied());
            raw.quotes += count(bytes, b'"') as usize;
            self.line += count(bytes, b'\n');
            self.input.consume(taken);
            end += written;
            if end - begin > LEN_MAX {
                let why = format!("a field is longer than {LEN_MAX} bytes; is a quote not closed?");
                return Err(self.wrong(record.line, why));
            }
            match result {
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::End => return Ok(false),
                ReadFieldResult::Field { record_end } => {
                    if !raw.quotes.is_multiple_of(2) {
                        let why = "a quote is not closed; one that is part of a text is written twice, between quotes";
                        return Err(self.wrong(record.line, why));
                    }
                    if record.ends.len() == COLUMNS_MAX {
                        let why = format!(
                            "there are more than {COLUMNS_MAX} fields, and no table has as many columns"
                        );
                        return Err(self.wrong(record.line, why));
                    }
                    record.ends.push((end, raw.first == Some(b'"')));
                    if record_end {
                        return Ok(true);
                    }
                    (begin, raw) = (end, Raw::default());
                }
            }
        }
    }

    /// An error of the record that begins in a line.
    pub(super) fn wrong(&self, line: u64, why: impl ToString) -> Error {
        Error::input(format!("{}:{line}", self.name), why)
    }
}

fn count(bytes: &[u8], wanted: u8) -> u64 {
    bytes.iter().filter(|&&byte| byte == wanted).count() as u64
}

/// Writes a record.
pub(super) fn write<'a>(
    out: &mut impl Write,
    fields: impl IntoIterator<Item = ValueRef<'a>>,
) -> io::Result<()> {
    for (at, field) in fields.into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match field {
            ValueRef::Null => {}
            ValueRef::Text(text) => write_text(out, text)?,
            // Numbers, moments and hexadecimal digits have no commas and no quotes.
            other => write!(out, "{other}")?,
        }
    }
    out.write_all(b"\n")
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let is_plain = !text.is_empty()
        && !text.contains([',', '"', '\r', '\n'])
        && !text.as_bytes().starts_with(BYTE_ORDER_MARK);
    match is_plain {
        true => out.write_all(text.as_bytes()),
        false => write!(out, "\"{}\"", text.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    /// A field, `None` for one that is empty without quotes.
    type Text = Option<String>;

    fn read(bytes: &[u8], buffer: usize) -> Result<Vec<(u64, Vec<Text>)>> {
        let mut reader = Reader::new("in.csv".to_owned(), BufReader::with_capacity(buffer, bytes));
        let (mut record, mut records) = (Record::default(), Vec::new());
        while reader.read(&mut record)? {
            let text = |field: Field<'_>| {
                let is_null = field.bytes.is_empty() && !field.is_quoted;
                (!is_null).then(|| String::from_utf8(field.bytes.to_vec()).unwrap())
            };
            records.push((record.line, record.fields().map(text).collect()));
        }
        Ok(records)
    }

    fn texts(fields: &[Option<&str>]) -> Vec<Text> {
        fields.iter().map(|field| field.map(str::to_owned)).collect()
    }

    #[test]
    fn the_forms_of_fields_and_lines_are_read() {
        let text = b"\xef\xbb\xbfa,b\r\n\n,\"\"\r\n\"x,\"\"\ny\"\"\",2\n3,\r\"\",4";
        for buffer in [3, 4, 5, 1000] {
            let records = read(text, buffer).unwrap();
            let expected = [
                (1, texts(&[Some("a"), Some("b")])),
                (3, texts(&[None, Some("")])),
                (4, texts(&[Some("x,\"\ny\""), Some("2")])),
                (6, texts(&[Some("3"), None])),
                (6, texts(&[Some(""), Some("4")])),
            ];
            assert_eq!(records, expected, "{buffer}");
        }
        assert_eq!(read(b"", 10).unwrap(), []);
        assert_eq!(read(b"\n\r\n\n", 10).unwrap(), []);
    }

    #[test]
    fn open_quotes_and_endless_fields_are_refused_with_their_line() {
        for text in ["a\n\nb,\"c\nd", "a\n\nb,\"c\"\"", "a\n\nb\"c\n"] {
            let error = read(text.as_bytes(), 100).unwrap_err().to_string();
            assert!(error.starts_with("in.csv:3: a quote is not closed"), "{error}");
        }
        let long = "x".repeat(LEN_MAX);
        assert_eq!(read(long.as_bytes(), 1 << 16).unwrap().len(), 1);
        let error = read(format!("a\n{long}x").as_bytes(), 1 << 16).unwrap_err().to_string();
        assert!(error.starts_with("in.csv:2: a field is longer than"), "{error}");
        let wide = ",".repeat(COLUMNS_MAX);
        let error = read(wide.as_bytes(), 100).unwrap_err().to_string();
        assert!(error.starts_with("in.csv:1: there are more than 1024 fields"), "{error}");
    }

    fn field() -> impl Strategy<Value = Text> {
        prop::option::of("[a\",\r\n \u{feff}é]{0,6}")
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in prop::collection::vec(prop::collection::vec(field(), 2..5), 0..6),
            buffer in 3..40_usize,
        ) {
            let mut bytes = Vec::new();
            for record in &records {
                write(&mut bytes, record.iter().map(|field| field.as_deref().into())).unwrap();
            }
            let read: Vec<_> = read(&bytes, buffer).unwrap().into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(read, records);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), any::<u8>()], 0..60)) {
            let mut reader = Reader::new(String::new(), &bytes[..]);
            let mut record = Record::default();
            while let Ok(true) = reader.read(&mut record) {
                prop_assert!(record.fields().len() > 0 && record.line > 0);
            }
        }
    }
}
