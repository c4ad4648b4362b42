//! A storage class: its vdevs take extents in turns, and its last blocks are kept for what frees space.
//!
//! In its turn a vdev takes extents of as many blocks as is its share of the free space. So extents that are written
//! one behind the other lie next to each other, all vdevs work, and all are full at the same time: a vdev that was
//! added later catches up.
//!
//! A class keeps its last blocks back: half of its reserve is for metadata and for what frees space, the other half for
//! the latter alone. As many blocks as that half, in whole groups of 512, are kept by the vdevs, and nothing else lies
//! there: nodes and bitmaps are written in one piece, also where the other free blocks are in runs that are too short for
//! them.

use super::bitmap::Statistics;
use super::device::{DeviceSpace, DeviceUse};
use crate::Result;

/// Blocks that a vdev takes in its turn, on average: 2 MiB.
const TURN_BLOCKS: u64 = halite_vdev::SEGMENT_BLOCKS;

/// The use of an extent, by which it may take of a class's last blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data: it leaves the whole reserve.
    Data,
    /// Nodes and merges, without which what is acknowledged cannot be stored: they leave half of the reserve.
    Metadata,
    /// Checkpoints, and merges that free more than they take: they leave nothing. So deletes succeed on a full pool.
    Reserve,
}

/// Makes vdevs larger.
pub(crate) trait Growth {
    /// Gives a vdev that has no room for an extent more blocks: at least `least` in all, if it can. Returns how many it
    /// has then; `None`: there is no room on its devices.
    ///
    /// # Errors
    /// Those of the devices: a failed sync must not look like a full device.
    fn grow(&mut self, class: u8, vdev: u16, least: u64) -> Result<Option<u64>>;
}

/// Blocks of its address space that a vdev takes for an extent of so many blocks of data.
pub(crate) type ActualBlocks = Box<dyn Fn(u32) -> u32 + Send + Sync>;

/// A storage class.
pub(crate) struct Class {
    number: u8,
    vdevs: Vec<Vdev>,
    /// The vdev whose turn it is, and the blocks that it takes until it is over.
    turn: usize,
    left: u64,
    /// Blocks that are kept from data.
    reserve: u64,
    /// Blocks that its vdevs may have when they have grown.
    capacity_max: u64,
}

/// A vdev of a class.
pub(crate) struct Vdev {
    pub(crate) space: DeviceSpace,
    /// Whether it could not grow when it was asked to the last time.
    pub(crate) is_full: bool,
    pub(crate) actual_blocks: ActualBlocks,
}

/// The blocks of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassUse {
    /// Blocks of the vdevs' address spaces, with those for parity.
    pub(crate) blocks: DeviceUse,
    /// Blocks of data that they hold in all, in extents of the most blocks.
    pub(crate) effective: u64,
    /// Blocks of data that the free ones hold.
    pub(crate) effective_free: u64,
    /// The free ones.
    pub(crate) statistics: Statistics,
}

impl Class {
    /// A class without vdevs that keeps so many blocks from data.
    pub(crate) fn new(number: u8, reserve: u64) -> Self {
        Self { number, vdevs: Vec::new(), turn: 0, left: 0, reserve, capacity_max: 0 }
    }

    /// Adds a vdev.
    pub(crate) fn add(&mut self, vdev: Vdev) {
        self.vdevs.push(vdev);
        let groups = (self.reserve / 2 / halite_vdev::SEGMENT_BLOCKS) as usize;
        let (each, more) = (groups / self.vdevs.len(), groups % self.vdevs.len());
        for (number, vdev) in self.vdevs.iter_mut().enumerate() {
            vdev.space.keep(each + usize::from(number < more));
        }
    }

    /// Its vdevs.
    pub(crate) fn vdevs(&self) -> &[Vdev] {
        &self.vdevs
    }

    /// Its vdevs.
    pub(crate) fn vdevs_mut(&mut self) -> &mut [Vdev] {
        &mut self.vdevs
    }

    /// Allocates an extent, hidden from the stored bitmap. Returns the vdev and the first block; `None`:
    /// no vdev has room for it, and none can grow.
    ///
    /// # Errors
    /// Those of the growth.
    pub(crate) fn allocate(
        &mut self,
        blocks: u32,
        purpose: Purpose,
        growth: &mut dyn Growth,
    ) -> Result<Option<(usize, u64)>> {
        let kept = self.kept(purpose);
        let (turn, count) = (self.turn, self.vdevs.len());
        let in_turn = move || (turn..turn + count).map(move |vdev| vdev % count);
        if let Some(found) = in_turn().find_map(|vdev| self.allocate_of(vdev, blocks, kept)) {
            return Ok(Some(found));
        }
        for vdev in in_turn() {
            let found = self.allocate_of_grown(vdev, blocks, kept, growth)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(match purpose {
            Purpose::Data | Purpose::Metadata => None,
            Purpose::Reserve => in_turn().find_map(|vdev| {
                let space = &mut self.vdevs[vdev];
                let block = space.space.reserve_kept((space.actual_blocks)(blocks))?;
                Some((vdev, block))
            }),
        })
    }

    /// Allocates an extent of a vdev.
    fn allocate_of(&mut self, vdev: usize, blocks: u32, kept: u64) -> Option<(usize, u64)> {
        let free = self.free();
        let actual = (self.vdevs[vdev].actual_blocks)(blocks);
        if free < kept + u64::from(actual) {
            return None;
        }
        let of_vdev = self.vdevs[vdev].space.blocks().free;
        let block = self.vdevs[vdev].space.reserve(actual)?;
        if self.turn != vdev || self.left == 0 {
            let part = u128::from(TURN_BLOCKS) * self.vdevs.len() as u128 * u128::from(of_vdev);
            (self.turn, self.left) = (vdev, (part / u128::from(free)) as u64);
        }
        self.left = self.left.saturating_sub(actual.into());
        if self.left == 0 {
            self.turn = (vdev + 1) % self.vdevs.len();
        }
        Some((vdev, block))
    }

    /// Allocates an extent of a vdev that has no room for it, if it grows.
    fn allocate_of_grown(
        &mut self,
        vdev: usize,
        blocks: u32,
        kept: u64,
        growth: &mut dyn Growth,
    ) -> Result<Option<(usize, u64)>> {
        let actual = u64::from((self.vdevs[vdev].actual_blocks)(blocks));
        if actual > halite_vdev::SEGMENT_BLOCKS {
            return Ok(None);
        }
        loop {
            let capacity = self.vdevs[vdev].space.blocks().capacity;
            let lacked = (kept + actual).saturating_sub(self.free());
            // A run of the new blocks alone, behind the next border that it may not cross.
            let least = capacity.next_multiple_of(halite_vdev::SEGMENT_BLOCKS) + actual;
            if !self.grow(vdev, least.max(capacity + lacked), growth)? {
                return Ok(None);
            }
            let found = self.allocate_of(vdev, blocks, kept);
            // The first groups of a vdev are kept: others follow, unless the extent may lie in these.
            if found.is_some() || kept == 0 {
                return Ok(found);
            }
        }
    }

    /// Lets a vdev grow to so many blocks at least. Returns whether it has.
    ///
    /// # Errors
    /// Those of the growth.
    pub(crate) fn grow(
        &mut self,
        vdev: usize,
        least: u64,
        growth: &mut dyn Growth,
    ) -> Result<bool> {
        let grown = growth.grow(self.number, vdev as u16, least)?;
        let vdev = &mut self.vdevs[vdev];
        grown.into_iter().for_each(|blocks| vdev.space.grow(blocks));
        vdev.is_full = grown.is_none();
        Ok(grown.is_some())
    }

    /// The blocks of data of the longest extent that may be allocated: fewer than the most where the free blocks are in
    /// short runs, and no vdev can grow.
    pub(crate) fn extent_blocks(&self, purpose: Purpose) -> u32 {
        let room = self.free().saturating_sub(self.kept(purpose));
        let of_vdev = |vdev: &Vdev| match (vdev.is_full, purpose) {
            (false, _) => halite_vdev::EXTENT_BLOCKS_MAX,
            (true, Purpose::Reserve) => vdev.data_blocks(vdev.space.longest().into()),
            (true, _) => vdev.data_blocks(room.min(vdev.space.longest_not_kept().into())),
        };
        self.vdevs.iter().map(of_vdev).max().unwrap_or(0)
    }

    /// Blocks that are kept from extents of a purpose.
    fn kept(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Data => self.reserve,
            Purpose::Metadata => self.reserve / 2,
            Purpose::Reserve => 0,
        }
    }

    /// Sets how many blocks its vdevs may have when they have grown.
    pub(crate) fn set_capacity_max(&mut self, blocks: u64) {
        self.capacity_max = blocks;
    }

    /// Its blocks, as far as its vdevs may grow.
    pub(crate) fn capacity_max(&self) -> u64 {
        self.capacity_max.max(self.capacity())
    }

    /// Blocks that are in use, or wait for a checkpoint.
    pub(crate) fn taken(&self) -> u64 {
        self.capacity() - self.free()
    }

    fn capacity(&self) -> u64 {
        self.vdevs.iter().map(|vdev| vdev.space.blocks().capacity).sum()
    }

    /// Blocks that may be allocated for data.
    pub(crate) fn free_for_data(&self) -> u64 {
        self.free().saturating_sub(self.reserve)
    }

    /// Blocks that it lacks of those that it keeps from data.
    pub(crate) fn lacked_reserve(&self) -> u64 {
        self.reserve.saturating_sub(self.free())
    }

    /// Blocks that may be allocated, the kept ones among them.
    pub(crate) fn free(&self) -> u64 {
        self.vdevs.iter().map(|vdev| vdev.space.blocks().free).sum()
    }

    /// Its blocks.
    pub(crate) fn blocks(&self) -> ClassUse {
        let mut all = ClassUse::default();
        for vdev in &self.vdevs {
            let blocks = vdev.space.blocks();
            all.blocks.capacity += blocks.capacity;
            all.blocks.used += blocks.used;
            all.blocks.deferred += blocks.deferred;
            all.blocks.free += blocks.free;
            all.effective += vdev.effective(blocks.capacity);
            all.effective_free += vdev.effective(blocks.free);
            all.statistics = all.statistics.and(vdev.space.statistics());
        }
        all
    }
}

impl Vdev {
    /// A vdev with this space, which may be able to grow.
    pub(crate) fn new(space: DeviceSpace, actual_blocks: ActualBlocks) -> Self {
        Self { space, is_full: false, actual_blocks }
    }

    /// The most blocks of data of an extent that takes at most so many of the vdev.
    fn data_blocks(&self, actual: u64) -> u32 {
        let (mut fits, mut above) = (0, halite_vdev::EXTENT_BLOCKS_MAX + 1);
        while fits + 1 < above {
            let middle = fits.midpoint(above);
            match u64::from((self.actual_blocks)(middle)) <= actual {
                true => fits = middle,
                false => above = middle,
            }
        }
        fits
    }

    /// Blocks of data that so many blocks of the address space hold, in extents of the most blocks.
    fn effective(&self, blocks: u64) -> u64 {
        let data = halite_vdev::EXTENT_BLOCKS_MAX;
        let actual = (self.actual_blocks)(data);
        (u128::from(blocks) * u128::from(data) / u128::from(actual)) as u64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Vdevs that keep their size.
    pub(crate) struct Fixed;

    impl Growth for Fixed {
        fn grow(&mut self, _: u8, _: u16, _: u64) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    /// Vdevs that grow as far as is needed, up to a limit.
    struct UpTo(u64, Vec<(u16, u64)>);

    impl Growth for UpTo {
        fn grow(&mut self, class: u8, vdev: u16, least: u64) -> Result<Option<u64>> {
            assert_eq!(class, 2);
            self.1.push((vdev, least));
            Ok((least <= self.0).then_some(least))
        }
    }

    pub(crate) fn plain(capacity: u64) -> Vdev {
        Vdev::new(DeviceSpace::new(capacity), Box::new(|blocks| blocks))
    }

    fn class(reserve: u64, capacities: &[u64]) -> Class {
        let mut class = Class::new(2, reserve);
        capacities.iter().for_each(|&capacity| class.add(plain(capacity)));
        class
    }

    #[test]
    fn vdevs_take_parts_of_their_free_space_and_are_full_at_the_same_time() {
        let mut class = class(0, &[30_000, 10_000, 0]);
        let mut taken = [0_u64; 3];
        let mut at = Vec::new();
        for round in 1..=3900 {
            let (vdev, _) = class.allocate(10, Purpose::Data, &mut Fixed).unwrap().unwrap();
            taken[vdev] += 10;
            at.push(vdev);
            if round % 1000 == 0 {
                assert!(taken[0].abs_diff(taken[1] * 3) <= 4 * 3 * TURN_BLOCKS, "{taken:?}");
            }
        }
        assert_eq!(taken[2], 0);
        let turns = at.chunk_by(|a, b| a == b).count();
        assert!((20..100).contains(&turns), "{turns} turns: extents lie next to each other");
    }

    #[test]
    fn a_vdev_without_a_long_run_does_not_keep_the_others_from_their_turns() {
        let mut class = class(0, &[300, 5000]);
        let take = |_| class.allocate(400, Purpose::Data, &mut Fixed).unwrap();
        let got: Vec<_> = (0..8).map(take).collect();
        assert!(got.iter().all(|got| got.is_some_and(|(vdev, _)| vdev == 1)), "{got:?}");
    }

    #[test]
    fn the_last_blocks_are_kept_for_metadata_and_the_very_last_for_what_frees_space() {
        let mut class = class(100, &[500, 500]);
        let mut fill = |purpose| {
            let take = || class.allocate(1, purpose, &mut Fixed).unwrap();
            std::iter::from_fn(take).count()
        };
        assert_eq!(
            [fill(Purpose::Data), fill(Purpose::Metadata), fill(Purpose::Data)],
            [900, 50, 0]
        );
        assert_eq!([fill(Purpose::Reserve), fill(Purpose::Metadata)], [50, 0]);
    }

    #[test]
    fn what_is_written_in_one_piece_has_room_where_all_other_free_runs_are_short() {
        let mut class = class(4096, &[16 << 10]);
        let fill = |class: &mut Class, blocks, purpose| {
            let take = || class.allocate(blocks, purpose, &mut Fixed).unwrap();
            std::iter::from_fn(take).map(|(_, block)| block).collect::<Vec<_>>()
        };
        let taken = fill(&mut class, 8, Purpose::Data);
        assert_eq!((taken.len() * 8, class.extent_blocks(Purpose::Data)), (12 << 10, 0));
        assert_eq!(fill(&mut class, 8, Purpose::Metadata).len() * 8, 2 << 10);
        let space = &mut class.vdevs_mut()[0].space;
        taken.iter().step_by(2).for_each(|block| space.recycle(*block, 8, None).unwrap());
        assert_eq!(class.extent_blocks(Purpose::Metadata), 8);
        assert!(fill(&mut class, 9, Purpose::Metadata).is_empty());
        assert_eq!(class.extent_blocks(Purpose::Reserve), 256);
        assert_eq!(fill(&mut class, 9, Purpose::Reserve).len(), 4 * (512 / 9));
    }

    #[test]
    fn a_vdev_that_has_no_room_is_asked_to_grow_as_far_as_the_extent_and_the_reserve_need() {
        let mut class = class(100, &[500, 300]);
        let mut growth = UpTo(1000, Vec::new());
        for _ in 0..7 {
            assert!(class.allocate(100, Purpose::Data, &mut growth).unwrap().is_some());
        }
        assert_eq!(growth.1, []);
        assert!(class.allocate(50, Purpose::Data, &mut growth).unwrap().is_some());
        assert_eq!(growth.1.len(), 1, "the reserve was all that was free");
        let grown = growth.1[0];
        assert_eq!(grown.1, 512 + 50);
        growth.0 = 0;
        growth.1.clear();
        assert!(class.allocate(400, Purpose::Data, &mut growth).unwrap().is_none());
        assert_eq!(growth.1.len(), 2, "all were asked");
        assert!(class.allocate(513, Purpose::Data, &mut growth).unwrap().is_none());
        assert_eq!(growth.1.len(), 2, "no vdev ever has such a run");
    }

    #[test]
    fn a_vdev_that_fails_to_grow_is_not_taken_for_a_full_one() {
        struct Failing;
        impl Growth for Failing {
            fn grow(&mut self, _: u8, _: u16, _: u64) -> Result<Option<u64>> {
                Err(crate::Error::PassUnderWay)
            }
        }
        let mut class = class(0, &[100, 100]);
        assert!(class.allocate(100, Purpose::Data, &mut Failing).unwrap().is_some());
        assert!(class.allocate(101, Purpose::Data, &mut Failing).is_err());
        assert!(class.allocate(100, Purpose::Data, &mut Failing).unwrap().is_some());
    }

    #[test]
    fn a_vdev_that_grows_by_little_is_of_use_from_its_first_growth_on() {
        let mut class = class(4096, &[16 << 10, 0]);
        let mut growth = UpTo(16 << 10, Vec::new());
        let mut take = || class.allocate(100, Purpose::Data, &mut growth).unwrap();
        let taken = std::iter::from_fn(&mut take).count() as u64 * 100;
        // A group of 512 blocks has room for five extents.
        assert!(taken >= (2 * (16 << 10) - 4096) / 512 * 500, "{taken} blocks");
        assert!(take().is_none());
    }

    #[test]
    fn what_is_kept_in_groups_is_kept_by_all_vdevs_together() {
        for count in 1..7 {
            let mut class = class(4096, &vec![4096; count]);
            while class.allocate(8, Purpose::Data, &mut Fixed).unwrap().is_some() {}
            while class.allocate(8, Purpose::Metadata, &mut Fixed).unwrap().is_some() {}
            assert!(class.free() < 2048 + 8, "{count} vdevs: {} blocks are free", class.free());
            let take = || class.allocate(9, Purpose::Reserve, &mut Fixed).unwrap();
            assert_eq!(std::iter::from_fn(take).count(), 4 * (512 / 9), "{count} vdevs");
        }
    }

    #[test]
    fn parity_counts_where_blocks_are_counted() {
        let mut class = class(30, &[]);
        let (space, actual) = (DeviceSpace::new(3 * 512), |data: u32| data + data.div_ceil(2));
        class.add(Vdev::new(space, Box::new(actual)));
        assert_eq!(class.allocate(256, Purpose::Data, &mut Fixed).unwrap(), Some((0, 0)));
        assert_eq!(class.allocate(3, Purpose::Data, &mut Fixed).unwrap(), Some((0, 384)));
        let all = class.blocks();
        assert_eq!(all.blocks, DeviceUse { capacity: 1536, used: 0, deferred: 0, free: 1147 });
        assert_eq!((all.effective, all.effective_free), (1024, 764));
        assert_eq!(
            (all.statistics.runs, all.statistics.longest, all.statistics.fragmented),
            (3, 512, 123)
        );
    }
}
