//! The records of a memtable, one behind the other in volatile memory.
//!
//! Memory comes in chunks of 2 MiB of a pool without a file, which all memtables of a store share. One thread appends at
//! a time, in the turn of the commit; any number read what was appended before. A record never moves, and goes with its
//! memtable, whose chunks serve the next ones.
//!
//! ```text
//!  0  word      u64   sequence << 8 | kind
//!  8  key       u32   bytes of the key
//! 12  payload   u32   bytes of the payload
//! 16  key, payload, zeros up to a multiple of 8
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use halite_contract::{Error, Result};
use halite_pmem::{LINE, Pool, PoolOptions, SharedAppender, UNIT};
use halite_sim::locks::Mutex;

/// Bytes of a chunk.
const CHUNK: u64 = UNIT;

/// Chunks that an arena has at most.
const CHUNKS_MAX: usize = 512;

/// Bytes of an arena at most, of which the ends of its chunks are not used.
pub(super) const LEN_MAX: u64 = CHUNK * CHUNKS_MAX as u64;

/// Bytes of a record at most, beside its key and payload.
pub(super) const RECORD_MAX: u64 = HEAD + LINE - 1;

/// Chunks of all arenas of a store.
const ALL_MAX: u64 = 1 << 16;

/// Bytes of a record before its key.
const HEAD: u64 = 16;

/// An entry of the index is the record's address plus this, as no entry is zero.
const FIRST: u64 = 8;

/// The memory of the memtables of a store.
pub(crate) struct Chunks {
    pool: Pool,
    /// The numbers of those that no arena has.
    free: Mutex<Vec<u64>>,
}

/// A chunk of an arena, and its number.
struct Chunk {
    number: u64,
    appender: SharedAppender,
}

/// Records in memory.
pub(crate) struct Arena {
    memory: Arc<Chunks>,
    chunks: Box<[OnceLock<Chunk>]>,
    /// The chunk that is appended to.
    current: AtomicUsize,
}

/// A record, as it lies in memory.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) sequence: u64,
    pub(crate) kind: u8,
    /// The key space before the key.
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Chunks {
    pub(crate) fn new(options: &PoolOptions) -> Result<Arc<Self>> {
        let mut volatile = PoolOptions::default();
        volatile.in_memory = true;
        volatile.failures = options.failures.clone();
        volatile.size_initial = CHUNK;
        volatile.size_max = CHUNK * ALL_MAX;
        let pool = Pool::create(Path::new("memtables"), &volatile)?;
        Ok(Arc::new(Self { pool, free: Mutex::new(vec![0]) }))
    }

    fn take(&self) -> Result<Chunk> {
        let mut free = self.free.lock();
        if free.is_empty() {
            let number = self.pool.len() / CHUNK;
            self.pool.grow(CHUNK)?;
            free.push(number);
        }
        let number = *free.last().expect("there is one now");
        let claimed = self.pool.claim(number * CHUNK, CHUNK)?;
        free.pop();
        Ok(Chunk { number, appender: claimed.into_shared_appender(0) })
    }

    /// Bytes of memory of all memtables, and of those that were.
    pub(crate) fn memory_len(&self) -> u64 {
        self.pool.len()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self.chunks.iter_mut().filter_map(OnceLock::take);
        let numbers: Vec<u64> = chunks.map(|Chunk { number, .. }| number).collect();
        self.memory.free.lock().extend(numbers);
    }
}

impl Arena {
    pub(crate) fn new(memory: &Arc<Chunks>) -> Result<Self> {
        let chunks = (0..CHUNKS_MAX).map(|_| OnceLock::new()).collect();
        let memory = Arc::clone(memory);
        let arena = Self { memory, chunks, current: AtomicUsize::new(0) };
        arena.open_chunk(0)?;
        Ok(arena)
    }

    fn open_chunk(&self, number: usize) -> Result<()> {
        let too_large = Error::BatchTooLarge { len: LEN_MAX + CHUNK, limit: LEN_MAX };
        let place = self.chunks.get(number).ok_or(too_large)?;
        let set = place.set(self.memory.take()?);
        assert!(set.is_ok(), "one thread opens chunks");
        Ok(())
    }

    /// A chunk that is open.
    #[inline]
    fn chunk(&self, number: usize) -> &SharedAppender {
        &self.chunks[number].get().expect("an entry's chunk is open").appender
    }

    /// Makes sure that a record of so many bytes of key and payload can be appended.
    pub(crate) fn prepare(&self, len: usize) -> Result<()> {
        let current = self.current.load(Ordering::Relaxed);
        if self.chunk(current).remaining() < record_len(len) {
            self.open_chunk(current + 1)?;
            self.current.store(current + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Appends a record for which room was prepared. Returns its entry for the index.
    pub(crate) fn append(&self, record: Stored<'_>) -> u64 {
        let current = self.current.load(Ordering::Relaxed);
        let chunk = self.chunk(current);
        let Stored { sequence, kind, key, payload } = record;
        let len = record_len(key.len() + payload.len());
        let mut grant = chunk.grant(len).expect("room was prepared");
        let mut head = [0; HEAD as usize];
        head[..8].copy_from_slice(&(sequence << 8 | u64::from(kind)).to_le_bytes());
        head[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[12..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        grant.write(0, &head);
        grant.write(HEAD, key);
        grant.write(HEAD + key.len() as u64, payload);
        let at = grant.at();
        grant.reveal();
        current as u64 * CHUNK + at + FIRST
    }

    /// The record of an entry.
    #[inline]
    pub(crate) fn record(&self, entry: u64) -> Stored<'_> {
        let address = entry - FIRST;
        let chunk = self.chunk((address / CHUNK) as usize);
        let at = address % CHUNK;
        let len = |head: &[u8]| {
            let half = |at: usize| {
                u64::from(u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")))
            };
            HEAD + half(8) + half(12)
        };
        let bytes =
            chunk.published().read_sized(at, HEAD, len).expect("an entry's record is revealed");
        let (head, rest) = bytes.split_at(HEAD as usize);
        let word = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
        let key_len = u32::from_le_bytes(head[8..12].try_into().expect("4 bytes")) as usize;
        let (key, payload) = rest.split_at(key_len);
        Stored { sequence: word >> 8, kind: word as u8, key, payload }
    }

    /// Asks for the first lines of an entry's record.
    #[inline]
    pub(crate) fn prefetch(&self, entry: u64) {
        let address = entry - FIRST;
        self.chunk((address / CHUNK) as usize).published().prefetch(address % CHUNK);
    }
}

/// Bytes that a record takes: whole lines.
pub(super) fn record_len(len: usize) -> u64 {
    (HEAD + len as u64).next_multiple_of(LINE)
}
