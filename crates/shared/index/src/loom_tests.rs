//! Shared nodes and snapshots in every order of their threads' steps.
//!
//! A test fails by itself if a node is changed or dropped beside a read of it, or never dropped.

use loom::model;
use loom::thread::spawn;

use crate::node_ref::NodeRef;
use crate::partial::Leaf;
use crate::{FullKeys, PartialKeyTree, PartialLen};

fn leaf() -> NodeRef<Leaf> {
    NodeRef::new(Leaf::new(PartialLen::Eight, &[], 0))
}

fn add_entry(leaf: &mut NodeRef<Leaf>, key: &[u8], entry: u64) {
    let leaf = leaf.make_mut();
    leaf.insert(leaf.len(), key, entry);
}

#[test]
fn a_node_is_changed_in_place_after_others_have_read_it() {
    model(|| {
        let mut node = leaf();
        let readers = [node.clone(), node.clone()];
        let readers = readers.map(|node| spawn(move || assert_eq!(node.len(), 0)));
        add_entry(&mut node, b"key", 1);
        assert_eq!(node.len(), 1);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_node_goes_after_others_have_read_it() {
    model(|| {
        let node = leaf();
        let reader = node.clone();
        let reader = spawn(move || assert_eq!(reader.len(), 0));
        assert_eq!(node.len(), 0);
        drop(node);
        reader.join().unwrap();
    });
}

#[test]
fn no_reference_is_lost_when_holders_clone_at_once() {
    model(|| {
        let mut node = leaf();
        let mut others = node.clone();
        let other = spawn(move || {
            let copy = others.clone();
            add_entry(&mut others, b"other", 2);
            assert_eq!((others.len(), copy.len()), (1, 0));
        });
        let copy = node.clone();
        add_entry(&mut node, b"key", 1);
        assert_eq!((node.len(), copy.len()), (1, 0));
        other.join().unwrap();
    });
}

#[test]
fn holders_that_change_a_node_at_once_each_get_their_own() {
    model(|| {
        let mut node = leaf();
        let mut others = node.clone();
        let other = spawn(move || {
            add_entry(&mut others, b"other", 2);
            assert_eq!(others.entry(0), 2);
            assert_eq!(others.len(), 1);
        });
        add_entry(&mut node, b"key", 1);
        assert_eq!(node.entry(0), 1);
        assert_eq!(node.len(), 1);
        other.join().unwrap();
    });
}

/// Keys that are their entries.
struct Numbers;

impl FullKeys for Numbers {
    type Error = std::convert::Infallible;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error> {
        Ok(read(&entry.to_be_bytes()))
    }
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_tree_is_written() {
    let key = |number: u64| number.to_be_bytes();
    model(move || {
        // Two leaves below an inner node.
        let entries = (0..64).map(|number| (key(number), number));
        let mut tree = PartialKeyTree::from_sorted(PartialLen::Eight, entries);
        let snapshot = tree.clone();
        let reader = spawn(move || {
            assert_eq!(snapshot.get(&key(1), &Numbers), Ok(Some(1)));
            assert_eq!(snapshot.get(&key(64), &Numbers), Ok(None));
            assert_eq!(snapshot.len(), 64);
        });
        assert_eq!(tree.remove(&key(1), &Numbers), Ok(Some(1)));
        assert_eq!(tree.insert(&key(64), 64, &Numbers), Ok(None));
        assert_eq!(tree.get(&key(1), &Numbers), Ok(None));
        assert_eq!(tree.get(&key(64), &Numbers), Ok(Some(64)));
        reader.join().unwrap();
    });
}
