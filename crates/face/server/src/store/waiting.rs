//! The waits of clients for keys of the parts that are here.

use super::waiters::{Key, Waiter};
use super::{Result, Store};
use crate::partition_set::PartitionSet;
use crate::stored::Type;

impl Store {
    /// The number of keys for which clients wait in the parts of `partitions`, which are here.
    pub(crate) fn waited_keys(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).waiters.len()).sum()
    }

    /// The number of those keys of which clients get to know that they are gone.
    pub(crate) fn waited_keys_or_none(&self, partitions: PartitionSet) -> usize {
        partitions.iter().map(|number| self.part(number).waiters.len_or_none()).sum()
    }

    /// Lets a client wait for a key, whose part is here.
    pub(crate) fn wait(&mut self, key: Key, waiter: Waiter) {
        let partition = self.partition_of(&key.1);
        self.part_mut(partition).waiters.add(key, waiter);
    }

    /// Ends a wait for a key. If its part is elsewhere, nothing happens, and the answer is false.
    pub(crate) fn end_wait(&mut self, key: &Key, number: u64) -> bool {
        let partition = self.partition_of(&key.1);
        let Some(part) = &mut self.parts[partition] else { return false };
        part.waiters.remove(key, number);
        // The client may have been woken, or kept others waiting, and go without taking anything.
        self.has_ready |= part.waiters.touch(key.0, &key.1);
        true
    }

    /// The keys that were changed for which clients wait. While their clients have their turns, no other client has one: until
    /// [`Store::end_turns`] it is as if keys were ready.
    pub(crate) fn take_ready(&mut self) -> Vec<Key> {
        let parts = self.parts.iter_mut().flatten();
        parts.flat_map(|part| part.waiters.take_changed()).collect()
    }

    /// Ends the turns of those who wait, but for the keys that they have changed.
    pub(crate) fn end_turns(&mut self) {
        self.has_ready = self.parts.iter().flatten().any(|part| part.waiters.has_changed());
    }

    /// Whether no client waits for a value of a type at a key for longer than the one with this number. With one thread,
    /// those who wait have had their turn by now, unless it is about to come.
    pub(crate) fn is_first(&self, key: &Key, of: Type, number: u64) -> bool {
        if self.parts.len() == 1 && !self.has_ready {
            return true;
        }
        let waiters = &self.part(self.partition_of(&key.1)).waiters;
        let mut after = 0;
        while let Some(waiter) = waiters.after(key, after).filter(|waiter| waiter.number < number) {
            if waiter.of.of == of {
                return false;
            }
            after = waiter.number;
        }
        true
    }

    /// The client that waits longest for a key that has something for it, of those that wait for less long than the one
    /// with this number.
    pub(crate) fn next_waiter(&mut self, key: &Key, mut after: u64) -> Result<Option<Waiter>> {
        let partition = self.partition_of(&key.1);
        while let Some(part) = &self.parts[partition]
            && let Some(waiter) = part.waiters.after(key, after)
        {
            if waiter.of.or_none {
                return Ok(Some(waiter));
            }
            let value = self.get(key.0, &key.1)?;
            let found = value.and_then(|value| value.value_type().ok());
            if found == Some(waiter.of.of) {
                return Ok(Some(waiter));
            }
            after = waiter.number;
        }
        Ok(None)
    }
}
