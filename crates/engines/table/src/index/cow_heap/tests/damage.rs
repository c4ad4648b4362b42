//! Damage is told, and never taken for contents.

use halite_alloc::heap::{Heap, NvPtr, Tagged};

use super::super::directory::DirectorySlot;
use super::super::garbage::Garbage;
use super::super::node::{CowKey, CowNode};
use super::*;
use crate::index::Error;

/// Inverts a bit of a byte of a slot, and says whether it has that.
fn invert<T: Tagged>(heap: &mut Heap, pointer: AnyPtr, byte: u64) -> bool {
    let pointer = NvPtr::<T>::from_word(pointer.word());
    let Ok(before) = heap.read_at(pointer, byte, 1).map(|bytes| bytes[0]) else { return false };
    heap.write(pointer, byte, &[before ^ 1 << (byte % 8)]).unwrap();
    true
}

fn invert_any(heap: &mut Heap, pointer: AnyPtr, byte: u64) -> bool {
    invert::<CowNode>(heap, pointer, byte)
        || invert::<CowKey>(heap, pointer, byte)
        || invert::<DirectorySlot>(heap, pointer, byte)
        || invert::<Garbage>(heap, pointer, byte)
}

#[test]
fn every_damaged_byte_of_a_node_a_key_or_the_directory_is_told() {
    let segments = pool(32 << 20);
    let mut store = open(&segments, 256);
    let long = vec![b'k'; 300];
    let mut expected = Vec::new();
    for number in 0..60 {
        expected.push((key_of(number), number));
        store.put(16, &key_of(number), number).unwrap();
    }
    store.put(16, &long, 99).unwrap();
    store.finish().unwrap();
    store.sync().unwrap();
    expected.push((long, 99));
    let mut pointers = Vec::new();
    let snapshot = store.snapshot();
    store.put(16, &key_of(0), 0).unwrap();
    store.finish().unwrap();
    store.sync().unwrap();
    let heap = store.shared().heap();
    store.check(&heap, &mut |pointer| pointers.push(pointer)).unwrap();
    drop(heap);
    drop((snapshot, store));
    let (mut told, mut harmless) = (0, 0);
    for &pointer in &pointers {
        for byte in (0..).step_by(13) {
            let store = open(&segments, 256);
            if !invert_any(&mut store.heap_mut(), pointer, byte) {
                break;
            }
            drop(store);
            let read = CowHeap::open(&segments.device(1), 256).and_then(|store| {
                for (key, word) in &expected {
                    match store.get(16, key) {
                        Ok(found) => assert_eq!(found, Some(*word), "{pointer:?} {byte}"),
                        Err(error) => return Err(error),
                    }
                }
                store.check(&store.shared().heap(), &mut |_| ())
            });
            match read {
                Ok(()) => harmless += 1,
                Err(Error::DamagedNode { .. } | Error::Heap(_)) => told += 1,
                Err(other) => panic!("{other}"),
            }
            // The directory cannot be opened while it is damaged: the heap is.
            let mut heap = Heap::open(&segments.device(1)).unwrap();
            assert!(invert_any(&mut heap, pointer, byte));
            drop(heap);
            let store = open(&segments, 256);
            assert_eq!(store.get(16, &expected[0].0).unwrap(), Some(0));
        }
    }
    // Bytes behind the end of a directory, a long key or garbage belong to nobody, and those that garbage names are not read.
    assert!(told > 150 && harmless < told / 2, "{told} told, {harmless} harmless");
}

#[test]
fn a_node_of_another_level_or_life_is_refused() {
    let segments = pool(32 << 20);
    let mut store = open(&segments, 256);
    for number in 0..200 {
        store.put(16, &key_of(number), number).unwrap();
    }
    store.finish().unwrap();
    store.sync().unwrap();
    let root = store.batch.roots[&16];
    let heap = store.shared().heap();
    let reader = read::Reader { heap: &heap, shared: store.shared(), dirty: None };
    assert!(reader.slot(root.id, root.level).is_ok());
    assert!(matches!(reader.slot(root.id, root.level - 1), Err(Error::DamagedNode { .. })));
    drop(heap);
    store.put(16, &key_of(0), 5).unwrap();
    store.finish().unwrap();
    store.sync().unwrap();
    let heap = store.shared().heap();
    let reader = read::Reader { heap: &heap, shared: store.shared(), dirty: None };
    assert!(matches!(reader.slot(root.id, root.level), Err(Error::Heap(_))));
}
