//! Changes of columns. The change of a tuple is a set of words of its slot, with the slots of long values that it activates
//! and frees: a method stores them by a publication, or under a log of its own.
//!
//! Long values that change together get a new tail, with the values that stay in the old one if those are no more bytes than
//! the changed ones. Else each has a slot of its own: so a change writes at most twice its bytes.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::stored::{Cell, HEAD, Stored};
use super::{Inserted, TAIL_MAX, Tuple, Tuples, cancel};
use crate::{Change, Field, FixedRef, Result, RowRef, ValueRef};

/// A word of a slot that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordChange {
    pub(crate) at: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// What a change of columns does to a tuple.
#[derive(Debug, Default)]
pub(crate) struct TupleChange {
    /// Words of the tuple's slot.
    pub(crate) words: Vec<WordChange>,
    /// New slots of long values, which are written.
    pub(crate) activated: Vec<AnyPtr>,
    /// Slots that the tuple has no more.
    pub(crate) freed: Vec<AnyPtr>,
}

/// A tuple that was written in place of another one.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) tuple: NvPtr<Tuple>,
    /// Its slots that are new, to be activated: the others it has from the former tuple.
    pub(crate) activated: Vec<AnyPtr>,
    /// Slots of the former tuple that it has not.
    pub(crate) freed: Vec<AnyPtr>,
}

impl Tuples<'_> {
    /// Writes the new long values of a change, in slots that it reserves, and returns what is to be stored. The tuple is
    /// as before.
    pub(crate) fn change(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        changes: &[Change<'_>],
    ) -> Result<TupleChange> {
        let mut result = TupleChange::default();
        let planned = self.plan(heap, tuple, changes, &mut result);
        if planned.is_err() {
            cancel(heap, &result.activated)?;
        }
        let (before, after) = planned?;
        let words = before.as_chunks().0.iter().zip(after.as_chunks().0);
        for (at, (before, after)) in (0..).step_by(8).zip(words) {
            if before != after {
                let (before, after) = (u64::from_le_bytes(*before), u64::from_le_bytes(*after));
                result.words.push(WordChange { at, before, after });
            }
        }
        Ok(result)
    }

    /// Writes what a tuple becomes, `after`, as another one, to slots that it reserves. An image is written as a whole. Else the
    /// slots of long values that do not change belong to the new tuple then; the former one is as before, and leads to them,
    /// too.
    pub(crate) fn replace(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        (before, after): (RowRef<'_>, RowRef<'_>),
    ) -> Result<Replaced> {
        if self.is_image(after) || matches!(self.stored(heap, tuple)?, Stored::Image(_)) {
            let freed = self.slots(heap, tuple)?;
            let Inserted { tuple, slots } = self.insert(heap, after)?;
            return Ok(Replaced { tuple, activated: slots, freed });
        }
        let mut long = TupleChange::default();
        let written = self
            .plan(heap, tuple, &before.changes_to(after)?, &mut long)
            .and_then(|(_, after)| self.write_slot(heap, &after));
        if written.is_err() {
            cancel(heap, &long.activated)?;
        }
        let TupleChange { mut activated, mut freed, .. } = long;
        let written = written?;
        activated.push(written.any());
        freed.push(tuple.any());
        Ok(Replaced { tuple: written, activated, freed })
    }

    /// Writes the long values of a change, and returns the tuple's bytes before and after it.
    fn plan(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        changes: &[Change<'_>],
        result: &mut TupleChange,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let Stored::Fixed { tail, fixed } = self.stored(heap, tuple)? else {
            return Err(self.damaged("a tuple", "it is an image, where none is written"));
        };
        let mut before = vec![0; HEAD];
        before.extend_from_slice(&tail.to_le_bytes()[..self.fixed_at() - HEAD]);
        before.extend_from_slice(fixed);
        self.seal(&mut before);
        let mut after = before.clone();
        let mut long = Vec::new();
        for (number, &Change { column, value }) in changes.iter().enumerate() {
            // The last change of a column counts.
            if changes[number + 1..].iter().any(|later| later.column == column) {
                continue;
            }
            let Some(declared) = self.schema.columns().get(column) else {
                return Err(self.schema.no_column(column));
            };
            let value = declared.conform(value)?;
            if !self.schema.layout().places()[column].is_long {
                self.fixed_mut(&mut after).set(column, value)?;
                continue;
            }
            if let Field::Cell(word) = FixedRef::new(self.schema, fixed)?.field(column)?
                && let Cell::Own(slot) = Cell::of(word)
            {
                result.freed.push(slot.any());
            }
            match value {
                ValueRef::Text(text) => long.push((column, Some(text.as_bytes()))),
                ValueRef::Bytes(bytes) => long.push((column, Some(bytes))),
                _ => {
                    self.fixed_mut(&mut after).set(column, ValueRef::Null)?;
                    long.push((column, None));
                }
            }
        }
        if !long.is_empty() {
            self.plan_long(heap, &long, &mut after, result)?;
        }
        self.seal(&mut after);
        Ok((before, after))
    }

    /// Writes long values that change, with `None` for those that have become NULL.
    fn plan_long(
        self,
        heap: &mut Heap,
        changes: &[(usize, Option<&[u8]>)],
        after: &mut [u8],
        result: &mut TupleChange,
    ) -> Result<()> {
        let fixed_at = self.fixed_at();
        let word = after[HEAD..fixed_at].first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
        let bytes = if word == 0 { Vec::new() } else { self.tail(heap, word)?.to_vec() };
        let fixed = FixedRef::new(self.schema, &after[fixed_at..])?;
        let mut stay = Vec::new();
        let is_changed = |column| changes.iter().any(|&(changed, _)| changed == column);
        for &column in self.schema.layout().long().iter().filter(|&&column| !is_changed(column)) {
            if let Field::Cell(word) = fixed.field(column)?
                && let Cell::InTail(range) = Cell::of(word)
            {
                stay.push((column, bytes.get(range).ok_or_else(|| self.out_of_tail())?));
            }
        }
        let len = |values: &[(usize, &[u8])]| values.iter().map(|(_, long)| long.len()).sum();
        let values: Vec<_> =
            changes.iter().filter_map(|&(column, long)| Some((column, long?))).collect();
        let (changed, kept): (usize, usize) = (len(&values), len(&stay));
        let has_tail = values.len() > 1 && kept <= changed && HEAD + kept + changed <= TAIL_MAX;
        if word != 0 && (has_tail || stay.is_empty()) {
            result.freed.push(AnyPtr::from_word(word));
            after[HEAD..fixed_at].fill(0);
        }
        if has_tail {
            let all: Vec<_> = values.into_iter().chain(stay).collect();
            return self.write_tail(heap, &all, after, &mut result.activated);
        }
        self.write_each(heap, &values, after, &mut result.activated)
    }
}
