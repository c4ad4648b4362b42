//! The manager of a pool's segments as a subject of the lab.

use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_pmem::{Medium, Pool, PoolOptions};

use crate::Random;
use crate::store::refusal;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};

/// Segments of logical devices, each with a stamp in it, and named roots.
pub struct Space;

/// A step of the manager.
#[derive(Debug, Clone)]
pub enum SpaceStep {
    /// Allocates a segment, writes its stamp and commits it.
    Allocate {
        /// The device.
        device: u16,
        /// The place in the device.
        logical: u32,
        /// The bytes that are written to it.
        stamp: u64,
    },
    /// Gets a segment, and does not commit it.
    Forget {
        /// The device.
        device: u16,
        /// The place in the device.
        logical: u32,
    },
    /// Releases a segment.
    Release {
        /// The device.
        device: u16,
        /// The place in the device.
        logical: u32,
    },
    /// Moves a segment to another place of its device.
    Renumber {
        /// The device.
        device: u16,
        /// The place that it leaves.
        from: u32,
        /// The place that it gets.
        to: u32,
    },
    /// Sets a root.
    Root {
        /// The number in its name.
        number: u8,
        /// Its value.
        value: u64,
    },
}

const POOL: &str = "pool";
const DEVICES: u16 = 2;
const PLACES: u32 = 4;

fn segment_name(device: u16, logical: u32) -> Vec<u8> {
    format!("segment {logical} of device {device}").into_bytes()
}

fn root_name(number: u8) -> String {
    format!("root {number}")
}

fn step(random: &mut Random) -> SpaceStep {
    let (device, logical) =
        (random.below(DEVICES.into()) as u16, random.below(PLACES.into()) as u32);
    match random.below(10) {
        0..4 => SpaceStep::Allocate { device, logical, stamp: random.next() | 1 },
        4 => SpaceStep::Forget { device, logical },
        5..7 => SpaceStep::Release { device, logical },
        7 => {
            let to = random.below(PLACES.into()) as u32;
            SpaceStep::Renumber { device, from: logical, to }
        }
        _ => SpaceStep::Root { number: random.below(3) as u8, value: random.next() },
    }
}

impl Subject for Space {
    type Step = SpaceStep;
    type Open = Arc<Segments>;

    fn name(&self) -> &str {
        "alloc"
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<SpaceStep>> {
        let steps = 1 + random.below(12);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..12 => Action::Kill,
            12..18 => Action::KillWithin(None, random.below(12) as u32),
            18..30 => Action::KillWithin(Some(step(random)), random.below(5) as u32),
            _ => Action::Step(step(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<SpaceStep> {
        (0..random.below(3)).map(|_| step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Arc<Segments>, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        let path = Path::new(POOL);
        let opened = if Pool::exists(path, &options) {
            Segments::open(path, &options)
        } else {
            Segments::create(path, &options).and_then(|segments| {
                segments.install()?;
                Ok(segments)
            })
        };
        opened.map_err(|error| refusal(&error.into()))
    }

    fn apply(&self, open: &mut Arc<Segments>, step: &SpaceStep) -> Result<(), String> {
        let done = match *step {
            SpaceStep::Allocate { device, logical, stamp } => {
                allocate(open, device, logical, stamp)
            }
            SpaceStep::Forget { device, logical } => {
                let device = open.device(device);
                let is_free = !device.logical_segments().contains(&logical);
                if is_free { device.get(logical).map(drop) } else { Ok(()) }
            }
            SpaceStep::Release { device, logical } => open.device(device).release(logical),
            SpaceStep::Renumber { device, from, to } => {
                let device = open.device(device);
                let places = device.logical_segments();
                let moves = places.contains(&from) && !places.contains(&to);
                if moves { device.renumber(from, to) } else { Ok(()) }
            }
            SpaceStep::Root { number, value } => open.set_root(&root_name(number), value),
        };
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &SpaceStep) -> bool {
        match *step {
            SpaceStep::Allocate { device, logical, stamp } => {
                let digest = Digest::of(&stamp.to_le_bytes());
                world.insert_new(segment_name(device, logical), digest);
            }
            SpaceStep::Forget { .. } => {}
            SpaceStep::Release { device, logical } => {
                world.remove(&segment_name(device, logical));
            }
            SpaceStep::Renumber { device, from, to } => {
                let (from, to) = (segment_name(device, from), segment_name(device, to));
                if !world.contains_key(&to)
                    && let Some(stamp) = world.remove(&from)
                {
                    world.insert(to, stamp);
                }
            }
            SpaceStep::Root { number, value } => {
                world.insert(root_name(number).into(), Digest::of(&value.to_le_bytes()));
            }
        }
        true
    }

    fn world(&self, open: &mut Arc<Segments>) -> Result<World, Refusal> {
        let mut world = World::new();
        for number in 0..DEVICES {
            let device = open.device(number);
            for logical in device.logical_segments() {
                let stamped = device.claim(logical, 0, 8);
                let stamped = stamped.map_err(|error| refusal(&error.into()))?;
                world.insert(segment_name(number, logical), Digest::of(stamped.bytes()));
            }
        }
        for number in 0..=u8::MAX {
            match open.root(&root_name(number)) {
                Some(value) => {
                    world.insert(root_name(number).into(), Digest::of(&value.to_le_bytes()));
                }
                None if number > 3 => break,
                None => {}
            }
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut Arc<Segments>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn ends_unproven(&self) -> bool {
        false
    }

    fn verify(&self, open: &mut Arc<Segments>) -> Result<(), Refusal> {
        let owned: usize =
            (0..DEVICES).map(|device| open.device(device).logical_segments().len()).sum();
        let (all, free) = (self.capacity() / halite_alloc::SEGMENT, open.available());
        if owned as u64 + free + 1 != all {
            let what = format!("of {all} segments {owned} are owned and {free} are free");
            return Err(Refusal::Failed(what));
        }
        Ok(())
    }
}

fn allocate(
    segments: &Arc<Segments>,
    device: u16,
    logical: u32,
    stamp: u64,
) -> halite_alloc::Result<()> {
    let device = segments.device(device);
    if device.logical_segments().contains(&logical) {
        return Ok(());
    }
    let grant = device.get(logical)?;
    let mut fresh = grant.claim(0, 8)?;
    fresh.write(0, &stamp.to_le_bytes());
    segments.pool().fence([fresh.flush(0..8)])?;
    drop(fresh);
    grant.commit()
}
