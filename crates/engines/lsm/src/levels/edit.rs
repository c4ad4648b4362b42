//! Changes of the levels.
//!
//! An edit is a list of records, each of which begins with a byte for its kind:
//!
//! ```text
//! 1  a table is added     tree, level, run, number, file len, entries, deletes, range deletes, smallest and
//!                         largest sequence: varints; span: first key, last key (varint and bytes), u8 open
//! 2  a table is removed   tree, level, number: varints
//! 3  the next number      varint: no file has this one or a larger one
//! 4  memtables            tree, id: varints; the levels have the content of the tree's memtables up to this one
//! 6  files of large values that the table added last refers to    (`put_values`)
//! 5  a word               name (varint and bytes), u64: kept for the engine
//! ```

use std::collections::BTreeMap;

use halite_codec::{Reader, put_bytes, put_varint};
use halite_sst::{Parsed, Properties, Span, ValueRef, put_values, read_values};

/// Levels of a tree: 0, which has runs that overlap, and those below.
pub const LEVELS: usize = 7;

/// No store comes near to so many files.
pub(crate) const NUMBER_MAX: u64 = u64::MAX / 4;

/// No table comes near to so many bytes or entries, and the sums of many tables' have room above.
const SIZE_MAX: u64 = 1 << 48;

/// The properties of a table that are known without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Its number, which its file is named after.
    pub number: u64,
    /// The file's length in bytes.
    pub file_len: u64,
    /// Entries in it.
    pub entries: u64,
    /// Tombstones among them.
    pub deletes: u64,
    /// Range deletes.
    pub range_deletes: u64,
    /// The smallest sequence number in it.
    pub sequence_min: u64,
    /// The largest sequence number in it.
    pub sequence_max: u64,
    /// The keys that it has something to say about.
    pub span: Span,
    /// The files of large values that its entries refer to.
    pub values: Vec<ValueRef>,
}

impl TableMeta {
    pub(crate) fn of(number: u64, file_len: u64, properties: &Properties) -> Self {
        let &Properties { entries, deletes, range_deletes, sequence_min, sequence_max, .. } =
            properties;
        let (span, values) = (properties.span.clone(), properties.values.clone());
        Self {
            number,
            file_len,
            entries,
            deletes,
            range_deletes,
            sequence_min,
            sequence_max,
            span,
            values,
        }
    }
}

/// A table's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) tree: u32,
    pub(crate) level: usize,
    /// In level 0, the run: of two, the one with the larger number is newer. Elsewhere 0.
    pub(crate) run: u64,
}

/// A change of the levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) removed: Vec<(u32, usize, u64)>,
    pub(crate) added: Vec<(Place, TableMeta)>,
    pub(crate) next_number: Option<u64>,
    pub(crate) memtables: Vec<(u32, u64)>,
    pub(crate) words: Vec<(String, u64)>,
}

impl Edit {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let numbers = |to: &mut Vec<u8>, tag: u8, numbers: &[u64]| {
            to.push(tag);
            numbers.iter().for_each(|number| put_varint(to, *number));
        };
        for &(tree, level, number) in &self.removed {
            numbers(&mut to, 2, &[u64::from(tree), level as u64, number]);
        }
        for (Place { tree, level, run }, meta) in &self.added {
            let place = [u64::from(*tree), *level as u64, *run, meta.number, meta.file_len];
            numbers(&mut to, 1, &place);
            let counts = [meta.entries, meta.deletes, meta.range_deletes];
            for number in counts.into_iter().chain([meta.sequence_min, meta.sequence_max]) {
                put_varint(&mut to, number);
            }
            meta.span.put(&mut to);
            if !meta.values.is_empty() {
                to.push(6);
                put_values(&mut to, &meta.values);
            }
        }
        if let Some(number) = self.next_number {
            numbers(&mut to, 3, &[number]);
        }
        for &(tree, id) in &self.memtables {
            numbers(&mut to, 4, &[u64::from(tree), id]);
        }
        for (name, word) in &self.words {
            to.push(5);
            put_bytes(&mut to, name.as_bytes());
            to.extend_from_slice(&word.to_le_bytes());
        }
        to
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Parsed<Self> {
        let mut reader = Reader(bytes);
        let mut edit = Self::default();
        let level = |number: u64| match usize::try_from(number) {
            Ok(level) if level < LEVELS => Ok(level),
            _ => Err("there is no such level"),
        };
        while !reader.is_empty() {
            match reader.u8()? {
                1 => {
                    let (tree, at, run) =
                        (reader.varint_u32()?, reader.varint()?, reader.varint()?);
                    let meta = TableMeta {
                        number: reader.varint()?,
                        file_len: reader.varint()?,
                        entries: reader.varint()?,
                        deletes: reader.varint()?,
                        range_deletes: reader.varint()?,
                        sequence_min: reader.varint()?,
                        sequence_max: reader.varint()?,
                        span: Span::read(&mut reader)?,
                        values: Vec::new(),
                    };
                    if meta.number > NUMBER_MAX
                        || meta.file_len > SIZE_MAX
                        || meta.entries > SIZE_MAX
                    {
                        return Err("a table is larger than any");
                    }
                    edit.added.push((Place { tree, level: level(at)?, run }, meta));
                }
                2 => {
                    let (tree, at) = (reader.varint_u32()?, reader.varint()?);
                    edit.removed.push((tree, level(at)?, reader.varint()?));
                }
                3 => match reader.varint()? {
                    number if number > NUMBER_MAX => return Err("a number is larger than any"),
                    number => edit.next_number = Some(number),
                },
                4 => edit.memtables.push((reader.varint_u32()?, reader.varint()?)),
                5 => {
                    let name =
                        std::str::from_utf8(reader.bytes()?).map_err(|_| "a name is no text")?;
                    edit.words.push((name.to_owned(), reader.u64()?));
                }
                6 => {
                    let (_, table) =
                        edit.added.last_mut().ok_or("files of values have no table")?;
                    table.values = read_values(&mut reader)?;
                }
                _ => return Err("a record is of an unknown kind"),
            }
        }
        Ok(edit)
    }
}

/// The sum of all edits up to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// By number.
    pub(crate) tables: BTreeMap<u64, (Place, TableMeta)>,
    pub(crate) next_number: u64,
    pub(crate) memtables: BTreeMap<u32, u64>,
    pub(crate) words: BTreeMap<String, u64>,
}

impl State {
    /// Makes a change, all or nothing of it. A table that changes its place is removed and added.
    pub(crate) fn apply(&mut self, edit: Edit) -> Parsed<()> {
        for (tree, level, number) in &edit.removed {
            match self.tables.remove(number) {
                Some((place, _)) if (place.tree, place.level) == (*tree, *level) => {}
                _ => return Err("it removes a table that is not there"),
            }
        }
        for (place, meta) in edit.added {
            if self.tables.insert(meta.number, (place, meta)).is_some() {
                return Err("it adds a table twice");
            }
        }
        self.next_number = self.next_number.max(edit.next_number.unwrap_or(0));
        for (tree, id) in edit.memtables {
            let known = self.memtables.entry(tree).or_insert(id);
            *known = id.max(*known);
        }
        self.words.extend(edit.words);
        Ok(())
    }

    /// Whether it has nothing that would be missed.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.memtables.is_empty() && self.words.is_empty()
    }

    /// The edit that makes this of nothing.
    pub(crate) fn snapshot(&self) -> Edit {
        Edit {
            removed: Vec::new(),
            added: self.tables.values().cloned().collect(),
            next_number: Some(self.next_number),
            memtables: self.memtables.iter().map(|(tree, id)| (*tree, *id)).collect(),
            words: self.words.iter().map(|(name, word)| (name.clone(), *word)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_read_as_it_was_written_and_no_part_of_one_is_more() {
        let span = Span { first: (*b"a").into(), last: (*b"b").into(), is_open: true };
        let meta = TableMeta {
            number: 900,
            file_len: 1 << 40,
            entries: 3,
            deletes: 2,
            range_deletes: 1,
            sequence_min: 0,
            sequence_max: 1 << 55,
            span,
            values: vec![ValueRef { number: 70, len: 1 << 29, check: 1 << 63 }],
        };
        let edit = Edit {
            removed: vec![(3, 6, 12)],
            added: vec![(Place { tree: 3, level: 0, run: 77 }, meta)],
            next_number: Some(1000),
            memtables: vec![(3, 17)],
            words: vec![("epoch".to_owned(), u64::MAX)],
        };
        let bytes = edit.bytes();
        assert_eq!(Edit::of_bytes(&bytes), Ok(edit.clone()));
        for len in 0..bytes.len() {
            assert_ne!(Edit::of_bytes(&bytes[..len]), Ok(edit.clone()));
        }
        assert!(Edit::of_bytes(&[2, 1, 7, 1]).is_err(), "a level too many");
        let mut state = State::default();
        assert!(state.clone().apply(edit.clone()).is_err(), "a table that is not there");
        state.apply(Edit { removed: Vec::new(), ..edit.clone() }).unwrap();
        let mut again = State::default();
        again.apply(state.snapshot()).unwrap();
        assert_eq!(again, state);
        assert!(state.apply(Edit { removed: Vec::new(), ..edit }).is_err(), "a table twice");
    }
}
