//! The owners that were dropped, whose chunks are not all reclaimed yet: a checked word each, in segment 0. It has the
//! owner's number and one, or zero.

use std::collections::BTreeMap;

use super::ground::Ground;
use super::layout::{DEAD_OWNERS_MAX, dead_word_at};
use super::owner::Owner;
use crate::Result;

/// The dropped owners by the numbers of their words.
#[derive(Debug, Default)]
pub(super) struct DeadOwners(BTreeMap<usize, Owner>);

/// The payload of the word of a dropped owner, or of none.
pub(super) fn payload(owner: Option<Owner>) -> u64 {
    owner.map_or(0, |owner| u64::from(owner.number()) + 1)
}

impl DeadOwners {
    /// Reads the dropped owners of a heap.
    pub(super) fn read(ground: &Ground) -> Result<Self> {
        let mut dead = Self::default();
        for index in 0..DEAD_OWNERS_MAX {
            let what = format!("dropped owner {index}");
            let payload = ground.read_checked(dead_word_at(index), &what)?;
            if payload > 0 {
                let owner = u32::try_from(payload - 1).ok().and_then(Owner::new);
                let owner = owner.ok_or_else(|| ground.damaged(what, "its number is too high"))?;
                dead.insert(index, owner);
            }
        }
        Ok(dead)
    }

    pub(super) fn contains(&self, owner: Owner) -> bool {
        self.0.values().any(|&dead| dead == owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Owner)> {
        self.0.iter().map(|(&index, &owner)| (index, owner))
    }

    /// The numbers of words without an owner.
    pub(super) fn free(&self) -> impl Iterator<Item = usize> {
        (0..DEAD_OWNERS_MAX).filter(|index| !self.0.contains_key(index))
    }

    pub(super) fn insert(&mut self, index: usize, owner: Owner) {
        self.0.insert(index, owner);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.0.remove(&index);
    }
}
