//! The writer of an RDB file, whose layout is with `reader`.

use std::io::{self, Write};

use crate::codes::ops;
use crate::encode::Encoded;
use crate::reader::Key;
use crate::sink::Sink;
use crate::version::Version;

/// Writes an RDB file. The output is not buffered here.
///
/// ```
/// use halite_rdb::{Key, Value, Version, Writer};
///
/// let mut writer = Writer::new(Vec::new(), Version::Redis72)?;
/// writer.aux(b"redis-ver", b"7.2.0")?;
/// writer.select_db(0)?;
/// writer.key(&Key::new(b"fruit".to_vec(), Value::String(b"apple".to_vec())))?;
/// let file: Vec<u8> = writer.finish()?;
/// assert!(file.starts_with(b"REDIS0011"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Writer<W> {
    sink: Sink<W>,
    version: Version,
}

impl<W: Write> Writer<W> {
    /// Writes the beginning of a file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(output: W, version: Version) -> io::Result<Self> {
        let mut sink = Sink::new(output);
        sink.bytes(format!("REDIS{:04}", version.number()).as_bytes())?;
        Ok(Self { sink, version })
    }

    /// Writes a note, such as `redis-ver`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.sink.byte(ops::AUX)?;
        self.sink.string(name)?;
        self.sink.string(value)
    }

    /// Writes that the keys that follow are of a database.
    ///
    /// # Errors
    /// Those of the output.
    pub fn select_db(&mut self, number: u32) -> io::Result<()> {
        self.sink.byte(ops::SELECT_DB)?;
        self.sink.length(number.into())
    }

    /// Writes how many keys of the database follow, and how many of them expire. It is a hint.
    ///
    /// # Errors
    /// Those of the output.
    pub fn resize_db(&mut self, keys: u64, expiring: u64) -> io::Result<()> {
        self.sink.byte(ops::RESIZE_DB)?;
        self.sink.length(keys)?;
        self.sink.length(expiring)
    }

    /// Writes a key.
    ///
    /// # Errors
    /// Those of the output, and an [`Unwritable`](crate::Unwritable) in an error of the kind [`io::ErrorKind::InvalidInput`]: nothing is
    /// written then, and the writer can go on.
    pub fn key(&mut self, key: &Key) -> io::Result<()> {
        let encoded = Encoded::new(&key.value, self.version)?;
        if let Some(expires_ms) = key.expires_ms {
            self.sink.byte(ops::EXPIRES_MS)?;
            self.sink.bytes(&expires_ms.to_le_bytes())?;
        }
        if let Some(idle_seconds) = key.idle_seconds {
            self.sink.byte(ops::IDLE)?;
            self.sink.length(idle_seconds)?;
        }
        if let Some(frequency) = key.frequency {
            self.sink.bytes(&[ops::FREQUENCY, frequency])?;
        }
        self.sink.byte(encoded.code())?;
        self.sink.string(&key.name)?;
        encoded.write(&mut self.sink)
    }

    /// Writes the code of a library of functions.
    ///
    /// # Errors
    /// Those of the output.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.sink.byte(ops::FUNCTION)?;
        self.sink.string(code)
    }

    /// Writes the end of the file with its checksum, and returns the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.byte(ops::END)?;
        let crc = self.sink.checksum();
        self.sink.bytes(&crc.to_le_bytes())?;
        let mut output = self.sink.into_inner();
        output.flush()?;
        Ok(output)
    }
}
