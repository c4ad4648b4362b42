//! Bloom filters: which keys an immutable memtable may have, in 9.95 bits each (Bloom, 1970).
//!
//! ```text
//! block:  4064 bits | check u32         512 bytes, for 412 keys; the check is seeded with the slot's word and the number
//! slot:   up to 3968 blocks             a filter has as many slots as it needs
//! ```
//!
//! All seven bits of a key are in one block, so that a lookup reads and checks that, and no more; opening reads none. Blocks
//! are long enough that their numbers of keys hardly differ: of keys that are not there, 0.9 % pass.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner, Publication, SLOT_LEN_MAX, Tag, Tagged};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use crate::component::Component;
use crate::tuple::cancel;
use crate::{Error, Result};

/// Bytes of a block, and of the bits before its check.
const BLOCK: usize = 512;
const BITMAP: usize = BLOCK - 4;

/// Keys of a block, in the mean.
const KEYS: usize = 412;

/// Bits that a key sets.
const PROBES: u32 = 7;

/// Blocks of a slot.
const SLOT_BLOCKS: usize = SLOT_LEN_MAX as usize / BLOCK;

/// A slot with blocks.
#[derive(Debug)]
pub(super) enum FilterSlot {}

impl Tagged for FilterSlot {
    const TAG: Tag = Tag::new(22);
}

/// A filter.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    blocks: usize,
    slots: Vec<NvPtr<FilterSlot>>,
}

/// The hash of a key that filters are asked for.
pub(super) fn hash(heap: &Heap, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, heap.salt())
}

/// The block that has a key.
fn block_of(hash: u64, blocks: usize) -> usize {
    ((u128::from(hash) * blocks as u128) >> 64) as usize
}

/// The bits of a key in its block.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let bits = xxh3_128(&hash.to_le_bytes());
    (0..PROBES).map(move |probe| {
        let part = (bits >> (16 * probe)) as u16;
        (usize::from(part) * (BITMAP * 8)) >> 16
    })
}

fn check(heap: &Heap, slot: NvPtr<FilterSlot>, number: usize, bitmap: &[u8]) -> [u8; 4] {
    let seed = heap.salt() ^ slot.word() ^ (number as u64) << 48;
    (xxh3_64_with_seed(bitmap, seed) as u32).to_le_bytes()
}

impl Filter {
    /// Writes a filter of keys with these hashes to slots that it reserves, and has the publication activate them.
    pub(super) fn write(
        heap: &mut Heap,
        owner: Owner,
        hashes: &[u64],
        publication: &mut Publication,
    ) -> Result<Self> {
        let blocks = hashes.len().div_ceil(KEYS).max(1);
        let mut bytes = vec![0; blocks * BLOCK];
        for &hash in hashes {
            let block = &mut bytes[block_of(hash, blocks) * BLOCK..][..BITMAP];
            bits(hash).for_each(|bit| block[bit / 8] |= 1 << (bit % 8));
        }
        let mut filter = Self { blocks, slots: Vec::new() };
        for part in bytes.chunks_mut(SLOT_BLOCKS * BLOCK) {
            if let Err(error) = filter.write_slot(heap, owner, part) {
                cancel(heap, &filter.slots().collect::<Vec<_>>())?;
                return Err(error);
            }
        }
        filter.slots.iter().for_each(|&slot| publication.activate(slot));
        Ok(filter)
    }

    fn write_slot(&mut self, heap: &mut Heap, owner: Owner, part: &mut [u8]) -> Result<()> {
        let slot = heap.reserve::<FilterSlot>(owner, part.len() as u64)?;
        self.slots.push(slot);
        for (number, block) in part.chunks_mut(BLOCK).enumerate() {
            let (bitmap, stored) = block.split_at_mut(BITMAP);
            stored.copy_from_slice(&check(heap, slot, number, bitmap));
        }
        Ok(heap.write(slot, 0, part)?)
    }

    /// The filter of so many blocks in these slots, if it can be one.
    pub(super) fn of(blocks: u64, slots: Vec<NvPtr<FilterSlot>>) -> Option<Self> {
        let blocks = usize::try_from(blocks).ok().filter(|&blocks| blocks > 0)?;
        (blocks.div_ceil(SLOT_BLOCKS) == slots.len()).then_some(Self { blocks, slots })
    }

    /// How many slots a filter of so many blocks has.
    pub(super) fn slots_of(blocks: u64) -> u64 {
        blocks.div_ceil(SLOT_BLOCKS as u64)
    }

    /// Its blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Its slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = AnyPtr> {
        self.slots.iter().map(|slot| slot.any())
    }

    /// Whether a key may be there: yes for those that are, and for fewer than one in a hundred of the others.
    pub(super) fn may_have(&self, heap: &Heap, hash: u64) -> Result<bool> {
        let _in = Component::Index.enter();
        let bitmap = self.block(heap, block_of(hash, self.blocks))?;
        Ok(bits(hash).all(|bit| bitmap[bit / 8] & 1 << (bit % 8) != 0))
    }

    /// Checks all blocks.
    pub(super) fn check(&self, heap: &Heap) -> Result<()> {
        (0..self.blocks).try_for_each(|block| self.block(heap, block).map(drop))
    }

    fn block<'h>(&self, heap: &'h Heap, block: usize) -> Result<&'h [u8]> {
        let (slot, number) = (self.slots[block / SLOT_BLOCKS], block % SLOT_BLOCKS);
        let bytes = heap.read_at(slot, (number * BLOCK) as u64, BLOCK as u64)?;
        let (bitmap, stored) = bytes.split_at(BITMAP);
        match check(heap, slot, number, bitmap) == stored {
            true => Ok(bitmap),
            false => {
                let what = format!("the filter at {:#018x}", slot.word());
                Err(Error::damaged(what, format!("block {number} does not have its check")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use halite_alloc::Segments;
    use halite_pmem::PoolOptions;

    use super::*;

    fn heap() -> Heap {
        let mut options = PoolOptions::default();
        (options.in_memory, options.size_max) = (true, 16 << 20);
        let segments = Segments::create(Path::new("pool"), &options).unwrap();
        Heap::open(&segments.device(1)).unwrap()
    }

    #[test]
    fn every_key_that_is_there_passes_and_few_others_do() {
        for keys in [0_u64, 1, 400, 5_000, 100_000, 2_000_000] {
            let mut heap = heap();
            let hash = |heap: &Heap, key: u64| hash(heap, &key.to_be_bytes());
            let hashes: Vec<u64> = (0..keys).map(|key| hash(&heap, key)).collect();
            let mut publication = Publication::new();
            let owner = Owner::new(16).unwrap();
            let filter = Filter::write(&mut heap, owner, &hashes, &mut publication).unwrap();
            heap.publish(&mut publication).unwrap();
            let passes = |key: u64| filter.may_have(&heap, hash(&heap, key)).unwrap();
            assert!((0..keys).all(passes));
            let others = (keys..keys + 100_000).filter(|&key| passes(key)).count();
            assert!(others <= 1_000, "{others} of 100000 pass a filter of {keys} keys");
            let bits = (filter.blocks * BLOCK * 8) as f64 / keys as f64;
            assert!(keys < 50_000 || bits < 10.0, "{bits} bits a key of {keys}");
            assert_eq!(filter.slots.len(), if keys > 1_700_000 { 2 } else { 1 });
            let again = Filter::of(filter.blocks as u64, filter.slots.clone()).unwrap();
            again.check(&heap).unwrap();
            assert!(Filter::of(filter.blocks as u64 + SLOT_BLOCKS as u64, filter.slots).is_none());
        }
    }

    #[test]
    fn a_damaged_block_is_named() {
        let mut heap = heap();
        let hashes: Vec<u64> = (0..900_u64).map(|key| hash(&heap, &key.to_be_bytes())).collect();
        let mut publication = Publication::new();
        let owner = Owner::new(16).unwrap();
        let filter = Filter::write(&mut heap, owner, &hashes, &mut publication).unwrap();
        heap.publish(&mut publication).unwrap();
        for at in [0, 507, 511, 512, 1_030, 1_535] {
            let byte = heap.read_at(filter.slots[0], at, 1).unwrap()[0];
            heap.write(filter.slots[0], at, &[byte ^ 4]).unwrap();
            assert!(matches!(filter.check(&heap), Err(Error::Damaged { .. })));
            let block = at as usize / BLOCK;
            for &hash in &hashes {
                let is_there = filter.may_have(&heap, hash);
                assert_eq!(is_there.is_err(), block_of(hash, filter.blocks) == block);
            }
            heap.write(filter.slots[0], at, &[byte]).unwrap();
        }
        filter.check(&heap).unwrap();
    }
}
