//! The steps of a random history.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::data;
use crate::{Durability, KEY_LEN_MAX, KeyRange, KeySpaceId, WriteBatch};

/// Key spaces that a history uses, by number.
pub(super) const SPACES: usize = 3;

/// One step.
#[derive(Clone)]
pub(super) enum Step {
    Write(Vec<Edit>, Durability),
    /// Removes a key space, if it exists; the next step that names it makes it anew.
    DropSpace(usize),
    Sync,
    /// Compares one range with the model.
    Look(usize, Span),
    /// Compares everything with the model.
    LookAtAll,
    TakeSnapshot,
    /// Compares a snapshot, chosen by a number, with the model at its time.
    LookAtSnapshot(usize),
    DropSnapshot(usize),
    Reopen,
    Crash,
}

/// One operation of a write.
#[derive(Clone)]
pub(super) enum Edit {
    Put(usize, Key, Value),
    Delete(usize, Key),
    DeleteSpan(usize, Span),
}

impl Edit {
    pub(super) fn space(&self) -> usize {
        match self {
            Self::Put(space, ..) | Self::Delete(space, _) | Self::DeleteSpan(space, _) => *space,
        }
    }

    pub(super) fn add_to(&self, batch: &mut WriteBatch, space: KeySpaceId) {
        match self {
            Self::Put(_, key, value) => batch.put(space, &key.bytes(), &value.bytes()),
            Self::Delete(_, key) => batch.delete(space, &key.bytes()),
            Self::DeleteSpan(_, span) => batch.delete_range(space, &span.range()),
        }
    }
}

/// A part of a key space.
#[derive(Clone)]
pub(super) enum Span {
    Prefix(Key),
    Range(Key, Option<Key>),
}

impl Span {
    pub(super) fn range(&self) -> KeyRange {
        match self {
            Self::Prefix(key) => KeyRange::prefix(&key.bytes()),
            Self::Range(start, end) => KeyRange::new(start.bytes(), end.as_ref().map(Key::bytes)),
        }
    }
}

/// A key: `shared` times the letter p, then a tail. So long keys differ only at their end.
#[derive(Clone)]
pub(super) struct Key {
    shared: usize,
    tail: Vec<u8>,
}

impl Key {
    fn bytes(&self) -> Vec<u8> {
        [&vec![b'p'; self.shared], &self.tail[..]].concat()
    }
}

/// A value that `seed` determines.
#[derive(Clone)]
pub(super) struct Value {
    seed: u64,
    len: usize,
}

impl Value {
    fn bytes(&self) -> Vec<u8> {
        data::value(self.seed, self.len)
    }
}

const TAIL_LEN_MAX: usize = 3;

/// Few letters, so that histories meet the same keys again; the smallest and the largest byte.
fn key() -> impl Strategy<Value = Key> {
    let letters = prop::sample::select(vec![b'a', b'b', b'p', 0, 0xff]);
    let shared = prop_oneof![
        20 => Just(0),
        4 => prop::sample::select(vec![1, 8, 15, 16, 17, 255, 256]),
        1 => Just(KEY_LEN_MAX - TAIL_LEN_MAX),
    ];
    (shared, vec(letters, 0..=TAIL_LEN_MAX)).prop_map(|(shared, tail)| Key { shared, tail })
}

/// Mostly small; some around the sizes at which an engine changes how it stores a value.
fn value() -> impl Strategy<Value = Value> {
    let around = |border: usize| (border - 160)..(border + 16);
    let len = prop_oneof![
        4 => Just(0_usize),
        60 => 1_usize..200,
        10 => 200_usize..10_000,
        6 => around(64 << 10),
        1 => around(2 << 20),
    ];
    (0..1_000_u64, len).prop_map(|(seed, len)| Value { seed, len })
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        key().prop_map(Span::Prefix),
        (key(), prop::option::weighted(0.8, key()))
            .prop_map(|(start, end)| Span::Range(start, end)),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let space = 0..SPACES;
    prop_oneof![
        12 => (space.clone(), key(), value()).prop_map(|(s, key, value)| Edit::Put(s, key, value)),
        4 => (space.clone(), key()).prop_map(|(space, key)| Edit::Delete(space, key)),
        1 => (space, span()).prop_map(|(space, span)| Edit::DeleteSpan(space, span)),
    ]
}

/// Steps; with `reopening`, also those that need a store that persists.
pub(super) fn steps(reopening: bool) -> impl Strategy<Value = Vec<Step>> {
    let durability = prop_oneof![Just(Durability::Immediate), Just(Durability::Deferred)];
    let edits = prop_oneof![4 => vec(edit(), 1..2), 1 => vec(edit(), 2..12)];
    let write = (edits, durability).prop_map(|(edits, durability)| Step::Write(edits, durability));
    let mut choices = vec![
        (40, write.boxed()),
        (1, (0..SPACES).prop_map(Step::DropSpace).boxed()),
        (2, Just(Step::Sync).boxed()),
        (8, (0..SPACES, span()).prop_map(|(space, span)| Step::Look(space, span)).boxed()),
        (4, Just(Step::LookAtAll).boxed()),
        (3, Just(Step::TakeSnapshot).boxed()),
        (2, (0..8_usize).prop_map(Step::LookAtSnapshot).boxed()),
        (1, (0..8_usize).prop_map(Step::DropSnapshot).boxed()),
    ];
    if reopening {
        choices.push((2, Just(Step::Reopen).boxed()));
        choices.push((2, Just(Step::Crash).boxed()));
    }
    vec(Union::new_weighted(choices), 1..120)
}

/// A history, one step a line.
#[derive(Clone)]
pub(super) struct History(pub(super) Vec<Step>);

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            write!(f, "\n{nth:>4}  {step:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(edits, durability) => {
                write!(f, "write {durability:?}")?;
                edits.iter().try_for_each(|edit| write!(f, "\n        {edit:?}"))
            }
            Self::DropSpace(space) => write!(f, "drop key space {space}"),
            Self::Sync => f.write_str("sync"),
            Self::Look(space, span) => write!(f, "scan {space}: {span:?}"),
            Self::LookAtAll => f.write_str("compare everything"),
            Self::TakeSnapshot => f.write_str("take a snapshot"),
            Self::LookAtSnapshot(nth) => write!(f, "compare snapshot {nth}"),
            Self::DropSnapshot(nth) => write!(f, "drop snapshot {nth}"),
            Self::Reopen => f.write_str("close and open"),
            Self::Crash => f.write_str("crash and open"),
        }
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(space, key, value) => write!(f, "{space}: put {key:?} = {value:?}"),
            Self::Delete(space, key) => write!(f, "{space}: delete {key:?}"),
            Self::DeleteSpan(space, span) => write!(f, "{space}: delete {span:?}"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(key) => write!(f, "prefix {key:?}"),
            Self::Range(start, Some(end)) => write!(f, "from {start:?} to {end:?}"),
            Self::Range(start, None) => write!(f, "from {start:?} on"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shared > 0 {
            write!(f, "p*{}+", self.shared)?;
        }
        write!(f, "b\"{}\"", self.tail.escape_ascii())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value({}, {} bytes)", self.seed, self.len)
    }
}
