//! Records of a radix tree's tests.

use halite_index::Records;
use proptest::prelude::*;

/// Records that are leaked: key and version.
pub(crate) struct Heap;

impl Heap {
    pub(crate) fn add(key: &[u8], version: u64) -> u64 {
        let record: &'static (Box<[u8]>, u64) = Box::leak(Box::new((key.into(), version)));
        std::ptr::from_ref(record).expose_provenance() as u64
    }

    fn at(entry: u64) -> &'static (Box<[u8]>, u64) {
        assert!(entry.is_multiple_of(8) && entry > 4096);
        // SAFETY: the address of a record that was leaked.
        unsafe { &*std::ptr::with_exposed_provenance(entry as usize) }
    }
}

impl Records for Heap {
    fn key(&self, entry: u64) -> &[u8] {
        &Self::at(entry).0
    }

    fn version(&self, entry: u64) -> u64 {
        Self::at(entry).1
    }
}

/// Prefixes of each other, long common prefixes, the least and the greatest bytes, dense and sparse
/// places, and every length around a window's.
pub(crate) fn key() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(prop::sample::select(vec![0, 1, b'a', 255]), 0..5);
    let repeated = (prop::sample::select(vec![0, b'a', 255]), 0..40_usize)
        .prop_map(|(byte, len)| vec![byte; len]);
    let long = (prop::sample::select(vec![65_530, 65_535, 65_536, 65_540_usize]), any::<u8>())
        .prop_map(|(len, last)| [&vec![b'z'; len - 1][..], &[last]].concat());
    let prefix = prop::sample::select(vec![
        &b""[..],
        b"user:",
        b"user:0000000",
        b"\0\0\0\0\0\0\0\0",
        b"exactly sixteen.",
        b"seventeen bytes..",
        &[b'p'; 300],
    ]);
    let dense = any::<u8>().prop_map(|n| vec![n]);
    let spread = any::<u16>().prop_map(|n| n.to_be_bytes().to_vec());
    let digits = (0..100_000_u32).prop_map(|n| format!("{n:05}").into_bytes());
    let rest = prop_oneof![3 => small, 2 => dense, 2 => spread, 2 => digits, 2 => repeated];
    prop_oneof![
        30 => (prefix, rest).prop_map(|(prefix, rest)| [prefix, &rest].concat()),
        1 => long,
    ]
}
