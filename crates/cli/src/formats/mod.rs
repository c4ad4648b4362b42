//! Records as text: the input of `load` and the output of `dump` and `scan`.
//!
//! `lines` cuts the input into lines and keeps count of them; `tsv` and `json_lines` read a line
//! into a [`Record`] and write one. Both write any bytes and read them back the same.

mod json_lines;
mod lines;
mod tsv;

use std::ffi::OsStr;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::rc::Rc;

use clap::ValueEnum;

use crate::Result;

pub(crate) use json_lines::write_json_bytes;

/// A form of records as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A line holds a key, a tab and a value, with escapes
    Tsv,
    /// A line holds a JSON object
    Jsonl,
}

impl Format {
    /// Returns the format by the file's name: JSON lines for `.jsonl`, `.ndjson` and `.json`, else TSV.
    pub(crate) fn of_file(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("jsonl" | "ndjson" | "json") => Self::Jsonl,
            _ => Self::Tsv,
        }
    }

    /// The records of `input`, which errors call `name`. With `key_field`, a record of JSON lines
    /// is the value of that field → the object.
    pub(crate) fn read<'a>(
        self,
        name: String,
        input: impl BufRead + 'a,
        key_field: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = Result<Record>> + 'a> {
        let lines = lines::Lines::new(name, input);
        match self {
            Self::Tsv => Box::new(tsv::read(lines)),
            Self::Jsonl => Box::new(json_lines::read(lines, key_field)),
        }
    }

    /// A writer of records.
    pub(crate) fn writer<W: Write>(self, out: W) -> Writer<W> {
        Writer { format: self, out, space: None }
    }
}

/// A key and a value, on the way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The key space that the input names, if it names one.
    pub(crate) space: Option<Rc<str>>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Record {
    /// Checks the limits, so that the error can name the record's place in the input.
    pub(crate) fn check(&self) -> std::result::Result<(), halite::Error> {
        let (key, value) = (self.key.len(), self.value.len());
        if key > halite::KEY_LEN_MAX {
            Err(halite::EngineError::KeyTooLong { len: key }.into())
        } else if value > halite::VALUE_LEN_MAX {
            Err(halite::EngineError::ValueTooLong { len: value }.into())
        } else {
            Ok(())
        }
    }
}

/// The bytes of a value. One byte above the limit tells that there are too many without reading on.
pub(crate) fn read_value(input: impl Read) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    input.take(halite::VALUE_LEN_MAX as u64 + 1).read_to_end(&mut value)?;
    Ok(value)
}

/// Writes records in one of the formats.
pub(crate) struct Writer<W> {
    format: Format,
    out: W,
    /// The key space that the records name.
    space: Option<String>,
}

impl<W: Write> Writer<W> {
    /// Lets the records from here on name the key space `space`, or no key space.
    pub(crate) fn name_space(&mut self, space: Option<&str>) -> io::Result<()> {
        self.space = space.map(str::to_owned);
        match (self.format, space) {
            (Format::Tsv, Some(space)) => tsv::write_space(&mut self.out, space),
            _ => Ok(()),
        }
    }

    pub(crate) fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Tsv => tsv::write(&mut self.out, key, value),
            Format::Jsonl => {
                json_lines::write(&mut self.out, self.space.as_deref(), key, Some(value))
            }
        }
    }

    pub(crate) fn write_key(&mut self, key: &[u8]) -> io::Result<()> {
        match self.format {
            Format::Tsv => tsv::write_key(&mut self.out, key),
            Format::Jsonl => json_lines::write(&mut self.out, self.space.as_deref(), key, None),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn round_trip(format: Format, records: &[Record]) -> Vec<Record> {
        let mut text = Vec::new();
        let mut writer = format.writer(&mut text);
        let mut space = None;
        for record in records {
            if record.space != space {
                space.clone_from(&record.space);
                writer.name_space(space.as_deref()).unwrap();
            }
            writer.write(&record.key, &record.value).unwrap();
        }
        let read = format.read("dump".into(), &text[..], None);
        read.collect::<Result<_>>().unwrap()
    }

    proptest! {
        #[test]
        fn what_was_dumped_loads_as_it_was(
            unnamed in vec((vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..200)), 0..8),
            named in vec((".{1,20}", vec(any::<u8>(), 0..40), ".{0,40}"), 0..8),
        ) {
            let unnamed = unnamed.into_iter().map(|(key, value)| Record { space: None, key, value });
            let named = named.into_iter().map(|(space, key, value)| {
                Record { space: Some(space.into()), key, value: value.into_bytes() }
            });
            let records: Vec<_> = unnamed.chain(named).collect();
            prop_assert_eq!(&round_trip(Format::Tsv, &records), &records);
            prop_assert_eq!(&round_trip(Format::Jsonl, &records), &records);
        }

        #[test]
        fn any_input_is_read_or_refused_with_its_line(text: Vec<u8>) {
            for format in [Format::Tsv, Format::Jsonl] {
                for record in format.read("in".into(), &text[..], None) {
                    if let Err(error) = record {
                        prop_assert!(error.to_string().starts_with("in:"), "{}", error);
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn the_file_name_says_the_format() {
        assert_eq!(Format::of_file(Path::new("a/people.jsonl")), Format::Jsonl);
        assert_eq!(Format::of_file(Path::new("people.tsv")), Format::Tsv);
        assert_eq!(Format::of_file(Path::new("-")), Format::Tsv);
    }

    #[test]
    fn a_key_over_the_limit_names_its_line() {
        let text = [b"short\tx\n".to_vec(), vec![b'k'; halite::KEY_LEN_MAX + 1], b"\tx\n".to_vec()];
        let read = Format::Tsv.read("big.tsv".into(), &text.concat()[..], None).last();
        let error = read.unwrap().unwrap_err().to_string();
        assert!(error.starts_with("big.tsv:2: the key is 65537 bytes long"), "{error}");
    }
}
