//! The DRAM state of a sorted set whose order is stored: how many members it has, and how far the order reaches.
//!
//! An engine with levels keeps a tombstone of each removed record until a merge drops it. Queues remove at one end of the
//! order, so that each scan from there would pass all tombstones that earlier ones have passed. The ends are where the last
//! scans found records: the next ones begin there.

/// The number of members, and the ends of the order, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct OrderEnds {
    /// The number of members, if they were counted.
    pub(crate) count: Option<u64>,
    /// No record of the order is before this element.
    first: Vec<u8>,
    /// No record of the order is behind this element; `None`: that is not known.
    last: Option<Vec<u8>>,
}

impl OrderEnds {
    /// Of an order with so many members.
    pub(crate) fn counted(count: u64) -> Self {
        Self { count: Some(count), ..Self::default() }
    }

    /// No record of the order is before this element.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// No record of the order is behind this element.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// A scan has found the first record here.
    pub(crate) fn note_first(&mut self, element: &[u8]) {
        self.first.clear();
        self.first.extend_from_slice(element);
    }

    /// A scan has found the last record here.
    pub(crate) fn note_last(&mut self, element: &[u8]) {
        self.last = Some(element.to_vec());
    }

    /// A record was put.
    pub(crate) fn note_put(&mut self, element: &[u8]) {
        if element < &self.first[..] {
            self.note_first(element);
        }
        if self.last.as_deref().is_some_and(|last| element > last) {
            self.note_last(element);
        }
    }

    /// Members came, or have gone.
    pub(crate) fn grow(&mut self, by: i64) {
        if let Some(count) = &mut self.count {
            *count = count.saturating_add_signed(by);
        }
    }

    /// Bytes of memory that it takes beside its own.
    pub(crate) fn bytes(&self) -> usize {
        self.first.capacity() + self.last.as_ref().map_or(0, Vec::capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_lies_outside_of_the_ends() {
        let mut ends = OrderEnds::default();
        ends.note_put(b"m");
        assert_eq!((ends.first(), ends.last()), (&b""[..], None));
        ends.note_first(b"k");
        ends.note_last(b"p");
        for (put, first, last) in [(b"l", b"k", b"p"), (b"b", b"b", b"p"), (b"x", b"b", b"x")] {
            ends.note_put(put);
            assert_eq!((ends.first(), ends.last()), (&first[..], Some(&last[..])));
        }
    }
}
