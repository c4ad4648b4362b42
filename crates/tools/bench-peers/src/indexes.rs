//! Other people's ordered indexes beside those of Halite: a skip list (`crossbeam-skiplist`) and another adaptive
//! radix tree (`congee`).
//!
//! A skip list has the keys in its nodes, which saves it the way to the records. Congee has keys of 8 bytes
//! only. Every lookup compares the key of the record that it found.

use std::ops::Bound;

use congee::Congee as CongeeTree;
use crossbeam_skiplist::SkipMap;
use halite_bench::lsm::index::{Index, Keys, Table, contender};
use halite_bench::{Contender, Params};
use halite_index::Records;

/// Returns the indexes that take part in a comparison with these parameters.
pub(crate) fn contenders(params: &Params) -> Vec<Contender<'static>> {
    let skips = "crossbeam-skiplist";
    match Keys::of(params) {
        Some(Keys::Numbers) => vec![
            contender(skips, params, || Box::new(Skips::<8>(SkipMap::new()))),
            contender("congee", params, || Box::new(Congee(CongeeTree::default()))),
        ],
        Some(Keys::Users) => {
            vec![contender(skips, params, || Box::new(Skips::<24>(SkipMap::new())))]
        }
        None => Vec::new(),
    }
}

struct Skips<const LEN: usize>(SkipMap<[u8; LEN], u64>);

impl<const LEN: usize> Index for Skips<LEN> {
    fn insert(&self, key: &[u8], entry: u64, _: &Table) {
        self.0.insert(fixed(key), entry);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        let entry = *self.0.get(&fixed(key))?.value();
        (records.key(entry) == key).then_some(entry)
    }

    fn scan(&self, start: &[u8], limit: u64, _: &Table, read: &mut dyn FnMut(u64)) {
        let from = Bound::Included(fixed::<LEN>(start));
        let found = self.0.range((from, Bound::Unbounded)).take(limit as usize);
        found.for_each(|entry| read(*entry.value()));
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

    fn scan(&self, start: &[u8], limit: u64, _: &Table, read: &mut dyn FnMut(u64)) {
        let mut found = vec![(0, 0); limit as usize];
        let start = usize::from_be_bytes(fixed(start));
        let count = self.0.range(&start, &usize::MAX, &mut found, &self.0.pin());
        found[..count].iter().for_each(|(_, entry)| read(*entry as u64));
    }
}
