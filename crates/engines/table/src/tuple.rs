//! Tuples in a heap (Arulraj, "InP – Storage": fixed-size and variable-length slots).
//!
//! ```text
//! tuple:       check u32 | zero u32 | tail | fixed part of the row (`schema/layout.rs`)
//!              tail: a pointer, or zero; only of tables with more than one long column. Cell of a long column: a pointer, or 1 << 63 | length << 32 | offset in the tail
//! image:       check u32 | len u32  | image of the row (`row/`)
//! long value:  len u32 | check u32 | bytes of a column, or of a tail: of some columns, one behind another
//! ```
//!
//! The checks are seeded with the seed of the store and the column, so that a reader notices bytes that were damaged, or
//! are of another column (`stored.rs`).
//!
//! Methods that write a row anew for each change have its **image** in one slot ([`Form::Image`]): there is one slot to reserve,
//! to activate and to free, and one to read. Methods that change columns in their places have slots for long values, whose
//! bytes they do not have to log. Values that are written together share a slot, the **tail**; one that changes alone gets a
//! slot of its own, and leaves its bytes in the tail until that is written again (`change.rs`).
//!
//! Costs: reading a tuple is a load, one for its tail, and one for each value with a slot of its own; a change of a column of
//! up to 8 bytes stores two words, its own and the check.

mod change;
mod stored;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner, Tag, Tagged};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) use self::change::WordChange;
use self::stored::{Cell, FIXED_PLACE, HEAD, IMAGE_PLACE, Stored, TAIL_PLACE, in_tail};
use crate::{Error, Field, FixedMut, FixedRef, Result, Row, RowRef, TableSchema};

/// The slot of a tuple.
#[derive(Debug)]
pub(crate) enum Tuple {}

/// The slot of a long value, or of a tail.
#[derive(Debug)]
enum LongValue {}

impl Tagged for Tuple {
    const TAG: Tag = Tag::new(1);
}

impl Tagged for LongValue {
    const TAG: Tag = Tag::new(2);
}

/// Bytes of a slot with an image at most: of a longer row, a small change writes less if long values have slots of their own.
const IMAGE_MAX: usize = 1536;

/// Bytes of a slot with a tail at most: longer slots take whole chunks.
const TAIL_MAX: usize = 32_704;

/// Bytes of each long value that are fetched together; the processor sees that more are read.
const PREFETCHED: u64 = 128;

/// The form of the tuples that a method writes; it reads either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A slot for the fixed part, and others for long values.
    Slots,
    /// One slot, unless it would be too long.
    Image,
}

/// The tuples of one table.
#[derive(Clone, Copy)]
pub(crate) struct Tuples<'a> {
    pub(crate) schema: &'a TableSchema,
    /// The owner of the slots.
    pub(crate) owner: Owner,
    /// The seed of the checks.
    pub(crate) seed: u64,
    /// The form of new ones.
    pub(crate) form: Form,
}

/// A tuple that was written to slots that are reserved.
#[derive(Debug)]
pub(crate) struct Inserted {
    pub(crate) tuple: NvPtr<Tuple>,
    /// All its slots, to be activated.
    pub(crate) slots: Vec<AnyPtr>,
}

impl<'a> Tuples<'a> {
    fn check(self, place: u64, bytes: &[u8]) -> u32 {
        xxh3_64_with_seed(bytes, self.seed ^ place) as u32
    }

    fn damaged(self, what: &str, why: &str) -> Error {
        Error::damaged(format!("{what} of table {:?}", self.schema.name()), why)
    }

    /// Writes a row to slots that it reserves. Nothing is durable, and a crash forgets it.
    pub(crate) fn insert(self, heap: &mut Heap, row: RowRef<'_>) -> Result<Inserted> {
        let mut slots = Vec::new();
        let written = self.write(heap, row, &mut slots);
        if written.is_err() {
            cancel(heap, &slots)?;
        }
        Ok(Inserted { tuple: written?, slots })
    }

    fn write(
        self,
        heap: &mut Heap,
        row: RowRef<'_>,
        slots: &mut Vec<AnyPtr>,
    ) -> Result<NvPtr<Tuple>> {
        let mut bytes = vec![0; self.fixed_at()];
        if self.is_image(row) {
            bytes.truncate(HEAD);
            bytes.extend_from_slice(row.bytes());
            let check = self.check(IMAGE_PLACE, row.bytes());
            bytes[..4].copy_from_slice(&check.to_le_bytes());
            bytes[4..8].copy_from_slice(&(row.bytes().len() as u32).to_le_bytes());
        } else {
            bytes.extend_from_slice(row.fixed().bytes());
            let mut values = Vec::new();
            for &column in self.schema.layout().long() {
                if let Some(long) = row.long_bytes(column)? {
                    values.push((column, long));
                }
            }
            match shares(values.iter().map(|(_, long)| long.len())) {
                true => self.write_tail(heap, &values, &mut bytes, slots)?,
                false => self.write_each(heap, &values, &mut bytes, slots)?,
            }
            self.seal(&mut bytes);
        }
        let tuple = self.write_slot(heap, &bytes)?;
        slots.push(tuple.any());
        Ok(tuple)
    }

    /// Whether a row is written as an image.
    fn is_image(self, row: RowRef<'_>) -> bool {
        self.form == Form::Image && HEAD + row.bytes().len() <= IMAGE_MAX
    }

    /// Writes the bytes of a tuple to a slot that it reserves.
    fn write_slot(self, heap: &mut Heap, bytes: &[u8]) -> Result<NvPtr<Tuple>> {
        let tuple = heap.reserve::<Tuple>(self.owner, bytes.len() as u64)?;
        heap.write(tuple, 0, bytes)?;
        Ok(tuple)
    }

    /// Writes long values to a tail, which a tuple has then.
    fn write_tail(
        self,
        heap: &mut Heap,
        values: &[(usize, &[u8])],
        tuple: &mut [u8],
        slots: &mut Vec<AnyPtr>,
    ) -> Result<()> {
        let mut tail = Vec::with_capacity(values.iter().map(|(_, long)| long.len()).sum());
        for &(column, long) in values {
            self.fixed_mut(tuple).set_cell(column, in_tail(tail.len(), long.len()));
            tail.extend_from_slice(long);
        }
        let word = self.write_long(heap, TAIL_PLACE, &tail, slots)?;
        tuple[HEAD..self.fixed_at()].copy_from_slice(&word.to_le_bytes());
        Ok(())
    }

    /// Writes long values to slots of their own.
    fn write_each(
        self,
        heap: &mut Heap,
        values: &[(usize, &[u8])],
        tuple: &mut [u8],
        slots: &mut Vec<AnyPtr>,
    ) -> Result<()> {
        for &(column, long) in values {
            let word = self.write_long(heap, column as u64, long, slots)?;
            self.fixed_mut(tuple).set_cell(column, word);
        }
        Ok(())
    }

    fn write_long(
        self,
        heap: &mut Heap,
        place: u64,
        bytes: &[u8],
        slots: &mut Vec<AnyPtr>,
    ) -> Result<u64> {
        let slot = heap.reserve::<LongValue>(self.owner, (HEAD + bytes.len()) as u64)?;
        slots.push(slot.any());
        let mut stored = Vec::with_capacity(HEAD + bytes.len());
        stored.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        stored.extend_from_slice(&self.check(place, bytes).to_le_bytes());
        stored.extend_from_slice(bytes);
        heap.write(slot, 0, &stored)?;
        Ok(slot.word())
    }

    fn fixed_mut<'t>(self, tuple: &'t mut [u8]) -> FixedMut<'t>
    where
        'a: 't,
    {
        FixedMut::new(self.schema, &mut tuple[self.fixed_at()..])
    }

    /// Writes the check of a tuple before it.
    fn seal(self, bytes: &mut [u8]) {
        let check = self.check(FIXED_PLACE, &bytes[HEAD..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
    }

    /// The row of a tuple.
    pub(crate) fn row(self, heap: &Heap, tuple: NvPtr<Tuple>) -> Result<Row> {
        let (tail, fixed) = match self.stored(heap, tuple)? {
            Stored::Image(image) => return Row::of_image(self.schema, image.to_vec()),
            Stored::Fixed { tail, fixed } => (tail, fixed),
        };
        self.prefetch_long(heap, FixedRef::new(self.schema, fixed)?)?;
        let tail = self.tail(heap, tail)?;
        Row::assemble(self.schema, fixed, |column, word| match Cell::of(word) {
            Cell::Own(slot) => self.long(heap, column as u64, slot),
            Cell::InTail(range) => tail.get(range).ok_or_else(|| self.out_of_tail()),
        })
    }

    /// Has all long values fetched, about to be read.
    fn prefetch_long(self, heap: &Heap, fixed: FixedRef<'_>) -> Result<()> {
        let long = self.schema.layout().long();
        // One alone is about to be read anyway.
        for &column in if long.len() > 1 { long } else { &[] } {
            if let Field::Cell(word) = fixed.field(column)?
                && let Cell::Own(slot) = Cell::of(word)
            {
                heap.prefetch(slot, PREFETCHED);
            }
        }
        Ok(())
    }

    /// All slots of a tuple, its own last.
    pub(crate) fn slots(self, heap: &Heap, tuple: NvPtr<Tuple>) -> Result<Vec<AnyPtr>> {
        let mut slots = Vec::new();
        if let Stored::Fixed { tail, fixed } = self.stored(heap, tuple)? {
            slots.extend((tail != 0).then(|| AnyPtr::from_word(tail)));
            let fixed = FixedRef::new(self.schema, fixed)?;
            for &column in self.schema.layout().long() {
                if let Field::Cell(word) = fixed.field(column)?
                    && let Cell::Own(slot) = Cell::of(word)
                {
                    slots.push(slot.any());
                }
            }
        }
        slots.push(tuple.any());
        Ok(slots)
    }
}

/// Whether long values of these lengths share a tail.
fn shares(lens: impl ExactSizeIterator<Item = usize>) -> bool {
    lens.len() > 1 && HEAD + lens.sum::<usize>() <= TAIL_MAX
}

/// Gives up slots that are reserved.
pub(crate) fn cancel(heap: &mut Heap, slots: &[AnyPtr]) -> Result<()> {
    for &slot in slots {
        heap.cancel(slot)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
