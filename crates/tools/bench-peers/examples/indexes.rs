//! Halite's ordered indexes beside a skip list (`crossbeam-skiplist`) and another adaptive radix tree
//! (`congee`).
//!
//! `cargo run --release --example indexes [keys] [rounds]`. A skip list has the keys in its nodes, which
//! saves it the way to the records. Congee has keys of 8 bytes only. Every lookup compares the key of
//! the record that it found.

#[path = "../../../shared/index/examples/radix/measure.rs"]
mod measure;

use congee::Congee as CongeeTree;
use crossbeam_skiplist::SkipMap;
use halite_index::Records;

use measure::{Contender, Index, Kind, Table};

struct Skips<const LEN: usize>(SkipMap<[u8; LEN], u64>);

impl<const LEN: usize> Index for Skips<LEN> {
    fn insert(&self, key: &[u8], entry: u64, _: &Table) {
        self.0.insert(fixed(key), entry);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        let entry = *self.0.get(&fixed(key))?.value();
        (records.key(entry) == key).then_some(entry)
    }

    fn walk(&self, _: &Table) -> u64 {
        self.0.iter().fold(0, |sum, entry| sum.wrapping_add(*entry.value()))
    }

    fn memory_len(&self) -> Option<u64> {
        None
    }
}

fn fixed<const LEN: usize>(key: &[u8]) -> [u8; LEN] {
    let Ok(key) = key.try_into() else { panic!("a key of {} B where {LEN} go", key.len()) };
    key
}

struct Congee(CongeeTree<usize, usize>);

impl Index for Congee {
    fn insert(&self, key: &[u8], entry: u64, _: &Table) {
        let key = usize::from_be_bytes(fixed(key));
        assert!(self.0.insert(key, entry as usize, &self.0.pin()).is_ok(), "there is memory");
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        let entry = self.0.get(&usize::from_be_bytes(fixed(key)), &self.0.pin())? as u64;
        (records.key(entry) == key).then_some(entry)
    }

    fn walk(&self, _: &Table) -> u64 {
        const BATCH: usize = 64;
        let (guard, mut batch) = (self.0.pin(), [(0, 0); BATCH]);
        let (mut start, mut sum) = (0_usize, 0);
        loop {
            let found = self.0.range(&start, &usize::MAX, &mut batch, &guard);
            sum = batch[..found].iter().fold(sum, |sum: u64, pair| sum.wrapping_add(pair.1 as u64));
            match found {
                0 => return sum,
                found => start = batch[found - 1].0.saturating_add(1),
            }
        }
    }

    fn memory_len(&self) -> Option<u64> {
        None
    }
}

fn main() {
    let mut contenders = measure::ours();
    contenders.push(Contender {
        name: "crossbeam-skiplist",
        make: |kind| {
            Some(match kind {
                Kind::Numbers => Box::new(Skips::<8>(SkipMap::new())),
                Kind::Users => Box::new(Skips::<24>(SkipMap::new())),
            })
        },
    });
    contenders.push(Contender {
        name: "congee",
        make: |kind| match kind {
            Kind::Numbers => Some(Box::new(Congee(CongeeTree::default()))),
            Kind::Users => None,
        },
    });
    measure::compare(&contenders);
}
