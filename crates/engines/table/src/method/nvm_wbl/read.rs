//! Reads: stored rows as a reader sees them, and those of the group among them.
//!
//! A secondary index has entries of several versions of a row. An entry counts if the version that the reader sees has it.
//! Keys of the tree of a unique index end with the head's word, so that an entry that moves from one row to another is there
//! for both until a record covers the move.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Bound;
use std::vec::IntoIter;

use halite_alloc::heap::NvPtr;
use halite_sim::planted;

use super::NvmWbl;
use super::head::Head;
use super::record::Sight;
use super::shared::{Shared, State};
use crate::index::Direction;
use crate::index::nonvolatile::NonVolatileTree;
use crate::key::successor;
use crate::method::{Method, Rows};
use crate::tuple::Tuples;
use crate::{IndexId, IndexSchema, KeyRange, Result, Row, Table, Value};

/// Bytes of a head's word behind an entry.
const WORD: usize = 8;

/// Entries of a tree that are looked at while the heap is locked.
const ENTRIES: usize = 32;

/// The key of an entry in the tree of its index.
pub(super) fn tree_key(index: &IndexSchema, entry: &[u8], head: NvPtr<Head>) -> Vec<u8> {
    match index.is_unique() {
        true => [entry, &head.word().to_be_bytes()].concat(),
        false => entry.to_vec(),
    }
}

/// The entry of a tree's key.
pub(super) fn entry_of<'k>(index: &IndexSchema, key: &'k [u8]) -> &'k [u8] {
    match index.is_unique() {
        true => &key[..key.len().saturating_sub(WORD)],
        false => key,
    }
}

/// Bytes of the entry of a unique index that others begin with, if they begin with one.
fn entry_len(index: &IndexSchema, tuples: Tuples<'_>, bytes: &[u8]) -> Option<usize> {
    let (own, behind) = index.key().split(bytes).ok()?;
    let has_null = index.key().decode(own).ok()?.contains(&Value::Null);
    let primary = match has_null {
        true => tuples.schema.primary_key().split(behind).ok()?.0.len(),
        false => 0,
    };
    Some(own.len() + primary)
}

/// The stored rows of a range of an index, one after the other.
pub(super) struct StoredRows<'a> {
    shared: &'a Shared,
    sight: Sight,
    tuples: Tuples<'a>,
    tree: NonVolatileTree,
    /// Of a secondary index.
    index: Option<&'a IndexSchema>,
    range: KeyRange,
    /// The keys of the tree that were not looked at.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    found: VecDeque<(Vec<u8>, Row)>,
    is_at_end: bool,
}

impl<'a> StoredRows<'a> {
    pub(super) fn new(
        (shared, sight): (&'a Shared, Sight),
        tuples: Tuples<'a>,
        (tree, index): (NonVolatileTree, Option<&'a IndexSchema>),
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let range = range.clone();
        let from = Bound::Included(range.from.clone());
        let mut to = range.to.clone();
        // The end of the range may begin with an entry, which is in it; not all keys of the tree that begin with it are.
        if let Some(index) = index.filter(|index| index.is_unique())
            && let Some(end) = &range.to
            && let Some(len) = entry_len(index, tuples, end)
            && len < end.len()
        {
            to = successor(&end[..len]).map(|above| above.max(end.clone()));
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let (found, is_at_end) = (VecDeque::new(), false);
        Self { shared, sight, tuples, tree, index, range, from, to, direction, found, is_at_end }
    }

    /// Looks at the next entries.
    fn find(&mut self) -> Result<()> {
        let state = self.shared.state.read();
        let range = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        let mut scan = self.tree.scan(&state.heap, range, self.direction)?;
        let mut last = None;
        for _ in 0..ENTRIES {
            let Some((key, word)) = scan.next()? else {
                self.is_at_end = true;
                break;
            };
            let row = state.row(self.tuples, NvPtr::from_word(word), &self.sight)?;
            if let Some(row) = row
                && let Some(key) = self.key_of(key, &row)?
            {
                self.found.push_back((key, row));
            }
            last = Some(key.to_vec());
        }
        drop(state);
        if let Some(last) = last {
            match self.direction {
                Direction::Forward => self.from = Bound::Excluded(last),
                Direction::Reverse => self.to = Bound::Excluded(last),
            }
        }
        Ok(())
    }

    /// The key of a row that an entry leads to, if the row has the entry.
    fn key_of(&self, key: &[u8], row: &Row) -> Result<Option<Vec<u8>>> {
        let Some(index) = self.index else { return Ok(Some(key.to_vec())) };
        let has = has_entry(self.tuples, index, row, entry_of(index, key))?;
        let entry = entry_of(index, key);
        Ok((has && self.range.contains(entry)).then(|| entry.to_vec()))
    }
}

/// Whether a row has an entry.
fn has_entry(tuples: Tuples<'_>, index: &IndexSchema, row: &Row, entry: &[u8]) -> Result<bool> {
    let own = row.view(tuples.schema)?.index_entry(index)?;
    Ok(planted!("table.nvm-wbl-stale-entry-followed", true, own == entry))
}

impl Rows for StoredRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        while self.found.is_empty() && !self.is_at_end {
            self.find()?;
        }
        Ok(self.found.pop_front())
    }
}

/// The group's entries of a range: keys, and the primary keys that they lead to, unless the row is no more.
type Own = (Vec<u8>, Option<Vec<u8>>);

/// The rows of a range, those of the group among the stored ones.
pub(super) struct GroupRows<'a> {
    method: &'a NvmWbl,
    table: &'a Table,
    stored: StoredRows<'a>,
    next_stored: Option<(Vec<u8>, Row)>,
    own: Peekable<IntoIter<Own>>,
    is_begun: bool,
}

impl GroupRows<'_> {
    /// A stored row as the group has it.
    fn current(&self, row: Row) -> Result<Row> {
        let Some(rows) = self.method.group.rows.get(&self.table.id()) else { return Ok(row) };
        let key = row.view(self.table.schema())?.primary_key()?;
        if !rows.contains_key(&key) {
            return Ok(row);
        }
        Ok(self.method.get(self.table, &key)?.unwrap_or(row))
    }
}

impl Rows for GroupRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        if !self.is_begun {
            (self.is_begun, self.next_stored) = (true, self.stored.next()?);
        }
        loop {
            let order = match (&self.next_stored, self.own.peek()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((own, _))) => match self.stored.direction {
                    Direction::Forward => key.cmp(own),
                    Direction::Reverse => own.cmp(key),
                },
            };
            if order.is_lt() {
                let (key, row) = self.next_stored.take().expect("it was there");
                self.next_stored = self.stored.next()?;
                return Ok(Some((key, self.current(row)?)));
            }
            if order.is_eq() {
                self.next_stored = self.stored.next()?;
            }
            let (key, leads_to) = self.own.next().expect("it was there");
            let row = leads_to.map(|key| self.method.get(self.table, &key)).transpose()?;
            if let Some(row) = row.flatten() {
                return Ok(Some((key, row)));
            }
        }
    }
}

impl NvmWbl {
    /// The stored row with a primary key.
    pub(super) fn stored_row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let state = self.shared.state.read();
        let found = self.tree(table.primary())?.get(&state.heap, key)?;
        let row = found.map(|word| {
            state.row(self.tuples(table), NvPtr::from_word(word), &self.commits.sight())
        });
        Ok(row.transpose()?.flatten())
    }

    /// The primary key that a stored entry leads to.
    pub(super) fn stored_entry(
        &self,
        table: &Table,
        (id, index): (IndexId, &IndexSchema),
        entry: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let range = KeyRange { from: entry.to_vec(), to: Some([entry, &[0]].concat()) };
        let (shared, sight) = (&*self.shared, self.commits.sight());
        let (tuples, tree) = (self.tuples(table), self.tree(id)?);
        let (index, direction) = (Some(index), Direction::Forward);
        let mut rows = StoredRows::new((shared, sight), tuples, (tree, index), &range, direction);
        let row = rows.next()?;
        row.map(|(_, row)| row.view(table.schema())?.primary_key()).transpose()
    }

    /// The rows of a range.
    pub(super) fn rows<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        let index = position.and_then(|position| table.indexes().nth(position));
        let tree = self.tree(index.map_or(table.primary(), |index| index.id))?;
        let (schema, tuples) = (index.map(|index| index.schema), self.tuples(table));
        let of = (&*self.shared, self.commits.sight());
        let stored = StoredRows::new(of, tuples, (tree, schema), range, direction);
        let bounds = range.bounds();
        let mut own: Vec<Own> = match index {
            _ if range.is_empty() => Vec::new(),
            None => {
                let rows = self.group.rows.get(&table.id()).into_iter();
                let rows = rows.flat_map(|rows| rows.range::<[u8], _>(bounds));
                let is_there = rows.map(|(key, pending)| (key, !pending.tuple.is_null()));
                is_there.map(|(key, is)| (key.clone(), is.then(|| key.clone()))).collect()
            }
            Some(index) => {
                let entries = self.group.entries.get(&index.id).into_iter();
                let entries = entries.flat_map(|entries| entries.range::<[u8], _>(bounds));
                entries.map(|(entry, after)| (entry.clone(), after.clone())).collect()
            }
        };
        if direction == Direction::Reverse {
            own.reverse();
        }
        let (own, next_stored) = (own.into_iter().peekable(), None);
        Ok(Box::new(GroupRows { method: self, table, stored, next_stored, own, is_begun: false }))
    }

    /// Whether an entry of a secondary index is neither that of the stored row of its head, nor one of the group.
    pub(super) fn is_stale(
        &self,
        state: &State,
        table: &Table,
        index: IndexId,
        key: &[u8],
        head: NvPtr<Head>,
    ) -> Result<bool> {
        let Some(of) = table.indexes().find(|other| other.id == index) else { return Ok(true) };
        let (tuples, entry) = (self.tuples(table), entry_of(of.schema, key));
        if let Some(row) = state.row(tuples, head, &self.commits.sight())?
            && row.view(table.schema())?.index_entry(of.schema)? == entry
        {
            return Ok(false);
        }
        match self.group.entry(index, entry) {
            Some(Some(key)) => Ok(self.head_of(&state.heap, table, key)? != head),
            _ => Ok(true),
        }
    }
}
