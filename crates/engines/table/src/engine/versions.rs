//! The values that readers of past states still see, in DRAM.
//!
//! A method has the last committed state alone. A reader, a snapshot or a scan, has the number of the last write that it
//! sees; a write that comes later keeps the values that it replaces here, before any other transaction sees its own. So a
//! reader finds the value of a key in the first image behind its number, and where there is none, in the table. Images
//! go with the last reader that may want them.
//!
//! ```text
//!  (key space, partition) ─► key ─► image (write 7: value before) ─► image (write 9: absent before)
//! ```
//!
//! Without a reader nothing is kept and nothing is read for it. A reader costs the memory of all that is overwritten in its
//! life, each key once.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId};
use halite_sim::locks::Mutex;

/// A partition of a key space.
pub(super) type Place = (KeySpaceId, usize);

/// A key with the value that it had, or without one.
type Before = (Vec<u8>, Option<Bytes>);

/// A value that was replaced, or the absence of one.
#[derive(Debug)]
struct Image {
    /// The write that replaced it.
    write: u64,
    before: Option<Bytes>,
}

#[derive(Debug, Default)]
struct State {
    /// The last write that began.
    last: u64,
    /// Readers by the last write that they see.
    readers: BTreeMap<u64, usize>,
    images: BTreeMap<Place, BTreeMap<Vec<u8>, Vec<Image>>>,
    /// Bytes of keys and values in the images.
    bytes: u64,
}

/// The replaced values of a store.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<State>);

/// A write that has begun: its partitions are locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    number: u64,
    /// Whether a reader may want what it replaces.
    pub(super) has_readers: bool,
}

/// A key that a write has replaced the value of.
pub(super) struct Replaced {
    pub(super) place: Place,
    pub(super) key: Vec<u8>,
    pub(super) before: Option<Bytes>,
}

impl Versions {
    /// Begins a write of partitions that are locked.
    pub(super) fn begin(&self) -> Write {
        let mut state = self.0.lock();
        state.last += 1;
        Write { number: state.last, has_readers: !state.readers.is_empty() }
    }

    /// Keeps what a write has replaced, for the readers that do not see it. Its partitions are still locked.
    pub(super) fn keep(&self, write: Write, replaced: Vec<Replaced>) {
        let state = &mut *self.0.lock();
        let newest = state.readers.range(..write.number).next_back();
        let Some((&newest, _)) = newest else { return };
        for Replaced { place, key, before } in replaced {
            let len = (key.len() + before.as_ref().map_or(0, |before| before.len())) as u64;
            let images = state.images.entry(place).or_default().entry(key).or_default();
            // Each reader wants the first image behind its number only.
            if images.last().is_none_or(|image| image.write <= newest) {
                images.push(Image { write: write.number, before });
                state.bytes += len;
            }
        }
    }

    /// A reader of the present.
    pub(super) fn read(self: &Arc<Self>) -> Reader {
        let mut state = self.0.lock();
        let last = state.last;
        *state.readers.entry(last).or_default() += 1;
        Reader { versions: self.clone(), last }
    }

    /// Whether there is a reader.
    pub(super) fn has_readers(&self) -> bool {
        !self.0.lock().readers.is_empty()
    }

    /// Bytes of the replaced values, with their keys.
    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }
}

/// A reader of a past state.
#[derive(Debug)]
pub(super) struct Reader {
    versions: Arc<Versions>,
    /// The last write that it sees.
    last: u64,
}

impl Reader {
    /// Whether it reads from these versions.
    pub(super) fn is_of(&self, versions: &Arc<Versions>) -> bool {
        Arc::ptr_eq(&self.versions, versions)
    }

    /// The value that a key had, if it was replaced since. The partition is locked.
    pub(super) fn replaced(&self, place: Place, key: &[u8]) -> Option<Option<Bytes>> {
        let state = self.versions.0.lock();
        let images = state.images.get(&place)?.get(key)?;
        self.seen(images).cloned()
    }

    /// The keys of a range whose values were replaced since, with these, in a direction, and of some length in all; and
    /// whether there are more. The partition is locked.
    pub(super) fn replaced_in(
        &self,
        place: Place,
        range: &KeyRange,
        direction: Direction,
        bytes_max: usize,
    ) -> (Vec<Before>, bool) {
        let state = self.versions.0.lock();
        let Some(images) = state.images.get(&place).filter(|_| !range.is_empty()) else {
            return (Vec::new(), false);
        };
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        let mut images = images.range::<[u8], _>((Bound::Included(range.start()), end));
        let (mut found, mut bytes) = (Vec::new(), 0);
        loop {
            let next = match direction {
                Direction::Forward => images.next(),
                Direction::Reverse => images.next_back(),
            };
            let Some((key, images)) = next else { return (found, false) };
            let Some(before) = self.seen(images) else { continue };
            bytes += key.len() + before.as_ref().map_or(0, |before| before.len());
            found.push((key.clone(), before.clone()));
            if bytes >= bytes_max {
                return (found, true);
            }
        }
    }

    fn seen<'a>(&self, images: &'a [Image]) -> Option<&'a Option<Bytes>> {
        let image = images.iter().find(|image| image.write > self.last);
        image.map(|image| &image.before)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let state = &mut *self.versions.0.lock();
        let Some(readers) = state.readers.get_mut(&self.last) else { return };
        *readers -= 1;
        if *readers > 0 {
            return;
        }
        state.readers.remove(&self.last);
        let Some((&oldest, _)) = state.readers.first_key_value() else {
            state.images.clear();
            state.bytes = 0;
            return;
        };
        if oldest < self.last {
            return;
        }
        // It was the oldest: some images have no reader any more.
        let mut bytes = 0;
        state.images.retain(|_, keys| {
            keys.retain(|key, images| {
                images.retain(|image| image.write > oldest);
                let of_image = |image: &Image| {
                    key.len() + image.before.as_ref().map_or(0, |before| before.len())
                };
                bytes += images.iter().map(of_image).sum::<usize>() as u64;
                !images.is_empty()
            });
            !keys.is_empty()
        });
        state.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (KeySpaceId(1), 0);

    fn write(versions: &Versions, key: &[u8], before: Option<&[u8]>) {
        let write = versions.begin();
        let (key, before) = (key.to_vec(), before.map(Bytes::from));
        versions.keep(write, vec![Replaced { place: PLACE, key, before }]);
    }

    #[test]
    fn each_reader_sees_the_value_of_its_time() {
        let versions = Arc::new(Versions::default());
        write(&versions, b"a", None);
        assert_eq!(versions.bytes(), 0, "nobody reads it");
        let first = versions.read();
        write(&versions, b"a", Some(b"1"));
        write(&versions, b"a", Some(b"2"));
        let second = versions.read();
        write(&versions, b"a", Some(b"3"));
        write(&versions, b"b", None);
        assert_eq!(first.replaced(PLACE, b"a"), Some(Some(b"1"[..].into())));
        assert_eq!(second.replaced(PLACE, b"a"), Some(Some(b"3"[..].into())));
        assert_eq!(second.replaced(PLACE, b"b"), Some(None));
        assert_eq!(versions.read().replaced(PLACE, b"b"), None, "it sees all writes");
        assert_eq!(versions.bytes(), 2 + 2 + 1, "the image between is nobody's");
        let all = KeyRange::all();
        let (found, has_more) = first.replaced_in(PLACE, &all, Direction::Reverse, 1);
        assert!(found == [(b"b".to_vec(), None)] && has_more);
        drop(first);
        assert_eq!(versions.bytes(), 2 + 1);
        assert_eq!(second.replaced(PLACE, b"a"), Some(Some(b"3"[..].into())));
        drop(second);
        assert!(versions.bytes() == 0 && !versions.has_readers());
    }
}
