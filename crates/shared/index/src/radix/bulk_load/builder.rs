//! Building trees from below.

use super::item::Item;
use crate::radix::Records;
use crate::radix::arena::Arena;
use crate::radix::node::{LEVEL_MAX, Node};

/// A word that leads to consecutive keys.
#[derive(Clone, Copy)]
pub(super) struct Subtree {
    first: Item,
    last: Item,
    word: u64,
}

impl Subtree {
    pub(super) fn of(item: &Item) -> Self {
        Self { first: *item, last: *item, word: item.entry() }
    }

    pub(super) fn word(&self) -> u64 {
        self.word
    }
}

/// Builds trees of keys that come in order, from below and from the left.
pub(super) struct Builder<'a, R> {
    arena: &'a Arena,
    records: &'a R,
    /// Keys that have so many bytes in common are in one tree.
    common: usize,
    /// Trees that are complete.
    built: Vec<Subtree>,
    /// The first key of the tree that is built.
    first: Item,
    /// The word that came last, with the last key below it.
    last: Option<(Item, u64)>,
    /// Nodes that may get more children: those above the last key, from the root down.
    open: Vec<Open>,
    /// Children of all open nodes, one node's behind the other's.
    children: Vec<(Option<u8>, u64)>,
}

struct Open {
    level: usize,
    /// Where its children begin.
    start: usize,
}

impl<'a, R: Records> Builder<'a, R> {
    pub(super) fn new(arena: &'a Arena, records: &'a R, common: usize) -> Self {
        Self {
            arena,
            records,
            common,
            built: Vec::new(),
            first: Item::default(),
            last: None,
            open: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Adds a subtree of keys that are not below the last one. If its first key equals the last one, it
    /// replaces the last word. Returns whether it does not.
    #[inline]
    pub(super) fn push(&mut self, next: &Subtree) -> bool {
        match self.last {
            None => self.first = next.first,
            Some((last, _)) if last.cmp_key(&next.first, self.records).is_eq() => {
                self.last = Some((next.last, next.word));
                return false;
            }
            Some((last, _)) => {
                let level = last.common(&next.first, self.records).min(LEVEL_MAX);
                if level < self.common {
                    self.end_tree();
                    self.first = next.first;
                } else {
                    let word = self.close(level + 1);
                    if self.open.last().is_none_or(|open| open.level < level) {
                        self.open.push(Open { level, start: self.children.len() });
                    }
                    self.children.push((last.byte(level, self.records), word));
                }
            }
        }
        self.last = Some((next.last, next.word));
        true
    }

    /// All trees, in order.
    pub(super) fn finish(mut self) -> Vec<Subtree> {
        self.end_tree();
        self.built
    }

    fn end_tree(&mut self) {
        let Some((last, _)) = self.last else { return };
        let word = self.close(0);
        self.built.push(Subtree { first: self.first, last, word });
    }

    /// Closes the open nodes from a level down. Returns the word that leads to them and the last key.
    #[inline]
    fn close(&mut self, level: usize) -> u64 {
        let (item, mut word) = self.last.expect("something came");
        while let Some(open) = self.open.pop_if(|open| open.level >= level) {
            self.children.push((item.byte(open.level, self.records), word));
            let window = item.window(open.level, self.records);
            word = Node::with(self.arena, open.level, window, &self.children[open.start..]);
            self.children.truncate(open.start);
        }
        word
    }
}
