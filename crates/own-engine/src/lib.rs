//! An engine in one file: the minimum that an engine of one's own needs.
//!
//! [`Toy`] keeps an ordered map in memory, which is the contract's own [`Model`], and one log in the pool. A write is
//! checked, appended to the log, waited for, and only then applied to the map, so that readers see durable states
//! alone. By its [`REGISTRATION`] the engine has databases, the command line, the server, backups and the crash lab.
//!
//! # The log
//!
//! Frames follow each other in a space of logical bytes, which never begins again; byte `b` is in segment
//! `b / SEGMENT` of the pool's device. A frame begins at a line:
//!
//! ```text
//! 0   u32   length of the operations
//! 8   u64   XXH3 of the operations, seeded by the pool's salt, the frame's logical offset and the length
//! 16  ...   operations: a tag, and a name, a key and a value with their lengths
//! ```
//!
//! The seed tells a frame from older content of the segments. Opening applies frames from the root `toy:head` on, up to
//! the first one that is not whole: its write was not acknowledged, and its checksum becomes 0. Operations name key
//! spaces, not their ids, which a reopened store may give anew.
//!
//! Collection takes the oldest frame, appends its live operations behind the newest one, and releases the segments that
//! lie before the frame then. Removals need no room: once the oldest frame is one, all that it removed is gone.
//!
//! # Costs
//!
//! One fence for each write, deferred or not, and copies by collection. A snapshot copies the map, a scan its range;
//! keys that were removed stay in the map as long as it lives, so that a write on a condition can tell.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use halite_alloc::{Device, SEGMENT, Segments};
use halite_contract::lab::Variant;
use halite_contract::{
    Bytes, Capabilities, Damage, Direction, Durability, ENGINE_ROOT, Engine, EngineOptions, Error,
    Expectation, Health, KeyRange, KeySpaceId, Model, Op, Partitioning, Progress, Recovery,
    Registration, Result, Scan, Snapshot, Snapshots, Stats, Transactional, VerifyReport,
    check_key_space_name, made_by, other_engine,
};
use halite_pmem::{LINE, Pool};
use halite_sim::locks::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The engine's row in the registry.
pub const REGISTRATION: Registration = Registration {
    name: Toy::NAME,
    about: "with a map in memory and one log in the pool",
    default_on: &[],
    is_asked_for: |_| false,
    open: |options| Ok(Arc::new(Toy::open(options)?)),
    beside: None,
    offers: &[],
    devices: None,
    crash_variants: || {
        let options = EngineOptions::new("pool");
        let mut all = Variant::common(Toy::NAME, &options);
        all.push(Variant::concurrent(Toy::NAME, &options));
        all
    },
    // Behind a damaged frame, later ones are not looked for: faults of the medium are not detected.
    media_variants: Vec::new,
};

/// The logical offset of the oldest frame.
const HEAD: &str = "toy:head";

/// One more than the logical offset at which the log ended when the store was closed; 0 while it is open.
const CLOSED: &str = "toy:closed";

/// The version of the log's format.
const VERSION: u64 = 1;

/// The device of the log's segments.
const DEVICE: u16 = 0;

/// Bytes of a removal for which the room may be taken that collection is left.
const REMOVAL_MAX: u64 = 64 << 10;

/// Bytes that may be dead besides as many as are alive, before they are collected where the pool could still grow.
const DEAD_MAX: u64 = 16 * SEGMENT;

/// Bytes before a frame's operations.
const FRAME_HEADER: u64 = 16;

/// A map in memory, and one log in the pool.
pub struct Toy {
    map: Model,
    log: Mutex<Log>,
    pool: Pool,
    recovery: Recovery,
}

impl Toy {
    /// The engine's name.
    pub const NAME: &str = "toy";

    /// Opens the store in the pool that the options name, or creates it.
    ///
    /// # Errors
    /// Errors of the pool; [`Error::OtherEngine`]; [`Error::FixedPartitions`].
    pub fn open(options: &EngineOptions) -> Result<Self> {
        // A number of partitions is for engines that have some.
        if matches!(options.partitioning, Some(Partitioning::Ranges(_))) {
            return Err(Error::FixedPartitions { engine: Self::NAME, is: 1 });
        }
        let exists = Pool::exists(&options.pool, &options.pool_options);
        let segments = if exists || !options.create {
            let segments = Segments::open(&options.pool, &options.pool_options)?;
            if made_by(&segments).as_deref() != Some(Self::NAME) {
                return Err(other_engine(Self::NAME, &segments));
            }
            segments
        } else {
            let segments = Segments::create(&options.pool, &options.pool_options)?;
            segments.set_root(&format!("{ENGINE_ROOT}{}", Self::NAME), VERSION)?;
            segments.install()?;
            segments
        };
        check_version(&segments, options)?;
        let closed_at = segments.root(CLOSED).filter(|tail| *tail > 0).map(|tail| tail - 1);
        let (map, pool) = (Model::new(), segments.pool().clone());
        let mut log = Log::new(segments);
        let records_read = log.recover(&map, closed_at)?;
        log.segments.set_root(CLOSED, 0)?;
        let clean = closed_at.is_some();
        let recovery = Recovery { clean, records_read, partitions_ready: 1, ..Recovery::default() };
        Ok(Self { map, log: Mutex::new(log), pool, recovery })
    }

    fn commit(&self, ops: &[Op<'_>], expected: &[Expectation<'_>]) -> Result<()> {
        let mut log = self.log.lock();
        log.health.check()?;
        for op in ops {
            op.check()?;
            self.map.len(op.space())?;
        }
        self.map.write_if(&[], Durability::Immediate, expected)?;
        if ops.is_empty() {
            return Ok(());
        }
        let names: BTreeMap<_, _> =
            self.map.key_spaces()?.into_iter().map(|(name, id)| (id, name)).collect();
        let logged: Vec<_> = ops.iter().map(|op| Logged::of(op, &names[&op.space()])).collect();
        log.write(&logged)?;
        self.map.write(ops, Durability::Immediate)
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        let log = self.log.get_mut();
        if log.health.failure().is_none() {
            // Without it, the next opening takes the close for a crash.
            let _ = log.segments.set_root(CLOSED, log.tail + 1);
        }
    }
}

impl Engine for Toy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        let mut log = self.log.lock();
        if !self.map.key_spaces()?.iter().any(|(of, _)| of == name) {
            log.health.check()?;
            log.write(&[Logged::Create { space: name }])?;
        }
        self.map.key_space(name)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        self.map.key_spaces()
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let mut log = self.log.lock();
        log.health.check()?;
        let spaces = self.map.key_spaces()?;
        let found = spaces.iter().find(|(_, id)| *id == space);
        let (name, _) = found.ok_or(Error::NoSuchKeySpace)?;
        log.write(&[Logged::Drop { space: name }])?;
        self.map.drop_key_space(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.map.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.map.len(space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.map.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], _: Durability) -> Result<()> {
        self.commit(ops, &[])
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.map.scan(space, range, direction)
    }

    fn sync(&self) -> Result<()> {
        // Every write is durable when it returns.
        self.log.lock().health.check()
    }

    fn stats(&self) -> Stats {
        let log = self.log.lock();
        let used = log.tail - log.head / SEGMENT * SEGMENT;
        Stats {
            domain: self.pool.domain(),
            records: self.map.stats().records,
            pool_bytes: self.pool.len(),
            pool_bytes_max: self.pool.len_max(),
            live_bytes: log.live,
            dead_bytes: used.saturating_sub(log.live),
            free_bytes: log.segments.free() * SEGMENT,
            index_bytes: log.newest.keys().map(|(_, key)| key.len() as u64 + 64).sum(),
            user_bytes_written: log.user_bytes,
            collected_bytes_moved: log.moved,
            collected_blocks: log.released,
            traffic: self.pool.traffic(),
            recovery: self.recovery.clone(),
            ..Stats::default()
        }
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        let log = self.log.lock();
        let mut report = VerifyReport { complete: true, ..VerifyReport::default() };
        let mut at = log.head;
        while at < log.tail {
            if progress(at - log.head, log.tail - log.head) == ControlFlow::Break(()) {
                report.complete = false;
                break;
            }
            let Some(frame) = log.read_frame(at)? else {
                let what = format!("frame at {at} of the log");
                report.damage.push(Damage { what, why: "its checksum is another".into() });
                break;
            };
            match decode(&frame) {
                Ok(ops) => report.records += ops.len() as u64,
                Err(why) => {
                    let what = format!("frame at {at} of the log");
                    report.damage.push(Damage { what, why: why.to_string() });
                    break;
                }
            }
            report.bytes += frame.len() as u64;
            at += footprint(frame.len() as u64);
        }
        Ok(report)
    }
}

impl Snapshots for Toy {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.map.snapshot()
    }
}

impl Transactional for Toy {
    fn write_if(&self, ops: &[Op<'_>], _: Durability, expected: &[Expectation<'_>]) -> Result<()> {
        self.commit(ops, expected)
    }
}

/// An operation as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged<'a> {
    Create { space: &'a str },
    Drop { space: &'a str },
    Put { space: &'a str, key: &'a [u8], value: &'a [u8] },
    Delete { space: &'a str, key: &'a [u8] },
    DeleteRange { space: &'a str, start: &'a [u8], end: Option<&'a [u8]> },
}

impl<'a> Logged<'a> {
    fn of(op: &Op<'a>, space: &'a str) -> Self {
        match *op {
            Op::Put { key, value, .. } => Self::Put { space, key, value },
            Op::Delete { key, .. } => Self::Delete { space, key },
            Op::DeleteRange { start, end, .. } => Self::DeleteRange { space, start, end },
        }
    }

    /// Returns its tag, the name of its key space, and its two byte strings.
    fn parts(&self) -> (u8, &'a str, [&'a [u8]; 2]) {
        match *self {
            Self::Create { space } => (0, space, [&[], &[]]),
            Self::Drop { space } => (1, space, [&[], &[]]),
            Self::Put { space, key, value } => (2, space, [key, value]),
            Self::Delete { space, key } => (3, space, [key, &[]]),
            Self::DeleteRange { space, start, end: Some(end) } => (4, space, [start, end]),
            Self::DeleteRange { space, start, end: None } => (5, space, [start, &[]]),
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        let (tag, space, rest) = self.parts();
        to.push(tag);
        for bytes in [space.as_bytes(), rest[0], rest[1]] {
            to.extend((bytes.len() as u32).to_le_bytes());
            to.extend(bytes);
        }
    }

    fn decode(from: &mut &'a [u8]) -> Option<Self> {
        let (&tag, mut rest) = from.split_first()?;
        let mut part = || {
            let (len, behind) = rest.split_first_chunk()?;
            let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = behind;
            Some(bytes)
        };
        let (space, first, second) = (part()?, part()?, part()?);
        let space = str::from_utf8(space).ok()?;
        *from = rest;
        Some(match tag {
            0 => Self::Create { space },
            1 => Self::Drop { space },
            2 => Self::Put { space, key: first, value: second },
            3 => Self::Delete { space, key: first },
            4 => Self::DeleteRange { space, start: first, end: Some(second) },
            5 => Self::DeleteRange { space, start: first, end: None },
            _ => return None,
        })
    }

    /// The bytes that it takes by itself, in a frame of its own.
    fn footprint(&self) -> u64 {
        let (_, space, [first, second]) = self.parts();
        footprint((13 + space.len() + first.len() + second.len()) as u64)
    }
}

/// The operations of a frame whose checksum is right.
fn decode(mut frame: &[u8]) -> Result<Vec<Logged<'_>>> {
    let mut ops = Vec::new();
    while !frame.is_empty() {
        ops.push(Logged::decode(&mut frame).ok_or_else(|| Error::Damaged {
            what: "log".into(),
            why: "a frame has the right checksum, and operations that are none".into(),
        })?);
    }
    Ok(ops)
}

/// The bytes that a frame of operations takes.
fn footprint(len: u64) -> u64 {
    (FRAME_HEADER + len).next_multiple_of(LINE)
}

/// The log, and which of its operations are live.
///
/// `head..tail` are whole frames, all durable; every live operation is in one of them; `live` is the sum of the
/// footprints of the live ones.
struct Log {
    segments: Arc<Segments>,
    device: Device,
    /// The logical segments that there are.
    present: BTreeSet<u32>,
    head: u64,
    tail: u64,
    /// The frame that put each key last, and the frame's footprint.
    newest: BTreeMap<(String, Vec<u8>), (u64, u64)>,
    /// The frame that made each key space.
    spaces: BTreeMap<String, u64>,
    live: u64,
    /// Bytes of the largest frame.
    largest: u64,
    health: Health,
    user_bytes: u64,
    moved: u64,
    released: u64,
}

impl Log {
    fn new(segments: Arc<Segments>) -> Self {
        let head = segments.root(HEAD).unwrap_or(0);
        let device = segments.device(DEVICE);
        Self {
            present: device.logical_segments().into_iter().collect(),
            segments,
            device,
            head,
            tail: head,
            newest: BTreeMap::new(),
            spaces: BTreeMap::new(),
            live: 0,
            largest: 0,
            health: Health::default(),
            user_bytes: 0,
            moved: 0,
            released: 0,
        }
    }

    /// Applies the log to an empty map. Returns how many operations there are.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a log that was closed ends elsewhere. Behind a crash, a damaged frame is taken for one that
    /// was not acknowledged.
    fn recover(&mut self, map: &Model, closed_at: Option<u64>) -> Result<u64> {
        let mut count = 0;
        let end = (u64::from(u32::MAX) + 1) * SEGMENT;
        if !self.head.is_multiple_of(LINE) || self.head >= end {
            return Err(damaged(self.head, "the log cannot begin there"));
        }
        while let Some(frame) = self.read_frame(self.tail)? {
            let ops = decode(&frame)?;
            for op in &ops {
                apply(map, op)?;
            }
            let len = footprint(frame.len() as u64);
            self.note((self.tail, len), &ops);
            count += ops.len() as u64;
            self.tail += len;
        }
        if closed_at.is_some_and(|end| end != self.tail) {
            return Err(damaged(self.tail, "the log goes on behind it, and it is not whole"));
        }
        // Released before the crash, or about to be, or taken for a write that was not acknowledged.
        let (first, last) = (self.head / SEGMENT, self.tail / SEGMENT);
        let is_own = |logical: u32| (first..=last).contains(&u64::from(logical));
        self.device.retain(is_own)?;
        self.present.retain(|&logical| is_own(logical));
        // A killed process may have stored frames and not waited for them.
        let mut found = Vec::new();
        for (logical, at, len) in pieces(self.head, self.tail - self.head) {
            let space = self.device.claim(logical, at, len)?;
            found.push(space.flush(0..len));
        }
        // A frame that was not acknowledged stays lost: else the next frame, torn in its turn, could bring just the words
        // that this one lacks.
        let (segment, from) = ((self.tail / SEGMENT) as u32, self.tail % SEGMENT);
        if self.present.contains(&segment) {
            let mut header = self.device.claim(segment, from, FRAME_HEADER)?;
            header.write_words(8, &[0]);
            found.push(header.flush(8..FRAME_HEADER));
        }
        self.segments.pool().fence_found(&found)?;
        Ok(count)
    }

    /// Writes operations as one frame, durably. If there is no room, none of them is written; after a failed fence, the
    /// next opening finds all of them or none.
    fn write(&mut self, ops: &[Logged<'_>]) -> Result<()> {
        let mut frame = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut frame));
        let len = footprint(frame.len() as u64);
        let limit = (self.capacity() / 3).min(u32::MAX.into());
        if len > limit {
            return Err(Error::BatchTooLarge { len, limit });
        }
        let grows = |op: &&Logged<'_>| matches!(op, Logged::Put { .. } | Logged::Create { .. });
        let growth: u64 = ops.iter().filter(grows).map(Logged::footprint).sum();
        let (used, limit) = (self.live, self.segments.pool().len_max());
        let full = Error::Full { used, limit, held: 0, holder: None };
        // Where more than that is live, collection copies more than it frees.
        if growth > 0 && self.live + growth > self.capacity() * 13 / 20 {
            return Err(full);
        }
        self.make_room(len)?;
        // Short removals may take the room that collection is left.
        let left = if growth == 0 && len <= REMOVAL_MAX { 0 } else { self.spare(len) };
        if self.room() < len + left {
            return Err(full);
        }
        let at = self.append(&frame)?;
        self.note((at, len), ops);
        let bytes = |op: &Logged<'_>| match op {
            Logged::Put { key, value, .. } => key.len() + value.len(),
            _ => 0,
        };
        self.user_bytes += ops.iter().map(|op| bytes(op) as u64).sum::<u64>();
        Ok(())
    }

    /// Bytes that the log may take.
    fn capacity(&self) -> u64 {
        // The table of segments has one, or a few more in a large pool.
        self.segments.pool().len_max() - SEGMENT
    }

    /// Bytes that can be appended.
    fn room(&self) -> u64 {
        let last = (self.tail / SEGMENT) as u32;
        let rest = if self.present.contains(&last) { SEGMENT - self.tail % SEGMENT } else { 0 };
        self.segments.available() * SEGMENT + rest
    }

    /// Bytes that are left free behind a frame of so many: collection may have to copy the largest frame before it
    /// frees anything.
    fn spare(&self, len: u64) -> u64 {
        2 * SEGMENT + self.largest.max(len)
    }

    /// Collects frames until there is room for one of so many bytes, and little more is dead than alive. Each frame is
    /// collected once at most.
    fn make_room(&mut self, len: u64) -> Result<()> {
        let end = self.tail;
        let lacks = |log: &Self| {
            let dead = (log.tail - log.head).saturating_sub(log.live);
            log.room() < len + log.spare(len) || dead > log.live + DEAD_MAX
        };
        while self.head < end && lacks(self) {
            if !self.collect()? {
                break;
            }
        }
        Ok(())
    }

    /// Moves the live operations of the oldest frame behind the newest. Returns whether there was room for that.
    fn collect(&mut self) -> Result<bool> {
        let at = self.head;
        let frame = self.read_frame(at)?.ok_or_else(|| damaged(at, "its checksum is another"))?;
        let ops = decode(&frame)?;
        let mut last = BTreeMap::new();
        for (nth, op) in ops.iter().enumerate() {
            if let Logged::Put { space, key, .. } = *op {
                last.insert((space, key), nth);
            }
        }
        let is_live = |(nth, op): &(usize, Logged<'_>)| match *op {
            Logged::Create { space } => self.spaces.get(space) == Some(&at),
            Logged::Put { space, key, .. } => {
                let newest = self.newest.get(&(space.to_owned(), key.to_vec()));
                newest.is_some_and(|(of, _)| *of == at) && last[&(space, key)] == *nth
            }
            _ => false,
        };
        let live: Vec<_> =
            ops.iter().copied().enumerate().filter(is_live).map(|(_, op)| op).collect();
        if !live.is_empty() {
            // One frame, which takes no more than the one that they come from.
            let mut copy = Vec::new();
            live.iter().for_each(|op| op.encode(&mut copy));
            let len = footprint(copy.len() as u64);
            if self.room() < len {
                return Ok(false);
            }
            let moved_to = self.append(&copy)?;
            self.moved += copy.len() as u64;
            self.note((moved_to, len), &live);
        }
        self.head = at + footprint(frame.len() as u64);
        let (before, now) = ((at / SEGMENT) as u32, (self.head / SEGMENT) as u32);
        if now > before {
            let moved = self.segments.set_root(HEAD, self.head);
            self.poison_by(moved)?;
            for logical in before..now {
                let released = self.device.release(logical);
                self.poison_by(released)?;
                self.present.remove(&logical);
                self.released += 1;
            }
        }
        Ok(true)
    }

    /// Appends a frame, durably. Returns where it is.
    fn append(&mut self, ops: &[u8]) -> Result<u64> {
        let at = self.tail;
        let mut frame = vec![0; FRAME_HEADER as usize];
        frame[..4].copy_from_slice(&(ops.len() as u32).to_le_bytes());
        frame[8..16].copy_from_slice(&self.check(at, ops).to_le_bytes());
        frame.extend(ops);
        frame.resize(footprint(ops.len() as u64) as usize, 0);
        let (mut spaces, mut flushed, mut rest) = (Vec::new(), Vec::new(), &frame[..]);
        for (logical, from, len) in pieces(at, frame.len() as u64) {
            if !self.present.contains(&logical) {
                let granted = self.device.get(logical)?.commit();
                self.poison_by(granted)?;
                self.present.insert(logical);
            }
            let mut space = self.device.claim(logical, from, len)?;
            let (piece, behind) = rest.split_at(len as usize);
            flushed.push(space.write_stream(0, piece));
            spaces.push(space);
            rest = behind;
        }
        let durable = self.segments.pool().fence_all(&flushed).map_err(halite_alloc::Error::from);
        self.poison_by(durable)?;
        self.tail += frame.len() as u64;
        Ok(at)
    }

    /// Refuses writes from now on after a failure that leaves the durability of earlier ones unknown.
    fn poison_by<T>(&self, result: halite_alloc::Result<T>) -> Result<T> {
        Ok(result.inspect_err(|error| self.health.poison(error.to_string()))?)
    }

    /// The checksum of a frame.
    fn check(&self, at: u64, ops: &[u8]) -> u64 {
        let seed = self.segments.salt() ^ at ^ (ops.len() as u64).rotate_left(32);
        xxh3_64_with_seed(ops, seed)
    }

    /// The operations of the frame at a logical offset, if there is a whole one.
    fn read_frame(&self, at: u64) -> Result<Option<Vec<u8>>> {
        let Some(header) = self.read(at, FRAME_HEADER)? else { return Ok(None) };
        let len = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        if u64::from(len) > self.capacity() {
            return Ok(None);
        }
        let Some(ops) = self.read(at + FRAME_HEADER, len.into())? else { return Ok(None) };
        let check = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        Ok((self.check(at, &ops) == check).then_some(ops))
    }

    /// A copy of the bytes at a logical offset, if there are so many.
    fn read(&self, at: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        for (logical, from, len) in pieces(at, len) {
            if !self.present.contains(&logical) {
                return Ok(None);
            }
            bytes.extend(self.device.claim(logical, from, len)?.bytes());
        }
        Ok(Some(bytes))
    }

    /// Notes which operations are live now that the frame at `at`, which takes `len` bytes, has these.
    fn note(&mut self, (at, len): (u64, u64), ops: &[Logged<'_>]) {
        self.largest = self.largest.max(len);
        for op in ops {
            match *op {
                Logged::Create { space } => {
                    if self.spaces.insert(space.to_owned(), at).is_none() {
                        self.live += op.footprint();
                    }
                }
                Logged::Drop { space } => {
                    self.forget_range(space, b"", None);
                    if self.spaces.remove(space).is_some() {
                        self.live -= Logged::Create { space }.footprint();
                    }
                }
                Logged::Put { space, key, .. } => {
                    let (name, bytes) = ((space.to_owned(), key.to_vec()), op.footprint());
                    let before = self.newest.insert(name, (at, bytes));
                    self.live = self.live + bytes - before.map_or(0, |(_, bytes)| bytes);
                }
                Logged::Delete { space, key } => {
                    let before = self.newest.remove(&(space.to_owned(), key.to_vec()));
                    self.live -= before.map_or(0, |(_, bytes)| bytes);
                }
                Logged::DeleteRange { space, start, end } => self.forget_range(space, start, end),
            }
        }
    }

    /// Notes that the keys of a range are gone.
    fn forget_range(&mut self, space: &str, start: &[u8], end: Option<&[u8]>) {
        let from = (space.to_owned(), start.to_vec());
        let is_inside =
            |(of, key): &(String, Vec<u8>)| of == space && end.is_none_or(|end| &key[..] < end);
        let keys = self.newest.range(from..).map(|(name, _)| name);
        let keys: Vec<_> = keys.take_while(|name| is_inside(name)).cloned().collect();
        for name in keys {
            self.live -= self.newest.remove(&name).map_or(0, |(_, bytes)| bytes);
        }
    }
}

/// The error of a frame that is not as it was written.
fn damaged(at: u64, why: &str) -> Error {
    Error::Damaged { what: format!("frame at {at} of the log"), why: why.into() }
}

/// Refuses a store of a later version.
fn check_version(segments: &Segments, options: &EngineOptions) -> Result<()> {
    match segments.root(&format!("{ENGINE_ROOT}{}", Toy::NAME)) {
        Some(version) if version > VERSION => Err(halite_alloc::Error::FutureVersion {
            path: options.pool.clone(),
            found: version.try_into().unwrap_or(u32::MAX),
            supported: VERSION as u32,
        }
        .into()),
        _ => Ok(()),
    }
}

/// The parts of a logical range in segments: the logical segment, the offset in it, and the length.
fn pieces(at: u64, len: u64) -> impl Iterator<Item = (u32, u64, u64)> {
    let end = at + len;
    let mut next = at;
    std::iter::from_fn(move || {
        let (logical, from) = (next / SEGMENT, next % SEGMENT);
        let len = (SEGMENT - from).min(end - next);
        next += len;
        (len > 0).then_some((logical as u32, from, len))
    })
}

/// Applies an operation to a map. A key space is made by whichever operation names it first: the frame that made it may
/// have been collected, and stand behind.
fn apply(map: &Model, op: &Logged<'_>) -> Result<()> {
    let id = |space: &str| map.key_space(space);
    match *op {
        Logged::Create { space } => id(space).map(drop),
        Logged::Drop { space } => map.drop_key_space(id(space)?),
        Logged::Put { space, key, value } => {
            map.write(&[Op::Put { space: id(space)?, key, value }], Durability::Immediate)
        }
        Logged::Delete { space, key } => {
            map.write(&[Op::Delete { space: id(space)?, key }], Durability::Immediate)
        }
        Logged::DeleteRange { space, start, end } => {
            let op = Op::DeleteRange { space: id(space)?, start, end };
            map.write(&[op], Durability::Immediate)
        }
    }
}
