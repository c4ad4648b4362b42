//! Three ways to write and read persistent memory (Haura §3.1, Fig. 2): a region written in sequence, each buffer
//! durable before the next one, and then read in sequence, by buffers of 64 bytes to 32 MiB.
//!
//! | subject | a buffer | in the paper |
//! |---|---|---|
//! | `pool` | streamed to the pool, and fenced | libpmem |
//! | `blocks` | pages of a store that replaces each of them whole or not at all (`halite_blocks::page`) | libpmemblk |
//! | `file` | `pwrite` and `fdatasync`; `pread` | the file API |
//!
//! Reads copy into the buffer. All of the region's memory is present before. Pages of `blocks` are at most 64 KiB: a
//! larger buffer is several of them, a smaller one a part of one, which is copied whole at each flush. The paper found
//! libpmem consistent, libpmemblk worst for small buffers and unusable beyond 8 MB, and the file API far slower at
//! small buffers.

use std::time::Instant;

use halite_blocks::page::{CopyOnWrite, PageBuffer, PageSize, PageStore, Shape};
use serde_json::json;

use super::Medium;
use super::raw::RawFile;
use super::setting::Setting;
use crate::scratch::Home;
use crate::{Contender, Error, Params, Result, Run, RunOptions, Sample, Scratch};

pub(super) const NAME: &str = "betree.access";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A pool is as long as a multiple of this.
const SEGMENT: u64 = 2 * MIB;

const BUFFERS: [u64; 12] =
    [64, 128, 256, 512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 32 * MIB];

/// Buffers that are written in one measurement, at most: of small ones, they do not fill the region.
const COUNT_MAX: u64 = 1 << 20;

/// Bytes of a page of `blocks`: at least, and at most.
const PAGE_MIN: u64 = 4 * KIB;
const PAGE_MAX: u64 = 64 * KIB;

fn buffers(setting: &Setting<'_>) -> &'static [u64] {
    setting.sized(&BUFFERS[..], &[64, 4 * KIB, MIB])
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let is_measured = setting.media().any(|medium| medium == Medium::Pmem);
    let comparisons = if is_measured { buffers(setting).len() as u64 } else { 0 };
    comparisons * 3 * u64::from(run.options.repeats)
}

/// A region, and how it is written.
#[derive(Clone, Copy)]
struct Region {
    bytes: u64,
    buffer: u64,
    count: u64,
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    if !setting.media().any(|medium| medium == Medium::Pmem) {
        return Ok(());
    }
    let options = run.options.clone();
    for &buffer in buffers(setting) {
        let bytes = (setting.object_bytes / buffer).max(1) * buffer;
        let region = Region { bytes, buffer, count: (bytes / buffer).min(COUNT_MAX) };
        let mut params = Params::new();
        params.insert("region".to_owned(), json!(bytes));
        params.insert("buffer".to_owned(), json!(buffer));
        let mut contenders = [
            Contender::new("pool", || pool(region, &options)),
            Contender::new("blocks", || blocks(region, &options)),
            Contender::new("file", || file(region, &options)),
        ];
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

impl Region {
    /// Where each buffer is.
    fn places(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| number * self.buffer)
    }

    /// A buffer with recognizable contents.
    fn bytes_of(self) -> Vec<u8> {
        (0..self.buffer).map(|at| (at % 251) as u8).collect()
    }

    /// Times both phases. The buffer that the last read filled has to be what was written.
    fn measured<S>(
        self,
        subject: &str,
        state: &mut S,
        write: impl Fn(&mut S, u64, &[u8]) -> Result<()>,
        read: impl Fn(&mut S, u64, &mut [u8]) -> Result<()>,
    ) -> Result<Vec<Sample>> {
        let bytes = self.bytes_of();
        let mut buffer = vec![0; bytes.len()];
        let start = Instant::now();
        self.places().try_for_each(|at| write(state, at, &bytes))?;
        let written = start.elapsed();
        let start = Instant::now();
        self.places().try_for_each(|at| read(state, at, &mut buffer))?;
        let took = start.elapsed();
        if buffer != bytes {
            let why = "a buffer is not what was written".to_owned();
            return Err(Error::WrongAnswer { store: subject.to_owned(), why });
        }
        let all = (self.count * self.buffer) as f64;
        Ok(vec![
            Sample::new("write", "B/s", all / written.as_secs_f64().max(1e-9)),
            Sample::new("read", "B/s", all / took.as_secs_f64().max(1e-9)),
        ])
    }
}

fn pool(region: Region, run: &RunOptions) -> Result<Vec<Sample>> {
    let scratch = Scratch::new(run, region.bytes.next_multiple_of(SEGMENT))?;
    let mut fresh = scratch.pool().claim(0, region.bytes.next_multiple_of(64))?;
    // No page fault is due.
    let _ = fresh.zero(0..fresh.len());
    region.measured(
        "pool",
        &mut fresh,
        |fresh, at, bytes| {
            let flushed = fresh.write_stream(at, bytes);
            Ok(fresh.pool().fence([flushed]).map(drop)?)
        },
        |fresh, at, to| {
            to.copy_from_slice(fresh.read(at, to.len() as u64));
            Ok(())
        },
    )
}

/// A store of pages, and the page that is being written.
struct Blocks {
    store: CopyOnWrite,
    page: u64,
    buffer: PageBuffer,
}

fn blocks(region: Region, run: &RunOptions) -> Result<Vec<Sample>> {
    let page = region.buffer.clamp(PAGE_MIN, PAGE_MAX);
    let page_size = PageSize::new(page)?;
    let pages = region.bytes.div_ceil(page).max(2) as u32;
    let shape = Shape { page_size, pages };
    let len = CopyOnWrite::space_len(shape).next_multiple_of(SEGMENT);
    let scratch = Scratch::new(run, len)?;
    let mut space = scratch.pool().claim(0, len)?;
    let _ = space.zero(0..len);
    let store = CopyOnWrite::create(space, shape)?;
    let mut blocks = Blocks { store, page, buffer: PageBuffer::new(page_size) };
    region.measured(
        "blocks",
        &mut blocks,
        |Blocks { store, page, buffer }, at, bytes| {
            for (number, part) in bytes.chunks(*page as usize).enumerate() {
                let at = at + number as u64 * *page;
                buffer.write(at % *page, part);
                store.flush((at / *page) as u32, buffer)?;
            }
            Ok(())
        },
        |Blocks { store, page, buffer }, at, to| {
            for (number, part) in to.chunks_mut(*page as usize).enumerate() {
                let at = at + number as u64 * *page;
                store.read((at / *page) as u32, buffer)?;
                let from = (at % *page) as usize;
                part.copy_from_slice(&buffer.bytes()[from..from + part.len()]);
            }
            Ok(())
        },
    )
}

fn file(region: Region, run: &RunOptions) -> Result<Vec<Sample>> {
    let home = Home::new(&run.folder)?;
    let mut file = RawFile::create_buffered(&home.path().join("file"))?;
    let zeros = vec![0; MIB as usize];
    for at in (0..region.bytes).step_by(zeros.len()) {
        file.write_at(at, &zeros)?;
    }
    region.measured(
        "file",
        &mut file,
        |file, at, bytes| {
            file.write_at(at, bytes)?;
            file.sync()
        },
        |file, at, to| file.read_at(at, to),
    )
}
