//! Large values, in blocks of their own.
//!
//! A value that is not inline is cut into pieces, each in a run of blocks of one segment, written
//! once and fenced before the record that refers to them (Fig. 5.10). The map does not know them: a
//! block is part of a value if a live record says so.

use halite_alloc::Device;
use halite_engine::{Error, Result};
use halite_pmem::locks::RwLock;
use halite_pmem::{Flushed, Fresh, Pool};

use crate::BLOCK;
use crate::blocks::Blocks;
use crate::log::claim;
use crate::read::{Readable, View};
use crate::record::{PIECES_MAX, Piece};

/// Pieces that are written and not yet fenced.
#[derive(Default)]
pub(crate) struct Unfenced {
    pieces: Vec<(u32, Fresh, Flushed)>,
}

/// Blocks that a value takes.
pub(crate) fn block_count(value_len: usize) -> u64 {
    (value_len as u64).div_ceil(BLOCK)
}

impl Unfenced {
    /// Writes a value for record `seq` into free blocks, of which there are enough.
    ///
    /// # Errors
    /// `None` if the free blocks are too scattered; what the pool reports.
    pub(crate) fn write(
        &mut self,
        device: &Device,
        blocks: &mut Blocks,
        value: &[u8],
        salt: u64,
        seq: u64,
    ) -> std::result::Result<Vec<Piece>, Option<Error>> {
        let (mut rest, mut pieces) = (value, Vec::new());
        while !rest.is_empty() {
            let run = blocks.take_run(block_count(rest.len()).min(u64::from(u32::MAX)) as u32);
            let Some((block, count)) = run else { return Err(None) };
            let (bytes, behind) =
                rest.split_at(rest.len().min((u64::from(count) * BLOCK) as usize));
            let claimed = if pieces.len() < PIECES_MAX {
                claim(device, block, bytes.len() as u64).map_err(Some)
            } else {
                Err(None)
            };
            let mut fresh = claimed.inspect_err(|_| {
                (block..block + count).for_each(|block| blocks.free(block));
            })?;
            let flushed = fresh.write_stream(0, bytes);
            blocks.born(block, bytes.len() as u64);
            pieces.push(Piece::new(block, bytes, salt, seq));
            self.pieces.push((block, fresh, flushed));
            rest = behind;
        }
        Ok(pieces)
    }

    /// Waits until all pieces are durable, and lets readers see them. One fence.
    pub(crate) fn publish(self, pool: &Pool, view: &RwLock<View>) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let (mut places, mut flushed) = (Vec::new(), Vec::new());
        for (block, fresh, token) in self.pieces {
            places.push((block, fresh));
            flushed.push(token);
        }
        let proofs = pool.fence_all(&flushed)?;
        let mut view = view.write();
        for ((block, fresh), proof) in places.into_iter().zip(&proofs) {
            view.set_block(block, Readable { published: fresh.publish(proof), seed: None });
        }
        Ok(())
    }

    /// Gives the blocks of all pieces back.
    pub(crate) fn discard(self, blocks: &mut Blocks) {
        for (block, fresh, _) in self.pieces {
            let len = fresh.len();
            drop(fresh);
            blocks.died(block, len);
            (block..block + block_count(len as usize) as u32).for_each(|block| blocks.free(block));
        }
    }
}
