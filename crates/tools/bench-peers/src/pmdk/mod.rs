//! The libraries of PMDK 1.12 beside the building blocks of the same purpose: [`log`] appends to
//! libpmemlog, [`blk`] writes blocks of libpmemblk, [`obj`] updates cells in transactions of
//! libpmemobj, and [`alloc`] allocates with it beside the LSM engine's allocator. [`sys`] calls them.
//!
//! Each library is used as its manual shows. Written bytes are read back and compared outside the
//! measured time.

mod alloc;
mod blk;
mod contents;
mod log;
mod obj;
mod sys;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_bench::kv::StoreResult;
use halite_bench::{Contender, Error, Params, Result, RunOptions, Scratch};
use serde_json::Value;

use obj::Pattern;

/// Returns the libraries that can join an experiment of the building blocks. Sizes and counts
/// are those of `halite_bench::blocks`.
pub(crate) fn contenders(
    experiment: &str,
    params: &Params,
    options: &RunOptions,
) -> Vec<Contender<'static>> {
    let number = |name: &str| params.get(name).and_then(Value::as_u64);
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let sized = |full: u64, quick: u64| if options.quick { quick } else { full };
    let entries = sized(50_000, 5_000);
    let contender = match experiment {
        "blocks.log" => {
            number("entry_bytes").map(|bytes| log::contender(options, bytes, entries, 1))
        }
        "blocks.log-cycle" => {
            number("entry_bytes").map(|bytes| log::contender(options, bytes, entries / 4, 4))
        }
        "blocks.cell" if word("op") == Some("write") => number("bytes").and_then(|bytes| {
            let pattern = match word("pattern")? {
                "sequential" => Pattern::Sequential,
                "random" => Pattern::Random,
                _ => return None,
            };
            let (array, updates) = (sized(512 << 20, 16 << 20), sized(500_000, 4_000));
            Some(obj::contender(options, bytes, array, updates, pattern))
        }),
        "blocks.page" => number("page").zip(number("threads")).map(|(page_bytes, threads)| {
            let (bytes, writes) = (sized(256 << 20, 16 << 20), sized(6_000, 150));
            let pages = bytes / page_bytes / threads;
            blk::contender(options, blk::Size { page_bytes, threads, pages, writes })
        }),
        "lsm.halloc" => number("bytes")
            .zip(number("allocations"))
            .map(|(bytes, count)| alloc::contender(options, bytes, count)),
        _ => None,
    };
    let durability = match std::env::var_os(FORCE) {
        Some(_) => "written back and fenced (PMEM_IS_PMEM_FORCE=1)",
        None => "as libpmem decides for the folder",
    };
    contender.map(|one| one.with_param("durability", durability.into())).into_iter().collect()
}

/// The variable of libpmem(7) that says whether mappings are taken for persistent memory.
const FORCE: &str = "PMEM_IS_PMEM_FORCE";

/// Starts this program anew, unless PMDK makes bytes durable in the way that Halite does in
/// `folder`.
///
/// On persistent memory and on ordinary files both do the same without being told: write-backs and a
/// fence on the one, the kernel's sync on the others. On tmpfs Halite runs write-backs and fences, and
/// PMDK calls msync(2) unless [`FORCE`] is 1.
pub(crate) fn match_durability(folder: &Path) -> Result<()> {
    let options =
        RunOptions { folder: folder.to_owned(), quick: true, repeats: 1, seed: 0, profile: None };
    let on_tmpfs = Scratch::new(&options, 1 << 20)?.pool().domain().name() == "process";
    let wanted = on_tmpfs.then(|| "1".into());
    if std::env::var_os(FORCE) == wanted {
        return Ok(());
    }
    let failed = |source: io::Error| Error::Child { store: "pmdk".to_owned(), source };
    let mut again = Command::new(std::env::current_exe().map_err(failed)?);
    again.args(std::env::args_os().skip(1));
    match wanted {
        Some(value) => again.env(FORCE, value),
        None => again.env_remove(FORCE),
    };
    Err(failed(again.exec()))
}

/// The place of a pool for one measurement; the file there is removed when this is dropped.
struct PoolFile(PathBuf);

impl PoolFile {
    fn new(folder: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!("halite-bench-pmdk-{}-{number}", std::process::id())))
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // A file that stays is in a folder for temporary things; there is no caller to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Names the library and the action in its error.
fn named<T>(store: &str, action: &'static str, result: StoreResult<T>) -> Result<T> {
    result.map_err(|source| Error::Store { store: store.to_owned(), action, source })
}

/// Returns an error if a library did not keep the bytes that it was given.
fn expect(store: &str, holds: bool, why: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::WrongAnswer { store: store.to_owned(), why: why() }) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use halite_bench::Contender;

    use super::sys::{Blocks, Log, Object};
    use super::*;

    fn options() -> RunOptions {
        RunOptions { folder: std::env::temp_dir(), quick: true, repeats: 1, seed: 1, profile: None }
    }

    fn file() -> PoolFile {
        PoolFile::new(&std::env::temp_dir())
    }

    fn throughput(mut contender: Contender<'_>) -> f64 {
        let samples = (contender.measure)().unwrap();
        assert_eq!(samples[0].metric, "throughput");
        samples[0].value
    }

    #[test]
    fn every_library_keeps_what_it_is_given() {
        assert!(throughput(log::contender(&options(), 100, 500, 2)) > 0.0);
        let size = blk::Size { page_bytes: 16 << 10, threads: 2, pages: 20, writes: 50 };
        assert!(throughput(blk::contender(&options(), size)) > 0.0);
        let samples = (alloc::contender(&options(), 256, 100).measure)().unwrap();
        assert!(samples.len() == 2 && samples.iter().all(|sample| sample.value > 0.0));
        for pattern in [Pattern::Sequential, Pattern::Random] {
            assert!(throughput(obj::contender(&options(), 16, 1280, 50, pattern)) > 0.0);
        }
    }

    #[test]
    fn a_log_refuses_what_does_not_fit_and_is_empty_after_a_rewind() {
        let file = file();
        let mut log = Log::create(&file.0, 2 << 20).unwrap();
        let room = log.capacity();
        assert!(log.append(&vec![1; room + 1]).is_err());
        log.append(&vec![1; room]).unwrap();
        assert!(log.append(&[1]).is_err());
        log.rewind();
        log.append(b"abcdef").unwrap();
        let mut chunks = Vec::new();
        log.walk(4, |chunk| {
            chunks.push(chunk.to_vec());
            true
        });
        assert_eq!(chunks, [&b"abcd"[..], b"ef"]);
        let mut calls = 0;
        log.walk(1, |_| {
            calls += 1;
            false
        });
        assert_eq!(calls, 1);
    }

    #[test]
    fn blocks_and_objects_refuse_what_is_outside_of_them() {
        let block_file = file();
        let blocks = Blocks::create(&block_file.0, 4096, 32 << 20).unwrap();
        let count = blocks.count() as u64;
        assert!(blocks.write(count, &[0; 4096]).is_err());
        assert!(blocks.read(count, &mut [0; 4096]).is_err());

        let object_file = file();
        assert!(Object::create(&object_file.0, 64 << 20, 16 << 20).is_err());
        let object_file = self::file();
        let mut object = Object::create(&object_file.0, 100, 16 << 20).unwrap();
        object.update(90, &[7; 10]).unwrap();
        assert_eq!(object.bytes()[89..], [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        let outside =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| object.update(91, &[7; 10])));
        assert!(outside.is_err());
    }

    #[test]
    fn a_pool_is_not_made_over_a_file() {
        let path: PathBuf = file().0.clone();
        let file = PoolFile(path);
        drop(Log::create(&file.0, 2 << 20).unwrap());
        let Err(error) = Log::create(&file.0, 2 << 20).map(drop) else { panic!("it was made") };
        assert!(!error.to_string().is_empty());
    }
}
