//! A leaf in the memory of the process: for tests, and for data that may be lost.

use halite_pmem::Pinned;
use halite_sim::Site;
use halite_sim::locks::RwLock;

use super::{LABEL_AREA, Leaf, check, check_label};
use crate::{BLOCK, Error, Extent, Result, SEGMENT_BLOCKS};

/// Blocks that live behind one lock, zero where they were never written.
type Segment = RwLock<Vec<u8>>;

/// Blocks in memory, lost with it.
pub struct MemoryLeaf {
    name: String,
    blocks_max: u64,
    labels: RwLock<Vec<u8>>,
    segments: RwLock<Vec<Segment>>,
}

impl MemoryLeaf {
    /// No blocks, and room for so many; `what` tells it from others in messages.
    #[must_use]
    pub fn new(what: &str, blocks_max: u64) -> Self {
        Self {
            name: format!("memory:{what}"),
            blocks_max,
            labels: RwLock::new(vec![0; LABEL_AREA]),
            segments: RwLock::default(),
        }
    }

    fn store(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<()> {
        check(self, run, at, bytes.len())?;
        let segments = self.segments.read();
        let start = (run.block % SEGMENT_BLOCKS) as usize * BLOCK + at;
        let mut segment = segments[(run.block / SEGMENT_BLOCKS) as usize].write();
        segment[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Leaf for MemoryLeaf {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_memory(&self) -> bool {
        true
    }

    fn blocks(&self) -> u64 {
        (self.segments.read().len() as u64 * SEGMENT_BLOCKS).min(self.blocks_max)
    }

    fn blocks_max(&self) -> u64 {
        self.blocks_max
    }

    fn grow_to(&self, blocks: u64) -> Result<()> {
        if blocks > self.blocks_max {
            let why = format!("its capacity is {} blocks", self.blocks_max);
            return Err(Error::NoSpace { leaf: self.name.clone(), blocks, why });
        }
        let mut segments = self.segments.write();
        let wanted = blocks.div_ceil(SEGMENT_BLOCKS) as usize;
        while segments.len() < wanted {
            segments.push(RwLock::new(vec![0; SEGMENT_BLOCKS as usize * BLOCK]));
        }
        Ok(())
    }

    fn write(&self, run: Extent, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), run.byte_len(), "a run is written whole");
        self.store(run, 0, bytes)
    }

    fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()> {
        check(self, run, at, to.len())?;
        let segments = self.segments.read();
        let start = (run.block % SEGMENT_BLOCKS) as usize * BLOCK + at;
        let segment = segments[(run.block / SEGMENT_BLOCKS) as usize].read();
        to.copy_from_slice(&segment[start..start + to.len()]);
        Ok(())
    }

    fn patch(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        self.store(run, at, bytes).map(|()| true)
    }

    fn adopt(&self, _: Extent) -> Result<()> {
        Ok(())
    }

    fn free(&self, _: Extent) -> bool {
        true
    }

    fn pin(&self, _: Extent, _: usize, _: usize) -> Result<Option<Pinned>> {
        Ok(None)
    }

    fn sync(&self, _: Site) -> Result<()> {
        Ok(())
    }

    fn read_label(&self, at: usize, to: &mut [u8]) -> Result<()> {
        check_label(at, to.len());
        to.copy_from_slice(&self.labels.read()[at..at + to.len()]);
        Ok(())
    }

    fn write_label(&self, at: usize, bytes: &[u8]) -> Result<()> {
        check_label(at, bytes.len());
        self.labels.write()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
