//! The leaves of a vdev together: writes and syncs of which some may fail.
//!
//! A request succeeds if the leaves that did not take it are no more than the redundancy covers. Then those are
//! *stale*, and those that failed are faulted too; the layer above persists that, and has the extents resilvered. If
//! too many failed, the request fails, and no state changes: there is no durable pointer to what it would have written.

use std::sync::Arc;

use halite_sim::planted;

use crate::member::{Member, Standing};
use crate::{Error, Extent, Leaf, Result};

pub(crate) struct Members {
    all: Vec<Member>,
    /// How many leaves may be lost without a loss of data.
    redundancy: usize,
}

/// A leaf that did not take a request, and the failure if it tried.
struct Missed {
    member: usize,
    error: Option<Error>,
}

impl Members {
    pub(crate) fn new(leaves: Vec<Option<Arc<dyn Leaf>>>, redundancy: usize) -> Self {
        Self { all: leaves.into_iter().map(Member::new).collect(), redundancy }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, member: usize) -> &Member {
        &self.all[member]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.all.iter()
    }

    /// Writes the parts of an extent to their leaves.
    pub(crate) fn write<'a>(
        &self,
        parts: impl IntoIterator<Item = (usize, Extent, &'a [u8])>,
    ) -> Result<()> {
        let mut missed = Vec::new();
        for (member, run, bytes) in parts {
            let Some(leaf) = self.all[member].writable() else {
                missed.push(Missed { member, error: None });
                continue;
            };
            if let Err(error) = self.all[member].write(&*leaf, run, bytes) {
                missed.push(Missed { member, error: Some(error) });
            }
        }
        self.settle("write an extent", missed)
    }

    /// Does something with the device of each leaf that takes writes.
    pub(crate) fn each(
        &self,
        action: &'static str,
        mut act: impl FnMut(usize, &Member, &dyn Leaf) -> Result<()>,
    ) -> Result<()> {
        let mut missed = Vec::new();
        for (number, member) in self.all.iter().enumerate() {
            let acted = member.writable().map(|leaf| act(number, member, &*leaf));
            match acted {
                Some(Ok(())) => {}
                Some(Err(error)) => missed.push(Missed { member: number, error: Some(error) }),
                None => missed.push(Missed { member: number, error: None }),
            }
        }
        self.settle(action, missed)
    }

    fn settle(&self, action: &'static str, mut missed: Vec<Missed>) -> Result<()> {
        if missed.len() > self.redundancy {
            // The failure of the only leaf that was there says more than a list of it.
            let failed = missed.iter().filter(|missed| missed.error.is_some()).count();
            if (missed.len(), failed) == (1, 1)
                && let Some(error) = missed.pop().and_then(|missed| missed.error)
            {
                return Err(error);
            }
            let describe = |missed: &Missed| match &missed.error {
                Some(error) => error.to_string(),
                None => format!("{}: away", self.all[missed.member].name()),
            };
            return Err(Error::TooFewLeaves {
                action,
                failed: missed.iter().map(describe).collect(),
            });
        }
        for Missed { member, error } in missed {
            match error {
                Some(_) => {
                    planted!("vdev.failed-leaf-not-stale", (), self.all[member].fault());
                }
                None => self.all[member].set_stale(true),
            }
        }
        Ok(())
    }

    /// The most blocks that the leaves can grow to, as `of` a leaf: of the smallest that is there.
    pub(crate) fn least(&self, of: impl Fn(&dyn Leaf) -> u64) -> u64 {
        self.all.iter().filter_map(Member::writable).map(|leaf| of(&*leaf)).min().unwrap_or(0)
    }

    /// Whether the vdev has all data without one of its leaves.
    pub(crate) fn can_spare(&self, member: usize) -> bool {
        let others = self.all.iter().enumerate().filter(|(number, _)| *number != member);
        let lacking = others.filter(|(_, other)| other.standing() != Standing::Current).count();
        lacking < self.redundancy
    }
}
