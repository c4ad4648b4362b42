//! A run in memory, and a model of the trees' content.
#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_codec::Compression;
use halite_lsm::levels::{Direction, Levels, LevelsOptions, Result, Snapshots, SortedRun, Source};
use halite_sst::{
    DELETE, Entry, Found, PUT, RANGE_DELETE, RangeDelete, SEQUENCE_MAX, Span, TableOptions,
};
use parking_lot::Mutex;

pub(crate) const STORE: u128 = 0xfeed_0000_1111_2222;

/// A version: key, sequence, kind, value.
pub(crate) type Version = (Vec<u8>, u64, u8, Vec<u8>);

/// The version of a key that a reader sees: a sequence number and a value.
pub(crate) type Seen = (u64, Vec<u8>);

/// Versions in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemRun {
    pub(crate) entries: Vec<Version>,
    pub(crate) deletes: Vec<RangeDelete>,
}

impl MemRun {
    pub(crate) fn add(&mut self, key: &[u8], sequence: u64, kind: u8, value: &[u8]) {
        self.entries.push((key.to_vec(), sequence, kind, value.to_vec()));
        self.entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    }
}

struct Slice<'a>(&'a [Version]);

impl Source for Slice<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, sequence, kind, value) = self.0.first()?;
        Some(Entry { key, sequence: *sequence, kind: *kind, value })
    }

    fn advance(&mut self) -> Result<()> {
        self.0 = &self.0[1..];
        Ok(())
    }
}

impl SortedRun for MemRun {
    fn range<'a>(&'a self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Box<dyn Source + 'a>> {
        let start = self.entries.partition_point(|e| from.is_some_and(|from| *e.0 < *from));
        let end = self.entries.partition_point(|e| to.is_none_or(|to| *e.0 < *to));
        Ok(Box::new(Slice(&self.entries[start..end])))
    }

    fn range_deletes(&self) -> Vec<RangeDelete> {
        self.deletes.clone()
    }

    fn span(&self) -> Option<Span> {
        let point =
            |key: &Vec<u8>| Span { first: key[..].into(), last: key[..].into(), is_open: false };
        let range =
            |d: &RangeDelete| Span { first: d.start.clone(), last: d.end.clone(), is_open: true };
        let spans = self.entries.iter().map(|e| point(&e.0)).chain(self.deletes.iter().map(range));
        spans.reduce(|mut a, b| {
            if b.first < a.first {
                a.first = b.first.clone();
            }
            if b.last > a.last || b.last == a.last && a.is_open {
                (a.last, a.is_open) = (b.last, b.is_open);
            }
            a
        })
    }

    fn split(&self, parts: usize) -> Vec<Box<[u8]>> {
        (1..parts)
            .filter_map(|n| self.entries.get(self.entries.len() * n / parts))
            .map(|e| e.0[..].into())
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| (e.0.len() + e.3.len()) as u64).sum()
    }
}

/// All entries that were ever written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    versions: BTreeMap<(u32, Vec<u8>), Vec<Version>>,
    deletes: Vec<(u32, RangeDelete)>,
}

impl Model {
    pub(crate) fn add(&mut self, tree: u32, run: &MemRun) {
        for (key, sequence, kind, value) in &run.entries {
            let versions = self.versions.entry((tree, key.clone())).or_default();
            versions.push((key.clone(), *sequence, *kind, value.clone()));
        }
        self.deletes.extend(run.deletes.iter().map(|delete| (tree, delete.clone())));
    }

    pub(crate) fn get(&self, tree: u32, key: &[u8], at: u64) -> Option<Seen> {
        let versions = self.versions.get(&(tree, key.to_vec()))?;
        let newest = versions.iter().filter(|v| v.1 <= at).max_by_key(|v| v.1)?;
        let covers = |(of, d): &&(u32, RangeDelete)| {
            *of == tree
                && *d.start <= *key
                && *key < *d.end
                && d.sequence <= at
                && d.sequence > newest.1
        };
        let is_there = newest.2 == PUT && !self.deletes.iter().any(|delete| covers(&delete));
        is_there.then(|| (newest.1, newest.3.clone()))
    }

    pub(crate) fn keys(&self, tree: u32) -> Vec<Vec<u8>> {
        self.versions.keys().filter(|(of, _)| *of == tree).map(|(_, key)| key.clone()).collect()
    }
}

/// The version that a reader sees in the result of a get.
pub(crate) fn visible(found: Option<Found>) -> Option<Seen> {
    let found = found?;
    match found.kind {
        DELETE | RANGE_DELETE => None,
        _ => Some((found.sequence, found.value.to_vec())),
    }
}

/// The pairs that a reader sees in a scan: keys and values, ascending.
pub(crate) fn scan(
    levels: &Levels,
    tree: u32,
    range: (Option<&[u8]>, Option<&[u8]>),
    direction: Direction,
    at: u64,
) -> Result<Vec<(Vec<u8>, Seen)>> {
    let mut iter = levels.iter(tree, range, direction, at)?;
    let mut versions: Vec<Version> = Vec::new();
    while let Some(e) = iter.next_entry()? {
        versions.push((e.key.to_vec(), e.sequence, e.kind, e.value.to_vec()));
    }
    if direction == Direction::Reverse {
        versions.reverse();
    }
    let is_sorted = versions.windows(2).all(|w| (&w[0].0, !w[0].1) <= (&w[1].0, !w[1].1));
    assert!(is_sorted, "the scan is in order");
    let mut pairs: Vec<(Vec<u8>, Seen)> = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    for (key, sequence, kind, value) in versions {
        if last.as_ref() == Some(&key) {
            continue;
        }
        last = Some(key.clone());
        if kind == PUT && iter.covering(&key)?.is_none_or(|delete| delete < sequence) {
            pairs.push((key, (sequence, value)));
        }
    }
    Ok(pairs)
}

/// Compares everything, as of some sequence numbers.
pub(crate) fn compare(levels: &Levels, model: &Model, trees: &[u32], ats: &[u64]) {
    for &tree in trees {
        for at in ats.iter().copied().chain([SEQUENCE_MAX]) {
            let keys = model.keys(tree);
            for key in &keys {
                let found = visible(levels.get(tree, key, at).unwrap());
                assert_eq!(found, model.get(tree, key, at), "{key:?} of {tree} at {at}");
            }
            let some = keys.get(keys.len() / 3).zip(keys.get(keys.len() / 2));
            let some = some.map(|(from, to)| (Some(&from[..]), Some(&to[..])));
            for range in [(None, None)].into_iter().chain(some) {
                let is_within = |key: &&Vec<u8>| {
                    range.0.is_none_or(|from| key[..] >= *from)
                        && range.1.is_none_or(|to| key[..] < *to)
                };
                let pair = |key: &Vec<u8>| Some((key.clone(), model.get(tree, key, at)?));
                let right: Vec<_> = keys.iter().filter(is_within).filter_map(pair).collect();
                for direction in [Direction::Forward, Direction::Reverse] {
                    assert_eq!(scan(levels, tree, range, direction, at).unwrap(), right);
                }
            }
        }
    }
}

/// Small tables, levels and blocks, so that little data has much of everything.
pub(crate) fn small_options() -> LevelsOptions {
    LevelsOptions {
        table: TableOptions {
            block_bytes: 100,
            partition_bytes: 100,
            compression: Compression::Lz4,
        },
        table_bytes: 500,
        base_bytes: 1500,
        ratio: 3,
        runs_min: 3,
        runs_max: 8,
        debt_bytes_max: 4000,
        cache_bytes: 64 << 10,
        threads: 2,
        manifest_bytes_max: 1000,
        flushes: 0,
        background: false,
        ballast_bytes_min: 0,
        ballast_bytes_max: 0,
    }
}

/// Snapshots that a test takes.
#[derive(Clone, Default)]
pub(crate) struct Taken(pub(crate) Arc<Mutex<Vec<u64>>>);

impl Taken {
    pub(crate) fn source(&self) -> Snapshots {
        let taken = Arc::clone(&self.0);
        Arc::new(move || taken.lock().clone())
    }
}
