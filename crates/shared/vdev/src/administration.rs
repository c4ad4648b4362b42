//! The leaves of a vdev, as the pool above sees them: their states, and their labels.

use std::sync::Arc;

use halite_sim::planted;

use crate::member::{Member, Standing};
use crate::{Error, Label, Leaf, LeafLabels, LeafState, LeafStatus, Result, Vdev, label};

impl Vdev {
    /// The leaves, in their order.
    #[must_use]
    pub fn leaves(&self) -> Vec<LeafStatus> {
        self.members.iter().map(|member| member.status()).collect()
    }

    /// Whether a leaf is not online, or missed writes.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.members.iter().any(|member| member.standing() != Standing::Current)
    }

    fn member(&self, leaf: usize) -> Result<&Member> {
        if leaf < self.members.len() {
            Ok(self.members.get(leaf))
        } else {
            Err(Error::NoLeaf { leaf })
        }
    }

    /// Takes a leaf away for a while: it is neither read nor written.
    ///
    /// # Errors
    /// [`Error::Needed`], [`Error::NoLeaf`].
    pub fn set_offline(&self, leaf: usize) -> Result<()> {
        let member = self.member(leaf)?;
        let state = member.status().state;
        if state == LeafState::Missing {
            return Err(Error::NoLeaf { leaf });
        }
        if !self.members.can_spare(leaf) {
            return Err(Error::Needed { leaf: member.name() });
        }
        member.set_offline();
        Ok(())
    }

    /// Lets a leaf that was offline or faulted take part again. If it missed writes, it stays stale.
    ///
    /// # Errors
    /// [`Error::NoLeaf`]; [`Error::NoSpace`] if it cannot grow as others did meanwhile.
    pub fn set_online(&self, leaf: usize) -> Result<()> {
        let device = self.member(leaf)?.device().ok_or(Error::NoLeaf { leaf })?;
        device.grow_to(self.members.least(|leaf| leaf.blocks()))?;
        label::clear_torn(&*device)?;
        self.members.get(leaf).set_online();
        Ok(())
    }

    /// Puts a new device in the place of a leaf. It is stale until all extents are resilvered.
    ///
    /// # Errors
    /// [`Error::Needed`] if the old one has data that the others do not have, [`Error::NoLeaf`]; [`Error::NoSpace`] if
    /// the new one is too small.
    pub fn replace_leaf(&self, leaf: usize, new: Arc<dyn Leaf>) -> Result<()> {
        let member = self.member(leaf)?;
        if member.device().is_some() && !self.members.can_spare(leaf) {
            return Err(Error::Needed { leaf: member.name() });
        }
        let capacity = self.members.least(|leaf| leaf.blocks());
        if new.blocks_max() < capacity {
            let why = format!("it has at most {} blocks", new.blocks_max());
            return Err(Error::NoSpace { leaf: new.name().to_owned(), blocks: capacity, why });
        }
        new.grow_to(capacity)?;
        label::wipe(&*new)?;
        member.replace(new);
        Ok(())
    }

    /// Takes note that a leaf misses writes, as a label said that was read when the pool was opened.
    ///
    /// # Errors
    /// [`Error::NoLeaf`].
    pub fn set_stale(&self, leaf: usize) -> Result<()> {
        self.member(leaf)?.set_stale(true);
        Ok(())
    }

    /// Takes note that a leaf has all writes again: every extent was resilvered, and the vdev synced.
    ///
    /// # Errors
    /// [`Error::NoLeaf`] if it takes no writes.
    pub fn set_current(&self, leaf: usize) -> Result<()> {
        let member = self.member(leaf)?;
        if member.standing() > Standing::Stale {
            return Err(Error::NoLeaf { leaf });
        }
        member.set_stale(false);
        Ok(())
    }

    /// The labels of every leaf whose device is there.
    #[must_use]
    pub fn read_labels(&self) -> Vec<Option<LeafLabels>> {
        let read = |member: &Member| member.device().map(|leaf| label::read_labels(&*leaf));
        self.members.iter().map(read).collect()
    }

    /// Removes what a crash left of labels that were being written, durably. A pool calls this after it was opened,
    /// before it writes anything.
    ///
    /// # Errors
    /// [`Error::TooFewLeaves`]; that of the only leaf.
    pub fn clear_torn_labels(&self) -> Result<()> {
        self.members.each("clear torn labels", |_, _, leaf| label::clear_torn(leaf))
    }

    /// Writes the label of each leaf that takes writes, which `label` makes by the leaf's number; they are durable
    /// after the next sync. Before this, all that the label leads to was written and synced.
    ///
    /// # Errors
    /// [`Error::TooFewLeaves`]; that of the only leaf; [`Error::LabelTooLong`].
    pub fn write_labels(&self, label: &dyn Fn(usize) -> Label) -> Result<()> {
        // A payload that is too long is no failure of a leaf.
        let slots = (0..self.members.len()).map(|leaf| label(leaf).encode());
        let slots: Vec<label::Slot> = slots.collect::<Result<_>>()?;
        self.members.each("write a label", |leaf, _, device| {
            let slot = &slots[leaf];
            planted!(
                "vdev.label-on-first-leaf-only",
                if leaf > 0 {
                    return Ok(());
                }
            );
            device.write_label(slot.at, &slot.bytes)
        })
    }
}
