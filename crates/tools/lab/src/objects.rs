//! Object pools and zones as a subject of the lab.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::{CommittedZone, CommittedZonePool, ObjectPool, ScratchPool, Segments};
use halite_pmem::{Fresh, LINE, Medium, Pool, PoolOptions, Scratch};

use crate::Random;
use crate::store::refusal;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};

/// Two object pools, whose objects have a key and a stamp each, zones with entries, and volatile memory. Every object
/// is committed or free, none is there twice, and none is lost; so are segments.
pub struct Objects;

/// A step of the allocators.
#[derive(Debug, Clone)]
pub enum ObjectsStep {
    /// Gets an object, writes a key that no other one has and a stamp to it, and commits it.
    Allocate {
        /// Which pool.
        pool: usize,
        /// The key.
        key: u64,
        /// The stamp.
        stamp: u64,
    },
    /// Gets an object, writes it, and does not commit it.
    Forget {
        /// Which pool.
        pool: usize,
        /// The key.
        key: u64,
    },
    /// Releases the object with a key.
    Release {
        /// Which pool.
        pool: usize,
        /// The key.
        key: u64,
    },
    /// Makes an empty zone.
    CreateZone(u32),
    /// Appends an entry to a zone.
    Append {
        /// The zone's number.
        zone: u32,
        /// Lines of the entry.
        lines: u64,
        /// The stamp.
        stamp: u64,
    },
    /// Releases a zone.
    ReleaseZone(u32),
    /// Allocates volatile memory, and first frees all that it has if that is more than two pieces.
    Volatile {
        /// How much.
        len: u64,
    },
}

const POOL: &str = "pool";

/// Bytes of the objects of each pool: three of the one fill a segment, 63 of the other.
const LENS: [u64; 2] = [640 << 10, 32 << 10];

/// The devices of the zones and of the volatile memory; each pool has that of its number.
const ZONES: u16 = LENS.len() as u16;
const VOLATILE: u16 = ZONES + 1;

const KEYS: u64 = 7;
const ZONE_NUMBERS: u64 = 2;

/// Open pools and zones.
pub struct OpenObjects {
    segments: Arc<Segments>,
    pools: Vec<ObjectPool>,
    zone_pool: CommittedZonePool,
    zones: BTreeMap<u32, CommittedZone>,
    memory: ScratchPool,
    volatile: Vec<Scratch>,
}

fn object_name(pool: usize, key: u64) -> Vec<u8> {
    format!("object {key} of pool {pool}").into_bytes()
}

fn zone_name(zone: u32) -> Vec<u8> {
    format!("zone {zone}").into_bytes()
}

fn entry_name(zone: u32, number: usize) -> Vec<u8> {
    format!("zone {zone}, entry {number:03}").into_bytes()
}

fn step(random: &mut Random) -> ObjectsStep {
    let (pool, key) = (random.below(LENS.len() as u64) as usize, random.below(KEYS));
    let zone = random.below(ZONE_NUMBERS) as u32;
    let stamp = random.next() | 1;
    match random.below(19) {
        0..6 => ObjectsStep::Allocate { pool, key, stamp },
        6 => ObjectsStep::Forget { pool, key },
        7..10 => ObjectsStep::Release { pool, key },
        10..12 => ObjectsStep::CreateZone(zone),
        12..17 => ObjectsStep::Append { zone, lines: 1 + random.below(3), stamp },
        17 => ObjectsStep::ReleaseZone(zone),
        _ => ObjectsStep::Volatile { len: 512 << 10 << random.below(3) },
    }
}

impl Subject for Objects {
    type Step = ObjectsStep;
    type Open = OpenObjects;

    fn name(&self) -> &str {
        "objects"
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<ObjectsStep>> {
        let steps = 1 + random.below(16);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..12 => Action::Kill,
            12..18 => Action::KillWithin(None, random.below(12) as u32),
            18..32 => {
                let step = step(random);
                // An allocation that needs a segment has more events than other steps.
                let events = if matches!(step, ObjectsStep::Allocate { .. }) { 15 } else { 7 };
                Action::KillWithin(Some(step), random.below(events) as u32)
            }
            _ => Action::Step(step(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<ObjectsStep> {
        (0..random.below(4)).map(|_| step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<OpenObjects, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        open(&options).map_err(|error| refusal(&error.into()))
    }

    fn apply(&self, open: &mut OpenObjects, step: &ObjectsStep) -> Result<(), String> {
        open.apply(step).map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &ObjectsStep) -> bool {
        match *step {
            ObjectsStep::Allocate { pool, key, stamp } => {
                world.insert_new(object_name(pool, key), digest(stamp));
            }
            ObjectsStep::Forget { .. } | ObjectsStep::Volatile { .. } => {}
            ObjectsStep::Release { pool, key } => {
                world.remove(&object_name(pool, key));
            }
            ObjectsStep::CreateZone(zone) => {
                world.insert_new(zone_name(zone), Digest::of(&[]));
            }
            ObjectsStep::Append { zone, stamp, .. } => {
                if world.contains_key(&zone_name(zone)) {
                    let number =
                        (0..).find(|&number| !world.contains_key(&entry_name(zone, number)));
                    world.insert(entry_name(zone, number.expect("there are more")), digest(stamp));
                }
            }
            ObjectsStep::ReleaseZone(zone) => {
                let name = zone_name(zone);
                world.retain(|other, _| !other.starts_with(&name));
            }
        }
        true
    }

    fn world(&self, open: &mut OpenObjects) -> Result<World, Refusal> {
        open.world()
    }

    fn look_up(&self, open: &mut OpenObjects, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(open.world()?.remove(name))
    }

    fn ends_unproven(&self) -> bool {
        false
    }

    fn verify(&self, open: &mut OpenObjects) -> Result<(), Refusal> {
        for (number, pool) in open.pools.iter().enumerate() {
            let committed = pool.committed().map_err(|error| refusal(&error.into()))?.len() as u64;
            let (all, free) = (pool.capacity(), pool.available());
            if committed + free != all {
                let what = format!(
                    "of {all} objects of pool {number} {committed} are committed and {free} are free"
                );
                return Err(Refusal::Failed(what));
            }
        }
        let owned = |device| open.segments.device(device).logical_segments().len() as u64;
        let owned: u64 = (0..=VOLATILE).map(owned).sum();
        let (all, free) = (self.capacity() / halite_alloc::SEGMENT, open.segments.available());
        if owned + free + 1 != all {
            let what = format!("of {all} segments {owned} are owned and {free} are free");
            return Err(Refusal::Failed(what));
        }
        Ok(())
    }
}

fn digest(stamp: u64) -> Digest {
    Digest::of(&stamp.to_le_bytes())
}

fn open(options: &PoolOptions) -> halite_alloc::Result<OpenObjects> {
    let path = Path::new(POOL);
    let segments = if Pool::exists(path, options) {
        Segments::open(path, options)?
    } else {
        let segments = Segments::create(path, options)?;
        segments.install()?;
        segments
    };
    let pools = (0..).zip(LENS).map(|(id, len)| ObjectPool::open(&segments.device(id), len));
    let pools = pools.collect::<halite_alloc::Result<_>>()?;
    let zone_pool = CommittedZonePool::new(&segments.device(ZONES));
    let zones = zone_pool.numbers().into_iter();
    let zones = zones.map(|number| Ok((number, zone_pool.open(number)?)));
    let zones = zones.collect::<halite_alloc::Result<_>>()?;
    let memory = ScratchPool::new(&segments.device(VOLATILE))?;
    Ok(OpenObjects { segments, pools, zone_pool, zones, memory, volatile: Vec::new() })
}

impl OpenObjects {
    fn apply(&mut self, step: &ObjectsStep) -> halite_alloc::Result<()> {
        match *step {
            ObjectsStep::Allocate { pool, key, stamp } => {
                if self.find(pool, key)?.is_none() {
                    let mut object = self.pools[pool].get()?;
                    write(&mut object, key, stamp)?;
                    object.commit()?;
                }
                Ok(())
            }
            ObjectsStep::Forget { pool, key } => {
                let mut object = self.pools[pool].get()?;
                write(&mut object, key, 0)
            }
            ObjectsStep::Release { pool, key } => match self.find(pool, key)? {
                Some(index) => self.pools[pool].release(index),
                None => Ok(()),
            },
            ObjectsStep::CreateZone(number) => {
                if !self.zones.contains_key(&number) {
                    self.zones.insert(number, self.zone_pool.create(number)?);
                }
                Ok(())
            }
            ObjectsStep::Append { zone, lines, stamp } => {
                let Some(zone) = self.zones.get(&zone) else { return Ok(()) };
                let mut entry = [lines.to_le_bytes(), stamp.to_le_bytes()].concat();
                entry.resize((lines * LINE) as usize, 0);
                let mut grant = zone.get(lines * LINE).expect("a history is short");
                let flushed = grant.write_stream(0, &entry);
                let [proof] = self.segments.pool().fence([flushed])?;
                grant.publish(&proof);
                zone.commit()?;
                Ok(())
            }
            ObjectsStep::ReleaseZone(number) => {
                // If the release were refused after the zone is closed, the zone could not be read any more.
                self.segments.pool().check_synced()?;
                let is_there = self.zones.remove(&number).is_some();
                if is_there { self.zone_pool.release(number) } else { Ok(()) }
            }
            ObjectsStep::Volatile { len } => {
                if self.volatile.len() > 2 {
                    self.volatile.clear();
                }
                self.volatile.push(self.memory.get(len)?);
                Ok(())
            }
        }
    }

    /// The object with a key.
    fn find(&self, pool: usize, key: u64) -> halite_alloc::Result<Option<u64>> {
        for index in self.pools[pool].committed()? {
            if word(self.pools[pool].claim(index)?.read(0, 8)) == key {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn world(&self) -> Result<World, Refusal> {
        let named = |error: halite_alloc::Error| refusal(&error.into());
        let mut world = World::new();
        for (number, pool) in self.pools.iter().enumerate() {
            for index in pool.committed().map_err(named)? {
                let object = pool.claim(index).map_err(named)?;
                let (key, stamp) = (word(object.read(0, 8)), word(object.read(8, 8)));
                let repeated = word(object.read(object.len() - 8, 8));
                if repeated != stamp {
                    let what =
                        format!("object {index} of pool {number} was not written as a whole");
                    return Err(Refusal::Failed(what));
                }
                if world.insert(object_name(number, key), digest(stamp)).is_some() {
                    let what = format!("two objects of pool {number} have the key {key}");
                    return Err(Refusal::Failed(what));
                }
            }
        }
        for (&number, zone) in &self.zones {
            world.insert(zone_name(number), Digest::of(&[]));
            let mut rest = zone.published().bytes();
            for entry in 0.. {
                let Some(lines) = rest.first_chunk().map(|lines| u64::from_le_bytes(*lines)) else {
                    break;
                };
                let len =
                    lines.checked_mul(LINE).filter(|&len| len > 0 && len <= rest.len() as u64);
                let Some(len) = len else {
                    let what = format!("zone {number}: entry {entry} has {lines} lines");
                    return Err(Refusal::Failed(what));
                };
                world.insert(entry_name(number, entry), digest(word(&rest[8..])));
                rest = &rest[len as usize..];
            }
        }
        Ok(world)
    }
}

/// Writes an object's two ends, durably.
fn write(object: &mut Fresh, key: u64, stamp: u64) -> halite_alloc::Result<()> {
    let end = object.len();
    object.write_words(0, &[key, stamp]);
    object.write_words(end - 8, &[stamp]);
    object.pool().fence([object.flush(0..16), object.flush(end - 8..end)])?;
    Ok(())
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("there are eight"))
}
