//! The reader of an RDB file.
//!
//! ```text
//! REDIS and 4 digits, the version | part... | 255, 1 | since version 5: CRC-64 of all before, 8, the lowest byte
//! first; 0 stands for none
//!
//! A part is a code of one byte and what belongs to it:
//!   250 name value      a note of the server (aux)
//!   254 number          what follows is of that database
//!   251 keys expiring   how many keys of the database follow, and how many of them expire
//!   252 ms, 8           the next key expires then; 253 has seconds, 4
//!   248 seconds         since the next key was used; 249 has its frequency, 1
//!   245 code            a library of functions
//!   247 ...             data of a module
//!   244 three numbers   of a slot of a cluster: its number, its keys, its keys that expire
//!   less                the type of a value; the key and the value follow
//! ```

use std::io::{BufRead, BufReader, Read};

use crate::codes::ops;
use crate::decode;
use crate::dump::VERSION_MAX;
use crate::error::{Defect, Result, Why};
use crate::source::Source;
use crate::{Limits, Value};

/// The first version with a checksum.
const CHECKSUM_VERSION: u16 = 5;
const BUFFER_LEN: usize = 64 << 10;

/// A part of an RDB file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A note of the server that wrote the file, such as `redis-ver`.
    Aux {
        /// The name.
        name: Vec<u8>,
        /// The text.
        value: Vec<u8>,
    },
    /// The keys that follow are of this database.
    SelectDb(u32),
    /// A hint on the keys that follow.
    ResizeDb {
        /// How many they are.
        keys: u64,
        /// How many of them expire.
        expiring: u64,
    },
    /// A key with its value.
    Key(Box<Key>),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// Data that a module has beside its values; they are passed over.
    ModuleAux {
        /// The name of the module's type.
        name: String,
    },
    /// A hint on a slot of a cluster, whose keys follow.
    SlotInfo {
        /// The number of the slot.
        slot: u64,
        /// How many keys it has.
        keys: u64,
        /// How many of them expire.
        expiring: u64,
    },
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The name.
    pub name: Vec<u8>,
    /// The value. It can be [empty](Value::is_empty): Redis passes such keys over.
    pub value: Value,
    /// When the key expires, in milliseconds since 1970. It may have expired.
    pub expires_ms: Option<i64>,
    /// How long the key had not been used, in seconds.
    pub idle_seconds: Option<u64>,
    /// How often the key was used, as the counter of Redis' eviction has it.
    pub frequency: Option<u8>,
}

impl Key {
    /// A key that does not expire.
    #[must_use]
    pub fn new(name: Vec<u8>, value: Value) -> Self {
        Self { name, value, expires_ms: None, idle_seconds: None, frequency: None }
    }
}

/// Reads an RDB file, one part after the other.
///
/// ```
/// use halite_rdb::{Event, Limits, Reader, Value};
///
/// let file = b"REDIS0003\xfe\0\0\x05fruit\x05apple\xff";
/// let mut reader = Reader::new(&file[..], Limits::default())?;
/// assert_eq!(reader.next_event()?, Some(Event::SelectDb(0)));
/// let Some(Event::Key(key)) = reader.next_event()? else { panic!() };
/// assert_eq!((&key.name[..], key.value), (&b"fruit"[..], Value::String(b"apple".to_vec())));
/// assert_eq!(reader.next_event()?, None);
/// # Ok::<(), halite_rdb::Error>(())
/// ```
pub struct Reader<R> {
    source: Source<R>,
    version: u16,
    is_at_end: bool,
}

impl<R: Read> Reader<BufReader<R>> {
    /// A reader of a file, whose beginning is checked.
    ///
    /// # Errors
    /// [`Why::NotRdb`], [`Why::Version`], and the errors of reading.
    pub fn new(input: R, limits: Limits) -> Result<Self> {
        Self::of_source(Source::new(BufReader::with_capacity(BUFFER_LEN, input), limits))
    }
}

impl<R: BufRead> Reader<R> {
    /// Does as [`Reader::new`], with an input that has a buffer.
    ///
    /// # Errors
    /// Those of [`Reader::new`].
    pub fn of_buffered(input: R, limits: Limits) -> Result<Self> {
        Self::of_source(Source::new(input, limits))
    }

    /// A reader of the file that begins where a source is.
    pub(crate) fn of_source(mut source: Source<R>) -> Result<Self> {
        const PART: &str = "the beginning of an RDB file";
        source.begin_checksum();
        let begin = source.offset();
        let head: [u8; 9] = source.array(PART).map_err(|error| match error.why {
            Why::Ended => crate::Error { why: Why::NotRdb, ..error },
            _ => error,
        })?;
        let digits = head.strip_prefix(b"REDIS").filter(|all| all.iter().all(u8::is_ascii_digit));
        let version = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        match version {
            None => source.refuse(PART, begin, Why::NotRdb),
            Some(found) if !(1..=VERSION_MAX).contains(&found) => {
                source.refuse(PART, begin, Why::Version { found })
            }
            Some(version) => Ok(Self { source, version, is_at_end: false }),
        }
    }

    /// The version of the file's format.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The number of bytes that were read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The input, behind the bytes that were read.
    #[must_use]
    pub fn into_inner(self) -> R {
        self.source.into_inner()
    }

    pub(crate) fn into_source(self) -> Source<R> {
        self.source
    }

    /// The next part; `None` at the end of the file, whose checksum has then been checked.
    ///
    /// # Errors
    /// Those of the input. There are no parts after an error.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        if self.is_at_end {
            return Ok(None);
        }
        let event = self.event();
        self.is_at_end = !matches!(event, Ok(Some(_)));
        event
    }

    fn event(&mut self) -> Result<Option<Event>> {
        self.source.begin_value();
        let mut key = Key::new(Vec::new(), Value::String(Vec::new()));
        let mut is_bare = true;
        loop {
            let begin = self.source.offset();
            let code = self.source.byte("the code of a part of an RDB file")?;
            match code {
                ops::EXPIRES_MS => {
                    key.expires_ms = Some(i64::from_le_bytes(self.source.array("an expiry")?));
                }
                ops::EXPIRES_SECONDS => {
                    let seconds = i32::from_le_bytes(self.source.array("an expiry")?);
                    key.expires_ms = Some(i64::from(seconds) * 1000);
                }
                ops::IDLE => key.idle_seconds = Some(self.source.length("an idle time")?),
                ops::FREQUENCY => key.frequency = Some(self.source.byte("a frequency")?),
                _ if code < ops::SLOT_INFO => return self.key(key, code, begin).map(Some),
                _ if is_bare => return self.part(code, begin),
                _ => {
                    let why = Defect::new("there is no key behind an expiry");
                    return self.source.refuse("a key", begin, why);
                }
            }
            is_bare = false;
        }
    }

    /// A part that is no key.
    fn part(&mut self, code: u8, begin: u64) -> Result<Option<Event>> {
        let source = &mut self.source;
        Ok(Some(match code {
            ops::AUX => {
                let name = source.string("the name of a note (aux)")?;
                Event::Aux { name, value: source.string("the text of a note (aux)")? }
            }
            ops::SELECT_DB => {
                const PART: &str = "the number of a database";
                let number = u32::try_from(source.length(PART)?);
                let too_large = Defect::new("it is too large");
                Event::SelectDb(number.or_else(|_| source.refuse(PART, begin, too_large))?)
            }
            ops::RESIZE_DB => {
                const PART: &str = "the number of keys of a database";
                Event::ResizeDb { keys: source.length(PART)?, expiring: source.length(PART)? }
            }
            ops::FUNCTION => Event::Function(source.string("a library of functions")?),
            ops::FUNCTION_RC => {
                return source.refuse("a library of functions", begin, Why::ReleaseCandidate);
            }
            ops::MODULE_AUX => Event::ModuleAux { name: decode::skip_module(source)? },
            ops::SLOT_INFO => {
                const PART: &str = "the number of keys of a slot";
                Event::SlotInfo {
                    slot: source.length(PART)?,
                    keys: source.length(PART)?,
                    expiring: source.length(PART)?,
                }
            }
            // The only one that is left.
            _ => {
                self.check_end()?;
                return Ok(None);
            }
        }))
    }

    fn key(&mut self, key: Key, code: u8, begin: u64) -> Result<Event> {
        let name = self.source.string("the name of a key")?;
        match decode::value(&mut self.source, code, begin) {
            Ok(value) => Ok(Event::Key(Box::new(Key { name, value, ..key }))),
            Err(error) => Err(error.of_key(&name)),
        }
    }

    fn check_end(&mut self) -> Result<()> {
        if self.version < CHECKSUM_VERSION {
            return Ok(());
        }
        const PART: &str = "the checksum of an RDB file";
        let (computed, begin) = (self.source.checksum(), self.source.offset());
        let stored = u64::from_le_bytes(self.source.array(PART)?);
        match stored == 0 || stored == computed {
            true => Ok(()),
            false => self.source.refuse(PART, begin, Why::Checksum { stored, computed }),
        }
    }
}
