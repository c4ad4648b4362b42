//! The calls for messages: upserts, and those of a dataset's own action.

use std::sync::Arc;

use halite_contract::{Durability, KeySpaceId, Op, Result, VALUE_LEN_MAX};

use crate::actions::failure;
use crate::catalogue::check_name;
use crate::message::UpsertBuilder;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::{Betree, Error};

/// Bytes of an upsert, or of a message, at most.
pub const MESSAGE_LEN_MAX: usize = 128 << 10;

/// Changes of ranges of a value, which do not need the value: what is not there yet is zeros. A key without a value gets
/// one.
#[derive(Debug, Default)]
pub struct Upsert(UpsertBuilder);

impl Upsert {
    /// No change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Overwrites the bytes from an offset on.
    ///
    /// # Errors
    /// [`Error::UpsertTooLong`]: the value would be longer than any.
    pub fn overwrite(mut self, offset: usize, bytes: &[u8]) -> crate::Result<Self> {
        check(offset, bytes.len())?;
        self.0.overwrite(offset, bytes);
        Ok(self)
    }

    /// Makes the bits zero that a mask has, from an offset on.
    ///
    /// # Errors
    /// As [`Upsert::overwrite`].
    pub fn clear_bits(mut self, offset: usize, mask: &[u8]) -> crate::Result<Self> {
        check(offset, mask.len())?;
        self.0.zero_bits(offset, mask);
        Ok(self)
    }

    /// Makes the bits one that a mask has, from an offset on.
    ///
    /// # Errors
    /// As [`Upsert::overwrite`].
    pub fn set_bits(mut self, offset: usize, mask: &[u8]) -> crate::Result<Self> {
        check(offset, mask.len())?;
        self.0.one_bits(offset, mask);
        Ok(self)
    }

    /// Appends zeros up to a length, if the value is shorter.
    ///
    /// # Errors
    /// As [`Upsert::overwrite`].
    pub fn extend(mut self, len: usize) -> crate::Result<Self> {
        check(0, len)?;
        self.0.extend(len);
        Ok(self)
    }
}

fn check(offset: usize, len: usize) -> crate::Result<()> {
    match offset.saturating_add(len) {
        ..=VALUE_LEN_MAX => Ok(()),
        len => Err(Error::UpsertTooLong { len, max: VALUE_LEN_MAX }),
    }
}

/// A change of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// A put, or a removal.
    Op(Op<'a>),
    /// Changes of ranges of a value.
    Upsert {
        /// The dataset.
        space: KeySpaceId,
        /// The key.
        key: &'a [u8],
        /// The changes.
        upsert: &'a Upsert,
    },
    /// A message that the dataset's action understands.
    Message {
        /// The dataset.
        space: KeySpaceId,
        /// The key.
        key: &'a [u8],
        /// The message.
        message: &'a [u8],
    },
}

impl Change<'_> {
    /// The dataset that it changes.
    pub(crate) fn space(&self) -> KeySpaceId {
        match self {
            Self::Op(op) => op.space(),
            Self::Upsert { space, .. } | Self::Message { space, .. } => *space,
        }
    }

    /// Refuses a change that is too long.
    pub(crate) fn check(&self) -> Result<()> {
        let (key, len) = match self {
            Self::Op(op) => return op.check(),
            Self::Upsert { key, upsert, .. } => (key, upsert.0.bytes().len()),
            Self::Message { key, message, .. } => (key, message.len()),
        };
        Op::Delete { space: self.space(), key }.check()?;
        match len <= MESSAGE_LEN_MAX {
            true => Ok(()),
            false => Err(Error::MessageTooLong { len, max: MESSAGE_LEN_MAX }.into()),
        }
    }
}

impl Upsert {
    /// The encoded changes.
    pub(crate) fn payload(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Betree {
    /// Has the messages of a dataset understood by an action that the options register under a name
    /// ([`BetreeOptions::actions`](crate::BetreeOptions::actions)). The dataset remembers the name, and so do its clones.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::ActionMissing`]; [`Error::OtherAction`]; those of a write.
    pub fn set_message_action(&self, space: KeySpaceId, action: &str) -> Result<()> {
        check_name(action)?;
        let store = &*self.store;
        let _changing = store.cataloguing.lock();
        let catalogue = store.catalogue.load_full();
        catalogue.check(space)?;
        match catalogue.action(space.0) {
            Some(found) if **found == *action => return Ok(()),
            Some(found) => return Err(Error::OtherAction { action: found.to_string() }.into()),
            None => {}
        }
        if !store.trees.actions.has(action) {
            return Err(Error::ActionMissing { action: action.to_owned() }.into());
        }
        let name: Arc<str> = action.into();
        let mut batch = Batch::default();
        let changed = catalogue.with_action(space, &name, &mut batch);
        // No message comes before the commit.
        store.trees.actions.set(space.0, &name);
        self.change(&batch, Purpose::Bookkeeping, changed)
    }

    /// Changes ranges of a key's value. It reads nothing.
    ///
    /// # Errors
    /// [`Error::MessageTooLong`]; those of a write.
    pub fn upsert(
        &self,
        space: KeySpaceId,
        key: &[u8],
        upsert: &Upsert,
        durability: Durability,
    ) -> Result<()> {
        self.write_changes(&[Change::Upsert { space, key, upsert }], durability)
    }

    /// Sends a message to a key: the dataset's action applies it to the value when that is read, or at the latest when the
    /// message has come down to its leaf. It reads nothing.
    ///
    /// # Errors
    /// [`Error::NoAction`], [`Error::ActionMissing`], [`Error::ActionFailed`]; [`Error::MessageTooLong`]; those of a write.
    pub fn message(
        &self,
        space: KeySpaceId,
        key: &[u8],
        message: &[u8],
        durability: Durability,
    ) -> Result<()> {
        self.write_changes(&[Change::Message { space, key, message }], durability)
    }

    /// Commits changes of any kind together.
    ///
    /// # Errors
    /// As [`Betree::message`].
    pub fn write_changes(&self, changes: &[Change<'_>], durability: Durability) -> Result<()> {
        let catalogue = self.store.catalogue.load();
        for change in changes {
            if let Change::Message { space, .. } = change {
                catalogue.check(*space)?;
                catalogue.action(space.0).ok_or(Error::NoAction)?;
                let action = self.store.trees.actions.of(space.0);
                let action = action.ok_or(Error::NoAction)?;
                if let Some(error) = failure(&action) {
                    return Err(error.into());
                }
            }
        }
        let removes = |change: &Change<'_>| {
            matches!(change, Change::Op(Op::Delete { .. } | Op::DeleteRange { .. }))
        };
        let purpose = match changes.iter().all(removes) {
            true => Purpose::Removal,
            false => Purpose::Put,
        };
        self.write_for(changes.iter().copied(), purpose, durability, &[])
    }
}
