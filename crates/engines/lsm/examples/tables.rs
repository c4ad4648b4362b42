//! The cost of tables: building, reading, filters. Rough figures of one thread, in its processor time, so that they
//! mean something on a busy machine.
//!
//!     cargo run --release -p halite-lsm --example tables [FOLDER]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halite_cache::BlockCache;
use halite_codec::Compression;
use halite_disk::Disk;
use halite_lsm::levels::{Change, Direction, Levels, LevelsOptions, Result, SortedRun, Source};
use halite_sst::{
    Entry, Filter, PUT, RangeDelete, Reads, SEQUENCE_MAX, Span, Table, TableBuilder, TableId,
    TableOptions, hash_key,
};

const ENTRIES: u64 = 500_000;
const VALUE: usize = 100;

/// Processor time since it was started.
struct Cpu(Duration);

impl Cpu {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number");
        Self(Duration::from_nanos(ns))
    }

    fn elapsed(&self) -> Duration {
        Self::now().0 - self.0
    }
}

fn key(number: u64) -> [u8; 20] {
    let mut key = *b"\0\0\0\x01user000000000000";
    let digits = format!("{number:012}");
    key[8..].copy_from_slice(digits.as_bytes());
    key
}

/// Half of it can be compressed.
fn value(number: u64) -> [u8; VALUE] {
    let mut value = [b'x'; VALUE];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in &mut value[..VALUE / 2] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    value
}

fn shuffled(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES
}

fn table(disk: &Disk, compression: Compression) -> Result<()> {
    let (id, name) = (TableId { store_id: 1, number: 1 }, format!("{compression:?}.sst"));
    let options = TableOptions { compression, ..TableOptions::default() };
    let entries: Vec<_> = (0..ENTRIES).map(|n| (key(2 * n), value(n))).collect();
    let start = Cpu::now();
    let mut builder = TableBuilder::new(disk.create(&name)?, id, 0, options);
    for (key, value) in &entries {
        builder.add(Entry { key, sequence: 5, kind: PUT, value })?;
    }
    let (_, len) = builder.finish()?;
    let mb = (ENTRIES * (20 + VALUE as u64)) as f64 / 1e6;
    let rate = mb / start.elapsed().as_secs_f64();
    print!("{compression:?}: built {mb:.0} MB into {:.0} MB at {rate:.0} MB/s", len as f64 / 1e6);

    let cache = Arc::new(BlockCache::new(256 << 20, options.block_bytes));
    let table = Table::open(disk, &name, id, &cache)?;
    for (reads, how) in [
        (Reads::Ahead, "from the file"),
        (Reads::Cached, "into the cache"),
        (Reads::Cached, "from the cache"),
    ] {
        let start = Cpu::now();
        let mut cursor = table.cursor(reads);
        cursor.first()?;
        while cursor.entry().is_some() {
            cursor.forward()?;
        }
        print!("; scanned {how} {:.0} MB/s", mb / start.elapsed().as_secs_f64());
    }
    let start = Cpu::now();
    let mut cursor = table.cursor(Reads::Cached);
    cursor.last()?;
    while cursor.entry().is_some() {
        cursor.backward()?;
    }
    println!("; backward {:.0} MB/s", mb / start.elapsed().as_secs_f64());
    for (odd, what) in [(0, "there"), (1, "not there")] {
        let start = Cpu::now();
        for n in 0..ENTRIES {
            let found = table.get(&key(2 * shuffled(n) + odd), SEQUENCE_MAX)?;
            assert_eq!(found.is_some(), odd == 0);
        }
        let ns = start.elapsed().as_nanos() as u64 / ENTRIES;
        println!("  get of a key that is {what}, from the cache: {ns} ns");
    }
    Ok(())
}

fn filters() {
    for keys in [1000, 20_000, 1_000_000_u64] {
        let mut hashes: Vec<u64> = (0..keys).map(|n| hash_key(&key(n))).collect();
        let start = Cpu::now();
        let bytes = Filter::build(&mut hashes).expect("a filter");
        let build = start.elapsed().as_nanos() as u64 / keys;
        let filter = Filter::from_bytes(&bytes).expect("a filter");
        let others: Vec<u64> = (0..1_000_000).map(|n| hash_key(&key(keys + n))).collect();
        let start = Cpu::now();
        let passed = others.iter().filter(|hash| black_box(&filter).may_have(**hash)).count();
        println!(
            "filter of {keys} keys: {:.2} bits a key, {:.3} % of others pass, built in {build} ns a key, asked in {} ns",
            bytes.len() as f64 * 8.0 / keys as f64,
            passed as f64 / 1e4,
            start.elapsed().as_nanos() / 1_000_000,
        );
    }
}

/// Every `step`-th key from `first` on.
struct Keys {
    first: u64,
    step: u64,
    sequence: u64,
}

struct At<'a>(&'a Keys, u64, u64, [u8; 20], [u8; VALUE]);

impl Source for At<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        let Self(keys, number, end, key, value) = self;
        (number < end).then_some(Entry { key, sequence: keys.sequence, kind: PUT, value })
    }

    fn advance(&mut self) -> Result<()> {
        self.1 += self.0.step;
        (self.3, self.4) = (key(self.1), value(self.1 ^ self.0.sequence));
        Ok(())
    }
}

/// The number in a key.
fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[8..]).expect("digits").parse().expect("a number")
}

impl SortedRun for Keys {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let start = from.map_or(0, number).max(self.first);
        let start = self.first + (start - self.first).div_ceil(self.step) * self.step;
        let end = to.map_or(ENTRIES * 4, number);
        Ok(Box::new(At(self, start, end, key(start), value(start ^ self.sequence))))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        Vec::new()
    }

    fn span(&self) -> Option<Span> {
        Some(Span { first: key(0).into(), last: key(ENTRIES * 4).into(), is_open: true })
    }

    fn split(&self, parts: usize) -> Vec<Box<[u8]>> {
        (1..parts as u64).map(|part| key(ENTRIES * 4 * part / parts as u64).into()).collect()
    }

    fn bytes(&self) -> u64 {
        (ENTRIES * 4 - self.first) / self.step * (20 + VALUE as u64)
    }
}

fn levels(disk: &Disk) -> Result<()> {
    let options =
        LevelsOptions { background: false, base_bytes: 240 << 20, ..LevelsOptions::default() };
    let (levels, _) = Levels::open(disk, 2, options, Arc::new(Vec::new))?;
    let (start, runs) = (Instant::now(), 20);
    for number in 0..runs {
        // A tenth of all keys.
        let run = Keys { first: shuffled(number * 7) % 10, step: 10, sequence: number + 1 };
        levels.merge_run(0, &run, &Change::default())?;
        while levels.compact()? {}
    }
    let stats = levels.stats();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "levels: {runs} runs of {:.0} MB merged in {seconds:.1} s: {:.0} MB/s come in, {:.0} MB/s written, write amplification {:.2}",
        stats.bytes_added as f64 / runs as f64 / 1e6,
        stats.bytes_added as f64 / 1e6 / seconds,
        stats.bytes_written as f64 / 1e6 / seconds,
        stats.write_amplification()
    );
    for level in stats.levels.iter().filter(|level| level.tables > 0) {
        println!("  {level:?}");
    }
    let start = Cpu::now();
    let mut found = 0;
    for n in 0..ENTRIES {
        found += u64::from(levels.get(0, &key(4 * shuffled(n)), SEQUENCE_MAX)?.is_some());
    }
    let stats = levels.stats();
    println!(
        "  get: {} ns, {found} of {ENTRIES} found, {:.2} tables and {:.2} blocks from the file each",
        start.elapsed().as_nanos() as u64 / ENTRIES,
        stats.read_amplification(),
        stats.block_reads as f64 / ENTRIES as f64
    );
    for direction in [Direction::Forward, Direction::Reverse] {
        let start = Cpu::now();
        let mut iter = levels.iter(0, (None, None), direction, SEQUENCE_MAX)?;
        let mut entries = 0_u64;
        while iter.next_entry()?.is_some() {
            entries += 1;
        }
        println!(
            "  scan {direction:?}: {} ns an entry",
            start.elapsed().as_nanos() as u64 / entries
        );
    }
    levels.close()
}

fn main() -> Result<()> {
    filters();
    let folder = std::env::args().nth(1);
    let disk = match &folder {
        Some(folder) => Disk::folder(folder.as_ref(), true)?,
        None => Disk::in_memory(),
    };
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd];
    // Without the feature, only the first two codecs are there.
    for &compression in &codecs[..if cfg!(feature = "zstd") { 3 } else { 2 }] {
        table(&disk, compression)?;
    }
    for (name, _) in disk.list()? {
        disk.remove(&name)?;
    }
    levels(&disk)
}
