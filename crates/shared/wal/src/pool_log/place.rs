//! Where a batch lies, so that the records in it are read in place.

/// The place of a batch's payload: one range of a segment, unless the batch is longer than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of its first segment.
    pub segment: u32,
    /// The offset of its first frame there.
    pub(super) at: u32,
    /// Bytes of the payload.
    pub len: u32,
}

/// A part of a payload, in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The segment's number.
    pub segment: u32,
    /// The offset in it.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

impl Place {
    /// The parts of the payload, in order, in a log whose segments have so many bytes.
    pub(super) fn pieces(self, segment_bytes: usize) -> impl Iterator<Item = Piece> {
        let pieces = super::cut::pieces(segment_bytes, self.at as usize, self.len as usize);
        (self.segment..).zip(pieces).map(|(segment, (at, len))| Piece {
            segment,
            at: at as u64,
            len: len as u64,
        })
    }
}
