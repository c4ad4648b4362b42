//! A walk over the leaves of a range, in either direction, for as many as somebody wants at once.
//!
//! It keeps the path from the root as a stack of its own, for keys may be long, and validates each
//! node's version behind each word that it takes from it. If a node was changed, the walk ends early:
//! what it has seen up to there was all there was, and the next walk goes on behind that.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::ops::{Bound, ControlFlow};

use super::lock::{Restart, VersionLock};
use super::node::Node;
use super::path::parting;
use super::reclaim::Pin;
use super::sought::Sought;
use super::word::{self, Child, Leaf};
use super::{Direction, RadixTree, Records};
use crate::sync::Ordering as MemoryOrdering;

/// So many children are between the one that a walk enters and the one that it asks for.
const AHEAD: usize = 2;

/// The keys that a walk is to see.
pub(super) struct Span<'k> {
    pub(super) low: Bound<&'k [u8]>,
    pub(super) high: Bound<&'k [u8]>,
}

/// Why a walk ended.
#[derive(PartialEq, Eq)]
pub(super) enum End {
    /// There is nothing more in the range.
    Range,
    /// The visitor had enough.
    Visitor,
}

/// Which bounds of the range lie below a node, or are the path to it.
#[derive(Clone, Copy)]
struct Tight {
    low: bool,
    high: bool,
}

/// A node on the way to where the walk is.
struct Frame<'g> {
    node: Node<'g>,
    seen: u64,
    level: usize,
    /// Places of the node that are still to come.
    rest: std::ops::Range<usize>,
    tight: Tight,
}

struct Limit<'k> {
    sought: Sought<'k>,
    is_included: bool,
}

impl<'k> Limit<'k> {
    fn new(bound: Bound<&'k [u8]>) -> Option<Self> {
        let (key, is_included) = match bound {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => return None,
        };
        Some(Self { sought: Sought::new(key), is_included })
    }

    /// How a byte at a level, on the path of the limit, compares with the limit's.
    fn compare(&self, level: usize, byte: Option<u8>) -> Ordering {
        byte.cmp(&self.sought.byte(level))
    }
}

struct Walk<'w, 'k, R> {
    pin: &'w Pin,
    records: &'w R,
    direction: Direction,
    low: Option<Limit<'k>>,
    high: Option<Limit<'k>>,
}

impl RadixTree {
    /// Visits the leaves of a range, in order. What the visitor takes from a leaf counts only if
    /// `confirm` is called behind it; if not, that leaf was changed meanwhile, and the walk ends with
    /// an error.
    pub(super) fn walk<R: Records>(
        &self,
        pin: &Pin,
        records: &R,
        span: &Span,
        direction: Direction,
        visitor: &mut impl Visitor,
    ) -> Result<End, Restart> {
        let (low, high) = (Limit::new(span.low), Limit::new(span.high));
        let mut tight = Tight { low: low.is_some(), high: high.is_some() };
        let walk = Walk { pin, records, direction, low, high };
        let mut path: Vec<Frame> = Vec::new();
        let (mut lock, mut seen, mut known) = (&self.anchor, self.anchor.read()?, 0);
        let mut word = self.root.load(MemoryOrdering::Acquire);
        loop {
            lock.validate(seen)?;
            // SAFETY: the word was loaded from a slot, after pinning.
            match unsafe { Child::of(word) } {
                Child::Nothing => {}
                Child::Leaf(leaf) => {
                    if walk.has(leaf, tight) && visit(visitor, leaf, lock, seen)?.is_break() {
                        return Ok(End::Visitor);
                    }
                }
                Child::Node(node) => path.extend(walk.enter(node, tight, known)?),
            }
            loop {
                let Some(frame) = path.last_mut() else { return Ok(End::Range) };
                let Some(place) = walk.next_place(frame) else {
                    path.pop();
                    continue;
                };
                walk.prefetch_ahead(frame);
                let byte;
                (byte, word) = frame.node.at(place);
                (lock, seen, known) = (frame.node.lock(), frame.seen, frame.level + 1);
                if let Some(inside) = walk.narrowed(frame, byte) {
                    tight = inside;
                    break;
                }
            }
        }
    }
}

/// Who visits the leaves of a walk.
pub(super) trait Visitor {
    /// Takes what it wants from a leaf.
    fn take(&mut self, leaf: Leaf);

    /// What it took last is right. Whether it wants more.
    fn confirm(&mut self) -> ControlFlow<()>;
}

fn visit(
    visitor: &mut impl Visitor,
    leaf: Leaf,
    lock: &VersionLock,
    seen: u64,
) -> Result<ControlFlow<()>, Restart> {
    visitor.take(leaf);
    lock.validate(seen)?;
    Ok(visitor.confirm())
}

impl<R: Records> Walk<'_, '_, R> {
    /// Whether a leaf is in the range.
    fn has(&self, leaf: Leaf, tight: Tight) -> bool {
        if !tight.low && !tight.high {
            return true;
        }
        let key = self.records.key(leaf.newest());
        let is_in = |limit: &Option<Limit>, outside: Ordering| {
            limit.as_ref().is_none_or(|limit| match key.cmp(limit.sought.key) {
                Equal => limit.is_included,
                side => side != outside,
            })
        };
        is_in(&self.low, Less) && is_in(&self.high, Greater)
    }

    /// The node as the last of a path, if it may have keys in the range.
    fn enter<'g>(
        &self,
        node: Node<'g>,
        tight: Tight,
        known: usize,
    ) -> Result<Option<Frame<'g>>, Restart> {
        let seen = node.lock().read()?;
        let level = node.level();
        // How the path compares with a limit that is tight above the node: equal if it stays so.
        let side = |limit: &Option<Limit>, is_tight: bool, if_not: Ordering| {
            let Some(Limit { sought, .. }) = limit.as_ref().filter(|_| is_tight) else {
                return Ok(if_not);
            };
            let parting = parting(node, sought, known, self.pin, self.records)?;
            Ok(parting.map_or(Equal, |(at, byte)| Some(byte).cmp(&sought.byte(at))))
        };
        let low = side(&self.low, tight.low, Greater)?;
        let high = side(&self.high, tight.high, Less)?;
        if low == Less || high == Greater {
            return Ok(None);
        }
        let tight = Tight { low: low == Equal, high: high == Equal };
        let byte_of = |limit: &Option<Limit>, is_tight: bool| {
            limit.as_ref().filter(|_| is_tight).and_then(|limit| limit.sought.byte(level))
        };
        // What is before the byte of the low limit, or behind that of the high one, is not looked at.
        let first = byte_of(&self.low, tight.low).map_or(0, |byte| node.place_from(byte));
        let end = match (tight.high, byte_of(&self.high, tight.high)) {
            (false, _) => node.places(),
            (true, None) => 1,
            (true, Some(byte)) => {
                byte.checked_add(1).map_or(node.places(), |byte| node.place_from(byte))
            }
        };
        Ok(Some(Frame { node, seen, level, rest: first..end, tight }))
    }

    fn next_place(&self, frame: &mut Frame) -> Option<usize> {
        match self.direction {
            Direction::Ascending => frame.rest.next(),
            Direction::Descending => frame.rest.next_back(),
        }
    }

    /// Asks for a node that the walk will come to soon.
    fn prefetch_ahead(&self, frame: &Frame) {
        let mut rest = frame.rest.clone();
        let ahead = match self.direction {
            Direction::Ascending => rest.nth(AHEAD),
            Direction::Descending => rest.nth_back(AHEAD),
        };
        if let Some(place) = ahead {
            word::prefetch(frame.node.at(place).1);
        }
    }

    /// Which limits are tight for the child at a byte; none if it is beyond one.
    fn narrowed(&self, frame: &Frame, byte: Option<u8>) -> Option<Tight> {
        let side = |limit: &Option<Limit>, is_tight: bool, if_not: Ordering| {
            let limit = limit.as_ref().filter(|_| is_tight);
            limit.map_or(if_not, |limit| limit.compare(frame.level, byte))
        };
        let low = side(&self.low, frame.tight.low, Greater);
        let high = side(&self.high, frame.tight.high, Less);
        (low != Less && high != Greater).then_some(Tight { low: low == Equal, high: high == Equal })
    }
}
