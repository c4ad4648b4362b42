//! The storage classes of a pool, from the fastest to the slowest, and the one that an extent goes to.
//!
//! An extent goes to the first class of its preference's order that has room for it, or whose vdevs can grow. By
//! default these are the preferred class, the slower ones, and then the faster ones, the nearest first: data rather get
//! slow than take the space of a fast class from those that want it.
//!
//! ```text
//!  preferred   0           1           2           3
//!  order       0 1 2 3     1 2 3 0     2 3 1 0     3 2 1 0
//! ```

use halite_vdev::EXTENT_BLOCKS_MAX;

use super::class::{ActualBlocks, Class, ClassUse, Growth, Purpose, Vdev};
use super::device::DeviceSpace;
use crate::storage::{Address, CLASSES_MAX, Extent, VDEVS_MAX};
use crate::{Error, Result};

/// Blocks of an extent that is long enough not to look for a longer one in a class that comes later.
const ENOUGH: u32 = 16;

/// Classes of a pool.
const CLASSES: usize = CLASSES_MAX as usize;

/// The classes that an extent may go to, in order, for each that it may prefer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orders([Vec<u8>; CLASSES]);

impl Default for Orders {
    fn default() -> Self {
        Self(std::array::from_fn(|preferred| {
            let slower = preferred..CLASSES;
            slower.chain((0..preferred).rev()).map(|class| class as u8).collect()
        }))
    }
}

impl Orders {
    /// These orders. An empty one takes nothing: the preference cannot be used.
    ///
    /// # Errors
    /// The defect of an order.
    #[cfg(test)]
    pub(crate) fn new(orders: [Vec<u8>; CLASSES]) -> std::result::Result<Self, &'static str> {
        for order in &orders {
            for (at, class) in order.iter().enumerate() {
                if *class >= CLASSES_MAX {
                    return Err("a pool has the storage classes 0 to 3");
                }
                if order[..at].contains(class) {
                    return Err("an order of storage classes has a class twice");
                }
            }
        }
        Ok(Self(orders))
    }
}

/// The space of a storage pool. Its methods change memory alone, but for the growth of vdevs; their caller has a lock
/// around it.
pub(crate) struct Classes {
    classes: [Class; CLASSES],
    orders: Orders,
}

impl Classes {
    /// A pool without vdevs. Each class keeps so many blocks from data.
    pub(crate) fn new(orders: Orders, reserves: [u64; CLASSES]) -> Self {
        let class = |number| Class::new(number as u8, reserves[number]);
        Self { classes: std::array::from_fn(class), orders }
    }

    /// Adds the next vdev of a class. `actual_blocks` has the blocks of its address space that an extent takes: those
    /// of data, and those for parity.
    ///
    /// # Panics
    /// If the class has [`VDEVS_MAX`] of them.
    pub(crate) fn add(&mut self, class: u8, space: DeviceSpace, actual_blocks: ActualBlocks) {
        let class = &mut self.classes[usize::from(class)];
        assert!(
            class.vdevs().len() < usize::from(VDEVS_MAX),
            "an address has room for the vdev's number"
        );
        class.add(Vdev::new(space, actual_blocks));
    }

    /// Allocates an extent for so many blocks of data, hidden from the stored bitmaps until it is adopted.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: no class of the preference's order has room for it, and no vdev of them can grow; those of the
    /// growth.
    pub(crate) fn reserve(
        &mut self,
        preferred: u8,
        blocks: u32,
        purpose: Purpose,
        growth: &mut dyn Growth,
    ) -> Result<Extent> {
        assert!(
            (1..=EXTENT_BLOCKS_MAX).contains(&blocks),
            "an extent has 1 to {EXTENT_BLOCKS_MAX} blocks"
        );
        for &class in &self.orders.0[usize::from(preferred)] {
            let found = self.classes[usize::from(class)].allocate(blocks, purpose, growth)?;
            if let Some((vdev, block)) = found {
                return Ok(Extent { address: Address::new(class, vdev as u16, block), blocks });
            }
        }
        Err(Error::NoSpace { blocks })
    }

    /// Allocates an extent of a class, and of no other one.
    ///
    /// # Errors
    /// [`Error::ClassFull`]; those of the growth.
    pub(crate) fn reserve_in(
        &mut self,
        class: u8,
        blocks: u32,
        growth: &mut dyn Growth,
    ) -> Result<Extent> {
        let of_class = self.classes.get_mut(usize::from(class));
        let found = of_class.map(|of| of.allocate(blocks, Purpose::Data, growth)).transpose()?;
        let (vdev, block) = found.flatten().ok_or(Error::ClassFull { class })?;
        Ok(Extent { address: Address::new(class, vdev as u16, block), blocks })
    }

    /// Sets how many blocks the vdevs of a class may have when they have grown.
    pub(crate) fn set_capacity_max(&mut self, class: u8, blocks: u64) {
        self.classes[usize::from(class)].set_capacity_max(blocks);
    }

    /// The blocks of a class, as far as its vdevs may grow.
    pub(crate) fn capacity_max(&self, class: u8) -> u64 {
        self.classes[usize::from(class)].capacity_max()
    }

    /// Blocks of a class beside those that may be allocated, and those by which its vdevs may grow.
    pub(crate) fn taken(&self, class: u8) -> u64 {
        self.classes[usize::from(class)].taken()
    }

    /// The first class from one on, towards the slower ones, of which less than so many percent are taken; if there is
    /// none, that one.
    pub(crate) fn spill(&self, class: u8, percent: u8) -> u8 {
        let has_room = |class: &usize| {
            let (taken, all) = (self.taken(*class as u8), self.capacity_max(*class as u8));
            !self.classes[*class].vdevs().is_empty()
                && u128::from(taken) * 100 < u128::from(all) * u128::from(percent)
        };
        let found = (usize::from(class)..CLASSES).find(has_room);
        found.map_or(class, |class| class as u8)
    }

    /// Allocates an extent, and adopts it.
    ///
    /// # Errors
    /// See [`Classes::reserve`].
    #[cfg(test)]
    pub(crate) fn allocate(
        &mut self,
        preferred: u8,
        blocks: u32,
        purpose: Purpose,
        growth: &mut dyn Growth,
    ) -> Result<Extent> {
        let extent = self.reserve(preferred, blocks, purpose, growth)?;
        self.adopt(extent)?;
        Ok(extent)
    }

    /// Whether so many blocks are free beside what is kept from data; vdevs grow for that, if they can.
    ///
    /// # Errors
    /// Those of the growth.
    pub(crate) fn ensure_free(&mut self, blocks: u64, growth: &mut dyn Growth) -> Result<bool> {
        let free =
            |classes: &[Class; CLASSES]| classes.iter().map(Class::free_for_data).sum::<u64>();
        for number in 0..CLASSES {
            for vdev in 0..self.classes[number].vdevs().len() {
                let missing = blocks.saturating_sub(free(&self.classes));
                if missing == 0 {
                    return Ok(true);
                }
                let lacked = self.classes[number].lacked_reserve();
                let capacity = self.classes[number].vdevs()[vdev].space.blocks().capacity;
                self.classes[number].grow(vdev, capacity + missing + lacked, growth)?;
            }
        }
        Ok(free(&self.classes) >= blocks)
    }

    /// The blocks of data that an extent may have now: those of the longest one for which the first class of the
    /// preference's order has room that has some; fewer than the most where all free space is in short runs.
    pub(crate) fn extent_blocks(&self, preferred: u8, purpose: Purpose) -> u32 {
        let order = self.orders.0[usize::from(preferred)].iter();
        let mut of_classes =
            order.map(|class| self.classes[usize::from(*class)].extent_blocks(purpose));
        let longest = of_classes.clone().max().unwrap_or(0);
        of_classes.find(|blocks| *blocks >= ENOUGH).unwrap_or(longest)
    }

    /// Blocks that may be allocated, the kept ones among them.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.classes.iter().map(Class::free).sum()
    }

    /// Allocates this extent, hidden from the stored bitmaps, if its blocks exist and may be allocated: one whose place is
    /// fixed.
    pub(crate) fn reserve_at(&mut self, extent: Extent) -> bool {
        let blocks = extent.address.block();
        self.vdev_mut(extent).is_some_and(|(space, actual)| space.reserve_at(blocks, actual))
    }

    /// Frees an extent that the generation which is being built does not reach any more. Its blocks may be allocated
    /// when the next generation is durable, too.
    ///
    /// # Errors
    /// [`Error::Damaged`]: it is not allocated, and nothing is changed.
    #[cfg(test)]
    pub(crate) fn free(&mut self, extent: Extent, generation: u64) -> Result<()> {
        let block = extent.address.block();
        self.change(extent, |space, actual| space.free(block, actual, generation))
    }

    /// Frees an extent that was allocated for the generation which is being built, and which no checkpoint has seen.
    /// Its blocks may be allocated at once.
    ///
    /// # Errors
    /// See [`Classes::free`].
    #[cfg(test)]
    pub(crate) fn drop_unseen(&mut self, extent: Extent) -> Result<()> {
        let block = extent.address.block();
        self.change(extent, |space, actual| space.drop_unseen(block, actual))
    }

    /// Hides an extent from the stored bitmaps: nothing that is stored leads to it.
    ///
    /// # Errors
    /// [`Error::Damaged`]: it is not allocated, and nothing is changed.
    pub(crate) fn hide(&mut self, extent: Extent) -> Result<()> {
        let block = extent.address.block();
        self.change(extent, |space, actual| space.hide(block, actual))
    }

    /// Brings a hidden extent into the stored bitmaps.
    ///
    /// # Errors
    /// [`Error::Damaged`]: it is not hidden, and nothing is changed.
    pub(crate) fn adopt(&mut self, extent: Extent) -> Result<()> {
        let block = extent.address.block();
        self.change(extent, |space, actual| space.adopt(block, actual))
    }

    /// Makes the blocks of a hidden extent allocatable: at once, or if a checkpoint has seen it, when the generation
    /// behind the given one is durable.
    ///
    /// # Errors
    /// See [`Classes::adopt`].
    pub(crate) fn recycle(&mut self, extent: Extent, seen_until: Option<u64>) -> Result<()> {
        let block = extent.address.block();
        self.change(extent, |space, actual| space.recycle(block, actual, seen_until))
    }

    fn change(
        &mut self,
        extent: Extent,
        change: impl FnOnce(&mut DeviceSpace, u32) -> std::result::Result<(), &'static str>,
    ) -> Result<()> {
        let changed = match self.vdev_mut(extent) {
            Some((space, actual)) => change(space, actual),
            None => Err("it is to be freed, and there is no such extent"),
        };
        changed.map_err(|why| Error::Damaged {
            what: "extent",
            address: extent.address,
            why: why.to_owned(),
        })
    }

    /// Whether an extent's blocks are all reachable from the generation that is being built.
    pub(crate) fn is_allocated(&self, extent: Extent) -> bool {
        let (address, blocks) = (extent.address, extent.blocks);
        let vdevs = self.classes[usize::from(address.class())].vdevs();
        vdevs.get(usize::from(address.vdev())).is_some_and(|vdev| {
            is_extent(blocks)
                && vdev.space.is_allocated(address.block(), (vdev.actual_blocks)(blocks))
        })
    }

    /// The vdev of an extent, and the blocks that the extent takes of it.
    fn vdev_mut(&mut self, extent: Extent) -> Option<(&mut DeviceSpace, u32)> {
        let Extent { address, blocks } = extent;
        let vdevs = self.classes[usize::from(address.class())].vdevs_mut();
        let vdev = vdevs.get_mut(usize::from(address.vdev()))?;
        is_extent(blocks).then(|| (&mut vdev.space, (vdev.actual_blocks)(blocks)))
    }

    /// Makes the blocks allocatable that no superblock leads to now that the one of a generation is durable.
    pub(crate) fn checkpoint_durable(&mut self, generation: u64) {
        let vdevs = self.classes.iter_mut().flat_map(Class::vdevs_mut);
        vdevs.for_each(|vdev| vdev.space.checkpoint_durable(generation));
    }

    /// The spaces of all vdevs, with their class and their number: a checkpoint takes their dirty segments.
    pub(crate) fn spaces_mut(&mut self) -> impl Iterator<Item = (u8, u16, &mut DeviceSpace)> {
        self.classes.iter_mut().zip(0..).flat_map(|(class, number)| {
            let vdevs = class.vdevs_mut().iter_mut().zip(0..);
            vdevs.map(move |(vdev, at)| (number, at, &mut vdev.space))
        })
    }

    /// The blocks of each class.
    pub(crate) fn blocks(&self) -> [ClassUse; CLASSES] {
        std::array::from_fn(|class| self.classes[class].blocks())
    }
}

/// Whether an extent may have so many blocks.
fn is_extent(blocks: u32) -> bool {
    (1..=EXTENT_BLOCKS_MAX).contains(&blocks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::allocation::class::tests::Fixed;

    fn pool(orders: Orders, reserve: u64, capacities: &[&[u64]]) -> Classes {
        let mut classes = Classes::new(orders, [reserve; CLASSES]);
        for (class, capacities) in (0..).zip(capacities) {
            for &capacity in *capacities {
                // The first class has parity.
                let actual = move |blocks: u32| {
                    if class == 0 { blocks + blocks.div_ceil(2) } else { blocks }
                };
                classes.add(class, DeviceSpace::new(capacity), Box::new(actual));
            }
        }
        classes
    }

    fn classes_of(classes: &mut Classes, preferred: u8, count: usize) -> Vec<u8> {
        let mut allocate = || classes.allocate(preferred, 100, Purpose::Data, &mut Fixed).ok();
        (0..count).map_while(|_| allocate()).map(|extent| extent.address.class()).collect()
    }

    #[test]
    fn an_extent_goes_to_its_class_then_to_slower_ones_then_to_faster_ones() {
        let orders = Orders::default();
        assert_eq!(orders.0, [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 1, 0], [3, 2, 1, 0]]);
        let capacities: [&[u64]; 4] = [&[300], &[200, 100], &[300], &[]];
        let mut classes = pool(orders, 0, &capacities);
        assert_eq!(classes_of(&mut classes, 1, 9), [1, 1, 1, 2, 2, 2, 0, 0]);
        let error = classes.allocate(1, 100, Purpose::Data, &mut Fixed).unwrap_err();
        assert!(matches!(error, Error::NoSpace { blocks: 100 }));
        assert!(classes.allocate(3, 1, Purpose::Data, &mut Fixed).is_err());
    }

    #[test]
    fn an_order_of_its_own_is_kept_to_and_one_with_defects_refused() {
        let orders = |third| [vec![0], vec![2, 1], vec![], third];
        assert!(
            Orders::new(orders(vec![4])).is_err() && Orders::new(orders(vec![1, 0, 1])).is_err()
        );
        let mut classes =
            pool(Orders::new(orders(vec![3, 0])).unwrap(), 0, &[&[300], &[200], &[100]]);
        assert_eq!(classes_of(&mut classes, 2, 9), Vec::<u8>::new());
        assert_eq!(classes_of(&mut classes, 1, 9), [2, 1, 1]);
        assert_eq!(classes_of(&mut classes, 3, 9), [0, 0]);
    }

    #[test]
    fn what_is_no_allocated_extent_is_not_freed() {
        let mut classes = pool(Orders::default(), 0, &[&[300], &[200]]);
        let extent = classes.allocate(0, 4, Purpose::Data, &mut Fixed).unwrap();
        assert!(classes.is_allocated(extent) && classes.blocks()[0].blocks.used == 6);
        let others =
            [(0, 0, 0, 5), (0, 1, 0, 4), (1, 0, 0, 4), (3, 9, 0, 4), (0, 0, 0, 0), (0, 0, 0, 257)];
        for (class, vdev, block, blocks) in others {
            let other = Extent { address: Address::new(class, vdev, block), blocks };
            assert!(!classes.is_allocated(other));
            assert!(matches!(classes.free(other, 1), Err(Error::Damaged { .. })));
            assert!(matches!(classes.drop_unseen(other), Err(Error::Damaged { .. })));
        }
        assert!(!classes.reserve_at(extent));
        classes.drop_unseen(extent).unwrap();
        assert!(classes.reserve_at(extent) && !classes.is_allocated(extent));
        classes.adopt(extent).unwrap();
        assert!(classes.is_allocated(extent));
        classes.free(extent, 1).unwrap();
        classes.checkpoint_durable(1);
        assert!(!classes.reserve_at(extent) && !classes.is_allocated(extent));
        assert_eq!(classes.blocks()[0].blocks.deferred, 6);
        classes.checkpoint_durable(2);
        assert!(classes.reserve_at(extent));
        let spaces = classes.spaces_mut();
        let dirty = spaces.map(|(class, vdev, space)| (class, vdev, space.take_dirty().len()));
        assert_eq!(dirty.collect::<Vec<_>>(), [(0, 0, 1), (1, 0, 0)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn no_two_extents_overlap_and_the_accounts_are_exact(
            capacities in prop::array::uniform4(prop::collection::vec(0..1500_u64, 0..4)),
            reserve in 0..200_u64,
            steps in prop::collection::vec((any::<bool>(), 0..4_u8, 1..=256_u32, 0..3_u8, 0..99_usize), 1..120),
        ) {
            let capacities = capacities.each_ref().map(|capacities| &capacities[..]);
            let mut classes = pool(Orders::default(), reserve, &capacities);
            let mut extents: BTreeMap<Address, u32> = BTreeMap::new();
            let mut used = [0; CLASSES];
            let actual = |class: u8, blocks: u32| {
                u64::from(if class == 0 { blocks + blocks.div_ceil(2) } else { blocks })
            };
            for (allocates, class, blocks, purpose, at) in steps {
                if allocates {
                    let purpose = [Purpose::Data, Purpose::Metadata, Purpose::Reserve][usize::from(purpose)];
                    let Ok(extent) = classes.allocate(class, blocks, purpose, &mut Fixed) else { continue };
                    let (address, class) = (extent.address, extent.address.class());
                    let end = address.block() + actual(class, blocks);
                    let capacity = capacities[usize::from(class)][usize::from(address.vdev())];
                    prop_assert!(end <= capacity && address.block() / 512 == (end - 1) / 512);
                    let of_vdev = |other: &Address| (other.class(), other.vdev()) == (class, address.vdev());
                    let before = extents.range(..address).next_back();
                    if let Some((before, &blocks)) = before.filter(|(other, _)| of_vdev(other)) {
                        prop_assert!(before.block() + actual(class, blocks) <= address.block());
                    }
                    if let Some((behind, _)) = extents.range(address..).next().filter(|(other, _)| of_vdev(other)) {
                        prop_assert!(end <= behind.block());
                    }
                    used[usize::from(class)] += actual(class, blocks);
                    extents.insert(address, blocks);
                    let free = classes.blocks()[usize::from(class)].blocks.free;
                    let kept = [reserve, reserve / 2, 0][purpose as usize];
                    prop_assert!(free >= kept);
                } else if let Some((&address, &blocks)) = extents.iter().nth(at % extents.len().max(1)) {
                    classes.drop_unseen(Extent { address, blocks }).unwrap();
                    extents.remove(&address);
                    used[usize::from(address.class())] -= actual(address.class(), blocks);
                }
            }
            for (class, all) in classes.blocks().into_iter().enumerate() {
                let capacity: u64 = capacities[class].iter().sum();
                prop_assert_eq!((all.blocks.capacity, all.blocks.used), (capacity, used[class]));
                let free = capacity - used[class];
                prop_assert_eq!((all.blocks.free, all.statistics.free), (free, free));
            }
        }
    }
}
