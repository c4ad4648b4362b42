//! Deadlists: extents that a snapshot has, and its successor has not.
//!
//! ```text
//! key    4 | dataset u32 big-endian | snapshot u64 big-endian | address u64 big-endian
//! value  blocks varint | birth varint
//! ```
//!
//! The lists lie in the root tree. Changes of flushes since the last checkpoint are in memory, above that; a checkpoint
//! brings them there. An entry costs some 60 bytes of memory until then.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_codec::{Reader, put_varint};

use crate::catalogue::SnapshotId;
use crate::message::Kind;
use crate::run::Source;
use crate::storage::{Address, EXTENT_BYTES_MAX, Extent};
use crate::tree::changes::Changes;
use crate::tree::cursor::TreeCursor;
use crate::tree::{Context, Dropped, Tree};
use crate::{Error, Result};

/// The tag of entries in the root tree.
const TAG: u8 = 4;

/// An entry of a list. `None`: it is not there any more.
type Entry = Option<Dropped>;

/// The changes of all lists since the last checkpoint.
#[derive(Default)]
pub(crate) struct Deadlists(BTreeMap<(SnapshotId, Address), Entry>);

fn prefix((dataset, snapshot): SnapshotId) -> Vec<u8> {
    [&[TAG], &dataset.to_be_bytes()[..], &snapshot.to_be_bytes()].concat()
}

/// The entry of a stored key's last 8 bytes and value.
fn decode(address: &[u8], value: &[u8]) -> Option<Dropped> {
    let address = Address::from_bits(u64::from_be_bytes(address.try_into().ok()?));
    let mut from = Reader(value);
    let (blocks, birth) = (from.varint_u32().ok()?, from.varint().ok()?);
    let is_extent = (1..=EXTENT_BYTES_MAX / halite_vdev::BLOCK).contains(&(blocks as usize));
    // An extent of a list may be a large value, to which the log leads until the next checkpoint.
    (is_extent && from.is_empty()).then(|| Dropped::logged(Extent { address, blocks }, birth))
}

impl Deadlists {
    /// Adds an extent to the list of a snapshot.
    pub(crate) fn add(&mut self, list: SnapshotId, dropped: Dropped) {
        let entry = Dropped::logged(dropped.extent, dropped.birth);
        self.0.insert((list, dropped.extent.address), Some(entry));
    }

    /// Takes an extent from the list of a snapshot.
    pub(crate) fn remove(&mut self, list: SnapshotId, address: Address) {
        self.0.insert((list, address), None);
    }

    /// The entries of a list.
    ///
    /// # Errors
    /// Those of reading the root tree; [`Error::Message`]: an entry is none.
    pub(crate) fn read(
        &self,
        context: &Arc<Context>,
        root_tree: &Tree,
        list: SnapshotId,
    ) -> Result<Vec<Dropped>> {
        let (first, last) = ((list, Address::from_bits(0)), (list, Address::from_bits(u64::MAX)));
        let mut entries: BTreeMap<Address, Dropped> = BTreeMap::new();
        let start = prefix(list);
        let end = [&start[..], &[0xff; 9]].concat();
        let mut cursor = TreeCursor::new(context, root_tree.clone(), &start, Some(&end), None);
        cursor.first()?;
        while let Some(key) = cursor.key() {
            let message = cursor.message();
            if message.kind == Kind::Insert {
                let entry = decode(&key[start.len()..], &message.payload);
                let entry = entry.ok_or_else(|| Error::Message {
                    why: "an entry of a deadlist is none".into(),
                })?;
                entries.insert(entry.extent.address, entry);
            }
            cursor.next()?;
        }
        for ((_, address), entry) in self.0.range(first..=last) {
            match entry {
                Some(dropped) => drop(entries.insert(*address, *dropped)),
                None => drop(entries.remove(address)),
            }
        }
        Ok(entries.into_values().collect())
    }

    /// The number of entries that changed.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the changes to those of the root tree.
    pub(crate) fn store(&self, changes: &mut Changes) {
        for ((list, address), entry) in &self.0 {
            let key = [&prefix(*list)[..], &address.to_bits().to_be_bytes()].concat();
            match entry {
                None => changes.add(key, Kind::Delete, Vec::new()),
                Some(Dropped { extent, birth, .. }) => {
                    let mut value = Vec::new();
                    put_varint(&mut value, u64::from(extent.blocks));
                    put_varint(&mut value, *birth);
                    changes.add(key, Kind::Insert, value);
                }
            }
        }
    }

    /// Notes that the root tree has the changes.
    pub(crate) fn stored(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_damaged_ones_are_refused() {
        let mut value = Vec::new();
        put_varint(&mut value, 256);
        put_varint(&mut value, 1 << 40);
        let extent = Extent { address: Address::new(2, 3, 4), blocks: 256 };
        let address = extent.address.to_bits().to_be_bytes();
        assert_eq!(decode(&address, &value), Some(Dropped::logged(extent, 1 << 40)));
        assert_eq!(decode(&address[1..], &value), None);
        (0..value.len()).for_each(|cut| assert_eq!(decode(&address, &value[..cut]), None));
        for blocks in [0, 257, 1 << 20] {
            let mut value = Vec::new();
            put_varint(&mut value, blocks);
            put_varint(&mut value, 1);
            assert_eq!(decode(&address, &value), None);
        }
    }
}
