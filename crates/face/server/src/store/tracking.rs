//! Which clients are told that a key has changed.

use super::Store;
use super::part::Part;
use super::readers::Count;
use crate::pubsub::Outbox;

/// Keys that are forgotten at a time while there are too many.
const FORGOTTEN_MAX: usize = 10;

impl Store {
    /// Remembers that a client has read a key, so that it is told of the next change. All keys that are remembered
    /// together are at most `keys_max`.
    pub(crate) fn remember_reader(&mut self, key: &[u8], client: u64, keys_max: usize) {
        let partition = self.partition_of(key);
        let Some(part) = &mut self.parts[partition] else { return };
        let Count { keys, items } = part.readers.add(key, client);
        self.outbox.tracked().add(keys, items);
        limit(part, &mut self.outbox, keys_max);
    }

    /// Forgets some keys, if more are remembered than `keys_max`: their readers are told that they have changed. Without
    /// readers, forgets all.
    pub(crate) fn limit_readers(&mut self, keys_max: usize) {
        if self.outbox.tracked().keys() == 0 {
            return;
        }
        if !self.outbox.look_for_watchers() {
            self.forget_readers();
        }
        for part in self.parts.iter_mut().flatten() {
            limit(part, &mut self.outbox, keys_max);
        }
    }

    /// Tells the clients that may have cached a key that it has changed.
    #[cold]
    pub(super) fn invalidate(&mut self, partition: usize, key: &[u8]) {
        if let Some(part) = &mut self.parts[partition] {
            invalidate(part, &mut self.outbox, key);
        }
    }

    /// Forgets the readers of all keys of the parts here.
    fn forget_readers(&mut self) {
        for part in self.parts.iter_mut().flatten() {
            let Count { keys, items } = part.readers.clear();
            self.outbox.tracked().remove(keys, items);
        }
    }

    /// Tells all clients that cache keys that all of them may have changed. All parts are here.
    pub(super) fn invalidate_all(&mut self) {
        if self.outbox.tracked().keys() > 0 {
            self.forget_readers();
        }
        if self.outbox.is_watched() {
            self.outbox.invalidate_all();
        }
    }
}

/// Tells the clients that may have cached a key of a part that it has changed.
pub(super) fn invalidate(part: &mut Part, outbox: &mut Outbox, key: &[u8]) {
    outbox.note_change(key);
    forget(part, outbox, key);
}

/// Forgets a key, and tells its readers.
fn forget(part: &mut Part, outbox: &mut Outbox, key: &[u8]) {
    if let Some((key, clients)) = part.readers.remove(key) {
        outbox.tracked().remove(1, clients.len());
        clients.into_iter().for_each(|client| outbox.invalidate(client, &key));
    }
}

fn limit(part: &mut Part, outbox: &mut Outbox, keys_max: usize) {
    for _ in 0..FORGOTTEN_MAX {
        if keys_max == 0 || outbox.tracked().keys() <= keys_max {
            return;
        }
        let Some(key) = part.readers.any() else { return };
        forget(part, outbox, &key);
    }
}
