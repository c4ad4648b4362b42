//! A store whose manifest is damaged, or has edits of a stranger, opens, answers, compacts and is repaired, or is
//! refused: no panic, no hang.
#![no_main]

use std::sync::{Arc, OnceLock};

use halite_disk::Disk;
use halite_lsm::levels::{
    Change, Direction, Levels, LevelsOptions, Result, SortedRun, Source, repair,
};
use halite_sst::{Entry, PUT, RangeDelete, SEQUENCE_MAX, Span};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const STORE: u128 = 9;

/// Keys of one byte, from 0 up to this one.
struct Run(Vec<[u8; 1]>);

struct Keys<'a>(&'a [[u8; 1]]);

impl Source for Keys<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        self.0.first().map(|key| Entry {
            key,
            sequence: 1 + u64::from(key[0]),
            kind: PUT,
            value: b"value",
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.0 = &self.0[1..];
        Ok(())
    }
}

impl SortedRun for Run {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let start = self.0.partition_point(|key| from.is_some_and(|from| key[..] < *from));
        let end = self.0.partition_point(|key| to.is_none_or(|to| key[..] < *to));
        Ok(Box::new(Keys(&self.0[start..end.max(start)])))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        Vec::new()
    }

    fn span(&self) -> Option<Span> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        Some(Span { first: (*first).into(), last: (*last).into(), is_open: false })
    }

    fn split(&self, _: usize) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

fn options() -> LevelsOptions {
    LevelsOptions {
        background: false,
        threads: 1,
        cache_bytes: 1 << 16,
        table_bytes: 200,
        base_bytes: 300,
        runs_min: 2,
        ..LevelsOptions::default()
    }
}

fn open(disk: &Disk) -> Result<Levels> {
    Levels::open(disk, STORE, options(), Arc::new(Vec::new)).map(|(levels, _)| levels)
}

/// A small store that was not closed: names and bytes.
fn files() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = Disk::in_memory();
        let levels = open(&disk).unwrap();
        for number in 0..4_u8 {
            let run = Run((number * 8..number * 8 + 40).map(|key| [key]).collect());
            let words = vec![("runs".to_owned(), u64::from(number))];
            levels.add_run(0, &run, &Change { memtables: Some(u64::from(number)), words }).unwrap();
            if number == 1 {
                levels.compact().unwrap();
            }
        }
        drop(levels);
        let names = disk.list().unwrap().into_iter().map(|(name, len)| {
            let mut bytes = vec![0; len as usize];
            disk.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
            (name, bytes)
        });
        names.collect()
    })
}

/// A frame with right checksums, as `halite-codec`'s `frame.rs` has them, at an offset of a manifest.
fn frame(payload: &[u8], number: u64, offset: u64) -> Vec<u8> {
    let id = [&STORE.to_le_bytes()[..], &number.to_le_bytes()].concat();
    let seed = xxh3_64(&id) ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let len = (payload.len() as u32).to_le_bytes();
    let head = (xxh3_64_with_seed(&len, seed) as u32).to_le_bytes();
    let sum = xxh3_64_with_seed(payload, !seed).to_le_bytes();
    [&len[..], &head, &sum, payload].concat()
}

fn use_it(levels: &Levels) {
    for key in [0, 20, 70_u8] {
        let _ = levels.get(0, &[key], SEQUENCE_MAX);
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        if let Ok(mut iter) = levels.iter(0, (Some(&[3]), None), direction, SEQUENCE_MAX) {
            while let Ok(Some(_)) = iter.next_entry() {}
        }
    }
    let run = Run((0..50).map(|key| [key]).collect());
    let _ = levels.merge_run(0, &run, &Change::default());
    for _ in 0..4 {
        let _ = levels.compact();
    }
    let _ = (levels.stats(), levels.pressure());
    let _ = levels.check(&mut |_| std::ops::ControlFlow::Continue(()));
}

fuzz_target!(|input: (Vec<(bool, u16, u8)>, Vec<Vec<u8>>)| {
    let (flips, edits) = input;
    let disk = Disk::in_memory();
    for (name, bytes) in files() {
        let mut bytes = bytes.clone();
        if let Some(number) = name.strip_prefix("MANIFEST-") {
            for payload in &edits {
                let at = bytes.len() as u64;
                bytes.extend(frame(payload, number.parse().unwrap(), at));
            }
        }
        for (in_manifest, at, byte) in &flips {
            if name.starts_with(if *in_manifest { "MANIFEST" } else { "CURRENT" }) {
                let at = usize::from(*at) % bytes.len();
                bytes[at] = *byte;
            }
        }
        let mut writer = disk.create(name).unwrap();
        writer.write(&bytes).unwrap();
        writer.finish().unwrap();
    }
    match open(&disk) {
        Ok(levels) => use_it(&levels),
        Err(error) => assert!(error.file().is_some(), "{error}"),
    }
    if repair(&disk, STORE, &options()).is_ok() {
        use_it(&open(&disk).expect("what was repaired opens"));
    }
});
