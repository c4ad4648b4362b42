//! Entries stored past the cache, by way of DRAM where they share lines with others.

use std::ops::Range;

use halite_pmem::{Fresh, LINE};

use crate::Result;

/// How much is composed at a time, in bytes.
pub(super) const CHUNK: usize = 4096;

/// Up to here, computing a header takes less than storing in two parts, in bytes.
const TOGETHER_MAX: u64 = 4 * LINE;

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
    /// Stores a header, `entry` behind it and zeros up to `footprint` bytes at `at`, and waits until
    /// they are durable. One fence.
    ///
    /// An entry of whole lines is stored in place ([`Fresh::persist_entry`]). Of another one, up to
    /// [`TOGETHER_MAX`] bytes are composed and stored at once; of a longer one, the first line is stored
    /// last, and only then is `header` called: it computes the sum while the lines behind are on their way.
    #[inline]
    #[track_caller]
    pub(super) fn persist<const N: usize>(
        &mut self,
        space: &mut Fresh,
        (at, footprint): (u64, u64),
        entry: &[u8],
        header: impl FnOnce() -> [u8; N],
    ) -> Result<()> {
        if at.is_multiple_of(LINE) && footprint.is_multiple_of(LINE) {
            let persisted = space.persist_entry(at, entry, header);
            return Ok(persisted?);
        }
        self.persist_packed(space, (at, footprint), entry, header)
    }

    /// Persists as [`Staging::persist`], for an entry that shares lines with others.
    #[inline(never)]
    #[track_caller]
    fn persist_packed<const N: usize>(
        &mut self,
        space: &mut Fresh,
        (at, footprint): (u64, u64),
        entry: &[u8],
        header: impl FnOnce() -> [u8; N],
    ) -> Result<()> {
        let chunk = &mut self.0.0;
        let first = match footprint {
            ..=TOGETHER_MAX => footprint as usize,
            _ => ((at + N as u64).next_multiple_of(LINE) - at) as usize,
        };
        let persisted = space.persist_stream(|streaming| {
            let (beginning, mut rest) = entry.split_at(entry.len().min(first - N));
            let (mut to, end) = (at + first as u64, at + footprint);
            while to < end {
                let len = (end - to).min(CHUNK as u64) as usize;
                let (now, behind) = rest.split_at(rest.len().min(len));
                compose(&mut chunk[..len], now);
                streaming.write(to, &chunk[..len]);
                (to, rest) = (to + len as u64, behind);
            }
            compose(&mut chunk[N..first], beginning);
            chunk[..N].copy_from_slice(&header());
            streaming.write(at, &chunk[..first]);
        });
        Ok(persisted?)
    }

    /// Returns the buffer in which words may be composed.
    pub(super) fn bytes(&mut self) -> &mut [u8; CHUNK] {
        &mut self.0.0
    }
}

/// Makes `to` the bytes of `from`, and zeros.
#[inline]
fn compose(to: &mut [u8], from: &[u8]) {
    let (bytes, padding) = to.split_at_mut(from.len());
    bytes.copy_from_slice(from);
    padding.fill(0);
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
