//! The space of a vdev against a model: sets of blocks, and the last two durable checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::allocation::bits::tests::blocks;
use crate::allocation::{decode, encode};

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        count: u32,
    },
    AllocateAt {
        block: u64,
        count: u32,
    },
    Free {
        at: usize,
    },
    DropUnseen {
        at: usize,
    },
    Checkpoint,
    /// A crash: the pool opens with the last durable generation.
    Reopen,
    Grow {
        by: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = || prop_oneof![1..9_u32, 1..=512_u32];
    prop::collection::vec(
        prop_oneof![
            9 => count().prop_map(|count| Step::Allocate { count }),
            2 => (0..3000_u64, count()).prop_map(|(block, count)| Step::AllocateAt { block, count }),
            5 => (0..100_usize).prop_map(|at| Step::Free { at }),
            2 => (0..100_usize).prop_map(|at| Step::DropUnseen { at }),
            3 => Just(Step::Checkpoint),
            1 => Just(Step::Reopen),
            1 => (0..900_u64).prop_map(|by| Step::Grow { by }),
        ],
        1..120,
    )
}

/// The state that a checkpoint stored: the extents, and the bitmaps as the root tree has them.
#[derive(Clone, Default)]
struct Checkpoint {
    extents: BTreeMap<u64, u32>,
    bitmaps: BTreeMap<u64, Vec<u8>>,
}

impl Checkpoint {
    fn blocks(&self) -> BTreeSet<u64> {
        of_extents(&self.extents)
    }

    fn bitmap(&self, number: u64) -> Bits {
        self.bitmaps.get(&number).map_or_else(Bits::default, |bytes| decode(bytes).unwrap())
    }
}

fn of_extents(extents: &BTreeMap<u64, u32>) -> BTreeSet<u64> {
    extents.iter().flat_map(|(&block, &count)| block..block + u64::from(count)).collect()
}

struct Model {
    capacity: u64,
    extents: BTreeMap<u64, u32>,
    /// Those that no checkpoint has seen.
    unseen: BTreeSet<u64>,
    /// Frees by the generation that was being built.
    freed: Vec<(u64, Range<u64>)>,
    building: u64,
    /// The last two durable checkpoints.
    durable: [Checkpoint; 2],
}

impl Model {
    /// The blocks that may not be allocated.
    fn taken(&self) -> BTreeSet<u64> {
        let freed = self.freed.iter().flat_map(|(_, blocks)| blocks.clone());
        of_extents(&self.extents).into_iter().chain(freed).collect()
    }

    fn add(&mut self, block: u64, count: u32) -> Result<(), TestCaseError> {
        let blocks: BTreeSet<_> = (block..block + u64::from(count)).collect();
        prop_assert!(block / 512 == (block + u64::from(count) - 1) / 512);
        prop_assert!(block + u64::from(count) <= self.capacity);
        prop_assert!(self.taken().is_disjoint(&blocks));
        for checkpoint in &self.durable {
            prop_assert!(
                checkpoint.blocks().is_disjoint(&blocks),
                "a durable generation is overwritten"
            );
        }
        self.extents.insert(block, count);
        self.unseen.insert(block);
        Ok(())
    }

    fn pick(&self, at: usize) -> Option<(u64, u32)> {
        self.extents
            .iter()
            .nth(at % self.extents.len().max(1))
            .map(|(&block, &count)| (block, count))
    }

    fn check(&self, space: &DeviceSpace) -> Result<(), TestCaseError> {
        let stored = space.stored().iter().zip(0_u64..).flat_map(|(bits, number)| {
            blocks(bits)
                .into_iter()
                .map(move |block| number * u64::from(SEGMENT) + u64::from(block))
        });
        let used = of_extents(&self.extents);
        prop_assert_eq!(&stored.collect::<BTreeSet<_>>(), &used);
        let (used, taken) = (used.len() as u64, self.taken().len() as u64);
        let (capacity, free) = (self.capacity, self.capacity - taken);
        prop_assert_eq!(space.blocks(), DeviceUse { capacity, used, deferred: taken - used, free });
        prop_assert_eq!(space.statistics().free, free);
        for block in (0..capacity.min(3000)).step_by(7) {
            prop_assert_eq!(space.allocatable.is_free(block, 1), !self.taken().contains(&block));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_block_of_the_last_two_generations_is_handed_out_and_every_other_one_is(
        capacity in prop_oneof![3 => 0..2500_u64, 1 => u64::from(SEGMENT) - 600..u64::from(SEGMENT) + 900],
        steps in steps(),
    ) {
        let mut space = DeviceSpace::new(capacity);
        let mut model = Model {
            capacity,
            extents: BTreeMap::new(),
            unseen: BTreeSet::new(),
            freed: Vec::new(),
            building: 1,
            durable: Default::default(),
        };
        for step in steps {
            match step {
                Step::Allocate { count } => {
                    let taken = model.taken();
                    let is_free = |block| block < model.capacity && !taken.contains(&block);
                    match space.allocate(count) {
                        Some(block) => model.add(block, count)?,
                        None => for group in 0..=model.capacity / 512 {
                            let mut run = 0;
                            for block in group * 512..(group + 1) * 512 {
                                run = if is_free(block) { run + 1 } else { 0 };
                                prop_assert!(run < count, "there is a run");
                            }
                        }
                    }
                }
                Step::AllocateAt { block, count } => {
                    let taken = model.taken();
                    let mut blocks = block..block + u64::from(count);
                    let may_be = blocks.all(|block| block < model.capacity && !taken.contains(&block))
                        && block % 512 + u64::from(count) <= 512;
                    prop_assert_eq!(space.allocate_at(block, count), may_be);
                    if may_be {
                        model.add(block, count)?;
                    }
                }
                Step::Free { at } => if let Some((block, count)) = model.pick(at) {
                    prop_assert!(space.is_allocated(block, count));
                    space.free(block, count, model.building).unwrap();
                    model.extents.remove(&block);
                    model.unseen.remove(&block);
                    model.freed.push((model.building, block..block + u64::from(count)));
                    prop_assert!(space.free(block, count, model.building).is_err());
                }
                Step::DropUnseen { at } => {
                    if let Some((block, count)) = model.pick(at).filter(|(block, _)| model.unseen.contains(block)) {
                        space.drop_unseen(block, count).unwrap();
                        model.extents.remove(&block);
                        model.unseen.remove(&block);
                    }
                }
                Step::Checkpoint => {
                    let mut bitmaps = model.durable[1].bitmaps.clone();
                    prop_assert_eq!(space.dirty().count(), space.dirty.len());
                    for number in space.take_dirty() {
                        bitmaps.insert(number, encode(&space.stored()[number as usize]));
                    }
                    space.checkpoint_durable(model.building);
                    model.freed.retain(|(generation, _)| *generation >= model.building);
                    model.building += 1;
                    model.unseen.clear();
                    model.durable.swap(0, 1);
                    model.durable[1] = Checkpoint { extents: model.extents.clone(), bitmaps };
                }
                Step::Reopen => {
                    let [previous, current] = &model.durable;
                    let numbers: BTreeSet<_> = previous.bitmaps.keys().chain(current.bitmaps.keys()).collect();
                    let segments = numbers.into_iter().map(|&number| StoredSegment {
                        number,
                        current: current.bitmap(number),
                        previous: previous.bitmap(number),
                    });
                    let generation = model.building - 1;
                    space = DeviceSpace::open(model.capacity, generation, segments.collect()).unwrap();
                    let gone = &previous.blocks() - &current.blocks();
                    model.freed = gone.into_iter().map(|block| (generation, block..block + 1)).collect();
                    model.extents = current.extents.clone();
                    model.unseen.clear();
                }
                Step::Grow { by } => {
                    model.capacity += by;
                    space.grow(model.capacity);
                }
            }
        }
        model.check(&space)?;
    }
}
