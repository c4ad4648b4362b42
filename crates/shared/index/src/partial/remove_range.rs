//! Removing a range: leaves are emptied first, then joined, and only the bounds are looked up.

use super::PartialKeyTree;
use super::inner::{Child, Inner};
use super::leaf::Leaf;
use crate::FullKeys;
use crate::node_ref::NodeRef;

/// A bound, and its place in the leaf that has it.
type Bound<'a> = (&'a [u8], usize);

impl PartialKeyTree {
    /// Removes the entries from `start` up to, not including, `end`, and returns them in order. No key in
    /// the range is read, so entries with unreadable keys are removed, too.
    ///
    /// # Errors
    /// A full key near a bound cannot be read.
    pub fn remove_range<F: FullKeys>(
        &mut self,
        start: &[u8],
        end: Option<&[u8]>,
        keys: &F,
    ) -> Result<Vec<u64>, F::Error> {
        if start.is_empty() && end.is_none() {
            let all = std::mem::replace(self, Self::new(self.partial));
            return Ok(all.iter().collect());
        }
        if end.is_some_and(|end| end <= start) {
            return Ok(Vec::new());
        }
        let place = |key: &[u8]| Ok(self.find(key).search(key, keys)?.unwrap_or_else(|at| at));
        let from = (start, place(start)?);
        let to = end.map(|end| Ok((end, place(end)?))).transpose()?;
        let mut removed = Vec::new();
        self.root.make_mut().empty(Some(from), to, &mut removed);
        self.root.make_mut().join_range(Some(start), end, keys);
        self.len -= removed.len() as u64;
        self.lower();
        Ok(removed)
    }
}

impl Inner {
    /// Takes the entries between two bounds out of their leaves.
    fn empty(&mut self, from: Option<Bound<'_>>, to: Option<Bound<'_>>, removed: &mut Vec<u64>) {
        let (first, last) = self.span(from.map(|(key, _)| key), to.map(|(key, _)| key));
        for at in first..=last {
            let (from, to) = (from.filter(|_| at == first), to.filter(|_| at == last));
            match self.child_at_mut(at) {
                Child::Inner(child) => child.make_mut().empty(from, to, removed),
                Child::Leaf(leaf) => {
                    let range = from.map_or(0, |(_, at)| at)..to.map_or(leaf.len(), |(_, at)| at);
                    removed.extend(range.clone().map(|at| leaf.entry(at)));
                    if range.len() == leaf.len() {
                        // A shared leaf is not copied to be emptied.
                        *leaf = NodeRef::new(Leaf::new(leaf.partial(), &[], 0));
                    } else if !range.is_empty() {
                        let leaf = leaf.make_mut();
                        for at in range.rev() {
                            leaf.remove(at);
                        }
                    }
                }
            }
        }
    }

    /// Joins neighbouring nodes that fit into one, among those to which keys between two bounds lead.
    fn join_range<F: FullKeys>(&mut self, start: Option<&[u8]>, end: Option<&[u8]>, keys: &F) {
        let (first, last) = self.span(start, end);
        for at in first..=last {
            let (start, end) = (start.filter(|_| at == first), end.filter(|_| at == last));
            if let Child::Inner(child) = self.child_at_mut(at) {
                child.make_mut().join_range(start, end, keys);
            }
        }
        let (mut at, mut last) = (first.saturating_sub(1), last);
        while at <= last {
            if !self.join_children(at, keys) {
                at += 1;
                continue;
            }
            last = last.saturating_sub(1);
            // The last leaf of one and the first of the other are neighbours now.
            if let Child::Inner(child) = self.child_at_mut(at) {
                child.make_mut().join_range(None, None, keys);
            }
        }
    }

    /// The first and the last child that keys between two bounds lead to.
    fn span(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> (usize, usize) {
        let first = start.map_or(0, |start| self.child_of(start));
        (first, end.map_or(self.children().len() - 1, |end| self.child_of(end)))
    }
}
