//! Writing a whole page to a slot: the first half of copy-on-write.

use halite_pmem::LINE;

use super::PageBuffer;
use super::buffer::{AlignedBytes, bytes_of};
use super::ground::Ground;
use super::slots::Spare;
use crate::Result;

/// Lines of an older version that are newer than its slot: neither the page buffers nor the slot have them
/// yet.
pub(super) trait Overlay {
    /// Puts its lines over `bytes`, which begin at byte `at` of the page.
    fn put_over(&self, at: usize, bytes: &mut [u8]);
}

impl Overlay for () {
    fn put_over(&self, _: usize, _: &mut [u8]) {}
}

/// The buffer in which a page is assembled: small enough to stay in the first-level cache, and the stretch
/// that the processor prefetches by itself.
const PART: usize = 4096;

/// Writes pages to slots.
pub(super) struct Copier {
    part: AlignedBytes,
}

impl Copier {
    pub(super) fn new() -> Self {
        Self { part: AlignedBytes::zeros(PART as u64) }
    }

    /// Writes a page to the slot `to`, and waits (Listing 1, lines 2-3). Of a partial page, the lines
    /// that are not dirty come from the slot `from` with an overlay, or are zero if there is none. One
    /// fence; all lines of the page.
    ///
    /// While the page is on its way, the processor looks up where the page after it goes: with a tmpfs of
    /// 4 KiB pages of memory, these walks would take a seventh of the next copy of 16 KiB.
    pub(super) fn copy(
        &mut self,
        ground: &mut Ground,
        buffer: &PageBuffer,
        from: Option<u32>,
        overlay: &impl Overlay,
        to: Spare,
    ) -> Result<()> {
        let (to, after) = (ground.slot_at(to.slot), ground.places(to.after));
        if buffer.is_whole() {
            ground.space.persist_stream(|stream| {
                stream.write(to, buffer.bytes());
                after.for_each(|at| stream.prefetch(at));
            })?;
            return Ok(());
        }
        let from = from.map(|from| ground.slot_at(from));
        let part = self.part.get_mut();
        let page_len = buffer.bytes().len();
        let mut runs = buffer.dirty().runs().map(bytes_of).peekable();
        ground.space.persist_stream(|stream| {
            for at in (0..page_len).step_by(PART) {
                match from {
                    Some(from) => {
                        stream.read_to(from + at as u64, part);
                        overlay.put_over(at, part);
                    }
                    None => part.fill(0),
                }
                while let Some(run) = runs.next_if(|run| run.end <= at + PART) {
                    put(part, at, &run, &buffer.bytes()[run.clone()]);
                }
                if let Some(run) = runs.peek() {
                    put(part, at, run, &buffer.bytes()[run.clone()]);
                }
                stream.write(to + at as u64, part);
            }
            after.for_each(|at| stream.prefetch(at));
        })?;
        Ok(())
    }
}

/// Copies the common part of `bytes`, the bytes `run` of a page, and `part`, which begins at `at` of the
/// page, to `part`.
pub(super) fn put(part: &mut [u8], at: usize, run: &std::ops::Range<usize>, bytes: &[u8]) {
    let start = run.start.max(at);
    let end = run.end.min(at + part.len());
    if start < end {
        part[start - at..end - at].copy_from_slice(&bytes[start - run.start..end - run.start]);
    }
}

const _: () =
    assert!(PART as u64 <= super::PageSize::MIN_BYTES && (PART as u64).is_multiple_of(LINE));
