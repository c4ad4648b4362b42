//! Removal of members that follow each other in the order.

use std::ops::ControlFlow;
use std::ops::Range;

use super::selection::Selection;
use super::stored::Stretch;
use super::{SortedSet, read_score};
use crate::collection::check_ending;
use crate::failure::Outcome;
use crate::store::{Elements, Order, Resident, Store};

/// Members with their scores.
type Members = Vec<(f64, Vec<u8>)>;

impl SortedSet {
    /// Removes the members that were found, and returns how many they are.
    pub(crate) fn remove_selected(
        &mut self,
        store: &mut Store,
        selection: Selection<'_>,
    ) -> Outcome<usize> {
        if let Selection::Ranks { ranks, .. } = selection {
            return self.remove_ranks(store, ranks);
        }
        let Some(of) = self.map.elements() else { return Ok(0) };
        // All of a set may be more than DRAM has room for.
        if selection.is_long() && selection.len() == self.len(store)? {
            self.map.clear();
            return Ok(selection.len());
        }
        let gone = self.members(store, selection)?;
        if gone.is_empty() {
            return Ok(0);
        }
        for (score, member) in &gone {
            check_ending(store)?;
            let known = self.map.get(store, member)?;
            // The order is read, and not the map, which is to be changed with it.
            if known.as_deref().and_then(read_score) != Some(*score) {
                return Err(self.other_order());
            }
        }
        match self.kept_beside(store, &of, &gone)? {
            Some(kept) if kept.is_empty() => {
                if self.map.has_more_than(store, gone.len())? {
                    return Err(self.other_order());
                }
                self.map.clear();
            }
            Some(kept) if !self.map.is_changed() => self.rewrite(store, kept)?,
            _ => {
                for (score, member) in &gone {
                    check_ending(store)?;
                    self.map.remove_known(store, member)?;
                    self.change_order(store, member, Some(*score), None)?;
                }
                self.map.note_some_left();
            }
        }
        Ok(gone.len())
    }

    /// The members that stay beside those that go, if they are fewer than these.
    fn kept_beside(
        &self,
        store: &mut Store,
        of: &Elements,
        gone: &Members,
    ) -> Outcome<Option<Members>> {
        let known = match store.known_resident(of) {
            Some(Resident::Ends(ends)) => ends.count,
            _ => None,
        };
        if known.is_some_and(|count| count >= 2 * gone.len() as u64) {
            return Ok(None);
        }
        let pair = |(score, member): &(f64, Vec<u8>)| (*score, member.clone());
        let (Some(one), Some(other)) = (gone.first().map(pair), gone.last().map(pair)) else {
            return Ok(None);
        };
        let (low, high) = if one <= other { (one, other) } else { (other, one) };
        let mut kept = Vec::new();
        for order in [Order::Ascending, Order::Descending] {
            if kept.len() >= gone.len() {
                break;
            }
            self.walk(store, of, &Stretch::whole(), order, |score, member| {
                let is_kept = match order {
                    Order::Ascending => (score, &member[..]) < (low.0, &low.1[..]),
                    Order::Descending => (score, &member[..]) > (high.0, &high.1[..]),
                };
                if is_kept {
                    kept.push((score, member.to_vec()));
                }
                Ok(match is_kept && kept.len() < gone.len() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        }
        Ok((kept.len() < gone.len()).then_some(kept))
    }

    /// Removes the members of some ranks, and returns how many they are.
    fn remove_ranks(&mut self, store: &mut Store, ranks: Range<usize>) -> Outcome<usize> {
        let len = self.len(store)?;
        let ranks = ranks.start..ranks.end.min(len);
        if ranks.is_empty() {
            return Ok(0);
        }
        if ranks.len() == len {
            self.map.clear();
            return Ok(len);
        }
        let of_ranks = |ranks| Selection::Ranks { ranks, is_reverse: false };
        if self.map.elements().is_none() || ranks.len() <= len / 2 || self.map.is_changed() {
            for (score, member) in self.members(store, of_ranks(ranks.clone()))? {
                check_ending(store)?;
                self.map.remove_known(store, &member)?;
                self.change_order(store, &member, Some(score), None)?;
            }
            return Ok(ranks.len());
        }
        let mut kept = self.members(store, of_ranks(0..ranks.start))?;
        kept.extend(self.members(store, of_ranks(ranks.end..len))?);
        self.rewrite(store, kept)?;
        Ok(ranks.len())
    }

    /// Fewer members stay than go: those are written under a new number, and the others go with the old one.
    fn rewrite(&mut self, store: &mut Store, kept: Members) -> Outcome {
        self.map.renew(store)?;
        self.begin_order(store)?;
        for (score, member) in kept {
            check_ending(store)?;
            self.map.put_known(store, &member, &score.to_le_bytes(), true)?;
            self.change_order(store, &member, None, Some(score))?;
        }
        Ok(())
    }
}
