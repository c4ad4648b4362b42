//! Parts that are read ahead by requests of a slow disk.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use halite_codec::Compression;

use super::super::{MergeCursor, Reads, Run, RunCursor, RunPlace, RunStore, Source};
use super::model::{Key, Model, Owned, Shape, store_of};
use super::moves::all;
use crate::Error;
use crate::message::{Kind, byte_len};
use crate::storage::{Extents, Slow, Storage};

const SHAPE: Shape =
    Shape { part_bytes: 4 << 10, blocks: 64, compression: Compression::None, has_filter: true };

const RUNS: u64 = 6;

type Messages = Vec<(Key, Owned)>;

/// Runs of 300 KB whose keys lie between each other, and all of their messages.
fn runs(storage: &Arc<Storage>) -> (Arc<RunStore>, Vec<Arc<Run>>, Messages) {
    let store = store_of(Arc::clone(storage) as Arc<dyn Extents>);
    let mut messages = Vec::new();
    let mut write = |of: u64| {
        let message = |n: u64| {
            (format!("{:08}", n * RUNS + of).into_bytes(), (Kind::Insert, vec![n as u8; 92]))
        };
        let model = Model { messages: (0..3000).map(message).collect(), ranges: Vec::new() };
        messages.extend(model.messages.clone());
        let pointer = model.place_in(&**storage, SHAPE, 5 + of, RunPlace::Whole).unwrap();
        let run = Run::open(Arc::clone(&store), pointer);
        run.directory().unwrap();
        run
    };
    let runs = (0..RUNS).map(&mut write).collect();
    messages.sort_by(|a, b| a.0.cmp(&b.0));
    (store, runs, messages)
}

fn cursors(runs: &[Arc<Run>], lo: &[u8], hi: Option<&[u8]>, reads: Reads) -> Vec<RunCursor> {
    let cursor = |run: &Arc<Run>| RunCursor::new(Arc::clone(run), lo, hi, reads).unwrap();
    runs.iter().map(cursor).collect()
}

#[test]
fn a_merge_reads_its_runs_side_by_side_and_finds_all_they_have() {
    for (on_threads, reads) in [(true, Reads::Cached), (true, Reads::Once), (false, Reads::Cached)]
    {
        let (leaf, storage) = Slow::storage(on_threads);
        let (_store, runs, expected) = runs(&Arc::new(storage));
        leaf.most_under_way.store(0, Relaxed);
        let mut merged = MergeCursor::reader(cursors(&runs, b"", None, reads), None);
        merged.first().unwrap();
        let most = leaf.most_under_way.load(Relaxed);
        assert_eq!(most > 1, on_threads, "{most} at a time");
        let mut found = Vec::new();
        while let Some((key, message)) = merged.entry() {
            found.push((key.to_vec(), (message.kind, message.payload.to_vec())));
            merged.next().unwrap();
        }
        assert!(found == expected);
        let mut merged = MergeCursor::reader(cursors(&runs, b"", None, reads), None);
        merged.last().unwrap();
        while let Some((key, _)) = merged.entry() {
            assert_eq!(key, found.pop().unwrap().0);
            merged.prev().unwrap();
        }
        assert!(found.is_empty());
        // Within bounds, and from a key on.
        let (lo, hi) = (b"00004001", Some(&b"00009000"[..]));
        let mut merged = MergeCursor::reader(cursors(&runs, lo, hi, reads), None);
        for (sought, first) in [(&b"0"[..], 4001), (b"00005000", 5000), (b"000089999", 9000)] {
            merged.seek(sought).unwrap();
            let mut count = 0;
            while merged.entry().is_some() {
                count += 1;
                merged.next().unwrap();
            }
            assert_eq!(count, 9000 - first);
        }
    }
}

#[test]
fn a_part_that_is_damaged_is_an_error_where_the_walk_comes_to_it() {
    for reads in [Reads::Cached, Reads::Once] {
        let (_leaf, storage) = Slow::storage(true);
        let storage = Arc::new(storage);
        let (_store, runs, _) = runs(&storage);
        let extent = runs[0].pointer().extents[0];
        let mut bytes = vec![0; byte_len(extent)];
        storage.read("test", extent, 0, &mut bytes, &|_| true).unwrap();
        bytes[150 << 10] ^= 1;
        storage.write_at(extent, &bytes).unwrap();
        let mut cursor = cursors(&runs[..1], b"", None, reads).remove(0);
        assert!(
            matches!(all(&mut cursor, true), Err(Error::Damaged { address, .. }) if address == extent.address)
        );
        // All before its part is read, a message in 98 bytes.
        cursor.first().unwrap();
        let mut count = 1;
        while cursor.next().is_ok() {
            count += 1;
        }
        assert!((1500..1570).contains(&count), "{count} messages");
    }
}
