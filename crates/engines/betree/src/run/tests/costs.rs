//! The I/Os that the documentation promises.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halite_codec::Compression;

use super::super::test_storage::MemoryExtents;
use super::super::{Reads, Run, RunCursor, Source, hash_key};
use super::model::{Model, Shape};
use crate::message::{Block, Kind, Payload};

const SHAPE: Shape =
    Shape { part_bytes: 16 << 10, blocks: 256, compression: Compression::None, has_filter: true };

/// 20 000 messages of 100 bytes: 2 MB.
fn open(extents: &Arc<MemoryExtents>, shape: Shape) -> Arc<Run> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut value = || (Kind::Insert, (0..88).map(|_| random.u8(..)).collect());
    let messages =
        (0..20_000_u64).map(|n| (format!("user{:08}", n * 3).into_bytes(), value())).collect();
    Model { messages, ranges: Vec::new() }.open(extents, shape, 5).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("user{n:08}").into_bytes()
}

fn reads(extents: &MemoryExtents, of: impl FnOnce()) -> (u64, u64) {
    let counts = || (extents.reads(), extents.bytes_read.load(Ordering::Relaxed));
    let before = counts();
    of();
    let after = counts();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_lookup_reads_a_directory_once_and_a_part_or_nothing() {
    let extents = Arc::new(MemoryExtents::default());
    let run = open(&extents, SHAPE);
    let find = |n: u64| {
        let message = run.get(&key(n), hash_key(&key(n))).unwrap();
        assert_eq!(message.is_some(), n.is_multiple_of(3));
        if let Some(message) = message {
            assert!(matches!(message.payload, Payload::Shared(Block::Cached(_), _)));
        }
    };
    let (first, bytes) = reads(&extents, || find(3000));
    assert_eq!(first, 2);
    let directory = run.pointer().directory_len;
    assert!(bytes - directory <= 16 << 10);
    assert!(directory * 50 < run.pointer().stored_bytes(), "{directory} bytes");
    assert_eq!(reads(&extents, || find(3003)), (0, 0), "its part is in the cache");
    assert_eq!(reads(&extents, || find(30_000)).0, 1);
    let run = open(&extents, SHAPE);
    run.directory().unwrap();
    let (absent, _) = reads(&extents, || {
        let is_there =
            |n: u64| run.get(&key(n * 3 + 1), hash_key(&key(n * 3 + 1))).unwrap().is_some();
        assert!(!(0..2000).any(is_there));
    });
    assert!(absent < 30, "{absent} of 2000 passed the filter");
}

#[test]
fn parts_in_place_are_neither_read_nor_copied() {
    let extents = Arc::new(MemoryExtents::in_place());
    let run = open(&extents, SHAPE);
    run.directory().unwrap();
    let (count, _) = reads(&extents, || {
        for n in 0..20_000 {
            let message = run.get(&key(n * 3), hash_key(&key(n * 3))).unwrap().unwrap();
            assert!(matches!(message.payload, Payload::Shared(Block::InPlace(_), _)));
        }
    });
    assert_eq!((count, run.store().cache.reads()), (0, 0));
}

#[test]
fn walks_read_ahead_each_byte_once() {
    let extents = Arc::new(MemoryExtents::default());
    for is_forward in [true, false] {
        for (mode, most) in [(Reads::Cached, 20), (Reads::Once, 12)] {
            let run = open(&extents, SHAPE);
            let mut cursor = RunCursor::new(Arc::clone(&run), b"", None, mode).unwrap();
            let (count, bytes) = reads(&extents, || {
                let found = super::moves::all(&mut cursor, is_forward).unwrap();
                assert_eq!(found.len(), 20_000);
            });
            assert!(count <= most, "{count} reads");
            assert!(bytes <= run.pointer().stored_bytes());
            assert_eq!(run.store().cache.used_bytes() > 0, mode == Reads::Cached);
        }
        // A short walk does not.
        let run = open(&extents, SHAPE);
        let mut cursor =
            RunCursor::new(run, &key(30_000), Some(&key(30_030)), Reads::Cached).unwrap();
        assert_eq!(
            reads(&extents, || if is_forward { cursor.first() } else { cursor.last() }.unwrap()).0,
            1
        );
    }
}
