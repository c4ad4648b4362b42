//! A file of copy-on-write trees as a subject of the lab: no power cut leaves half a batch, loses a committed one, or
//! leaves a page that is both free and reachable, or neither.

use std::ops::Bound;

use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::{Medium, UNIT};
use halite_table::index::cow_file::{CowFile, Options, Snapshot};
use halite_table::index::{Direction, Error};

const TREES: u32 = 2;

/// A key of a tree, and its value; or none, if it is removed.
type Write = (u32, Vec<u8>, Option<Vec<u8>>);

/// A batch of changes of some keys.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    seed: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Committed,
    Aborted,
    /// Committed in two parts, with a snapshot from before until after them.
    Snapshot,
}

impl Batch {
    fn draw(random: &mut Random) -> Self {
        let kind = match random.below(6) {
            0 => Kind::Aborted,
            1 => Kind::Snapshot,
            _ => Kind::Committed,
        };
        Self { seed: random.next(), kind }
    }

    fn writes(&self) -> Vec<Write> {
        let mut random = Random::new(self.seed);
        let writes = (0..1 + random.below(16)).map(|_| {
            let tree = random.below(TREES.into()) as u32;
            let len = if random.below(20) == 0 { 300 } else { 3 };
            let key = vec![random.below(30) as u8; len];
            let len = if random.below(10) == 0 { 600 } else { random.below(50) };
            let value = vec![random.next() as u8; len as usize];
            (tree, key, (random.below(3) > 0).then_some(value))
        });
        writes.collect()
    }
}

fn name(tree: u32, key: &[u8]) -> Vec<u8> {
    [&tree.to_be_bytes(), key].concat()
}

/// The trees of one file.
pub(crate) struct Trees;

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Damaged { .. } | Error::Foreign { .. } => Refusal::Named(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

fn write(file: &mut CowFile, writes: &[Write]) -> halite_table::index::Result<()> {
    for (tree, key, value) in writes {
        match value {
            Some(value) => file.put(*tree, key, value)?,
            None => file.remove(*tree, key)?,
        };
    }
    Ok(())
}

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// A cache of 16 pages, the smallest one, has pages come and go.
const OPTIONS: Options = Options { page_len: 256, cache_bytes: 0 };

/// The entries of the first tree.
fn entries(snapshot: &Snapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = snapshot.scan(0, ALL, Direction::Forward).expect("a scan");
    let mut found = Vec::new();
    while let Some((key, value)) = scan.next().expect("an entry") {
        found.push((key.to_vec(), value.into_owned()));
    }
    found
}

impl Subject for Trees {
    type Step = Batch;
    type Open = CowFile;

    fn name(&self) -> &str {
        "cow-file"
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Batch>> {
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..22 => Action::KillWithin(None, random.below(6) as u32),
            22..40 => Action::KillWithin(Some(Batch::draw(random)), random.below(14) as u32),
            40..46 => Action::FailWithin(Some(Batch::draw(random)), random.below(3) as u32),
            46..50 => Action::FailWithin(None, random.below(3) as u32),
            50..53 => Action::FailOpening(random.below(3) as u32),
            _ => Action::Step(Batch::draw(random)),
        };
        (0..1 + random.below(8)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Batch> {
        (0..random.below(3)).map(|_| Batch::draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<CowFile, Refusal> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let is_there = disk.list().is_ok_and(|names| names.iter().any(|(name, _)| name == "trees"));
        let opened = match is_there {
            true => CowFile::open(&disk, "trees", 7, OPTIONS),
            false => CowFile::create(&disk, "trees", 7, OPTIONS),
        };
        opened.map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut CowFile, step: &Batch) -> Result<(), String> {
        let all = step.writes();
        let applied = match step.kind {
            Kind::Committed => write(open, &all).and_then(|()| open.commit()),
            Kind::Aborted => {
                let written = write(open, &all);
                open.abort();
                written
            }
            Kind::Snapshot => {
                let snapshot = open.snapshot();
                let before = entries(&snapshot);
                let done = write(open, &all).and_then(|()| open.commit());
                assert_eq!(entries(&snapshot), before);
                done
            }
        };
        if applied.is_err() {
            open.abort();
        }
        applied.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Batch) -> bool {
        if step.kind != Kind::Aborted {
            for (tree, key, value) in step.writes() {
                match value {
                    Some(value) => world.insert(name(tree, &key), Digest::of(&value)),
                    None => world.remove(&name(tree, &key)),
                };
            }
        }
        true
    }

    fn world(&self, open: &mut CowFile) -> Result<World, Refusal> {
        let mut world = World::new();
        for tree in 0..TREES {
            let scan = open.scan(tree, ALL, Direction::Forward);
            let mut scan = scan.map_err(|error| refusal(&error))?;
            while let Some((key, value)) = scan.next().map_err(|error| refusal(&error))? {
                world.insert(name(tree, key), Digest::of(&value));
            }
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut CowFile, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        let (tree, key) = name.split_first_chunk().expect("a name begins with a tree");
        let found = open.get(u32::from_be_bytes(*tree), key).map_err(|error| refusal(&error))?;
        Ok(found.map(|value| Digest::of(&value)))
    }

    fn verify(&self, open: &mut CowFile) -> Result<(), Refusal> {
        open.verify().map(drop).map_err(|error| refusal(&error))
    }

    fn ends_unproven(&self) -> bool {
        false
    }
}
