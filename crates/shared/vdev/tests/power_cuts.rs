//! Vdevs in the crash lab: a store of a few values, kept by the protocol that a pool follows. A value is written to an
//! extent that the newest label does not lead to; the vdev is synced; labels that lead to it are written; the vdev is
//! synced again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Effort, Explorer, Random, Refusal, Rules, Subject, World};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_vdev::{
    Arrangement, BLOCK, Epoch, Extent, FileLeaf, Label, Leaf, PmemLeaf, Position, ScrubMemory,
    Vdev, choose,
};

/// Histories of each vdev under each set of rules; and of files alone, whose images are small. The first 40 of these notice
/// an opening that does not make a found label durable, which few histories need: another process was killed between a
/// label and its sync, and the next value goes where the label before it leads to.
const SEEDS: u64 = 2;
const FILE_SEEDS: u64 = 40;

const VALUES: u8 = 3;
const BLOCKS: u32 = 2;
/// Extents of the store: those of a label, and one to write.
const EXTENTS: u8 = VALUES + 1;

struct Shelf {
    name: &'static str,
    arrangement: Arrangement,
    pmem: bool,
    files: u64,
}

struct Open {
    vdev: Vdev,
    generation: u64,
    epochs: Vec<Epoch>,
    /// The extent of each value, and the byte that it consists of.
    values: BTreeMap<u8, (u8, u8)>,
}

#[derive(Debug, Clone)]
struct Put {
    value: u8,
    byte: u8,
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::Failed(error.to_string())
}

fn digest(byte: u8) -> Digest {
    Digest::of(&[byte])
}

impl Shelf {
    fn leaves(&self, medium: &Medium) -> halite_vdev::Result<Vec<Option<Arc<dyn Leaf>>>> {
        let mut leaves: Vec<Option<Arc<dyn Leaf>>> = Vec::new();
        if self.pmem {
            let mut options = PoolOptions::default();
            (options.size_max, options.medium) = (self.capacity(), Some(medium.clone()));
            let path = Path::new("pool");
            let segments = if Pool::exists(path, &options) {
                Segments::open(path, &options)?
            } else {
                let segments = Segments::create(path, &options)?;
                segments.install()?;
                segments
            };
            leaves.push(Some(Arc::new(PmemLeaf::open(path, segments.device(1), 512)?)));
        }
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        for file in 0..self.files {
            let name = format!("leaf{file}");
            let is_there = disk.list()?.iter().any(|(there, _)| *there == name);
            let leaf = match is_there {
                true => FileLeaf::open(&disk, &name, 512, 8)?,
                false => FileLeaf::create(&disk, &name, 512, 8)?,
            };
            leaves.push(Some(Arc::new(leaf)));
        }
        Ok(leaves)
    }
}

impl Open {
    fn extent(&self, number: u8) -> Extent {
        let each = u64::from(self.vdev.actual_blocks(BLOCKS));
        Extent { block: u64::from(number) * each, blocks: BLOCKS }
    }

    fn put(&mut self, put: &Put) -> halite_vdev::Result<()> {
        let is_used = |extent: &u8| self.values.values().any(|(used, _)| used == extent);
        let free = (0..EXTENTS).find(|extent| !is_used(extent)).expect("one is free");
        self.vdev.write(self.extent(free), &[put.byte; BLOCKS as usize * BLOCK])?;
        self.vdev.sync()?;
        let old = self.values.insert(put.value, (free, put.byte));
        self.generation += 1;
        let payload =
            self.values.iter().flat_map(|(&value, &(extent, byte))| [value, extent, byte]);
        let label = Label {
            pool: 1,
            guid: 0,
            position: Position::default(),
            incompatible: 0,
            compatible: 0,
            generation: self.generation,
            epochs: self.epochs.clone(),
            payload: payload.collect(),
        };
        self.vdev.write_labels(&|leaf| {
            let position = Position { leaf: leaf as u16, ..Position::default() };
            Label { position, guid: leaf as u64, ..label.clone() }
        })?;
        self.vdev.sync()?;
        if let Some((extent, _)) = old {
            assert!(self.vdev.free(self.extent(extent)), "no reader has it");
        }
        Ok(())
    }
}

impl Subject for Shelf {
    type Step = Put;
    type Open = Open;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        6 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Put>> {
        let put = |random: &mut Random| Put {
            value: random.below(VALUES.into()) as u8,
            byte: random.next() as u8,
        };
        let steps = 2 + random.below(4);
        let action = |random: &mut Random| match random.below(100) {
            0..10 => Action::Reopen,
            10..20 => Action::Kill,
            20..35 => Action::KillWithin(Some(put(random)), random.below(8) as u32),
            35..40 => Action::KillWithin(None, random.below(8) as u32),
            _ => Action::Step(put(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Put> {
        (0..2).map(|value| Put { value, byte: random.next() as u8 }).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let vdev = self.leaves(medium).and_then(|leaves| Vdev::new(self.arrangement, leaves));
        let vdev = vdev.map_err(failed)?;
        let labels: Vec<_> = vdev.read_labels().into_iter().flatten().collect();
        let chosen = choose(0, &labels);
        let mut open = Open { vdev, generation: 0, epochs: Vec::new(), values: BTreeMap::new() };
        if let Some(chosen) = chosen {
            open.generation = chosen.label.generation;
            open.epochs = chosen.label.epochs;
            for stored in chosen.label.payload.chunks_exact(3) {
                open.values.insert(stored[0], (stored[1], stored[2]));
            }
        }
        open.vdev.clear_torn_labels().map_err(failed)?;
        let first_generation = open.generation + 1;
        open.epochs.push(Epoch { session: first_generation, first_generation });
        let blocks = u64::from(EXTENTS) * u64::from(open.vdev.actual_blocks(BLOCKS));
        open.vdev.grow_to(blocks).map_err(failed)?;
        Ok(open)
    }

    fn apply(&self, open: &mut Open, step: &Put) -> Result<(), String> {
        open.put(step).map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Put) -> bool {
        world.insert(vec![step.value], digest(step.byte));
        true
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        let names: Vec<u8> = open.values.keys().copied().collect();
        let mut world = World::new();
        for name in names {
            let digest = self.look_up(open, &[name])?;
            world.extend(digest.map(|digest| (vec![name], digest)));
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        let Some(&(extent, byte)) = open.values.get(&name[0]) else { return Ok(None) };
        let mut to = [0; BLOCKS as usize * BLOCK];
        let read = open.vdev.read(open.extent(extent), 0, &mut to, &|bytes| {
            bytes.iter().all(|found| *found == byte)
        });
        read.map_err(failed)?;
        Ok(Some(digest(to[0])))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        for &(extent, byte) in open.values.values() {
            let right = |bytes: &[u8]| bytes.iter().all(|found| *found == byte);
            let found = open
                .vdev
                .scrub(open.extent(extent), &right, &mut ScrubMemory::default())
                .map_err(failed)?;
            if !found.damaged.is_empty() {
                return Err(failed(format!("extent {extent}: {found:?}")));
            }
        }
        Ok(())
    }
}

#[test]
fn a_synced_vdev_survives_every_power_cut_on_all_its_leaves() {
    let shelves = [
        Shelf { name: "file", arrangement: Arrangement::Single, pmem: false, files: 1 },
        Shelf { name: "pmem", arrangement: Arrangement::Single, pmem: true, files: 0 },
        Shelf { name: "mirror", arrangement: Arrangement::Mirror, pmem: true, files: 1 },
        Shelf { name: "parity", arrangement: Arrangement::Parity(1), pmem: true, files: 2 },
    ];
    for shelf in &shelves {
        // Files keep rules of their own.
        let all = [Rules::Memory, Rules::PageCache, Rules::Platform];
        for &rules in if shelf.pmem { &all[..] } else { &all[..1] } {
            let effort = Effort { images_max: 16, history_images_max: 80, ..Effort::default() };
            let mut explorer = Explorer::new(shelf, rules, effort);
            for seed in 0..if shelf.pmem { SEEDS } else { FILE_SEEDS } {
                if let Some(violation) = explorer.explore(seed) {
                    panic!("{}: {}: {}", shelf.name, violation.case, violation.what);
                }
            }
            assert!(explorer.tally.crash_points > 0);
        }
    }
}
