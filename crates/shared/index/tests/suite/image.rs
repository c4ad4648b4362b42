//! The guarantees of a tree that is read from its stored form.

use std::collections::BTreeMap;

use crate::common::Table;
use halite_index::{Fate, Ghosts, PartialKeyTree, PartialLen, TreeReader};
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    let prefix = prop::sample::select(vec![&b""[..], b"user:", b"\0\0\0", &[b'p'; 300]]);
    let spread = any::<u16>().prop_map(|n| n.to_be_bytes().to_vec());
    let digits = (0..100_000_u32).prop_map(|n| format!("{n:05}").into_bytes());
    (prefix, prop_oneof![spread, digits]).prop_map(|(prefix, rest)| [prefix, &rest].concat())
}

fn images(tree: &PartialKeyTree) -> Vec<Vec<u8>> {
    let mut leaves = tree.clone().into_images();
    let next = || {
        let mut image = Vec::new();
        leaves.next(&mut image).then_some(image)
    };
    std::iter::from_fn(next).collect()
}

fn read(
    partial: PartialLen,
    images: &[Vec<u8>],
    mut fate: impl FnMut(u64) -> Fate,
) -> Option<(PartialKeyTree, Ghosts)> {
    let mut reader = TreeReader::new(partial);
    images.iter().try_for_each(|image| reader.read_leaf(image, &mut fate))?;
    reader.finish()
}

/// A tree after inserts and removals, and its expected contents.
fn grown(
    partial: PartialLen,
    keys: &[(Vec<u8>, bool)],
    table: &Table,
) -> (PartialKeyTree, BTreeMap<Vec<u8>, u64>) {
    let (mut tree, mut model) = (PartialKeyTree::new(partial), BTreeMap::new());
    for (at, (key, stays)) in keys.iter().enumerate() {
        let entry = table.entry(key, at as u64);
        tree.insert(key, entry, table).unwrap();
        model.insert(key.clone(), entry);
        if !stays {
            tree.remove(&keys[at / 2].0, table).unwrap();
            model.remove(&keys[at / 2].0);
        }
    }
    (tree, model)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn a_tree_reads_back_and_is_a_tree(
        partial in prop::sample::select(PartialLen::ALL.to_vec()),
        keys in prop::collection::vec((key(), prop::bool::weighted(0.8)), 1..3000),
        more in prop::collection::vec(key(), 0..500),
    ) {
        let table = Table::default();
        let (tree, mut model) = grown(partial, &keys, &table);
        let before = table.reads.get();
        let (mut back, ghosts) = read(partial, &images(&tree), |_| Fate::Keep).unwrap();
        prop_assert_eq!(table.reads.get(), before, "no full key is read");
        prop_assert_eq!(back.len(), model.len() as u64);
        prop_assert!(back.iter().eq(tree.iter()));
        for (key, stays) in &keys {
            prop_assert_eq!(back.get(key, &table).unwrap(), model.get(key).copied());
            prop_assert_eq!(ghosts.candidates(key).count(), 0);
            if !stays {
                back.remove(key, &table).unwrap();
                model.remove(key);
            }
        }
        for (at, key) in more.iter().enumerate() {
            let entry = table.entry(key, 10_000 + at as u64);
            back.insert(key, entry, &table).unwrap();
            model.insert(key.clone(), entry);
        }
        prop_assert!(back.iter().eq(model.values().copied()));
    }

    #[test]
    fn what_is_dropped_is_found_as_a_ghost(
        partial in prop::sample::select(PartialLen::ALL.to_vec()),
        keys in prop::collection::vec((key(), prop::bool::weighted(0.9)), 1..2000),
        fates in any::<u64>(),
        bounds in (key(), key()),
    ) {
        let table = Table::default();
        let (tree, model) = grown(partial, &keys, &table);
        let fate = |entry: u64| match entry.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ fates {
            mixed if mixed >> 62 == 0 => Fate::Drop,
            mixed if mixed >> 62 == 1 => Fate::Ghost,
            _ => Fate::Keep,
        };
        let (mut back, ghosts) = read(partial, &images(&tree), fate).unwrap();
        let range: Vec<_> = ghosts.range(&bounds.0, Some(&bounds.1)).collect();
        let all: Vec<_> = ghosts.range(b"", None).collect();
        for (key, &entry) in &model {
            let found = back.get(key, &table).unwrap();
            prop_assert_eq!(found, (fate(entry) == Fate::Keep).then_some(entry));
            let is_ghost = fate(entry) == Fate::Ghost;
            prop_assert!(!is_ghost || ghosts.candidates(key).any(|ghost| ghost == entry));
            prop_assert_eq!(is_ghost, all.contains(&entry));
            let inside = (&bounds.0..&bounds.1).contains(&key);
            prop_assert!(!is_ghost || !inside || range.contains(&entry));
            back.insert(key, entry, &table).unwrap();
        }
        prop_assert!(back.iter().eq(model.values().copied()));
    }

    #[test]
    fn other_bytes_are_no_tree_or_one_that_does_not_panic(
        partial in prop::sample::select(PartialLen::ALL.to_vec()),
        keys in prop::collection::vec(key(), 1..400),
        faults in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..4),
        cut in any::<u16>(),
    ) {
        let table = Table::default();
        let keys: Vec<_> = keys.into_iter().map(|key| (key, true)).collect();
        let (tree, _) = grown(partial, &keys, &table);
        let mut images = images(&tree);
        for (image, at, bits) in faults {
            let number = usize::from(image) % images.len();
            let image = &mut images[number];
            let at = usize::from(at) % image.len();
            image[at] ^= bits;
        }
        let shortest = usize::from(cut) % (images[0].len() + 1);
        let mut reader = TreeReader::new(partial);
        prop_assert!(shortest == images[0].len() || reader.read_leaf(&images[0][..shortest], |_| Fate::Keep).is_none());
        let fate = |entry: u64| if table.knows(entry) { Fate::Keep } else { Fate::Drop };
        if let Some((mut read, _)) = read(partial, &images, fate) {
            for (key, _) in &keys {
                let _ = read.get(key, &table);
                let _ = read.remove(key, &table);
                let _ = read.insert(key, table.entry(key, 1), &table);
            }
            let _ = read.range(b"user:", Some(b"user:5"), &table).map(Iterator::count);
        }
    }
}
