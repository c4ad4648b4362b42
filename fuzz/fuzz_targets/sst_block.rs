//! Any bytes are a block that is walked both ways and searched, or refused: no panic, no hang. A block of any
//! entries has just these. Any bytes are a filter, or refused.
#![no_main]

use halite_sst::{Block, BlockBuilder, BlockCursor, Entry, Filter};
use libfuzzer_sys::fuzz_target;

type Input = (bool, Vec<u8>, Vec<(Vec<u8>, u64, u8, Vec<u8>)>, u8);

fn walk(bytes: &[u8]) {
    let Ok(block) = Block::from_bytes(bytes) else { return };
    let mut cursor = BlockCursor::new(block);
    let mut keys = Vec::new();
    if cursor.first().is_ok() {
        while let Some(entry) = cursor.entry() {
            keys.push((entry.key.to_vec(), entry.sequence));
            if cursor.forward().is_err() {
                break;
            }
        }
    }
    assert!(keys.len() <= bytes.len());
    for (key, sequence) in keys.iter().take(50) {
        if cursor.seek(key, *sequence).is_ok() {
            let _ = cursor.backward();
        }
    }
    // Each step reads from a restart on, so that few are enough.
    let mut left = 200;
    if cursor.last().is_ok() {
        while cursor.entry().is_some() && left > 0 && cursor.backward().is_ok() {
            left -= 1;
        }
    }
}

fuzz_target!(|input: Input| {
    let (is_raw, bytes, mut entries, interval) = input;
    if is_raw {
        walk(&bytes);
        if let Ok(filter) = Filter::from_bytes(&bytes) {
            (0..100).for_each(|n: u64| _ = filter.may_have(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        return;
    }
    entries.iter_mut().for_each(|entry| entry.1 >>= 8);
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
    let mut builder = BlockBuilder::new(usize::from(interval % 20) + 1);
    for (key, sequence, kind, value) in &entries {
        builder.add(Entry { key, sequence: *sequence, kind: *kind, value });
    }
    let mut cursor = BlockCursor::new(Block::from_bytes(builder.finish()).unwrap());
    cursor.first().unwrap();
    for (key, sequence, kind, value) in &entries {
        let entry = cursor.entry().unwrap();
        assert_eq!(
            (entry.key, entry.sequence, entry.kind, entry.value),
            (&key[..], *sequence, *kind, &value[..])
        );
        cursor.forward().unwrap();
    }
    assert!(cursor.entry().is_none());
    for (key, sequence, ..) in &entries {
        cursor.seek(key, *sequence).unwrap();
        assert_eq!(cursor.entry().map(|e| (e.key, e.sequence)), Some((&key[..], *sequence)));
    }
});
