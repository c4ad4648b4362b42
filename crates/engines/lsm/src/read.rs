//! A read: the newest version of a key, wherever it is.
//!
//! A get takes the tree's view and asks the active memtable, the immutable ones and the global indexes, the newest
//! first: the first that has a version decides. Then it asks flushed memtables that are still in memory, and rows
//! that were read from the levels before; only then the levels.

use halite_contract::{Bytes, Result};
use halite_sst::{PUT, PUT_FILE, SEQUENCE_MAX, ValueRef};

use crate::address::Address;
use crate::failure::{from_levels, gone, lost};
use crate::layer::Layer;
use crate::record::{Kind, Record};
use crate::store::Store;
use crate::tree::View;
use crate::version::{Stored, Version, file_of, file_of_entry, stored};
use crate::zones::Zones;

/// Which state is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The committed state, no earlier than the one in which the read began.
    Latest,
    /// That of a sequence, which is registered ([`crate::snapshots::Snapshots`]).
    Sequence(u64),
}

/// The newest version of a key in memory, and its place, or the sequence of a removal of its range.
enum InMemory<'a> {
    Version(&'a Zones, Address, Record<'a>),
    Removed(u64),
}

impl InMemory<'_> {
    fn sequence(&self) -> u64 {
        match self {
            Self::Version(_, _, record) => record.sequence(),
            Self::Removed(sequence) => *sequence,
        }
    }
}

impl Store {
    /// The value of a key, which has its key space before it, or `None`.
    pub(crate) fn get(&self, tree: usize, key: &[u8], at: At) -> Result<Option<Bytes>> {
        let mut missed = None;
        loop {
            let visible = self.sequence_of(at);
            let view = self.trees[tree].view();
            // The value is made where it is returned: moving it about takes longer than making it.
            let stored = match self.in_memory(&view, key, (at, visible))? {
                Some(found) if found.sequence() > visible => continue,
                Some(InMemory::Version(zones, address, record)) => stored(zones, address, &record)?,
                Some(InMemory::Removed(_)) => return Ok(None),
                None => match self.in_levels(tree, key, at)? {
                    Some(version) => version.value,
                    None => return Ok(None),
                },
            };
            drop(view);
            match stored {
                Stored::Nothing => return Ok(None),
                Stored::Bytes(bytes) => return Ok(Some(bytes)),
                Stored::File(value) => {
                    match self.levels.values().get(&value).map_err(from_levels)? {
                        // The version that hides it is visible by now.
                        None if at == At::Latest && missed.replace(value) != Some(value) => {}
                        None => return Err(gone(&value)),
                        bytes => return Ok(bytes),
                    }
                }
            }
        }
    }

    /// The sequence of a key's newest version that the state has; that of a removed range stands for that of a version
    /// that it removed.
    pub(crate) fn newest(&self, tree: usize, key: &[u8], at: At) -> Result<Option<u64>> {
        match self.newest_in_memory(tree, key, at)? {
            Some((sequence, _)) => Ok(Some(sequence)),
            None => Ok(self.in_levels(tree, key, at)?.map(|version| version.sequence)),
        }
    }

    /// The sequence of a key's newest version that memory has, or of a removal of its range, and the file of a value
    /// that has one.
    pub(crate) fn newest_in_memory(
        &self,
        tree: usize,
        key: &[u8],
        at: At,
    ) -> Result<Option<(u64, Option<ValueRef>)>> {
        loop {
            let visible = self.sequence_of(at);
            let view = self.trees[tree].view();
            return Ok(Some(match self.in_memory(&view, key, (at, visible))? {
                Some(found) if found.sequence() > visible => continue,
                Some(InMemory::Version(zones, address, record)) => {
                    let is_in_file = record.kind() == Some(Kind::PutFile);
                    let file = is_in_file.then(|| file_of(zones, address, &record)).transpose()?;
                    (record.sequence(), file)
                }
                Some(InMemory::Removed(sequence)) => (sequence, None),
                None => return Ok(None),
            }));
        }
    }

    /// The sequence of the newest version of a key that memory has in a state, if it is a removal. `None`, too, if it
    /// cannot be read.
    pub(crate) fn removed_in_memory(&self, view: &View, key: &[u8], at: At) -> Option<u64> {
        match self.in_memory(view, key, (at, self.sequence_of(at))).ok()?? {
            InMemory::Removed(sequence) => Some(sequence),
            InMemory::Version(_, _, record) => {
                (record.kind() == Some(Kind::Delete)).then(|| record.sequence())
            }
        }
    }

    /// The sequence up to which memtables are read. A view that is taken afterwards has all versions up to there.
    #[inline]
    fn sequence_of(&self, at: At) -> u64 {
        match at {
            At::Latest => self.visible(),
            At::Sequence(sequence) => sequence,
        }
    }

    /// The newest version of a key in memtables, global indexes and the global index that was flushed last.
    ///
    /// A global index may be just taking in later commits, one record of a batch after the other: a version that is
    /// newer than the visible state says that the key is to be read again.
    #[inline]
    fn in_memory<'v>(
        &self,
        view: &'v View,
        key: &[u8],
        (at, sequence): (At, u64),
    ) -> Result<Option<InMemory<'v>>> {
        let mut removed = 0;
        for memtable in view.memtables() {
            if let Some(found) = found(&**memtable, (key, sequence), &mut removed)? {
                return Ok(Some(found));
            }
        }
        let sequence = behind_memtables(at);
        for global in view.global_indexes() {
            if let Some(found) = found(&**global, (key, sequence), &mut removed)? {
                return Ok(Some(found));
            }
        }
        let flushed = view.flushed.as_ref().and_then(|flushed| flushed.get(key, sequence));
        Ok(flushed.map(|(zones, address, record)| InMemory::Version(zones, address, record)))
    }

    /// The newest version of a key that the levels have: from a row that was read before, or from the levels
    /// themselves.
    fn in_levels(&self, tree: usize, key: &[u8], at: At) -> Result<Option<Version>> {
        let sequence = behind_memtables(at);
        let rows = self.rows.as_ref().map(|rows| (rows, rows.seek(tree, key)));
        if let Some(row) = rows.as_ref().and_then(|(rows, sought)| rows.get(sought, sequence)) {
            return Ok(Some(row));
        }
        let Some(found) = self.levels.get(tree as u32, key, sequence).map_err(from_levels)? else {
            return Ok(None);
        };
        if let Some((rows, sought)) = &rows
            && (at, found.kind) == (At::Latest, PUT)
        {
            rows.insert(sought, found.sequence, &found.value);
        }
        let value = match found.kind {
            PUT => Stored::Bytes(Bytes::from(&*found.value)),
            PUT_FILE => Stored::File(file_of_entry(key, &found.value)?),
            _ => Stored::Nothing,
        };
        Ok(Some(Version { sequence: found.sequence, value }))
    }
}

/// Returns the sequence to read at behind memtables, where everything is committed; and a version that only this reader
/// would see may be gone there.
fn behind_memtables(at: At) -> u64 {
    match at {
        At::Latest => SEQUENCE_MAX,
        At::Sequence(sequence) => sequence,
    }
}

/// The version of a key in a layer, or the removal of its range there or above: `removed`.
#[inline]
fn found<'l, L: Layer>(
    layer: &'l L,
    (key, at): (&[u8], u64),
    removed: &mut u64,
) -> Result<Option<InMemory<'l>>> {
    *removed = (*removed).max(layer.deletes().covering(key, at));
    // The candidate may be a record of another key.
    if let Some(address) = layer.index().candidate(layer, key, at).map(Address::from_bits) {
        let zones = layer.zones_of(address).ok_or_else(|| lost(address))?;
        // The check first: a damaged key is not taken for another one.
        let record = zones.checked(address)?;
        if record.key() == key && (*removed + 1..=at).contains(&record.sequence()) {
            return Ok(Some(InMemory::Version(zones, address, record)));
        }
    }
    Ok((*removed > 0).then_some(InMemory::Removed(*removed)))
}
