//! Lines composed in DRAM, then stored past the cache.

use std::ops::Range;

use halite_pmem::Fresh;

use crate::Result;

/// How much is composed at a time, in bytes.
pub(super) const CHUNK: usize = 4096;

/// The place where lines are composed, aligned as they will be.
pub struct Staging(Box<Chunk>);

#[repr(align(64))]
struct Chunk([u8; CHUNK]);

impl Default for Staging {
    fn default() -> Self {
        Self(Box::new(Chunk([0; CHUNK])))
    }
}

impl Staging {
    /// Stores `header`, `entry` behind it and zeros up to `footprint` bytes at `at`, and waits until
    /// they are durable. One fence.
    #[inline]
    #[track_caller]
    pub(super) fn persist(
        &mut self,
        space: &mut Fresh,
        (at, footprint): (u64, u64),
        header: &[u8],
        entry: &[u8],
    ) -> Result<()> {
        let chunk = &mut self.0.0;
        let persisted = space.persist_stream(|streaming| {
            let (first, mut rest) = entry.split_at(entry.len().min(CHUNK - header.len()));
            let mut filled = header.len() + first.len();
            chunk[..header.len()].copy_from_slice(header);
            chunk[header.len()..filled].copy_from_slice(first);
            let mut to = at;
            while !rest.is_empty() {
                streaming.write(to, chunk);
                to += CHUNK as u64;
                let (next, behind) = rest.split_at(rest.len().min(CHUNK));
                (filled, rest) = (next.len(), behind);
                chunk[..filled].copy_from_slice(next);
            }
            let end = (footprint - (to - at)) as usize;
            chunk[filled..end].fill(0);
            streaming.write(to, &chunk[..end]);
        });
        Ok(persisted?)
    }

    /// Where words may be composed.
    pub(super) fn bytes(&mut self) -> &mut [u8; CHUNK] {
        &mut self.0.0
    }
}

/// Stores `word` all over `range`, past the cache, and waits until that is durable. One fence.
pub(super) fn fill(space: &mut Fresh, range: Range<u64>, word: u64) -> Result<()> {
    let mut chunk = Staging::default();
    for bytes in chunk.0.0.as_chunks_mut::<8>().0 {
        *bytes = word.to_le_bytes();
    }
    space.persist_stream(|streaming| {
        for at in range.clone().step_by(CHUNK) {
            let len = (range.end - at).min(CHUNK as u64) as usize;
            streaming.write(at, &chunk.0.0[..len]);
        }
    })?;
    Ok(())
}
