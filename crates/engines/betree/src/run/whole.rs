//! Whether the bytes of a whole extent of a run are right: for a scrub, which reads all of a replica.
//!
//! A part or a piece of the directory has a checksum; what lies behind the last one of them in an extent is zero. The
//! directory is either whole in the last extent, behind the last parts, or has extents of its own. So an extent of it is
//! checked by its own bytes and the pointer; the others are checked by the directory, which is read for that. Of an extent
//! that is written in steps, a run has a part alone: what is beside that is other runs', or of none.

use super::directory::{Directory, PartPlace};
use super::reader::Run;

impl Run {
    /// The numbers of the run's extents in the order in which a scrub goes through them: those of the directory come
    /// first, because reading it would repair them.
    pub(crate) fn scrub_order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) =
            (self.pointer().directory_extent as usize, self.pointer().extents.len());
        (first..count).chain(0..first)
    }

    /// Whether these are all bytes of an extent as they were written.
    pub(crate) fn is_extent_whole(&self, extent: usize, bytes: &[u8]) -> bool {
        let pointer = self.pointer();
        if extent < pointer.directory_extent as usize {
            let directory = self.directory();
            return directory
                .is_ok_and(|directory| self.are_parts_whole(&directory, extent, bytes, None));
        }
        let Some(piece) = pointer.directory_pieces().find(|piece| piece.extent == extent) else {
            return false;
        };
        let Some(of_directory) = bytes.get(piece.at..piece.at + piece.len) else { return false };
        if self.seed(extent, piece.at).checksum(of_directory) != piece.checksum {
            return false;
        }
        let range = Some((piece.at, piece.at + piece.len));
        if piece.len as u64 != pointer.directory_len {
            // It shares no extent with parts.
            return piece.at == 0 && (pointer.base.is_some() || is_zero(&bytes[piece.len..]));
        }
        let directory = Directory::decode(of_directory, pointer);
        directory.is_ok_and(|directory| self.are_parts_whole(&directory, extent, bytes, range))
    }

    /// Whether the parts in an extent have their checksums, and there is nothing beside them and the directory.
    fn are_parts_whole(
        &self,
        directory: &Directory,
        extent: usize,
        bytes: &[u8],
        of_directory: Option<(usize, usize)>,
    ) -> bool {
        let base = self.pointer().base;
        let mut end = if extent == 0 { base.unwrap_or_default() as usize } else { 0 };
        let here = |place: &&PartPlace| place.extent as usize == extent;
        for place in directory.parts.iter().filter(here) {
            let at = place.at as usize;
            let is_right = end <= at
                && bytes.get(end..at).is_some_and(is_zero)
                && bytes.get(at..place.end()).is_some_and(|stored| self.is_whole(place, stored));
            if !is_right {
                return false;
            }
            end = place.end();
        }
        let (at, behind) = of_directory.unwrap_or((end, end));
        let is_between_zero = end <= at && bytes.get(end..at).is_some_and(is_zero);
        is_between_zero && (base.is_some() || is_zero(&bytes[behind..]))
    }
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
