use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::*;

/// Keys that share prefixes, are prefixes of each other, or are long.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(255), Just(b'a'), any::<u8>()];
    let short = proptest::collection::vec(byte, 0..12);
    let stem = prop_oneof![
        Just(0_usize),
        Just(0),
        Just(7),
        Just(30),
        Just(120),
        Just(700),
        Just(KEY_LEN_MAX - 12)
    ];
    (stem, short).prop_map(|(stem, end)| [&vec![b'k'; stem][..], &end].concat())
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<u8>, u64),
    Set(Vec<u8>, u64),
    Remove(Vec<u8>),
    RemoveNear(Vec<u8>),
    Scan(Vec<u8>, Vec<u8>, bool, bool, bool),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (keys(), any::<u64>()).prop_map(|(key, value)| Op::Insert(key, value)),
        2 => (keys(), any::<u64>()).prop_map(|(key, value)| Op::Set(key, value)),
        1 => keys().prop_map(Op::Remove),
        2 => keys().prop_map(Op::RemoveNear),
        1 => (keys(), keys(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(from, to, open, closed, reverse)| Op::Scan(from, to, open, closed, reverse)),
    ]
}

fn all(tree: &VolatileTree, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, u64)> {
    let mut scan = tree.scan(range, direction);
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next() {
        found.push((key.to_vec(), value));
    }
    found
}

fn bound(key: &[u8], is_open: bool) -> Bound<&[u8]> {
    if is_open { Bound::Excluded(key) } else { Bound::Included(key) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_of_any_node_length_is_an_ordered_map(
        shift in 6_u32..15,
        ops in proptest::collection::vec(ops(), 1..600),
    ) {
        let mut tree = VolatileTree::new(1 << shift);
        let mut model = BTreeMap::new();
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    prop_assert_eq!(tree.insert(&key, value), model.get(&key).copied());
                    model.entry(key).or_insert(value);
                }
                Op::Set(key, value) => {
                    prop_assert_eq!(tree.set(&key, value), model.insert(key, value));
                }
                Op::Remove(key) => prop_assert_eq!(tree.remove(&key), model.remove(&key)),
                Op::RemoveNear(key) => {
                    let near: Vec<_> = model.range(key..).take(9).map(|(key, _)| key.clone()).collect();
                    for key in near {
                        prop_assert_eq!(tree.remove(&key), model.remove(&key));
                    }
                }
                Op::Scan(from, to, open, closed, reverse) => {
                    let (from, to) = if from < to { (from, to) } else { (to, from) };
                    let range = (bound(&from, open), bound(&to, closed));
                    let expected = model
                        .iter()
                        .filter(|(key, _)| std::ops::RangeBounds::<[u8]>::contains(&range, &key[..]))
                        .map(|(key, value)| (key.clone(), *value));
                    let (expected, direction): (Vec<_>, _) = match reverse {
                        true => (expected.rev().collect(), Direction::Reverse),
                        false => (expected.collect(), Direction::Forward),
                    };
                    prop_assert_eq!(all(&tree, range, direction), expected);
                }
            }
            prop_assert_eq!(tree.len(), model.len());
        }
        let whole = (Bound::Unbounded, Bound::Unbounded);
        let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
        prop_assert_eq!(&all(&tree, whole, Direction::Forward), &expected);
        for (key, value) in &expected {
            prop_assert_eq!(tree.get(key), Some(*value));
        }
        let mut reversed = all(&tree, whole, Direction::Reverse);
        reversed.reverse();
        prop_assert_eq!(&reversed, &expected);
        let sorted = expected.iter().map(|(key, value)| (key, *value));
        let loaded = VolatileTree::of_sorted(1 << shift, sorted);
        prop_assert_eq!(&all(&loaded, whole, Direction::Forward), &expected);
        for (key, value) in expected {
            prop_assert_eq!(tree.remove(&key), Some(value));
        }
        // Neither a node nor a long key is left over.
        prop_assert_eq!(tree.nodes.arena.in_use(), 0);
        prop_assert_eq!(tree.nodes.free_keys.len(), tree.nodes.long_keys.len());
    }
}

#[test]
fn keys_in_order_fill_the_nodes_and_removed_ones_leave_no_empty_ones() {
    let key = |number: u64| [&b"a prefix "[..], &number.to_be_bytes()].concat();
    for node_len in [256, 512, 4096] {
        let mut tree = VolatileTree::of_sorted(node_len, (0..20_000).map(|n| (key(n), n)));
        // A slot, a value, and of the key at most a byte beside the head.
        let leaves = 20_000 * (12 + 8 + 1) / (node_len - 8 - 17);
        assert!(
            tree.nodes.arena.in_use() < leaves * 11 / 10 + 9,
            "{node_len}: {}",
            tree.nodes.arena.in_use()
        );
        for number in (0..20_000).filter(|number| number % 10 != 0) {
            assert_eq!(tree.remove(&key(number)), Some(number));
        }
        let left = tree.nodes.arena.in_use();
        assert!(left < leaves * 2 / 5 + 9, "{node_len}: {left} of {leaves}");
    }
}
