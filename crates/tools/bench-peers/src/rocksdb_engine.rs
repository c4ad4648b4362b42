//! RocksDB as an engine of Halite: the part that a server of strings needs.
//!
//! A key space is a prefix of 4 bytes; the prefix of all ones holds the names of the others. A deferred
//! write goes to the write-ahead log without a sync, and [`Engine::sync`] syncs the log once for all of
//! them. A scan reads one page after the other, each of the state at that time, and so promises less than the
//! contract asks for; points and batches are as it says.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use halite::Domain;
use halite_contract::{
    Bytes, Direction, Durability, Engine, Error, KeyRange, KeySpaceId, Op, Progress, Result, Scan,
    Stats, VerifyReport, check_key_space_name,
};
use rocksdb::{DB, IteratorMode, WriteBatch, WriteOptions};

use crate::rocksdb::{MEMORY, opened};

/// RocksDB behind the interface of an engine.
pub(crate) struct RocksDbEngine {
    database: Arc<DB>,
    /// The key spaces by name, in the order of their ids; an empty name is of one that was dropped.
    names: Mutex<Vec<String>>,
}

/// The key space of the names.
const NAMES: KeySpaceId = KeySpaceId(u32::MAX);

const PREFIX: usize = 4;

/// Pairs of a scan's first page; each next one has twice as many, up to the most.
const PAGE: usize = 16;
const PAGE_MAX: usize = 1024;

fn failed(error: impl ToString) -> Error {
    Error::Damaged { what: "RocksDB".to_owned(), why: error.to_string() }
}

fn stored(space: KeySpaceId, key: &[u8]) -> Vec<u8> {
    [&space.0.to_be_bytes(), key].concat()
}

/// The key behind the last one of a range.
fn stored_end(space: KeySpaceId, end: Option<&[u8]>) -> Vec<u8> {
    match end {
        Some(end) => stored(space, end),
        None => (space.0 + 1).to_be_bytes().to_vec(),
    }
}

impl RocksDbEngine {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let database = Arc::new(opened(folder, MEMORY).map_err(failed)?);
        let mut names = Vec::new();
        let first = NAMES.0.to_be_bytes();
        for pair in database.iterator(IteratorMode::From(&first, rocksdb::Direction::Forward)) {
            let (_, name) = pair.map_err(failed)?;
            names.push(String::from_utf8(name.into()).map_err(failed)?);
        }
        Ok(Self { database, names: Mutex::new(names) })
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn name(&self, space: KeySpaceId, name: &str) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.put(stored(NAMES, &space.0.to_be_bytes()), name);
        self.apply(batch, Durability::Immediate)
    }

    fn apply(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Immediate);
        self.database.write_opt(batch, &options).map_err(failed)
    }
}

/// Returns up to `count` pairs of a range, in its direction.
fn page(
    database: &DB,
    space: KeySpaceId,
    range: &KeyRange,
    direction: Direction,
    count: usize,
) -> Result<Vec<(Bytes, Bytes)>> {
    let (start, end) = (stored(space, range.start()), stored_end(space, range.end()));
    let mode = match direction {
        Direction::Forward => IteratorMode::From(&start, rocksdb::Direction::Forward),
        Direction::Reverse => IteratorMode::From(&end, rocksdb::Direction::Reverse),
    };
    let mut pairs = Vec::new();
    for pair in database.iterator(mode) {
        let (key, value) = pair.map_err(failed)?;
        if *key == *end && direction == Direction::Reverse {
            continue;
        }
        if *key < *start || *key >= *end || pairs.len() == count {
            break;
        }
        pairs.push((Bytes::from(&key[PREFIX..]), Bytes::from(&value[..])));
    }
    Ok(pairs)
}

impl Engine for RocksDbEngine {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        let mut names = self.names();
        if let Some(place) = names.iter().position(|known| known == name) {
            return Ok(KeySpaceId(place as u32));
        }
        let space = KeySpaceId(names.len() as u32);
        self.name(space, name)?;
        names.push(name.to_owned());
        Ok(space)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        let ids = (0..).map(KeySpaceId);
        let mut named: Vec<_> = self.names().iter().cloned().zip(ids).collect();
        named.retain(|(name, _)| !name.is_empty());
        named.sort();
        Ok(named)
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let mut names = self.names();
        let name = names.get_mut(space.0 as usize).filter(|name| !name.is_empty());
        let name = name.ok_or(Error::NoSuchKeySpace)?;
        let mut batch = WriteBatch::default();
        batch.delete_range(stored(space, b""), stored_end(space, None));
        batch.put(stored(NAMES, &space.0.to_be_bytes()), b"");
        self.apply(batch, Durability::Immediate)?;
        name.clear();
        Ok(())
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.database.get_pinned(stored(space, key)).map_err(failed)?;
        Ok(value.map(|value| Bytes::from(&value[..])))
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        let first = stored(space, b"");
        let mode = IteratorMode::From(&first, rocksdb::Direction::Forward);
        let mut count = 0;
        for pair in self.database.iterator(mode) {
            let (key, _) = pair.map_err(failed)?;
            if !key.starts_with(&first) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        let from = |start: &[u8]| {
            page(&self.database, space, &KeyRange::new(start, None), Direction::Forward, 1)
        };
        let mut found = from(&random.to_be_bytes())?;
        if found.is_empty() {
            found = from(b"")?;
        }
        Ok(found.pop().map(|(key, _)| key))
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut batch = WriteBatch::default();
        for op in ops {
            op.check()?;
            match *op {
                Op::Put { space, key, value } => batch.put(stored(space, key), value),
                Op::Delete { space, key } => batch.delete(stored(space, key)),
                Op::DeleteRange { space, start, end } => {
                    batch.delete_range(stored(space, start), stored_end(space, end));
                }
            }
        }
        self.apply(batch, durability)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let pages = Pages {
            database: Arc::clone(&self.database),
            space,
            rest: Some(range),
            direction,
            count: PAGE,
        };
        Ok(Box::new(pages.flat_map(|page| match page {
            Ok(pairs) => pairs.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })))
    }

    fn sync(&self) -> Result<()> {
        self.database.flush_wal(true).map_err(failed)
    }

    fn stats(&self) -> Stats {
        // Its log is a file, on any medium.
        Stats { domain: Domain::PageCache, ..Stats::default() }
    }

    fn verify(&self, _: Progress<'_>) -> Result<VerifyReport> {
        // RocksDB verifies a block's checksum whenever it reads it.
        Ok(VerifyReport { complete: true, ..VerifyReport::default() })
    }
}

/// A scan, page by page.
struct Pages {
    database: Arc<DB>,
    space: KeySpaceId,
    /// The range that is not read yet.
    rest: Option<KeyRange>,
    direction: Direction,
    /// Pairs of the next page.
    count: usize,
}

impl Iterator for Pages {
    type Item = Result<Vec<(Bytes, Bytes)>>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.rest.take()?;
        let found = page(&self.database, self.space, &range, self.direction, self.count);
        if let Ok(pairs) = &found
            && pairs.len() == self.count
            && let Some((last, _)) = pairs.last()
        {
            self.rest = Some(match self.direction {
                Direction::Forward => {
                    KeyRange::new([&last[..], &[0]].concat(), range.end().map(<[u8]>::to_vec))
                }
                Direction::Reverse => KeyRange::new(range.start(), Some(last.to_vec())),
            });
            self.count = (2 * self.count).min(PAGE_MAX);
        }
        Some(found)
    }
}
