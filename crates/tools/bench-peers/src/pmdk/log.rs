//! libpmemlog: a log that counts its bytes in its header.
//!
//! An append copies the entry behind the last one, waits until it is durable, and does the same with
//! the new end: the algorithm *Header* of van Renen's section 3.3, neither aligned nor dancing. The
//! log does not know where its entries begin; Halite's do, and pay for it. pmemlog_append(3) takes a
//! lock within the process, which cannot be switched off and for which no thread contends here.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use halite_bench::{Contender, Result, RunOptions, Sample};

use super::contents::Contents;
use super::sys::Log;
use super::{PoolFile, expect, named};

/// The subject.
const NAME: &str = "libpmemlog";

/// Bytes of the file that the library needs for itself, generously.
const HEADERS_BYTES: u64 = 64 << 10;

/// The least file that the library takes: `PMEMLOG_MIN_POOL`.
const FILE_BYTES_MIN: u64 = 2 << 20;

/// Appends to libpmemlog.
struct Appends {
    folder: PathBuf,
    seed: u64,
    entry_bytes: u64,
    /// Entries that fill the log.
    entries: u64,
    /// How often it is filled; it is emptied before each time but the first.
    fills: u64,
}

/// The contender that fills a log of `entries` of `entry_bytes` each `fills` times. Making the file
/// and mapping its pages is not counted.
pub(super) fn contender(
    options: &RunOptions,
    entry_bytes: u64,
    entries: u64,
    fills: u64,
) -> Contender<'static> {
    let (folder, seed) = (options.folder.clone(), options.seed);
    let workload = Appends { folder, seed, entry_bytes, entries, fills };
    Contender::new(NAME, move || workload.measure())
}

impl Appends {
    fn measure(&self) -> Result<Vec<Sample>> {
        let contents = Contents::new(self.seed, self.entry_bytes);
        let file = PoolFile::new(&self.folder);
        let log_bytes = self.entries * self.entry_bytes;
        let file_bytes = (log_bytes + HEADERS_BYTES).max(FILE_BYTES_MIN) as usize;
        let mut log = named(NAME, "create", Log::create(&file.0, file_bytes))?;
        let room = log.capacity() as u64;
        expect(NAME, room >= log_bytes, || format!("it has room for {room} of {log_bytes} bytes"))?;
        touch(&mut log)?;
        let time = self.fill(&mut log, &contents)?;
        self.check(&log, &contents)?;
        Ok(vec![Sample::throughput(self.entries * self.fills, time)])
    }

    fn fill(&self, log: &mut Log, contents: &Contents) -> Result<Duration> {
        let start = Instant::now();
        for fill in 0..self.fills {
            if fill > 0 {
                log.rewind();
            }
            for number in 0..self.entries {
                named(NAME, "append", log.append(contents.of(number)))?;
            }
        }
        Ok(start.elapsed())
    }

    /// The log has the entries, in order, and nothing else.
    fn check(&self, log: &Log, contents: &Contents) -> Result<()> {
        let (mut found, mut right) = (0, true);
        log.walk(self.entry_bytes as usize, |entry| {
            right = found < self.entries && entry == contents.of(found);
            found += 1;
            right
        });
        expect(NAME, right, || format!("entry {} is not what was appended", found - 1))?;
        expect(NAME, found == self.entries, || {
            format!("it has {found} entries of {}", self.entries)
        })
    }
}

/// Writes all of the log once and empties it again: then its pages are mapped, as those of Halite's
/// pools are.
fn touch(log: &mut Log) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    let (room, zeros) = (log.capacity(), vec![0; CHUNK]);
    for start in (0..room).step_by(CHUNK) {
        named(NAME, "append", log.append(&zeros[..CHUNK.min(room - start)]))?;
    }
    log.rewind();
    Ok(())
}
