//! Tiny stores that keep files, to test the lab with.

use std::path::Path;

use halite_disk::{Access, Disk, DiskModel, PositionedFile, Writer};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::{Fresh, Medium, Pool, PoolOptions, UNIT};
use xxhash_rust::xxh3::xxh3_64;

type Failure = Box<dyn std::error::Error>;

/// A store, by the way in which it keeps its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmallStore {
    /// A value in a file that takes the place of the one before by its name.
    Renamed,
    /// A value in a file that a word of the pool tells the name of.
    Noted,
    /// A log of records in one file.
    Logged,
    /// A log of records that are written past the page cache, each at its place in space that was zeroed before; one sync
    /// makes the records of a put durable.
    Positioned,
}

impl SmallStore {
    #[allow(dead_code, reason = "not every test looks at all of them")]
    pub(crate) const ALL: [Self; 4] = [Self::Renamed, Self::Noted, Self::Logged, Self::Positioned];
}

/// A value is put, or a record appended.
#[derive(Debug, Clone)]
pub(crate) struct Put {
    seed: u64,
    len: usize,
}

impl Put {
    fn draw(random: &mut Random) -> Self {
        let len_max = match random.below(40) {
            0 => 300_000,
            1..4 => 9000,
            _ => 1600,
        };
        Self { seed: random.next(), len: random.below(len_max) as usize }
    }

    fn value(&self) -> Vec<u8> {
        let mut random = Random::new(self.seed);
        (0..self.len).map(|_| random.next() as u8).collect()
    }

    /// The values of the records of a put into a log of slots.
    fn parts(&self) -> Vec<Vec<u8>> {
        const PARTS_MAX: usize = 4;
        self.value().chunks(SLOT - HEADER).take(PARTS_MAX).map(<[u8]>::to_vec).collect()
    }
}

/// An open store.
pub(crate) struct Open {
    disk: Disk,
    /// The word of the pool: the number in the name of the file.
    word: Option<Fresh>,
    log: Option<Writer>,
    slots: Option<PositionedFile>,
    /// Records of the log.
    records: u64,
}

const NEW: &str = "new";
const CURRENT: &str = "current";
const LOG: &str = "log";

/// A record's check, number and length.
const HEADER: usize = 24;

/// Bytes of a record in a log of slots: a sector.
const SLOT: usize = 512;

/// Slots by which such a log grows.
const SLOTS: u64 = 4;

/// A record with its header.
fn record(number: u64, value: &[u8]) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.extend_from_slice(&(value.len() as u64).to_le_bytes());
    record.extend_from_slice(value);
    [&xxh3_64(&record).to_le_bytes()[..], &record].concat()
}

fn noted(number: u64) -> String {
    format!("value-{number}")
}

fn record_name(number: u64) -> Vec<u8> {
    format!("record {number}").into_bytes()
}

impl Open {
    fn has(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.disk.list()?.iter().any(|(there, _)| there == name))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let file = self.disk.open(name)?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes a file that nothing leads to yet.
    fn write(&self, name: &str, value: &[u8]) -> Result<(), Failure> {
        if self.has(name)? {
            self.disk.remove(name)?;
        }
        let mut writer = self.disk.create(name)?;
        writer.write(value)?;
        writer.sync()?;
        Ok(())
    }

    fn replace(&self, value: &[u8]) -> Result<(), Failure> {
        self.write(NEW, value)?;
        self.disk.rename(NEW, CURRENT)?;
        self.disk.sync()?;
        Ok(())
    }

    fn number(&self) -> u64 {
        let word = self.word.as_ref().expect("the store has a pool");
        u64::from_le_bytes(*word.read(0, 8).as_array().expect("a word"))
    }

    fn note(&mut self, value: &[u8]) -> Result<(), Failure> {
        let number = self.number();
        self.word.as_ref().expect("the store has a pool").pool().check_synced()?;
        self.write(&noted(number + 1), value)?;
        self.disk.sync()?;
        let word = self.word.as_mut().expect("the store has a pool");
        word.write(0, &(number + 1).to_le_bytes());
        word.pool().fence([word.flush(0..8)])?;
        if number > 0 {
            self.disk.remove(&noted(number))?;
        }
        Ok(())
    }

    fn open_noted(&mut self, medium: &Medium) -> Result<(), Failure> {
        let mut options = PoolOptions::default();
        options.size_max = UNIT;
        options.medium = Some(medium.clone());
        let path = Path::new("pool");
        let pool = if Pool::exists(path, &options) {
            Pool::open(path, &options)?
        } else {
            let pool = Pool::create(path, &options)?;
            pool.install()?;
            pool
        };
        let word = pool.claim(0, 8)?;
        pool.fence_found(&[word.flush(0..8)])?;
        self.word = Some(word);
        let current = noted(self.number());
        for (name, _) in self.disk.list()? {
            if name != current {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, value: &[u8]) -> Result<(), Failure> {
        let log = self.log.as_mut().expect("the store has a log");
        log.write(&record(self.records, value))?;
        self.records += 1;
        log.sync()?;
        Ok(())
    }

    /// The values of the log's whole records, each at the next multiple of `slot` bytes, and where they end.
    fn records(&self, slot: usize) -> Result<(Vec<Vec<u8>>, u64), Failure> {
        let log = self.read(LOG)?;
        let (mut values, mut end) = (Vec::new(), 0);
        let word = |at: usize| log.get(at..at + 8).map(|word| *word.as_array().expect("a word"));
        while let (Some(check), Some(number), Some(len)) =
            (word(end), word(end + 8), word(end + 16))
        {
            let len = u64::from_le_bytes(len) as usize;
            let record_end = (end + HEADER).checked_add(len).filter(|&end| end <= log.len());
            let Some(record_end) = record_end else { break };
            let is_whole = u64::from_le_bytes(check) == xxh3_64(&log[end + 8..record_end]);
            if !is_whole || u64::from_le_bytes(number) != values.len() as u64 {
                break;
            }
            values.push(log[end + HEADER..record_end].to_vec());
            end = record_end.next_multiple_of(slot);
        }
        Ok((values, end as u64))
    }

    fn append_slots(&mut self, parts: &[Vec<u8>]) -> Result<(), Failure> {
        let log = self.slots.as_ref().expect("the store has a log of slots");
        let end = (self.records + parts.len() as u64) * SLOT as u64;
        let len = log.len();
        if end > len {
            log.preallocate(end.next_multiple_of(SLOTS * SLOT as u64))?;
            log.write_zeros(len..log.len())?;
        }
        for (number, value) in (self.records..).zip(parts) {
            let mut slot = record(number, value);
            slot.resize(SLOT, 0);
            log.write_at(number * SLOT as u64, &slot)?;
        }
        log.sync()?;
        self.records += parts.len() as u64;
        Ok(())
    }

    fn open_slots(&mut self) -> Result<(), Failure> {
        let log = if self.has(LOG)? {
            let log = self.disk.open_positioned(LOG, Access::Direct)?;
            let (values, end) = self.records(SLOT)?;
            self.records = values.len() as u64;
            log.rewrite(0..end)?;
            // Records behind one that is missing would follow the one that takes its place.
            log.write_zeros(end..log.len())?;
            log
        } else {
            self.disk.create_positioned(LOG, Access::Direct)?
        };
        log.sync()?;
        self.disk.sync()?;
        self.slots = Some(log);
        Ok(())
    }

    fn open_log(&mut self) -> Result<(), Failure> {
        let mut log = if self.has(LOG)? {
            let (values, end) = self.records(1)?;
            self.records = values.len() as u64;
            self.disk.append(LOG, end)?
        } else {
            self.disk.create(LOG)?
        };
        log.sync()?;
        self.disk.sync()?;
        self.log = Some(log);
        Ok(())
    }
}

fn refusal(failure: &Failure) -> Refusal {
    Refusal::Failed(failure.to_string())
}

impl Subject for SmallStore {
    type Step = Put;
    type Open = Open;

    fn name(&self) -> &str {
        match self {
            Self::Renamed => "renamed",
            Self::Noted => "noted",
            Self::Logged => "logged",
            Self::Positioned => "positioned",
        }
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Put>> {
        let action = |random: &mut Random| match random.below(100) {
            0..10 => Action::Reopen,
            10..18 => Action::Kill,
            18..26 => Action::KillWithin(None, random.below(8) as u32),
            26..44 => Action::KillWithin(Some(Put::draw(random)), random.below(8) as u32),
            _ => Action::Step(Put::draw(random)),
        };
        (0..1 + random.below(8)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Put> {
        (0..random.below(3)).map(|_| Put::draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let mut open = Open { disk, word: None, log: None, slots: None, records: 0 };
        let opened = match self {
            // A killed process may have renamed and not synced.
            Self::Renamed => open.disk.sync().map_err(Failure::from),
            Self::Noted => open.open_noted(medium),
            Self::Logged => open.open_log(),
            Self::Positioned => open.open_slots(),
        };
        opened.map_err(|failure| refusal(&failure))?;
        Ok(open)
    }

    fn apply(&self, open: &mut Open, step: &Put) -> Result<(), String> {
        let value = step.value();
        let applied = match self {
            Self::Renamed => open.replace(&value),
            Self::Noted => open.note(&value),
            Self::Logged => open.append(&value),
            Self::Positioned => open.append_slots(&step.parts()),
        };
        applied.map_err(|failure| failure.to_string())
    }

    fn model(&self, world: &mut World, step: &Put) -> bool {
        let name = match self {
            Self::Renamed | Self::Noted => b"value".to_vec(),
            Self::Logged => record_name(world.len() as u64),
            Self::Positioned => {
                for value in step.parts() {
                    world.insert(record_name(world.len() as u64), Digest::of(&value));
                }
                return true;
            }
        };
        world.insert(name, Digest::of(&step.value()));
        true
    }

    /// The first records of a put, without the others.
    fn worlds_within(&self, world: &World, step: &Put) -> Vec<World> {
        if *self != Self::Positioned {
            return Vec::new();
        }
        let parts = step.parts();
        let grow = |world: &mut World, value: &Vec<u8>| {
            world.insert(record_name(world.len() as u64), Digest::of(value));
            Some(world.clone())
        };
        let some = parts.len().saturating_sub(1);
        parts[..some].iter().scan(world.clone(), grow).collect()
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        let failed = |failure: Failure| refusal(&failure);
        let value = |value: Vec<u8>| World::from([(b"value".to_vec(), Digest::of(&value))]);
        match self {
            Self::Renamed if !open.has(CURRENT).map_err(failed)? => Ok(World::new()),
            Self::Renamed => open.read(CURRENT).map(value).map_err(failed),
            Self::Noted if open.number() == 0 => Ok(World::new()),
            Self::Noted => open.read(&noted(open.number())).map(value).map_err(failed),
            Self::Logged | Self::Positioned => {
                let slot = if *self == Self::Logged { 1 } else { SLOT };
                let (values, _) = open.records(slot).map_err(failed)?;
                let record =
                    |(number, value): (u64, &Vec<u8>)| (record_name(number), Digest::of(value));
                Ok((0..).zip(&values).map(record).collect())
            }
        }
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn verify(&self, _: &mut Open) -> Result<(), Refusal> {
        Ok(())
    }
}
