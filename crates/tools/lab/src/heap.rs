//! The persistent heap as a subject of the lab.

use std::collections::BTreeMap;
use std::path::Path;

use halite_alloc::Segments;
use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner, Publication, SlotState, Tag, Tagged};
use halite_pmem::{Medium, Pool, PoolOptions};

use crate::Random;
use crate::store::refusal;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};

/// Rows of owners in a heap, with a directory of pointers to them, and named roots. Each step happens as a whole: by a
/// publication, or with an undo log in the heap. No slot is lost, and none is reached that is not persisted.
pub struct HeapOfRows;

/// A step of the heap's user.
#[derive(Debug, Clone)]
pub enum HeapStep {
    /// Replaces rows, or removes them, in one publication.
    Put(Vec<(u64, Option<Row>)>),
    /// Gets a slot, writes it, and does not publish it.
    Forget {
        /// The owner.
        owner: u32,
        /// How long it is.
        len: u64,
    },
    /// Writes into a row in place, and publishes that.
    Extend {
        /// The row's key.
        key: u64,
        /// The bytes that are written.
        stamp: u64,
    },
    /// Removes a row without a publication, with an undo log; meanwhile another slot is reserved and written.
    Remove {
        /// The row's key.
        key: u64,
    },
    /// Sets a root, or removes it.
    Root {
        /// The number in its name.
        number: u8,
        /// Its value.
        value: Option<u64>,
    },
    /// Drops an owner with all its rows.
    Drop {
        /// The owner.
        owner: u32,
    },
    /// Reclaims space of dropped owners.
    Reclaim,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// How long it is.
    pub len: u64,
    /// The bytes in it.
    pub stamp: u64,
}

/// Bytes of the beginning of a row that are written: the key, the stamp, the length, the stamp of the extension, two
/// places for extensions, and the sum of the first three again and again.
const WRITTEN: u64 = 240;
const EXTENSION: u64 = 24;
const EXTENSIONS: [u64; 2] = [32, 96];
const REST: u64 = 160;

impl Tagged for Row {
    const TAG: Tag = Tag::new(1);
}

/// The directory: a word for each key, with a pointer or [`NO_ROW`].
enum Directory {}

impl Tagged for Directory {
    const TAG: Tag = Tag::new(2);
}

/// The undo log: a word that is the removed row's pointer, its key and its length, and the sum of them.
enum UndoLog {}

impl Tagged for UndoLog {
    const TAG: Tag = Tag::new(3);
}

/// The word of a key without a row: zeros are damage.
const NO_ROW: u64 = u64::MAX;

const POOL: &str = "pool";
const KEYS: u64 = 6;
const OWNERS: u64 = 3;
const LENS: [u64; 5] = [WRITTEN, WRITTEN, 6_000, 30_000, 900_000];

/// The owner of the directory and the undo log.
const HOUSE: u32 = 9;

/// An open heap.
pub struct OpenHeap {
    heap: Heap,
    directory: NvPtr<Directory>,
    undo: NvPtr<UndoLog>,
    /// Reserved slots that will not be published.
    forgotten: Vec<AnyPtr>,
    /// A publication that is used again.
    publication: Publication,
}

fn row_name(key: u64) -> Vec<u8> {
    format!("row {key}").into_bytes()
}

fn root_name(number: u8) -> String {
    format!("root {number}")
}

fn owner_of(key: u64) -> u32 {
    (key % OWNERS) as u32
}

fn owner(number: u32) -> Owner {
    Owner::new(number).expect("a small number")
}

fn extension_name(key: u64) -> Vec<u8> {
    format!("extension of row {key}").into_bytes()
}

fn digest(row: Row) -> Digest {
    Digest::of(&[row.len, row.stamp].map(u64::to_le_bytes).concat())
}

/// The two low bits of an extension's stamp tell its place, and that it is there.
fn extension_digest(stamp: u64) -> Digest {
    Digest::of(&(stamp >> 2).to_le_bytes())
}

fn remove_row(world: &mut World, key: u64) {
    world.remove(&row_name(key));
    world.remove(&extension_name(key));
}

/// The undo log's check of a removal.
fn sum(words: [u64; 3]) -> u64 {
    let hash =
        |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words.iter().fold(1, hash)
}

fn step(random: &mut Random) -> HeapStep {
    let key = random.below(KEYS);
    let len = |random: &mut Random| LENS[random.below(LENS.len() as u64) as usize];
    match random.below(20) {
        0..8 => {
            let change = |random: &mut Random| {
                let row = Row { len: len(random), stamp: random.next() };
                (random.below(KEYS), (random.below(4) > 0).then_some(row))
            };
            let changes = 1 + random.below(3);
            let changes: BTreeMap<_, _> = (0..changes).map(|_| change(random)).collect();
            HeapStep::Put(changes.into_iter().collect())
        }
        8 => HeapStep::Forget { owner: owner_of(key), len: len(random) },
        9..12 => HeapStep::Extend { key, stamp: random.next() },
        12..15 => HeapStep::Remove { key },
        15..17 => {
            let value = (random.below(3) > 0).then(|| random.next());
            HeapStep::Root { number: random.below(3) as u8, value }
        }
        17 => HeapStep::Drop { owner: owner_of(key) },
        _ => HeapStep::Reclaim,
    }
}

impl Subject for HeapOfRows {
    type Step = HeapStep;
    type Open = OpenHeap;

    fn name(&self) -> &str {
        "heap"
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<HeapStep>> {
        let steps = 1 + random.below(14);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..12 => Action::Kill,
            12..18 => Action::KillWithin(None, random.below(16) as u32),
            18..34 => Action::KillWithin(Some(step(random)), random.below(24) as u32),
            _ => Action::Step(step(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<HeapStep> {
        (0..random.below(4)).map(|_| step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<OpenHeap, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        open(&options).map_err(|error| refusal(&error.into()))
    }

    fn apply(&self, open: &mut OpenHeap, step: &HeapStep) -> Result<(), String> {
        open.publication.clear();
        open.apply(step).map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &HeapStep) -> bool {
        match step {
            HeapStep::Put(changes) => {
                for &(key, row) in changes {
                    match row {
                        Some(row) => drop(world.insert(row_name(key), digest(row))),
                        None => drop(world.remove(&row_name(key))),
                    }
                    world.remove(&extension_name(key));
                }
            }
            HeapStep::Forget { .. } | HeapStep::Reclaim => {}
            HeapStep::Extend { key, stamp } => {
                if world.contains_key(&row_name(*key)) {
                    world.insert(extension_name(*key), extension_digest(*stamp));
                }
            }
            HeapStep::Remove { key } => remove_row(world, *key),
            HeapStep::Root { number, value } => {
                let name = root_name(*number).into_bytes();
                match value {
                    Some(value) => drop(world.insert(name, Digest::of(&value.to_le_bytes()))),
                    None => drop(world.remove(&name)),
                }
            }
            HeapStep::Drop { owner } => {
                for key in (0..KEYS).filter(|&key| owner_of(key) == *owner) {
                    remove_row(world, key);
                }
            }
        }
        true
    }

    fn world(&self, open: &mut OpenHeap) -> Result<World, Refusal> {
        open.world()
    }

    fn look_up(&self, open: &mut OpenHeap, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(open.world()?.remove(name))
    }

    fn verify(&self, open: &mut OpenHeap) -> Result<(), Refusal> {
        let named = |error: halite_alloc::Error| refusal(&error.into());
        let mut reachable = vec![open.directory.any(), open.undo.any()];
        for key in 0..KEYS {
            reachable.extend(open.row(key).map_err(named)?.map(|row| row.any()));
        }
        open.heap.check(reachable).map_err(named)?;
        open.world().map(drop)
    }
}

fn open(options: &PoolOptions) -> halite_alloc::Result<OpenHeap> {
    let path = Path::new(POOL);
    let segments = if Pool::exists(path, options) {
        Segments::open(path, options)?
    } else {
        let segments = Segments::create(path, options)?;
        segments.install()?;
        segments
    };
    let mut heap = Heap::open(&segments.device(0))?;
    let mut publication = Publication::new();
    if heap.root("directory").is_none() {
        let directory = heap.reserve::<Directory>(owner(HOUSE), KEYS * 8)?;
        heap.write(directory, 0, &NO_ROW.to_le_bytes().repeat(KEYS as usize))?;
        let undo = heap.reserve::<UndoLog>(owner(HOUSE), 32)?;
        heap.write(undo, 0, &[0; 32])?;
        publication.activate(directory);
        publication.activate(undo);
        publication.set_root("directory", directory.word());
        publication.set_root("undo", undo.word());
        heap.publish(&mut publication)?;
    }
    let root = |name| heap.root(name).unwrap_or(0);
    let (directory, undo) = (NvPtr::from_word(root("directory")), NvPtr::from_word(root("undo")));
    let mut open = OpenHeap { heap, directory, undo, forgotten: Vec::new(), publication };
    open.roll_back()?;
    Ok(open)
}

impl OpenHeap {
    /// Undoes a removal that a crash interrupted.
    fn roll_back(&mut self) -> halite_alloc::Result<()> {
        let mut words = [0; 4];
        for (at, word) in (0..).step_by(8).zip(&mut words) {
            *word = self.heap.word(self.undo, at)?;
        }
        let [row, key, len, check] = words;
        if check == sum([row, key, len]) && key < KEYS {
            self.heap.restore(NvPtr::<Row>::from_word(row), owner(owner_of(key)), len)?;
            self.heap.store_word(self.directory, key * 8, row)?;
            self.heap.fence()?;
        }
        // Also a log that is found empty may not be durably so.
        self.heap.store_word(self.undo, 24, 0)?;
        self.heap.fence()
    }

    /// The pointer to the row with a key.
    fn row(&self, key: u64) -> halite_alloc::Result<Option<NvPtr<Row>>> {
        let word = self.heap.word(self.directory, key * 8)?;
        Ok((word != NO_ROW).then(|| NvPtr::from_word(word)))
    }

    /// Reserves a slot for a row and writes it.
    fn reserve(&mut self, key: u64, row: Row) -> halite_alloc::Result<NvPtr<Row>> {
        let pointer = self.heap.reserve::<Row>(owner(owner_of(key)), row.len)?;
        let sum = sum([key, row.stamp, row.len]).to_le_bytes();
        let mut bytes = [key, row.stamp, row.len, 0].map(u64::to_le_bytes).concat();
        bytes.resize(WRITTEN as usize, 0);
        bytes[REST as usize..].chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&sum));
        self.heap.write(pointer, 0, &bytes)?;
        Ok(pointer)
    }

    /// Reclaims all of an owner that was dropped, so that it may have rows again.
    fn revive(&mut self, number: u32) -> halite_alloc::Result<()> {
        let is_dropped = self.heap.dropped_owners().any(|dropped| dropped == owner(number));
        if is_dropped {
            while !self.heap.reclaim(1)? {}
        }
        Ok(())
    }

    fn apply(&mut self, step: &HeapStep) -> halite_alloc::Result<()> {
        match *step {
            HeapStep::Put(ref changes) => {
                for &(key, row) in changes {
                    self.revive(owner_of(key))?;
                    let before = self.row(key)?;
                    before.iter().for_each(|before| self.publication.free(*before));
                    let mut word = NO_ROW;
                    if let Some(row) = row {
                        let pointer = self.reserve(key, row)?;
                        self.publication.activate(pointer);
                        word = pointer.word();
                    }
                    if before.is_some() || row.is_some() {
                        self.publication.store(self.directory, key * 8, word);
                    }
                }
                self.heap.publish(&mut self.publication)
            }
            HeapStep::Forget { owner, len } => {
                self.revive(owner)?;
                if self.forgotten.len() > 1 {
                    let pointer = self.forgotten.remove(0);
                    // Its owner may have been dropped, and reclaimed.
                    if self.heap.state(pointer).is_ok_and(|state| state == SlotState::Reserved) {
                        self.heap.cancel(pointer)?;
                    }
                }
                let pointer = self.reserve(owner.into(), Row { len, stamp: u64::MAX })?;
                self.forgotten.push(pointer.any());
                Ok(())
            }
            HeapStep::Extend { key, stamp } => self.extend(key, stamp),
            HeapStep::Remove { key } => self.remove(key),
            HeapStep::Root { number, value } => {
                match value {
                    Some(value) => self.publication.set_root(&root_name(number), value),
                    None => self.publication.remove_root(&root_name(number)),
                }
                self.heap.publish(&mut self.publication)
            }
            HeapStep::Drop { owner: number } => {
                for key in (0..KEYS).filter(|&key| owner_of(key) == number) {
                    if self.row(key)?.is_some() {
                        self.publication.store(self.directory, key * 8, NO_ROW);
                    }
                }
                self.publication.drop_owner(owner(number));
                self.heap.publish(&mut self.publication)
            }
            HeapStep::Reclaim => self.heap.reclaim(1).map(drop),
        }
    }

    fn extend(&mut self, key: u64, stamp: u64) -> halite_alloc::Result<()> {
        let Some(row) = self.row(key)? else { return Ok(()) };
        let before = self.heap.word(row, EXTENSION)?;
        // The place of the extension before stays as it is until this one has taken its place.
        let place = if before & 2 != 0 { 1 - before % 2 } else { 0 };
        let (at, stamp) = (EXTENSIONS[place as usize], stamp >> 2 << 2 | 2 | place);
        self.heap.write(row, at, &stamp.to_le_bytes().repeat(8))?;
        self.publication.cover(row, at..at + 64);
        self.publication.store(row, EXTENSION, stamp);
        self.heap.publish(&mut self.publication)
    }

    fn remove(&mut self, key: u64) -> halite_alloc::Result<()> {
        let Some(row) = self.row(key)? else { return Ok(()) };
        let len = self.heap.word(row, 16)?;
        let entry = [row.word(), key, len, sum([row.word(), key, len])];
        self.heap.write(self.undo, 0, &entry.map(u64::to_le_bytes).concat())?;
        self.heap.fence()?;
        self.heap.store_word(self.directory, key * 8, NO_ROW)?;
        self.heap.free(row)?;
        // A slot that is reserved before the fence is another one: the removal may have to be undone.
        let other = self.reserve(key, Row { len, stamp: 0 })?;
        self.heap.fence()?;
        self.heap.store_word(self.undo, 24, 0)?;
        self.heap.fence()?;
        self.heap.cancel(other)
    }

    fn world(&self) -> Result<World, Refusal> {
        let named = |error: halite_alloc::Error| refusal(&error.into());
        let mut world = World::new();
        for (name, value) in self.heap.roots().filter(|(name, _)| name.starts_with("root")) {
            world.insert(name.into(), Digest::of(&value.to_le_bytes()));
        }
        for key in 0..KEYS {
            let Some(pointer) = self.row(key).map_err(named)? else { continue };
            let bytes = self.heap.read_at(pointer, 0, WRITTEN).map_err(named)?;
            let words: Vec<u64> =
                bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let [of_key, stamp, len, extension, ..] = words[..] else {
                unreachable!("so many are read")
            };
            let rest = &words[REST as usize / 8..];
            let sum = sum([of_key, stamp, len]);
            if of_key != key || rest.iter().any(|&word| word != sum) {
                return Err(Refusal::Named(format!("row {key} was not written as a whole")));
            }
            world.insert(row_name(key), digest(Row { len, stamp }));
            if extension != 0 {
                let at = EXTENSIONS[(extension % 2) as usize] as usize / 8;
                if words[at..at + 8].iter().any(|&word| word != extension) {
                    let what = format!("the extension of row {key} was not written as a whole");
                    return Err(Refusal::Named(what));
                }
                world.insert(extension_name(key), extension_digest(extension));
            }
        }
        Ok(world)
    }
}
