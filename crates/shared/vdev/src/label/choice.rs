//! Which leaves have the newest state of the pool.
//!
//! The newest generation alone does not tell: two halves of a mirror that were used one without the other both went on
//! from the same generation. So a label has the history of its sessions. A label is an *ancestor* of another one if its
//! session is in the other's history, with the same first generation, and the next session there began after it: then
//! the leaf missed what came later. If it is not, the leaf has changes that the other does not know: it *diverged*.
//!
//! A history keeps the last 16 sessions. A leaf that missed more than these is taken for an ancestor if its label is
//! older than all of them.
//!
//! The pool is the one of most leaves; its state is the label with which most leaves agree, as the same or as an
//! ancestor, and among these the newest.

use super::format::{Epoch, Label};
use super::ring::LeafLabels;

/// How a leaf stands to the chosen label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has the chosen label.
    Current,
    /// Its newest label is an older one of the same history. Whether it misses writes, the chosen label's payload says:
    /// if it was not declared stale there, only its label was not written any more.
    Stale {
        /// The generation of its newest label.
        generation: u64,
    },
    /// It belongs to another pool.
    Foreign {
        /// That pool.
        pool: u128,
    },
    /// It was written without the others, after it had been in the pool with them.
    Diverged {
        /// The generation of its newest label.
        generation: u64,
    },
    /// It has no label.
    Blank,
    /// Its newest labels have a format or features that this program does not know.
    NewerFormat {
        /// The unknown features, as bits; none if it is the format alone.
        features: u64,
    },
}

/// The newest state of a pool, and how each leaf stands to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The label, of one of the current leaves.
    pub label: Label,
    /// One for each leaf that was given.
    pub verdicts: Vec<Verdict>,
}

/// Compares the labels of all leaves of a pool. `known` are the incompatible features that this program knows. `None`
/// if no leaf has a label that it can use.
#[must_use]
pub fn choose(known: u64, leaves: &[LeafLabels]) -> Option<Chosen> {
    let usable: Vec<Option<&Label>> = leaves.iter().map(|leaf| newest(known, leaf).ok()).collect();
    let candidates = || usable.iter().flatten().copied();
    let pool = candidates().max_by_key(|label| {
        let leaves = candidates().filter(|other| other.pool == label.pool).count();
        (leaves, label.generation)
    })?;
    let of_pool = || candidates().filter(|label| label.pool == pool.pool);
    let chosen = of_pool().max_by_key(|label| {
        let agree = of_pool().filter(|other| is_same(other, label) || is_ancestor(other, label));
        (agree.count(), label.generation)
    })?;
    let verdict = |leaf: &LeafLabels| match newest(known, leaf) {
        Err(verdict) => verdict,
        Ok(label) if label.pool != chosen.pool => Verdict::Foreign { pool: label.pool },
        Ok(label) if is_same(label, chosen) => Verdict::Current,
        Ok(label) if is_ancestor(label, chosen) => Verdict::Stale { generation: label.generation },
        Ok(label) => Verdict::Diverged { generation: label.generation },
    };
    Some(Chosen { label: chosen.clone(), verdicts: leaves.iter().map(verdict).collect() })
}

/// The newest label of a leaf, if this program knows its features.
fn newest(known: u64, leaf: &LeafLabels) -> Result<&Label, Verdict> {
    if let Some(features) = leaf.newer {
        return Err(Verdict::NewerFormat { features: features & !known });
    }
    let label = leaf.labels.first().ok_or(Verdict::Blank)?;
    match label.incompatible & !known {
        0 => Ok(label),
        features => Err(Verdict::NewerFormat { features }),
    }
}

fn is_same(a: &Label, b: &Label) -> bool {
    a.generation == b.generation && a.session() == b.session()
}

/// Whether `old` is a label of the history of `new`, and not `new` itself.
fn is_ancestor(old: &Label, new: &Label) -> bool {
    if old.generation >= new.generation {
        return false;
    }
    let wrote_old = old.epochs.last();
    let found = wrote_old.and_then(|wrote| new.epochs.iter().position(|epoch| epoch == wrote));
    let began_after = |epoch: &Epoch| epoch.first_generation > old.generation;
    match found {
        Some(at) => new.epochs.get(at + 1).is_none_or(began_after),
        // All sessions that are known are later, and some were forgotten.
        None => {
            new.epochs.len() == super::EPOCHS_MAX && new.epochs.first().is_some_and(began_after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{EPOCHS_MAX, Position};

    /// The newest label of a leaf after these sessions: pairs of a session and its first generation.
    fn leaf(generation: u64, epochs: &[(u64, u64)]) -> LeafLabels {
        let epochs: Vec<_> = epochs
            .iter()
            .map(|&(session, first_generation)| Epoch { session, first_generation })
            .collect();
        let label = Label {
            pool: 1,
            guid: 0,
            position: Position::default(),
            incompatible: 0,
            compatible: 0,
            generation,
            epochs,
            payload: Vec::new(),
        };
        LeafLabels { labels: vec![label], ..LeafLabels::default() }
    }

    fn verdicts(leaves: &[LeafLabels]) -> Vec<Verdict> {
        choose(0, leaves).unwrap().verdicts
    }

    #[test]
    fn a_leaf_that_was_away_is_stale_even_if_it_has_company() {
        let now = leaf(20, &[(1, 1), (2, 11)]);
        let away = leaf(10, &[(1, 1)]);
        let stale = Verdict::Stale { generation: 10 };
        assert_eq!(
            verdicts(&[away.clone(), now.clone(), away.clone()]),
            [stale.clone(), Verdict::Current, stale.clone()]
        );
        // Within one session.
        assert_eq!(
            verdicts(&[leaf(19, &[(1, 1), (2, 11)]), now])[0],
            Verdict::Stale { generation: 19 }
        );
    }

    #[test]
    fn a_leaf_that_was_used_alone_diverged_even_if_it_is_newer() {
        let (ours, alone) = (leaf(20, &[(1, 1), (2, 11)]), leaf(90, &[(1, 1), (3, 11)]));
        let leaves = [ours.clone(), alone.clone(), ours.clone()];
        let chosen = choose(0, &leaves).unwrap();
        assert_eq!(chosen.label.generation, 20);
        assert_eq!(chosen.verdicts[1], Verdict::Diverged { generation: 90 });
        // One to one, the newer is chosen, and the other is not taken for stale.
        assert_eq!(
            verdicts(&[ours, alone]),
            [Verdict::Diverged { generation: 20 }, Verdict::Current]
        );
        // The session is known, but it went on after the others had left it.
        let (left, went_on) = (leaf(20, &[(1, 1), (2, 8)]), leaf(10, &[(1, 1)]));
        assert_eq!(
            verdicts(&[left.clone(), left, went_on])[2],
            Verdict::Diverged { generation: 10 }
        );
    }

    #[test]
    fn a_leaf_that_missed_all_known_sessions_is_stale_if_it_is_older_than_these() {
        let epochs: Vec<_> = (0..EPOCHS_MAX as u64).map(|at| (100 + at, 1000 + at)).collect();
        let now = leaf(2000, &epochs);
        assert_eq!(
            verdicts(&[now.clone(), leaf(9, &[(1, 1)])])[1],
            Verdict::Stale { generation: 9 }
        );
        assert_eq!(
            verdicts(&[now, leaf(1005, &[(1, 1)])])[1],
            Verdict::Diverged { generation: 1005 }
        );
    }

    #[test]
    fn strangers_blanks_and_newer_formats_have_names() {
        let now = leaf(5, &[(1, 1)]);
        let mut foreign = leaf(900, &[(1, 1)]);
        foreign.labels[0].pool = 2;
        let mut newer = leaf(6, &[(1, 1)]);
        newer.labels[0].incompatible = 0b110;
        let newest = LeafLabels { newer: Some(8), ..LeafLabels::default() };
        let leaves = [now.clone(), foreign, now, LeafLabels::default(), newer, newest];
        let chosen = choose(2, &leaves).unwrap();
        assert_eq!(
            chosen.verdicts,
            [
                Verdict::Current,
                Verdict::Foreign { pool: 2 },
                Verdict::Current,
                Verdict::Blank,
                Verdict::NewerFormat { features: 4 },
                Verdict::NewerFormat { features: 8 },
            ]
        );
        assert_eq!(choose(0, &[LeafLabels::default()]), None);
    }
}
