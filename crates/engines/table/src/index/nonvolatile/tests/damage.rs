//! Damage is told, and never taken for contents.

use halite_alloc::heap::{AnyPtr, Tagged};

use super::super::node::InnerNode;
use super::*;

/// Inverts a bit of a slot, and says whether it has one there.
fn invert<T: Tagged>(heap: &mut Heap, pointer: AnyPtr, bit: u64) -> bool {
    let pointer = NvPtr::<T>::from_word(pointer.word());
    let Ok(byte) = heap.read_at(pointer, bit / 8, 1).map(|bytes| bytes[0]) else { return false };
    heap.write(pointer, bit / 8, &[byte ^ 1 << (bit % 8)]).unwrap();
    true
}

fn invert_any(heap: &mut Heap, pointer: AnyPtr, bit: u64) -> bool {
    invert::<LeafNode>(heap, pointer, bit)
        || invert::<InnerNode>(heap, pointer, bit)
        || invert::<LongKey>(heap, pointer, bit)
        || invert::<TreeHeader>(heap, pointer, bit)
}

fn scan(place: &Place, direction: Direction) -> Result<Vec<(Vec<u8>, u64)>, Error> {
    let mut scan = place.tree.scan(&place.heap, ALL, direction)?;
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next()? {
        found.push((key.to_vec(), value));
    }
    Ok(found)
}

#[test]
fn no_inverted_bit_changes_what_is_found() {
    let mut place = Place::new(256);
    let mut keys: Vec<_> = (0..130).map(|number| key_of(number * number)).collect();
    keys.push([&key_of(70)[..], &[b'x'; 40]].concat());
    keys.sort();
    let puts: Vec<_> = keys.iter().zip(1..).map(|(key, value)| Change::Put(key, value)).collect();
    place.change(&puts);
    let expected = place.all(ALL, Direction::Forward);
    assert_eq!(expected.len(), keys.len());
    let mut pointers = Vec::new();
    place.tree.check(&place.heap, |pointer| pointers.push(pointer)).unwrap();
    assert!(pointers.len() > 20, "{} slots", pointers.len());
    let (mut told, mut harmless) = (0, 0);
    for &pointer in &pointers {
        for bit in 0.. {
            if !invert_any(&mut place.heap, pointer, bit) {
                break;
            }
            let found = scan(&place, Direction::Forward);
            let is_told = found.is_err();
            if let Ok(found) = found {
                assert_eq!(found, expected);
            }
            for (key, value) in expected.iter().skip(bit as usize % 7).step_by(7) {
                let found = place.tree.get(&place.heap, key);
                if let Ok(found) = found {
                    assert_eq!(found, Some(*value), "{pointer:?} {bit}");
                }
                let above = [&key[..], &[0]].concat();
                let found = place.tree.get(&place.heap, &above);
                if let Ok(found) = found {
                    assert_eq!(found, None, "{pointer:?} {bit}");
                }
            }
            if bit % 5 == 0 {
                let found = scan(&place, Direction::Reverse).map(|found| found.len());
                if let Ok(found) = found {
                    assert_eq!(found, expected.len());
                }
                let is_whole = place.tree.check(&place.heap, |_| ()).is_ok();
                assert!(!is_whole || !is_told, "{pointer:?} {bit}");
                // A change of it is refused, or is about the right entries.
                let (key, value) = &expected[bit as usize % expected.len()];
                let removal = [Change::Remove(key), Change::Put(key, *value)][bit as usize / 5 % 2];
                if let Ok(prepared) = place.tree.prepare(&mut place.heap, &[removal]) {
                    assert_eq!(prepared.words.len(), usize::from(removal == Change::Remove(key)));
                }
            }
            if is_told {
                told += 1
            } else {
                harmless += 1
            }
            assert!(invert_any(&mut place.heap, pointer, bit));
        }
    }
    // Only what no entry uses may change without being told.
    assert!(told > 20_000 && harmless < 2 * told, "{told} told, {harmless} harmless");
    assert_eq!(place.all(ALL, Direction::Forward), expected);
}

#[test]
fn a_tree_is_opened_by_its_header_only() {
    let mut place = Place::new(512);
    place.change(&[Change::Put(b"key", 1)]);
    let mut pointers = Vec::new();
    place.tree.check(&place.heap, |pointer| pointers.push(pointer)).unwrap();
    for pointer in pointers {
        let opened = NonVolatileTree::open(&place.heap, NvPtr::from_word(pointer.word()));
        assert_eq!(opened.is_ok(), pointer == place.tree.header().any());
    }
    assert!(NonVolatileTree::open(&place.heap, NvPtr::NULL).is_err());
    let long = vec![0; crate::index::KEY_LEN_MAX + 1];
    let refused = place.tree.prepare(&mut place.heap, &[Change::Put(&long, 1)]);
    assert!(matches!(refused, Err(Error::KeyTooLong { len: 3073 })));
}
