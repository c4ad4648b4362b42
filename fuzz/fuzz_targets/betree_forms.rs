//! Bytes with a right checksum are a stored form of the Bε-tree engine that comes back as it was, or are refused; and a
//! device whose labels are any bytes has the labels that are whole.
#![no_main]

use halite_vdev::{Leaf, MemoryLeaf, choose, read_labels};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u8>, u8)| {
    let (form, bytes, slot) = input;
    halite_betree::fuzzed::read(form, &bytes);
    let leaf = MemoryLeaf::new("fuzzed", 64);
    if leaf.write_label(usize::from(slot % 32) * 8192, &bytes[..bytes.len().min(8192)]).is_ok() {
        let labels = read_labels(&leaf);
        let _ = choose(0, &[labels]);
    }
});
