//! How many bytes go to the device for those that a user writes: bounds of counts, on each medium and for each
//! engine.
//!
//! On an ordinary file, the kernel counts the bytes that it takes for dirty (`write_bytes` of `/proc/self/io`): whole
//! folios, even if few of their bytes were stored. On persistent memory and in a file system in memory, the pool counts
//! the lines and the blocks of the medium that are written back. Both counts are of the whole process, or of one pool;
//! so all cases are one test, one after the other, in a program of its own.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Sub;
use std::path::Path;

use halite::{Database, Domain, Durable, LsmOptions, Partitioning};
use rustix::fs::Advice;

/// The page of the kernel, the line of the processor and the block of persistent memory, in bytes.
const PAGE: u64 = 4096;
const LINE: u64 = 64;
const MEDIA_BLOCK: u64 = 256;

/// Bytes that this process had the kernel write to a device, or will.
fn device_bytes() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// Whether writes in `folder` are counted, because there is a device below it.
fn is_counted(folder: &Path) -> bool {
    const LEN: u64 = 1 << 20;
    let write = || {
        let before = device_bytes()?;
        let mut file = tempfile::tempfile_in(folder).ok()?;
        file.write_all(&[1; LEN as usize]).ok()?;
        file.sync_all().ok()?;
        Some(device_bytes()? - before >= LEN)
    };
    write().unwrap_or(false)
}

/// Makes the kernel drop its cached pages of the files below `folder`, so that they are read from the device again.
fn forget_pages(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget_pages(&path);
            continue;
        }
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

/// Copies the files below `from` as a program does that reads and writes much at once: the kernel then caches all bytes
/// that are read or written in folios as large as it has.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, copy) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy_files(&path, &copy);
            continue;
        }
        let (mut file, mut copy) = (File::open(path).unwrap(), File::create(copy).unwrap());
        let mut part = vec![0; 4 << 20];
        loop {
            let len = file.read(&mut part).unwrap();
            if len == 0 {
                break;
            }
            copy.write_all(&part[..len]).unwrap();
        }
    }
}

/// The history of a database before puts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It is new.
    Nothing,
    /// It has as many puts, is closed, and is read from the device.
    Reopened,
    /// It has as many puts, is closed, and is copied.
    Copied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    IndexLog,
    IndexLogWithChanges,
    LsmInPool,
    LsmWithLog,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::IndexLog, Self::IndexLogWithChanges, Self::LsmInPool, Self::LsmWithLog];
}

/// The writes, and the database that they go to.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    threads: u64,
    value_len: usize,
    /// Puts of each thread.
    puts: u64,
    /// Puts that are made durable together.
    batch: u64,
    /// Different keys of each thread: the fewer, the more is overwritten.
    keys: u64,
    pool_mib: u64,
    before: Before,
}

impl Case {
    fn open(self, path: &Path, domain: Option<Domain>) -> Database {
        // Snapshots of the index are taken while keys are overwritten, too.
        let builder = Database::builder()
            .max_size(self.pool_mib << 20)
            // New space of a pool is written with zeros once; that is not counted for the puts.
            .initial_size(self.pool_mib.min(64) << 20)
            .index_snapshot(Some(4 << 20));
        let builder = match domain {
            Some(domain) => builder.assume_domain(domain),
            None => builder,
        };
        let lsm = |durable| LsmOptions { durable, ..LsmOptions::default() };
        let builder = match self.kind {
            Kind::IndexLog => builder.engine("indexlog"),
            Kind::IndexLogWithChanges => builder.engine("indexlog").change_log(4 << 20),
            Kind::LsmInPool => builder.engine("lsm").lsm(lsm(Durable::Pool)),
            Kind::LsmWithLog => builder.engine("lsm").lsm(lsm(Durable::Log)),
        };
        builder.partitioning(Partitioning::Hash(self.threads as usize)).open(path).unwrap()
    }

    /// Durable puts of all threads.
    fn put_all(self, db: &Database) {
        let space = db.key_space("space").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let space = &space;
                scope.spawn(move || {
                    for first in (0..self.puts).step_by(self.batch as usize) {
                        let mut batch = db.batch();
                        for put in first..(first + self.batch).min(self.puts) {
                            // A step that is prime to the number of keys: all are visited, none in order.
                            let key = (thread << 32) | (put * 7_919 % self.keys);
                            batch.put(space, key.to_be_bytes(), value(put, self.value_len));
                        }
                        batch.commit().unwrap();
                    }
                });
            }
        });
    }

    /// The difference that the puts make to `count`.
    fn count<T: Sub<Output = T>>(
        self,
        folder: &Path,
        domain: Option<Domain>,
        count: impl Fn(&Database) -> T,
    ) -> T {
        let first = folder.join("first");
        let mut db = self.open(&first, domain);
        if self.before != Before::Nothing {
            self.put_all(&db);
            drop(db);
            let opened = match self.before {
                Before::Copied => folder.join("copy"),
                _ => first.clone(),
            };
            match self.before {
                Before::Copied => copy_files(&first, &opened),
                _ => forget_pages(&first),
            }
            db = self.open(&opened, domain);
        }
        let before = count(&db);
        self.put_all(&db);
        count(&db) - before
    }

    fn puts_all(self) -> u64 {
        self.threads * self.puts
    }

    /// Bytes of keys and values.
    fn user_bytes(self) -> u64 {
        self.puts_all() * (8 + self.value_len as u64)
    }

    /// How many bytes the device may be written for the puts.
    ///
    /// A put that is durable by itself has the pages written that it touches: one of records, one more for a large
    /// value, one of the change log if it does not have the value. Some more are for occasional writes: words of the
    /// map, files that grow, and the beginning of each partition. Batches have their bytes written, and those that
    /// collection, a change log, flushes or compactions write again.
    fn device_bytes_max(self) -> u64 {
        if self.batch > 1 {
            let times = match self.kind {
                Kind::IndexLog => 2,
                Kind::IndexLogWithChanges | Kind::LsmInPool => 4,
                Kind::LsmWithLog => 5,
            };
            return times * self.user_bytes();
        }
        let is_large = self.value_len > 2048;
        let has_changes = self.kind == Kind::IndexLogWithChanges;
        let pages = 1 + u64::from(is_large) + u64::from(is_large && has_changes);
        // Threads that share a sync have the whole pool synced, with the pages of each tree's new zone.
        let zones = if self.kind == Kind::LsmInPool && self.threads > 1 { self.threads } else { 0 };
        // The log writes zeros over its first file as that grows, and over the next one.
        let zeros = if self.kind == Kind::LsmWithLog { 2 << 20 } else { 0 };
        let once = (self.threads + 1) * 16 * PAGE + zones * (2 << 20) + zeros;
        self.puts_all() * pages * PAGE * 5 / 4 + once
    }

    /// How many bytes of the pool may be written back for the puts: the user's, twice if they are in a change log
    /// too, a header, and the bytes of others in the first and the last block of the medium; and occasional
    /// writes.
    fn memory_bytes_max(self) -> u64 {
        let copies = if self.kind == Kind::IndexLogWithChanges { 2 } else { 1 };
        let of_puts = self.user_bytes() * 11 / 10 + self.puts_all() * 2 * MEDIA_BLOCK;
        copies * of_puts + (self.threads + 1) * 2 * PAGE
    }
}

/// A value that cannot be compressed.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut word = number + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    let mut value: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next()).collect();
    value.truncate(len);
    value
}

/// Puts that are each durable by themselves.
fn single_puts() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        for (threads, puts) in [(1, 96), (8, 12)] {
            for value_len in [100, 4096] {
                for before in [Before::Nothing, Before::Reopened, Before::Copied] {
                    let (batch, keys, pool_mib) = (1, puts, 256);
                    cases.push(Case {
                        kind,
                        threads,
                        value_len,
                        puts,
                        batch,
                        keys,
                        pool_mib,
                        before,
                    });
                }
            }
        }
    }
    cases
}

/// Batches that overwrite a sixth of a small pool again and again, so that space has to be reclaimed.
fn overwrites() -> Vec<Case> {
    let case = |kind| Case {
        kind,
        threads: 1,
        value_len: 1000,
        puts: 25_000,
        batch: 100,
        keys: 4_000,
        pool_mib: 24,
        before: Before::Nothing,
    };
    Kind::ALL.into_iter().map(case).collect()
}

#[test]
fn bytes_on_the_device_are_within_bounds_of_those_that_users_write() {
    let (on_disk, in_memory) = (Path::new(env!("CARGO_TARGET_TMPDIR")), Path::new("/dev/shm"));
    let is_counted = is_counted(on_disk);
    if !is_counted {
        let folder = on_disk.display();
        // Past the test's captured output, which is shown only if it fails.
        let _ = writeln!(
            io::stderr(),
            "NOT TESTED: writes to ordinary files, as no device counts what is written to {folder}; set \
             CARGO_TARGET_DIR to a folder on a disk"
        );
    }
    for case in single_puts().into_iter().chain(overwrites()) {
        let (puts, user_bytes) = (case.puts_all(), case.user_bytes());
        if is_counted {
            let folder = tempfile::tempdir_in(on_disk).unwrap();
            let bytes = case.count(folder.path(), None, |_| device_bytes().unwrap());
            println!("{case:?}: {} bytes a put on the device", bytes / puts);
            assert!(bytes <= case.device_bytes_max(), "{bytes} for {user_bytes}: {case:?}");
        }
        if case.before == Before::Copied {
            // There is no cache of the kernel's between.
            continue;
        }
        for (folder, domain) in [(on_disk, Some(Domain::Memory)), (in_memory, None)] {
            let folder = tempfile::tempdir_in(folder).unwrap();
            let traffic = case.count(folder.path(), domain, |db| {
                let stats = db.stats();
                assert_eq!(stats.domain, domain.unwrap_or(Domain::Process));
                stats.traffic
            });
            let (lines, blocks) = (traffic.lines * LINE, traffic.media_blocks * MEDIA_BLOCK);
            println!(
                "{case:?}: {} bytes a put in lines, {} in blocks of memory",
                lines / puts,
                blocks / puts
            );
            let bytes = lines.max(blocks);
            assert!(bytes <= case.memory_bytes_max(), "{bytes} for {user_bytes}: {case:?}");
        }
    }
}
