//! The slots of a leaf.

use std::panic::Location;

use super::format::{Defect, LABEL_SLOTS, Label, SLOT};
use crate::leaf::LABEL_AREA;
use crate::{Leaf, Result};

const _: () = assert!(LABEL_SLOTS as usize * SLOT == LABEL_AREA, "the ring is the label area");

/// A slot without a label that this program can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSlot {
    /// Its number.
    pub slot: u64,
    /// The defect.
    pub why: String,
}

/// The contents of a leaf's ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafLabels {
    /// The labels, the newest first.
    pub labels: Vec<Label>,
    /// The slots with something else than a label or zeros.
    pub invalid: Vec<InvalidSlot>,
    /// The incompatible features of labels that a newer program wrote in a format that this one cannot read.
    pub newer: Option<u64>,
}

/// Reads the ring of a leaf. A slot that cannot be read is invalid.
#[must_use]
pub fn read_labels(leaf: &dyn Leaf) -> LeafLabels {
    let mut found = LeafLabels::default();
    let mut bytes = vec![0; SLOT];
    for slot in 0..LABEL_SLOTS {
        let read = leaf.read_label(slot as usize * SLOT, &mut bytes);
        let why = match read.map(|()| Label::decode(slot, &bytes)) {
            Ok(Ok(label)) => {
                found.labels.push(label);
                continue;
            }
            Ok(Err(Defect::Blank)) => continue,
            Ok(Err(Defect::Magic)) => "it holds no label".into(),
            Ok(Err(Defect::Checksum)) => "the label does not have its checksum".into(),
            Ok(Err(Defect::Field(why))) => format!("the label contradicts itself: {why}"),
            Ok(Err(Defect::Newer { version, incompatible })) => {
                *found.newer.get_or_insert(0) |= incompatible;
                format!("the label has format version {version}; use a newer Halite")
            }
            Err(error) => error.to_string(),
        };
        found.invalid.push(InvalidSlot { slot, why });
    }
    found.labels.sort_by_key(|label| std::cmp::Reverse(label.generation));
    found
}

/// Fills the slots with zeros that hold neither a label nor zeros, durably.
///
/// A label that was torn may be whole but for bytes that the next label of the same generation has, too. If that one is
/// torn in turn, it may complete the first, which leads to extents that were written anew since. So nothing of a torn
/// label is there when a session writes its first one.
pub(crate) fn clear_torn(leaf: &dyn Leaf) -> Result<()> {
    let mut bytes = vec![0; SLOT];
    let mut is_clean = true;
    for slot in 0..LABEL_SLOTS {
        let read = leaf.read_label(slot as usize * SLOT, &mut bytes);
        let keeps = match read.map(|()| Label::decode(slot, &bytes)) {
            Ok(Ok(_) | Err(Defect::Blank | Defect::Newer { .. })) => true,
            Ok(Err(Defect::Magic | Defect::Checksum | Defect::Field(_))) | Err(_) => false,
        };
        if !keeps {
            leaf.write_label(slot as usize * SLOT, &[0; SLOT])?;
            is_clean = false;
        }
    }
    if is_clean { Ok(()) } else { leaf.sync(Location::caller()) }
}

/// Fills the ring with zeros, durably: the labels of another pool would be taken for newer ones.
pub(crate) fn wipe(leaf: &dyn Leaf) -> Result<()> {
    leaf.write_label(0, &[0; LABEL_AREA])?;
    leaf.sync(Location::caller())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{Epoch, Position};
    use crate::{Arrangement, MemoryLeaf, Vdev};
    use std::sync::Arc;

    fn label(generation: u64, payload: &[u8]) -> Label {
        Label {
            pool: 1,
            guid: 2,
            position: Position::default(),
            incompatible: 0,
            compatible: 0,
            generation,
            epochs: vec![Epoch { session: 1, first_generation: 1 }],
            payload: payload.to_vec(),
        }
    }

    #[test]
    fn a_new_leaf_brings_no_labels_of_another_pool() {
        let leaf = |name| Arc::new(MemoryLeaf::new(name, 10));
        let (old, new) = (leaf("old"), leaf("new"));
        new.write_label(0, &[1; LABEL_AREA]).unwrap();
        let vdev = Vdev::new(Arrangement::Mirror, vec![Some(old), None]).unwrap();
        vdev.replace_leaf(1, new).unwrap();
        assert_eq!(vdev.read_labels()[1], Some(LeafLabels::default()));
    }

    #[test]
    fn a_torn_label_does_not_complete_another_one() {
        let leaf = MemoryLeaf::new("leaf", 10);
        let slot = |payload: &[u8]| label(5, payload).encode().unwrap();
        // All of the first label but a line that the second one shares.
        let (mut first, second) = (slot(b"a"), slot(b"b"));
        let line = 64..128;
        assert_eq!(first.bytes[line.clone()], second.bytes[line.clone()]);
        first.bytes[line.clone()].fill(0);
        leaf.write_label(first.at, &first.bytes).unwrap();
        clear_torn(&leaf).unwrap();
        leaf.write_label(second.at + line.start, &second.bytes[line]).unwrap();
        assert_eq!(read_labels(&leaf).labels, []);
    }

    #[test]
    fn the_ring_keeps_the_newest_labels_and_outlives_a_torn_one() {
        let leaf = Arc::new(MemoryLeaf::new("leaf", 10));
        let vdev = Vdev::single(Arc::clone(&leaf) as Arc<dyn Leaf>);
        assert_eq!(read_labels(&*leaf), LeafLabels::default());
        for generation in 1..=100 {
            vdev.write_labels(&|_| label(generation, &generation.to_le_bytes())).unwrap();
        }
        let found = read_labels(&*leaf);
        let generations: Vec<_> = found.labels.iter().map(|label| label.generation).collect();
        assert_eq!(generations, (69..=100).rev().collect::<Vec<_>>());
        assert_eq!(found.labels[0].payload, 100_u64.to_le_bytes());
        leaf.write_label(100 % 32 * SLOT + 4096, &[1; 4096]).unwrap();
        let found = vdev.read_labels().remove(0).unwrap();
        assert_eq!((found.labels[0].generation, found.invalid.len()), (99, 1));
        assert_eq!(found.invalid[0].slot, 4);
        vdev.clear_torn_labels().unwrap();
        let cleared = vdev.read_labels().remove(0).unwrap();
        assert_eq!((cleared.labels, cleared.invalid), (found.labels, Vec::new()));
    }
}
