//! Atomic batches.

use std::sync::Arc;

use halite_contract::{Engine, KeySpaceId, Op, WriteBatch};

use crate::{Durability, KeyRange, KeySpace, Result};

/// Operations on one or more key spaces that are applied atomically.
///
/// They are applied in order. No operation is applied before [`Batch::commit`]; dropping a batch discards its
/// operations.
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    engine: Arc<dyn Engine>,
    ops: WriteBatch,
}

impl Batch {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, ops: WriteBatch::new() }
    }

    /// Sets the value of a key.
    pub fn put(&mut self, space: &KeySpace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.ops.put(space.id, key.as_ref(), value.as_ref());
    }

    /// Removes a key, if it is there.
    pub fn delete(&mut self, space: &KeySpace, key: impl AsRef<[u8]>) {
        self.ops.delete(space.id, key.as_ref());
    }

    /// Removes every key in `range`.
    pub fn delete_range(&mut self, space: &KeySpace, range: &KeyRange) {
        self.ops.delete_range(space.id, range);
    }

    /// Removes every key that begins with `prefix`.
    pub fn delete_prefix(&mut self, space: &KeySpace, prefix: impl AsRef<[u8]>) {
        self.ops.delete_prefix(space.id, prefix.as_ref());
    }

    /// The number of operations so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no operation yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of keys and values so far.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.ops.byte_len()
    }

    /// Bytes that the operations would add to the records of key spaces ([`crate::Database::space_of`]), negative if they
    /// take more away, provided that each key is in one of them: it reads the values that are replaced, and calls `note`
    /// with parts of the sums. `None` says that a key space is emptied, and what comes behind is the growth of an empty
    /// one. Returns whether all is known: how much goes with a range that is not all of a key space, is not.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = halite::Database::open(folder.path().join("data"))?;
    /// let fruit = db.key_space("fruit")?;
    /// fruit.put("apple", "green")?;
    /// let mut batch = db.batch();
    /// batch.delete(&fruit, "apple");
    /// let mut growth = 0;
    /// assert!(batch.growth(|_, bytes| growth += bytes.unwrap_or(0))?);
    /// assert_eq!(growth, -(db.space_of(5, 5) as i64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`KeySpace::get`].
    pub fn growth(&self, mut note: impl FnMut(KeySpaceId, Option<i64>)) -> Result<bool> {
        let mut emptied = Vec::new();
        for op in self.ops.ops() {
            let (space, key, new) = match op {
                Op::Put { space, key, value } => {
                    (space, key, self.engine.space_of(key.len(), value.len()))
                }
                Op::Delete { space, key } => (space, key, 0),
                Op::DeleteRange { space, start: [], end: None } => {
                    emptied.push(space);
                    note(space, None);
                    continue;
                }
                Op::DeleteRange { .. } => return Ok(false),
            };
            let old = match emptied.contains(&space) {
                true => None,
                false => self.engine.get(space, key)?,
            };
            let old = old.map_or(0, |value| self.engine.space_of(key.len(), value.len()));
            note(space, Some(new as i64 - old as i64));
        }
        Ok(true)
    }

    /// Applies all operations; they are durable when this returns.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`]; no operation is applied then.
    pub fn commit(self) -> Result<()> {
        self.commit_with(Durability::Immediate)
    }

    /// Applies all operations with the given durability.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`]; no operation is applied then.
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        self.commit_and_clear(durability)
    }

    /// Applies all operations and empties the batch, which keeps its memory for the next use.
    ///
    /// # Errors
    /// See [`halite_contract::Engine::write`]; no operation is applied then, and the batch is empty too.
    pub fn commit_and_clear(&mut self, durability: Durability) -> Result<()> {
        let written = self.engine.write(&self.ops.ops(), durability);
        self.ops.clear();
        Ok(written?)
    }

    /// [`Batch::commit_and_clear`] for bookkeeping, such as when a key expires: small values, for which a full store
    /// keeps room that it refuses to other writes.
    ///
    /// # Errors
    /// See [`halite_contract::SpaceManagement::write_bookkeeping`]; no operation is applied then, and the batch is empty
    /// too.
    pub fn commit_bookkeeping_and_clear(&mut self, durability: Durability) -> Result<()> {
        let written = self.engine.write_bookkeeping(&self.ops.ops(), durability);
        self.ops.clear();
        Ok(written?)
    }
}
