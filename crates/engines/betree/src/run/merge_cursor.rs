//! Several sources as one: for each key the one message that all of them merge to, above the union of their deleted
//! ranges.
//!
//! ```text
//! newest  source 0   messages
//!                    deleted ranges     hide what is below them
//!         source 1   messages
//!                    deleted ranges
//! oldest  ...
//! ```
//!
//! A message of a source is hidden by the deleted ranges of newer sources; its own source's ranges are older than it.
//! So the result has the form of a source: messages, and below them the union of all ranges, and a flush writes it as a
//! run.
//!
//! A tournament tree of losers finds the source with the next key: ⌈log2 n⌉ comparisons of keys for each message. The
//! message is shared, not copied, unless it merges with an older one into a third. A *reader* jumps over keys that a
//! range hides; a *merger* visits them, because it has to report the large values that are no more referred to.

use std::cmp::Ordering;
use std::sync::Arc;

use halite_index::LoserTree;

use super::deleted_ranges::DeletedRanges;
use super::source::{Move, Source};
use crate::Result;
use crate::message::{Action, HeldMessage, LargeValue, Message};

/// A position in merged sources: at a key with a message, or at none.
pub(crate) struct MergeCursor<S> {
    sources: Vec<S>,
    /// For each source the union of the deleted ranges of newer ones.
    hiding: Vec<DeletedRanges>,
    deleted_ranges: DeletedRanges,
    action: Option<Arc<Action>>,
    tree: LoserTree,
    is_forward: bool,
    key: Vec<u8>,
    /// The message of the key. The sources are beyond it.
    message: Option<HeldMessage>,
    /// The large values that the result does not refer to any more; `None` for a reader.
    dropped: Option<Vec<LargeValue>>,
}

impl<S: Source> MergeCursor<S> {
    /// A cursor for reading, at no key. The first source is the newest; all have the same bounds.
    pub(crate) fn reader(sources: Vec<S>, action: Option<Arc<Action>>) -> Self {
        let (mut hiding, mut all) = (Vec::with_capacity(sources.len()), DeletedRanges::default());
        for source in &sources {
            hiding.push(all.clone());
            all = all.union(source.deleted_ranges());
        }
        let tree = LoserTree::new(0, |_, _| false);
        Self {
            sources,
            hiding,
            deleted_ranges: all,
            action,
            tree,
            is_forward: true,
            key: Vec::new(),
            message: None,
            dropped: None,
        }
    }

    /// A cursor for writing the merged messages, at no key. It goes once from the first key to the last, and collects
    /// the large values that the result does not refer to.
    pub(crate) fn merger(sources: Vec<S>, action: Option<Arc<Action>>) -> Self {
        Self { dropped: Some(Vec::new()), ..Self::reader(sources, action) }
    }

    /// The key that it is at, and the key's message.
    pub(crate) fn entry(&self) -> Option<(&[u8], Message<'_>)> {
        Some((&self.key, self.message.as_ref()?.message()))
    }

    /// The message that it is at, to be kept.
    pub(crate) fn held(&self) -> Option<&HeldMessage> {
        self.message.as_ref()
    }

    /// The union of all deleted ranges within the bounds. They are older than the merged messages.
    pub(crate) fn deleted_ranges(&self) -> &DeletedRanges {
        &self.deleted_ranges
    }

    /// Takes the large values that a merger has collected since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<LargeValue> {
        self.dropped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Goes to the first key.
    pub(crate) fn first(&mut self) -> Result<()> {
        self.start(Move::First)
    }

    /// Goes to the last key.
    pub(crate) fn last(&mut self) -> Result<()> {
        self.start(Move::Last)
    }

    /// Goes to the first key that is not below `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.start(Move::Seek(key))
    }

    /// Goes to the last key below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.start(Move::SeekBefore(key))
    }

    /// Goes to the next key; from none, to none.
    pub(crate) fn next(&mut self) -> Result<()> {
        if self.message.is_none() {
            return Ok(());
        }
        if self.is_forward {
            return self.settle();
        }
        let key = self.key.clone();
        // The least key above it.
        self.seek(&[&key[..], &[0]].concat())
    }

    /// Goes to the key before; from none, to none.
    pub(crate) fn prev(&mut self) -> Result<()> {
        if self.message.is_none() {
            return Ok(());
        }
        if !self.is_forward {
            return self.settle();
        }
        let key = self.key.clone();
        self.seek_before(&key)
    }

    /// Moves all sources, and goes to the first key in a direction.
    fn start(&mut self, to: Move<'_>) -> Result<()> {
        let is_forward = matches!(to, Move::First | Move::Seek(_));
        self.message = None;
        self.is_forward = is_forward;
        if self.sources.len() > 1 {
            // The reads of all sources go on side by side.
            self.sources.iter_mut().for_each(|source| source.ask(to));
        }
        self.sources.iter_mut().try_for_each(|source| source.go(to))?;
        let sources = &self.sources;
        self.tree = LoserTree::new(sources.len(), |a, b| is_before(sources, is_forward, a, b));
        self.settle()
    }

    /// Goes to the next key in the direction, from where the sources are.
    fn settle(&mut self) -> Result<()> {
        self.message = None;
        while let Some((newest, is_hidden)) = self.head() {
            if is_hidden {
                self.pass_hidden(newest)?;
                continue;
            }
            let mut message = self.sources[newest].take_message();
            self.step(newest)?;
            while let Some((older, is_hidden)) = self.same_key() {
                if is_hidden {
                    self.report(older)?;
                } else if !message.kind.is_complete() || self.dropped.is_some() {
                    message = self.merge(message, older)?;
                }
                self.step(older)?;
            }
            self.message = Some(message);
            break;
        }
        Ok(())
    }

    /// The source with the next key, which becomes the cursor's, and whether its message is hidden.
    fn head(&mut self) -> Option<(usize, bool)> {
        let winner = self.tree.winner()?;
        let key = self.sources[winner].key()?;
        self.key.clear();
        self.key.extend_from_slice(key);
        Some((winner, self.hiding[winner].covering(&self.key).is_some()))
    }

    /// The next source, if it has the cursor's key, and whether its message is hidden.
    fn same_key(&self) -> Option<(usize, bool)> {
        let winner = self.tree.winner()?;
        let has_key = self.sources[winner].key() == Some(&self.key[..]);
        has_key.then(|| (winner, self.hiding[winner].covering(&self.key).is_some()))
    }

    /// The message after an older one of the same key.
    fn merge(&mut self, newer: HeldMessage, older: usize) -> Result<HeldMessage> {
        let (action, dropped) = (self.action.as_deref(), &mut self.dropped);
        let message = self.sources[older].message();
        let merged = newer.after(&self.key, message.message(), action, &mut |large| {
            dropped.iter_mut().for_each(|dropped| dropped.push(large.clone()));
        });
        merged.map_err(|why| self.sources[older].damaged(why))
    }

    /// Collects the large value of a hidden message.
    fn report(&mut self, source: usize) -> Result<()> {
        let Some(dropped) = &mut self.dropped else { return Ok(()) };
        let large = self.sources[source].message().message().large();
        dropped.extend(large.map_err(|why| self.sources[source].damaged(why))?);
        Ok(())
    }

    /// Moves a source on whose message is hidden: a reader beyond the range that hides it.
    fn pass_hidden(&mut self, source: usize) -> Result<()> {
        if self.dropped.is_some() {
            self.report(source)?;
            return self.step(source);
        }
        let range = self.hiding[source].covering(&self.key).expect("a range hides the message");
        let source = &mut self.sources[source];
        match (self.is_forward, &range.end) {
            (true, Some(end)) => source.seek(end)?,
            (true, None) => source.leave(),
            (false, _) => source.seek_before(&range.start)?,
        }
        self.replay();
        Ok(())
    }

    fn step(&mut self, source: usize) -> Result<()> {
        match self.is_forward {
            true => self.sources[source].next()?,
            false => self.sources[source].prev()?,
        }
        self.replay();
        Ok(())
    }

    fn replay(&mut self) {
        let (sources, is_forward) = (&self.sources, self.is_forward);
        self.tree.replay(|a, b| is_before(sources, is_forward, a, b));
    }
}

/// Whether the head of source `a` comes before that of source `b`: of equal keys, the newer one does.
fn is_before<S: Source>(sources: &[S], is_forward: bool, a: usize, b: usize) -> bool {
    match (sources[a].key(), sources[b].key()) {
        (Some(x), Some(y)) => match x.cmp(y) {
            Ordering::Equal => a < b,
            order => order.is_lt() == is_forward,
        },
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a < b,
    }
}
