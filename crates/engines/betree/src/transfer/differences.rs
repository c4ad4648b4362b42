//! The differences of two snapshots of a dataset, in the order of the keys, at a cost in proportion to what has changed.
//!
//! A part that both trees have is left out, with all below it: what the newer tree has and was born no later than the
//! older snapshot, the older one has, too.
//!
//! 1. The newer tree is walked down to the parts that are shared, which are noted. The other runs are kept.
//! 2. The older tree is walked down to the parts that were noted. The other runs are kept.
//! 3. The keys of all these runs are *candidates*, and the ranges that they delete. Only candidates may differ: any other
//!    key has the same messages in both.
//! 4. The values of each candidate are compared: a leaf that was written anew has many that are the same.
//!
//! Runs are opened where the walk comes to their slots, and closed behind their last key, so the memory is that of a
//! path's runs, and of the list of runs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::content::behind;
use crate::Result;
use crate::message::{Action, HeldMessage, Kind};
use crate::run::{Reads, Run, RunCursor, Source};
use crate::storage::Address;
use crate::tree::cursor::TreeCursor;
use crate::tree::lookup::value_of;
use crate::tree::node::Link;
use crate::tree::{Context, Tree};

/// Runs that only one of two trees has, and the parts that both have, where the walks end.
#[derive(Default)]
struct Parts {
    /// Each with a key that is not above its first.
    runs: Vec<(Vec<u8>, Arc<Run>)>,
    shared: BTreeSet<Address>,
}

impl Parts {
    /// Notes the parts of the newer tree below a link; what was born up to an epoch, both have.
    fn of_newer(&mut self, context: &Context, link: &Link, epoch: u64, low: &[u8]) -> Result<()> {
        let note = |parts: &mut Self, low: &[u8], run: &Arc<Run>| {
            if run.pointer().birth <= epoch {
                parts.shared.insert(run.pointer().extents[0].address);
            } else {
                parts.runs.push((low.to_vec(), Arc::clone(run)));
            }
        };
        match link {
            Link::Leaf(base) => {
                base.iter().for_each(|run| note(self, low, run));
                return Ok(());
            }
            Link::Stored(pointer) if pointer.birth <= epoch => {
                self.shared.insert(pointer.extent.address);
                return Ok(());
            }
            Link::Stored(_) | Link::Fresh(_) => {}
        }
        let node = context.node(link)?;
        for (number, slot) in node.slots.iter().enumerate() {
            let low = node.bounds_of(number, (Some(low), None)).0.unwrap_or_default();
            slot.runs.iter().for_each(|run| note(self, low, run));
            self.of_newer(context, &slot.link, epoch, low)?;
        }
        Ok(())
    }

    /// Notes the parts of the older tree below a link that are not shared.
    fn of_older(&mut self, context: &Context, link: &Link, low: &[u8]) -> Result<()> {
        let note = |parts: &mut Self, low: &[u8], run: &Arc<Run>| {
            if !parts.shared.contains(&run.pointer().extents[0].address) {
                parts.runs.push((low.to_vec(), Arc::clone(run)));
            }
        };
        match link {
            Link::Leaf(base) => {
                base.iter().for_each(|run| note(self, low, run));
                return Ok(());
            }
            Link::Stored(pointer) if self.shared.contains(&pointer.extent.address) => {
                return Ok(());
            }
            Link::Stored(_) | Link::Fresh(_) => {}
        }
        let node = context.node(link)?;
        for (number, slot) in node.slots.iter().enumerate() {
            let low = node.bounds_of(number, (Some(low), None)).0.unwrap_or_default();
            slot.runs.iter().for_each(|run| note(self, low, run));
            self.of_older(context, &slot.link, low)?;
        }
        Ok(())
    }
}

/// A range of keys: its start, and its end, if it has one.
type Bounds = (Vec<u8>, Option<Vec<u8>>);

/// Keys that may differ, in their order.
struct Candidates {
    /// The runs to come, the last first.
    waiting: Vec<(Vec<u8>, Arc<Run>)>,
    /// The runs that are open, and the numbers that are free.
    open: Vec<Option<RunCursor>>,
    free: Vec<usize>,
    keys: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    ranges: BinaryHeap<Reverse<Bounds>>,
}

enum Candidate {
    Key(Vec<u8>),
    Range(Vec<u8>, Option<Vec<u8>>),
}

impl Candidates {
    fn new(parts: Parts) -> Self {
        let mut waiting = parts.runs;
        waiting.sort_by(|a, b| b.0.cmp(&a.0));
        Self {
            waiting,
            open: Vec::new(),
            free: Vec::new(),
            keys: BinaryHeap::new(),
            ranges: BinaryHeap::new(),
        }
    }

    /// The next candidate. Keys may come more than once.
    fn next(&mut self) -> Result<Option<Candidate>> {
        loop {
            let key = self.keys.peek().map(|Reverse((key, _))| key);
            let range = self.ranges.peek().map(|Reverse((start, _))| start);
            let first = match (key, range) {
                (Some(key), Some(range)) => Some(key.min(range)),
                (key, range) => key.or(range),
            };
            let is_due =
                self.waiting.last().is_some_and(|(low, _)| first.is_none_or(|first| low <= first));
            if is_due {
                let (_, run) = self.waiting.pop().expect("there is one");
                self.open(run)?;
                continue;
            }
            let is_range = range.is_some_and(|range| key.is_none_or(|key| range <= key));
            if is_range {
                let range = self.ranges.pop();
                return Ok(range.map(|Reverse((start, end))| Candidate::Range(start, end)));
            }
            let Some(Reverse((key, number))) = self.keys.pop() else { return Ok(None) };
            if let Some(cursor) = &mut self.open[number] {
                cursor.next()?;
            }
            self.note(number);
            return Ok(Some(Candidate::Key(key)));
        }
    }

    fn open(&mut self, run: Arc<Run>) -> Result<()> {
        for range in run.directory()?.ranges.iter() {
            let end = range.end.as_ref().map(|end| end.to_vec());
            self.ranges.push(Reverse((range.start.to_vec(), end)));
        }
        let mut cursor = RunCursor::new(run, &[], None, Reads::Once)?;
        cursor.first()?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[number] = Some(cursor);
        self.note(number);
        Ok(())
    }

    /// Notes the key of an open run, or closes it.
    fn note(&mut self, number: usize) {
        match self.open[number].as_ref().and_then(|cursor| cursor.key()) {
            Some(key) => self.keys.push(Reverse((key.to_vec(), number))),
            None => {
                self.open[number] = None;
                self.free.push(number);
            }
        }
    }
}

/// A tree that is read at ascending keys.
struct Reader {
    cursor: TreeCursor,
    was_moved: bool,
}

impl Reader {
    fn new(context: &Arc<Context>, tree: &Tree, action: Option<Arc<Action>>) -> Self {
        let cursor = TreeCursor::new(context, tree.clone(), &[], None, action);
        Self { cursor, was_moved: false }
    }

    /// Goes to the first message from a key on, which is not below the one before.
    fn advance(&mut self, key: &[u8]) -> Result<()> {
        if !self.was_moved {
            self.was_moved = true;
            return self.cursor.seek(key);
        }
        // Mostly, it is the next one.
        if self.cursor.key().is_some_and(|at| at < key) {
            self.cursor.next()?;
        }
        if self.cursor.key().is_some_and(|at| at < key) {
            self.cursor.seek(key)?;
        }
        Ok(())
    }

    fn message_of(&self, key: &[u8]) -> Option<HeldMessage> {
        (self.cursor.key() == Some(key)).then(|| self.cursor.message())
    }
}

/// A key whose value differs.
pub(super) struct Difference {
    pub(super) key: Vec<u8>,
    /// The message that the newer snapshot has for it; `None`, or a message that deletes: it has no value there.
    pub(super) message: Option<HeldMessage>,
    /// The next key of the newer snapshot that may have a value.
    pub(super) next: Option<Vec<u8>>,
}

/// The differences of two snapshots.
pub(super) struct Differences {
    context: Arc<Context>,
    action: Option<Arc<Action>>,
    older: Reader,
    newer: Reader,
    candidates: Candidates,
    /// All keys below that are done. `None`: all are.
    position: Option<Vec<u8>>,
    /// The end of the range whose keys are compared; of the inner one, `None` is behind all keys.
    range: Option<Option<Vec<u8>>>,
}

impl Differences {
    /// The differences of a tree from an older one, as of which an epoch ended, from a key on.
    pub(super) fn new(
        context: &Arc<Context>,
        dataset: u32,
        (older, epoch): (&Tree, u64),
        newer: &Tree,
        start: Vec<u8>,
    ) -> Result<Self> {
        let action = context.actions.of(dataset);
        let mut parts = Parts::default();
        parts.of_newer(context, &newer.root, epoch, &[])?;
        parts.of_older(context, &older.root, &[])?;
        Ok(Self {
            context: Arc::clone(context),
            older: Reader::new(context, older, action.clone()),
            newer: Reader::new(context, newer, action.clone()),
            action,
            candidates: Candidates::new(parts),
            position: Some(start),
            range: None,
        })
    }

    /// Bytes of the runs that only one of the two has.
    pub(super) fn bytes_max(&self) -> u64 {
        let of_run = |run: &Run| run.pointer().bytes + run.pointer().large_bytes;
        self.candidates.waiting.iter().map(|(_, run)| of_run(run)).sum()
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Result<Option<Difference>> {
        while let Some(position) = &self.position {
            let key = match &self.range {
                Some(end) => {
                    let end = end.clone();
                    let keys = [self.older.cursor.key(), self.newer.cursor.key()];
                    let key = keys.into_iter().flatten().min().map(<[u8]>::to_vec);
                    match key.filter(|key| end.as_ref().is_none_or(|end| key < end)) {
                        Some(key) => key,
                        None => {
                            (self.range, self.position) = (None, end);
                            continue;
                        }
                    }
                }
                None => match self.candidates.next()? {
                    None => return Ok(None),
                    Some(Candidate::Key(key)) if key < *position => continue,
                    Some(Candidate::Key(key)) => key,
                    Some(Candidate::Range(_, Some(end))) if end <= *position => continue,
                    Some(Candidate::Range(start, end)) => {
                        let start = start.max(position.clone());
                        self.older.advance(&start)?;
                        self.newer.advance(&start)?;
                        self.range = Some(end);
                        continue;
                    }
                },
            };
            let difference = self.compare(&key)?;
            self.position = Some(behind(&key));
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    /// Compares the values of a key, and goes behind it.
    fn compare(&mut self, key: &[u8]) -> Result<Option<Difference>> {
        self.older.advance(key)?;
        self.newer.advance(key)?;
        let (before, after) = (self.older.message_of(key), self.newer.message_of(key));
        let behind = behind(key);
        self.older.advance(&behind)?;
        self.newer.advance(&behind)?;
        if self.are_equal(key, before.as_ref(), after.as_ref())? {
            return Ok(None);
        }
        let next = self.newer.cursor.key().map(<[u8]>::to_vec);
        Ok(Some(Difference { key: key.to_vec(), message: after, next }))
    }

    /// Whether two messages say the same of a key. Large values are the same if they lie in the same extents.
    fn are_equal(
        &self,
        key: &[u8],
        a: Option<&HeldMessage>,
        b: Option<&HeldMessage>,
    ) -> Result<bool> {
        fn is_there(message: &&HeldMessage) -> bool {
            message.kind != Kind::Delete
        }
        let (Some(a), Some(b)) = (a.filter(is_there), b.filter(is_there)) else {
            return Ok(a.is_some_and(|a| is_there(&a)) == b.is_some_and(|b| is_there(&b)));
        };
        if a.kind == b.kind && a.payload[..] == b.payload[..] {
            return Ok(true);
        }
        if a.kind == Kind::InsertLarge || b.kind == Kind::InsertLarge {
            return Ok(false);
        }
        let value = |message: &HeldMessage| {
            value_of(&self.context, key, message.clone(), self.action.as_deref())
        };
        Ok(value(a)? == value(b)?)
    }
}
