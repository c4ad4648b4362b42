//! A walk over the leaves of a range, in either direction, up to as many as the visitor wants at once.
//!
//! It keeps the path from the root as a stack of its own, because keys may be long. It validates each
//! node's version behind the words that it takes from it: once for all words up to a child that is a node.
//! If a node was changed, the walk ends early: the leaves up to there are complete, and the next walk goes
//! on behind them.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::ops::{Bound, ControlFlow, Range};

use super::lock::Restart;
use super::node::Node;
use super::path::parting;
use super::reclaim::Pin;
use super::sought::Sought;
use super::word::{self, Child, Leaf};
use super::{Direction, RadixTree, Records};
use crate::sync::Ordering as MemoryOrdering;

/// Nodes on the way down, as many as most trees have.
const LEVELS: usize = 8;

/// The keys that a walk is to see.
pub(super) struct Span<'k> {
    pub(super) low: Bound<&'k [u8]>,
    pub(super) high: Bound<&'k [u8]>,
}

/// Why a walk ended.
#[derive(PartialEq, Eq)]
pub(super) enum End {
    /// The range has no more leaves.
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

impl Tight {
    /// All keys below are in the range.
    const NEITHER: Self = Self { low: false, high: false };

    fn is_any(self) -> bool {
        self.low || self.high
    }
}

/// A node on the way to where the walk is.
struct Frame<'g> {
    node: Node<'g>,
    seen: u64,
    level: usize,
    /// Places of the node that are still to come.
    rest: Range<usize>,
    ahead: Ahead,
    /// Which limits are tight for the first and the last of all places, if they are still to come.
    edges: Tight,
}

/// Children that are nodes, and that a walk prefetched before it comes to them.
struct Ahead {
    /// Places behind them.
    unasked: Range<usize>,
    count: usize,
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
}

struct Walk<'w, 'k, R> {
    pin: &'w Pin,
    records: &'w R,
    direction: Direction,
    low: Option<Limit<'k>>,
    high: Option<Limit<'k>>,
}

impl RadixTree {
    /// Visits the leaves of a range, in order. The entries that the visitor takes from a leaf count only
    /// once `confirm` is called behind them; if it is not, that leaf was changed meanwhile, and the walk
    /// ends with an error.
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
        let mut path: Vec<Frame> = Vec::with_capacity(LEVELS);
        let (mut lock, mut seen, mut known) = (&self.anchor, self.anchor.read()?, 0);
        let mut word = self.root.load(MemoryOrdering::Acquire);
        loop {
            lock.validate(seen)?;
            // SAFETY: the word was loaded from a slot, after pinning.
            match unsafe { Child::of(word) } {
                Child::Nothing => {}
                Child::Leaf(leaf) => {
                    let is_enough = walk.has(leaf, tight) && visitor.take(leaf).is_break();
                    lock.validate(seen)?;
                    visitor.confirm();
                    if is_enough {
                        return Ok(End::Visitor);
                    }
                }
                Child::Node(node) => path.extend(walk.enter(node, tight, known)?),
            }
            loop {
                let Some(frame) = path.last_mut() else { return Ok(End::Range) };
                let next = walk.next(frame, visitor)?;
                (lock, seen, known) = (frame.node.lock(), frame.seen, frame.level + 1);
                match next {
                    Next::Child(child, inside) => {
                        (word, tight) = (child, inside);
                        break;
                    }
                    Next::Enough => return Ok(End::Visitor),
                    Next::Nothing => path.pop(),
                };
            }
        }
    }
}

/// The next step of a walk in a node.
enum Next {
    /// A child, and which limits are tight for it.
    Child(u64, Tight),
    /// The node has no more children in the range.
    Nothing,
    /// The visitor has enough.
    Enough,
}

/// A visitor of the leaves of a walk.
pub(super) trait Visitor {
    /// Takes the wanted entries from a leaf. Returns whether the visitor wants more.
    fn take(&mut self, leaf: Leaf) -> ControlFlow<()>;

    /// The entries taken up to here are valid.
    fn confirm(&mut self);
}

impl<R: Records> Walk<'_, '_, R> {
    /// Whether a leaf is in the range.
    fn has(&self, leaf: Leaf, tight: Tight) -> bool {
        if !tight.is_any() {
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
        let frame = |rest: Range<usize>, edges| {
            let ahead = Ahead { unasked: rest.clone(), count: 0 };
            Frame { node, seen, level, rest, ahead, edges }
        };
        if !tight.is_any() {
            return Ok(Some(frame(0..node.places(), tight)));
        }
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
        let byte_of = |limit: &Option<Limit>, side: Ordering| {
            limit.as_ref().filter(|_| side == Equal).map(|limit| limit.sought.byte(level))
        };
        let (low, high) = (byte_of(&self.low, low), byte_of(&self.high, high));
        // Places before the byte of the low limit, or behind that of the high one, are skipped.
        let first = low.flatten().map_or(0, |byte| node.place_from(byte));
        let end = match high {
            None => node.places(),
            Some(None) => 1,
            Some(Some(byte)) => {
                byte.checked_add(1).map_or(node.places(), |byte| node.place_from(byte))
            }
        };
        let leads_to = |place: usize, limit: Option<Option<u8>>| {
            first < end && limit.is_some_and(|byte| node.at(place).0 == byte)
        };
        let edges = Tight { low: leads_to(first, low), high: leads_to(end.wrapping_sub(1), high) };
        Ok(Some(frame(first..end, edges)))
    }

    /// Visits leaves of a node, up to the next child that is a node or that a limit may be below.
    fn next(&self, frame: &mut Frame, visitor: &mut impl Visitor) -> Result<Next, Restart> {
        let is_ascending = self.direction == Direction::Ascending;
        let Tight { low, high } = frame.edges;
        let (near, far) = if is_ascending { (low, high) } else { (high, low) };
        if !near {
            let mut inner = frame.rest.clone();
            if far {
                let _ = if is_ascending { inner.next_back() } else { inner.next() };
            }
            let next = self.next_within(frame, inner, visitor)?;
            if !matches!(next, Next::Nothing) {
                return Ok(next);
            }
        }
        let is_last = frame.rest.len() == 1;
        let place = if is_ascending { frame.rest.next() } else { frame.rest.next_back() };
        let Some(place) = place else { return Ok(Next::Nothing) };
        let far = far && is_last;
        let tight = if is_ascending {
            frame.edges.low = false;
            Tight { low: near, high: far }
        } else {
            frame.edges.high = false;
            Tight { low: far, high: near }
        };
        let word = frame.node.at(place).1;
        self.ask_ahead(frame.node, &mut frame.ahead, word);
        Ok(Next::Child(word, tight))
    }

    /// Visits leaves at places of a node all of which are in the range, up to the next child that is a node.
    fn next_within(
        &self,
        frame: &mut Frame,
        places: Range<usize>,
        visitor: &mut impl Visitor,
    ) -> Result<Next, Restart> {
        let mut next = Ok(Next::Nothing);
        let node = frame.node;
        let rest = node.words(places, self.direction, |word| {
            // SAFETY: the word was loaded from a slot, after pinning.
            match unsafe { Child::of(word) } {
                Child::Nothing => return ControlFlow::Continue(()),
                Child::Leaf(leaf) if visitor.take(leaf).is_continue() => {
                    return ControlFlow::Continue(());
                }
                Child::Leaf(_) => next = Ok(Next::Enough),
                Child::Node(child) => {
                    self.ask_ahead(node, &mut frame.ahead, word);
                    match self.leaves_of(child, visitor) {
                        Ok(Some(ControlFlow::Continue(()))) => return ControlFlow::Continue(()),
                        Ok(Some(ControlFlow::Break(()))) => next = Ok(Next::Enough),
                        Ok(None) => next = Ok(Next::Child(word, Tight::NEITHER)),
                        Err(restart) => next = Err(restart),
                    }
                }
            }
            ControlFlow::Break(())
        });
        let next = next?;
        // All of them at once: the node was the same all the time.
        frame.node.lock().validate(frame.seen)?;
        visitor.confirm();
        match self.direction {
            Direction::Ascending => frame.rest.start = rest.start,
            Direction::Descending => frame.rest.end = rest.end,
        }
        Ok(next)
    }

    /// Visits the leaves of a small node all of which are in the range, if all its children are leaves:
    /// without a step down and up again.
    fn leaves_of(
        &self,
        node: Node,
        visitor: &mut impl Visitor,
    ) -> Result<Option<ControlFlow<()>>, Restart> {
        if !matches!(node, Node::Four(_)) {
            return Ok(None);
        }
        let seen = node.lock().read()?;
        let places = 0..node.places();
        let mut only_leaves = true;
        node.words(places.clone(), self.direction, |word| {
            only_leaves &= word::is_leaf(word);
            ControlFlow::Continue(())
        });
        if !only_leaves {
            return Ok(None);
        }
        let mut flow = ControlFlow::Continue(());
        node.words(places, self.direction, |word| {
            // SAFETY: the word was loaded from a slot, after pinning.
            if let Child::Leaf(leaf) = unsafe { Child::of(word) } {
                flow = visitor.take(leaf);
            }
            flow
        });
        node.lock().validate(seen)?;
        Ok(Some(flow))
    }

    /// Asks for nodes that the walk will come to soon, where it enters a child.
    fn ask_ahead(&self, node: Node, ahead: &mut Ahead, entered: u64) {
        if word::is_leaf(entered) {
            return;
        }
        // If no child is prefetched ahead, the first unasked child is the entered one itself; otherwise
        // prefetched children lie before it.
        let wanted = if ahead.count == 0 { 1 + word::ahead(entered) } else { 1 };
        let mut left = wanted;
        ahead.unasked = node.words(ahead.unasked.clone(), self.direction, |word| {
            left -= usize::from(word::prefetch(word));
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        ahead.count = (ahead.count + wanted - left).saturating_sub(1);
    }
}
