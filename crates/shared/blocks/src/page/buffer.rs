//! A page in DRAM.

use std::ops::Range;

use halite_pmem::LINE;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{DirtyLines, PageSize};

/// A page in DRAM that knows which of its lines were changed since it was last flushed.
///
/// It has all lines of its page, or, if it is [partial](Self::partial), only the written ones.
pub struct PageBuffer {
    page_size: PageSize,
    bytes: AlignedBytes,
    dirty: DirtyLines,
    is_whole: bool,
}

impl PageBuffer {
    /// A page that is all zeros, as a page is on the medium that was never flushed.
    #[must_use]
    pub fn new(page_size: PageSize) -> Self {
        let bytes = AlignedBytes::zeros(page_size.bytes());
        Self { page_size, bytes, dirty: DirtyLines::default(), is_whole: true }
    }

    /// A page of which no line was loaded.
    #[must_use]
    pub fn partial(page_size: PageSize) -> Self {
        Self { is_whole: false, ..Self::new(page_size) }
    }

    /// The size of the page.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// The bytes; of a partial page, only those of dirty lines are meaningful.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get()
    }

    /// Whether all lines are here.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The lines that were changed.
    #[must_use]
    pub fn dirty(&self) -> &DirtyLines {
        &self.dirty
    }

    /// Changes bytes, and marks their lines.
    ///
    /// # Panics
    /// If they do not fit; or if the page is partial, and they cover a line that is not dirty only in part:
    /// the rest of that line is unknown.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.bytes.get_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        let end = if len == 0 { at / LINE } else { (at + len).div_ceil(LINE) };
        for line in at / LINE..end {
            let is_covered = line * LINE >= at && (line + 1) * LINE <= at + len;
            let line = line as u32;
            assert!(
                self.is_whole || is_covered || self.dirty.contains(line),
                "line {line} of the partial page was not loaded"
            );
            self.dirty.insert(line);
        }
    }

    /// Marks lines as changed, with their bytes in the buffer; a partial page has them from now on.
    pub fn mark(&mut self, lines: &DirtyLines) {
        self.dirty.insert_all(lines, self.page_size);
    }

    /// Notes that everything is on the medium.
    pub(super) fn was_flushed(&mut self) {
        self.dirty = DirtyLines::default();
    }

    /// Makes the page whole and clean, with bytes that `load` stores.
    pub(super) fn load(&mut self, load: impl FnOnce(&mut [u8])) {
        load(self.bytes.get_mut());
        self.dirty = DirtyLines::default();
        self.is_whole = true;
    }

    /// Makes the page whole, with the bytes of `old` for the lines that are not dirty; its dirty lines stay
    /// the same.
    pub(super) fn complete(&mut self, old: &[u8]) {
        let mut at = 0;
        for run in self.dirty.runs().map(bytes_of) {
            self.bytes.get_mut()[at..run.start].copy_from_slice(&old[at..run.start]);
            at = run.end;
        }
        self.bytes.get_mut()[at..].copy_from_slice(&old[at..]);
        self.is_whole = true;
    }
}

/// The bytes of a run of lines.
pub(super) fn bytes_of(run: Range<u32>) -> Range<usize> {
    run.start as usize * LINE as usize..run.end as usize * LINE as usize
}

/// Bytes that begin at a line's boundary, so that no load of a line touches two.
pub(super) struct AlignedBytes(Vec<Line>);

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u8; LINE as usize]);

impl AlignedBytes {
    /// Returns so many bytes of zeros, rounded up to lines.
    pub(super) fn zeros(len: u64) -> Self {
        Self(vec![Line::new_zeroed(); len.div_ceil(LINE) as usize])
    }

    pub(super) fn get(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> PageSize {
        PageSize::new(4096).unwrap()
    }

    #[test]
    fn a_write_marks_every_line_that_it_touches() {
        for (at, len, lines) in [(0, 1, 0..1), (63, 2, 0..2), (64, 64, 1..2), (100, 200, 1..5)] {
            let mut page = PageBuffer::new(size());
            page.write(at, &vec![7; len]);
            assert_eq!(page.dirty().runs().collect::<Vec<_>>(), vec![lines]);
            assert_eq!(page.bytes()[at as usize..][..len], vec![7; len]);
        }
        let mut page = PageBuffer::new(size());
        page.write(5, &[]);
        assert!(page.dirty().is_empty());
    }

    #[test]
    fn a_partial_page_takes_whole_lines_and_changes_of_these() {
        let mut page = PageBuffer::partial(size());
        page.write(64, &[1; 64]);
        page.write(70, &[2; 3]);
        let torn = std::panic::catch_unwind(move || page.write(130, &[3; 3]));
        assert!(torn.is_err());
    }

    #[test]
    fn a_completed_page_keeps_its_changes() {
        let mut page = PageBuffer::partial(size());
        page.write(64, &[1; 64]);
        page.write(4032, &[2; 64]);
        page.complete(&[9; 4096]);
        assert!(page.is_whole() && page.dirty().count() == 2);
        assert!(page.bytes()[..64].iter().all(|&byte| byte == 9));
        assert!(page.bytes()[64..128].iter().all(|&byte| byte == 1));
        assert!(page.bytes()[128..4032].iter().all(|&byte| byte == 9));
        assert!(page.bytes()[4032..].iter().all(|&byte| byte == 2));
    }
}
