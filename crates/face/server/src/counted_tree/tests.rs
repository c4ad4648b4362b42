use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn check<L: Leaf>(tree: &CountedTree<L>) {
    fn heights<L: Leaf>(node: &Node<L>, root: bool) -> usize {
        match node {
            Node::Leaf(leaf) => {
                assert!(leaf.len() <= NODE_MAX && (root || leaf.len() > 0));
                1
            }
            Node::Inner(children) => {
                assert!(!children.is_empty() && children.len() <= NODE_MAX);
                let mut all = BTreeSet::new();
                for child in children {
                    assert_eq!(child.count, child.node.count());
                    all.insert(heights(&child.node, false));
                }
                assert_eq!(all.len(), 1, "leaves are equally deep");
                1 + all.pop_first().unwrap()
            }
        }
    }
    heights(&tree.root, true);
    assert_eq!(tree.len, tree.root.count());
}

#[test]
fn numbers_in_steps_take_little_memory() {
    let mut tree = CountedTree::<Numbers>::default();
    for number in 0..100_000 {
        tree.insert(number << 16);
    }
    assert!(tree.bytes() < 200_000, "{}", tree.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn numbers_are_a_sorted_sequence(steps in vec((0..3_u8, 0..800_u64), 0..900)) {
        let (mut tree, mut model) = (CountedTree::<Numbers>::default(), BTreeSet::new());
        for (step, number) in steps {
            match step {
                0 => prop_assert_eq!(tree.remove(number), model.remove(&number)),
                _ => prop_assert_eq!(tree.insert(number), model.insert(number)),
            }
        }
        check(&tree);
        let sorted: Vec<u64> = model.iter().copied().collect();
        for from in [0, 1, sorted.len() / 2, sorted.len().saturating_sub(1), sorted.len()] {
            let from = from.min(sorted.len());
            let mut seen = Vec::new();
            let _ = tree.visit(from, |item| -> ControlFlow<()> {
                seen.push(item);
                ControlFlow::Continue(())
            });
            prop_assert_eq!(&seen[..], &sorted[from..]);
            seen.clear();
            let _ = tree.visit_back(from, |item| -> ControlFlow<()> {
                seen.push(item);
                ControlFlow::Continue(())
            });
            let expected: Vec<u64> = match from < sorted.len() {
                true => sorted[..=from].iter().rev().copied().collect(),
                false => Vec::new(),
            };
            prop_assert_eq!(seen, expected);
        }
        for (rank, number) in sorted.iter().enumerate() {
            prop_assert_eq!(tree.get(rank), Some(*number));
            prop_assert_eq!(tree.rank(*number), (rank, true));
        }
    }

    #[test]
    fn numbers_at_one_distance_are_kept_as_such(
        steps in vec((0..6_u8, any::<u16>()), 0..600), gap in 1..9_u64,
    ) {
        let (mut tree, mut model) = (CountedTree::<Numbers>::default(), BTreeSet::new());
        let middle = 1 << 40;
        for (step, random) in steps {
            let (first, last) = (model.first().copied(), model.last().copied());
            let random = random as usize;
            let number = match step {
                0 => first.map_or(middle, |first| first - gap),
                1 | 2 => last.map_or(middle, |last| last + gap),
                3 => first.unwrap_or(0),
                4 => last.unwrap_or(0),
                _ => model.iter().nth(random % model.len().max(1)).map_or(0, |at| at + 1),
            };
            match step == 3 || step == 4 || step == 5 && random.is_multiple_of(2) {
                true => prop_assert_eq!(tree.remove(number), model.remove(&number)),
                false => prop_assert_eq!(tree.insert(number), model.insert(number)),
            }
        }
        check(&tree);
        for (rank, number) in model.iter().enumerate() {
            prop_assert_eq!(tree.get(rank), Some(*number));
            prop_assert_eq!(tree.rank(*number), (rank, true));
        }
    }

    #[test]
    fn members_are_sorted_by_score_and_bytes(
        steps in vec((any::<bool>(), -3..3_i32, vec(any::<u8>(), 0..3)), 0..300),
    ) {
        let (mut tree, mut model) = (CountedTree::<Scored>::default(), BTreeSet::new());
        for (puts, score, member) in steps {
            let item = (f64::from(score), &member[..]);
            match puts {
                true => prop_assert_eq!(tree.insert(item), model.insert((score, member))),
                false => prop_assert_eq!(tree.remove(item), model.remove(&(score, member))),
            }
        }
        check(&tree);
        for (rank, (score, member)) in model.iter().enumerate() {
            prop_assert_eq!(tree.get(rank), Some((f64::from(*score), &member[..])));
        }
        while tree.len() > 0 {
            tree.remove_at(tree.len() / 2);
            check(&tree);
        }
    }
}
