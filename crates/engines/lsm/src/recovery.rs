//! Opening a store: from the state after a crash to memtables that can be read and written (Yan §3.2.1).
//!
//! Every zone begins with a fragment, so zones are read one by one, on all processors. Up to `commit_id` everything
//! was durable: headers and keys are checked, values when they are read. Fragments behind `commit_id` are decided on
//! for all trees at once: batches that are whole and follow each other without a gap in the sequence were committed,
//! or might have been. The first that is not whole, or does not follow, ends them.
//!
//! Keys at the start of each zone tell how all of them are distributed, so each zone's are divided by ranges while
//! they are in the cache, and the indexes are bulk loaded from these ranges. Of each key they have the newest
//! version: no reader reads an older state than the one that is recovered.
//!
//! The bytes behind the end are overwritten with zeros, up to the end of their zones. So the remains of a batch from
//! before a crash are never taken for a part of a batch that gets its sequences and its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_contract::{Error, Recovery, Result};
use halite_index::parallel::try_map;
use halite_index::{BulkLoad, Loader};
use halite_pmem::{Flushed, Fresh, LINE, Pool};
use halite_sim::locks::Mutex;
use halite_sim::planted;
use halite_sst::RangeDelete;

use crate::address::{Address, ZONE, ZONES_MAX, logical};
use crate::fragment::{self, HEADER, Header};
use crate::global_index::GlobalIndex;
use crate::memtable::Memtable;
use crate::record::{Kind, Record};
use crate::zones::{LINES, Zones};
use halite_index::Removals;

/// The key of one in so many records, about, is sampled, to know how all are distributed; of a zone at least
/// [`SAMPLES_MIN`] keys are.
const RECORDS_PER_SAMPLE: u64 = 2048;

const SAMPLES_MIN: u64 = 8;

/// The name of the threads that read zones.
const THREADS_NAME: &str = "lsm-recovery";

/// The content of a store's memory, by tree.
pub(crate) struct Recovered {
    pub(crate) trees: Vec<RecoveredTree>,
    /// The last sequence that is committed.
    pub(crate) last: u64,
    pub(crate) report: Recovery,
}

/// A tree's memtables.
#[derive(Default)]
pub(crate) struct RecoveredTree {
    /// The newest, to be written to again.
    pub(crate) active: Option<Arc<Memtable>>,
    pub(crate) global: Option<Arc<GlobalIndex>>,
}

/// The index that is built of a memtable's records.
#[derive(Clone)]
enum Target {
    Memtable(Arc<Memtable>),
    Global(Arc<GlobalIndex>, Arc<Zones>),
}

impl Target {
    fn zones(&self) -> &Zones {
        match self {
            Self::Memtable(memtable) => &memtable.zones,
            Self::Global(_, zones) => zones,
        }
    }

    /// Adds a record to the future content of the index.
    fn add(&self, address: u64, record: Record<'_>, loader: &mut Loader<'_>, load: &Load) {
        match record.kind() {
            Some(Kind::Put | Kind::PutPieces | Kind::PutFile | Kind::Delete) => {
                loader.push(record.key(), address);
            }
            Some(Kind::RangeDelete) => load.deletes.lock().push(RangeDelete {
                start: record.key().into(),
                end: record.value().into(),
                sequence: record.sequence(),
            }),
            Some(Kind::Piece) | None => {}
        }
    }

    fn deletes(&self) -> &Removals {
        match self {
            Self::Memtable(memtable) => &memtable.deletes,
            Self::Global(global, _) => &global.deletes,
        }
    }

    /// The number of the index: a tree has two.
    fn index(&self) -> usize {
        2 * self.zones().tree + usize::from(matches!(self, Self::Global(..)))
    }

    /// Makes the index, and its removed ranges.
    fn load(&self, mut load: Load, threads: usize) {
        let deletes = load.deletes.get_mut();
        deletes.sort_unstable_by_key(|delete| delete.sequence);
        // No reader reads a past state yet.
        self.deletes().add_all(deletes.drain(..), |_, _| false);
        match self {
            Self::Memtable(memtable) => memtable.index.bulk_load(&**memtable, load.index, threads),
            Self::Global(global, _) => global.index.bulk_load(&**global, load.index, threads),
        }
    }
}

/// The future content of an index, and the range removals beside it.
struct Load {
    index: BulkLoad,
    deletes: Mutex<Vec<RangeDelete>>,
}

/// A fragment that may not be committed.
struct Tail {
    header: Header,
    /// In bytes of the zone.
    at: u64,
}

/// A fragment's place in the order of writes, in which fragments lie in the zones of a memtable: the sequence, and
/// the number within the batch.
type Turn = (u64, u16);

/// The content of a zone.
struct Read {
    /// `None` if the zone is open, as nothing in it is in doubt.
    fresh: Option<Fresh>,
    target: usize,
    zone: u32,
    /// Where the valid fragments end, in bytes.
    end: u64,
    /// Whether the zone is known to end there: full, or marked.
    ended: bool,
    /// The places of the first and the last fragment in the order of writes.
    first: Option<Turn>,
    last: Option<Turn>,
    /// The last sequence.
    newest: Option<u64>,
    /// Whether it has a fragment up to `commit_id`.
    has_committed: bool,
    /// Fragments behind `commit_id`.
    tail: Vec<Tail>,
    /// Where an open zone has the mark of its end. The process that wrote it may have been killed before its fence,
    /// and the batch behind it be cut: so no other fence makes it durable.
    mark: Option<u64>,
    records: u64,
}

/// Builds the indexes of memtables that were found in the pool. `is_chained` says that none of them may be one that
/// the levels have, as may be behind a repair.
pub(crate) fn recover(
    pool: &Pool,
    trees: usize,
    mut found: Vec<Arc<Zones>>,
    commit_id: u64,
    is_chained: bool,
    has_zone: impl Fn(u32) -> bool,
    threads: usize,
) -> Result<Recovered> {
    found.sort_by_key(|zones| zones.id);
    let mut recovered: Vec<RecoveredTree> = (0..trees).map(|_| RecoveredTree::default()).collect();
    let mut targets = Vec::new();
    for zones in found.into_iter().rev() {
        let tree = recovered.get_mut(zones.tree).ok_or_else(|| Error::Damaged {
            what: format!("memtable {}", zones.id),
            why: format!("it is of tree {}, of {trees}", zones.tree),
        })?;
        if tree.active.is_none() {
            let memtable = Arc::new(Memtable::new(zones, 0));
            tree.active = Some(Arc::clone(&memtable));
            targets.push(Target::Memtable(memtable));
        } else {
            let global = tree.global.get_or_insert_with(|| Arc::new(GlobalIndex::new()));
            global.adopt(&zones);
            targets.push(Target::Global(Arc::clone(global), zones));
        }
    }
    let mut tasks = Vec::new();
    // The oldest first, as then versions of a key mostly come in order.
    for (number, target) in targets.iter().enumerate().rev() {
        let slot = target.zones().slot;
        tasks.extend(
            (0..ZONES_MAX)
                .take_while(|&zone| has_zone(logical(slot, zone)))
                .map(|zone| (number, zone)),
        );
    }
    let loads = loads(trees, &targets, &tasks, threads)?;
    let read = try_map(THREADS_NAME, threads, tasks, |(target, zone)| {
        read_zone(&targets[target], target, zone, commit_id, &loads)
    })?;
    if is_chained {
        check_newest(trees, &targets, &read, commit_id)?;
    }
    let mut report = Recovery {
        records_read: read.iter().map(|read| read.records).sum(),
        ..Recovery::default()
    };
    let last = decide(&targets, read, commit_id, &loads, pool, &mut report)?;
    make_indexes(&targets, loads, threads);
    Ok(Recovered { trees: recovered, last, report })
}

/// Targets' numbers, each with that of one of its zones.
type Tasks = [(usize, u32)];

/// The empty contents of the indexes: two of each tree.
fn loads(trees: usize, targets: &[Target], tasks: &Tasks, threads: usize) -> Result<Vec<Load>> {
    let samples = try_map(THREADS_NAME, threads, tasks.to_vec(), |(target, zone)| {
        let target = &targets[target];
        Ok::<_, Error>((target.index(), sample(target.zones(), zone)?))
    })?;
    let mut of_indexes: Vec<_> = (0..2 * trees).map(|_| (Vec::new(), 0)).collect();
    for (index, sample) in samples {
        let (keys, len) = &mut of_indexes[index];
        *len += sample.keys.len() as u64 * sample.used / sample.seen.max(1);
        keys.extend(sample.keys);
    }
    let load = |(keys, len)| {
        let index = BulkLoad::new(keys, len as usize);
        Load { index, deletes: Mutex::default() }
    };
    Ok(of_indexes.into_iter().map(load).collect())
}

/// Some of a zone's keys. They may turn out not to be there.
struct Sample {
    keys: Vec<Box<[u8]>>,
    /// Bytes at the zone's start that have them.
    seen: u64,
    /// Bytes of the zone that have records, about.
    used: u64,
}

/// Samples a zone's first records.
fn sample(zones: &Zones, zone: u32) -> Result<Sample> {
    // Of large records, or pieces of them.
    const LOOKED_AT_MAX: u64 = 256;
    const KEY_LEN_MAX: usize = 256;
    let fresh = zones.claim_zone(zone)?;
    fresh.read_ahead();
    let bytes = fresh.bytes();
    let (mut keys, mut seen, mut looked_at) = (Vec::new(), 0, 0);
    'zone: while seen < ZONE {
        let header = Header::decode(&bytes[seen as usize..], zones.seed);
        let Some(header) = header.filter(|header| *header != Header::END) else { break };
        let (start, end) = (seen as usize + HEADER, seen + header.padded());
        let Some(payload) = bytes.get(start..start + header.len as usize) else { break };
        for (place, record) in fragment::records(payload) {
            looked_at += 1;
            seen = (start + place + record.len()) as u64;
            if let Some(Kind::Put | Kind::PutPieces | Kind::PutFile | Kind::Delete) = record.kind()
            {
                let key = record.key();
                keys.push(key[..key.len().min(KEY_LEN_MAX)].into());
            }
            let records = ZONE * looked_at / seen;
            let wanted = (records / RECORDS_PER_SAMPLE).max(SAMPLES_MIN);
            if looked_at == LOOKED_AT_MAX || keys.len() as u64 >= wanted {
                break 'zone;
            }
        }
        seen = end;
    }
    let committed = u64::from(zones.gidx().0) * LINE;
    let used = committed.saturating_sub(u64::from(zone) * ZONE).clamp(seen, ZONE.max(seen));
    Ok(Sample { keys, seen, used })
}

/// Reads a zone, and opens it at once if nothing in it is in doubt.
fn read_zone(
    target: &Target,
    number: usize,
    zone: u32,
    commit_id: u64,
    loads: &[Load],
) -> Result<Read> {
    let zones = target.zones();
    let fresh = zones.claim_zone(zone)?;
    fresh.read_ahead();
    let bytes = fresh.bytes();
    let (mut at, mut ended, mut records) = (0, false, 0);
    let (mut has_committed, mut tail) = (false, Vec::new());
    let (mut first, mut last): (Option<Turn>, Option<Turn>) = (None, None);
    let mut newest = None;
    let load = &loads[target.index()];
    let mut loader = load.index.loader();
    while at < ZONE {
        let Some(header) = Header::decode(&bytes[at as usize..], zones.seed) else { break };
        if header == Header::END {
            ended = true;
            break;
        }
        let start = at as usize + HEADER;
        let Some(payload) = bytes.get(start..start + header.len as usize) else { break };
        let turn = (header.sequence, header.number);
        if last.is_some_and(|last| last >= turn) {
            if has_committed {
                return Err(out_of_turn(zones, zone, at));
            }
            break;
        }
        if header.sequence <= commit_id {
            let first = Address::new(zones.slot, zone, at).to_bits() + HEADER as u64;
            let mut has_its_ranges = true;
            let has_its_keys = fragment::has_its_keys(&header, payload, |place, record| {
                records += 1;
                let is_alone = record.len() == payload.len();
                let len = if is_alone { header.padded() } else { record.len() as u64 };
                prefetch(&fresh, start + place, len, record.head_and_key().len());
                // The value of a removed range is its end.
                if record.kind() != Some(Kind::RangeDelete) || record.is_whole(zones.seed) {
                    target.add(first + place as u64, record, &mut loader, load);
                } else {
                    has_its_ranges = false;
                }
            });
            if !has_its_keys || !has_its_ranges || header.last() > commit_id {
                let address = Address::new(zones.slot, zone, at);
                return Err(zones.damaged(address, "a batch that was committed is not whole"));
            }
            has_committed = true;
        } else if fragment::is_whole(&header, payload, zones.seed) {
            records += fragment::records(payload).count() as u64;
            tail.push(Tail { header, at });
        } else {
            break;
        }
        first = first.or(Some(turn));
        last = Some(turn);
        newest = Some(header.last());
        at += header.padded();
    }
    ended |= at == ZONE;
    // Committed batches are there, or the medium lost them.
    let (gidx, _) = zones.gidx();
    let line = u64::from(zone) * LINES + at / LINE;
    if !ended && line < u64::from(gidx) {
        let address = Address::new(zones.slot, zone, at);
        return Err(zones.damaged(address, "a batch that was committed is not whole"));
    }
    let mut read = Read {
        fresh: None,
        target: number,
        zone,
        end: at,
        ended,
        first,
        last,
        newest,
        has_committed,
        tail,
        mark: None,
        records,
    };
    if !ended || !read.tail.is_empty() {
        read.fresh = Some(fresh);
        return Ok(read);
    }
    read.mark = (at < ZONE).then_some(at);
    read.end = ZONE;
    zones.open_zone(zone, fresh, ZONE);
    Ok(read)
}

/// Prefetches the head and key of a record that will be read soon, in the guess that the records up to there take as
/// many bytes as this one, and their heads and keys `looked_at`.
fn prefetch(zone: &Fresh, at: usize, len: u64, looked_at: usize) {
    const AHEAD: u64 = 16;
    let first = at as u64 + AHEAD * len;
    let last = first + looked_at as u64 - 1;
    if last < ZONE {
        zone.prefetch(first);
        zone.prefetch(last);
    }
}

/// Decides which batches were committed, and opens the zones that have something in doubt. Returns the last sequence.
fn decide(
    targets: &[Target],
    mut read: Vec<Read>,
    commit_id: u64,
    loads: &[Load],
    pool: &Pool,
    report: &mut Recovery,
) -> Result<u64> {
    read.sort_by_key(|read| (read.target, read.zone));
    check_turns(targets, &read)?;
    forget_behind_ends(targets, &mut read)?;
    let last = last_whole(read.iter().flat_map(|read| &read.tail), commit_id);
    // The zone in which each memtable ends.
    let mut ends: BTreeMap<usize, u32> = BTreeMap::new();
    for read in read.iter_mut().filter(|read| read.fresh.is_some()) {
        let is_behind = ends.contains_key(&read.target);
        let kept = read.tail.partition_point(|tail| tail.header.sequence <= last);
        report.records_cut += (read.tail.len() - kept) as u64;
        if let Some(cut) = read.tail.get(kept) {
            (read.end, read.ended) = (cut.at, false);
        }
        read.tail.truncate(kept);
        if is_behind {
            (read.end, read.ended) = (0, false);
        }
        if !read.ended && !is_behind {
            ends.insert(read.target, read.zone);
            // No zone is zeroed of a memtable of which the medium lost a part.
            let zones = targets[read.target].zones();
            if line_of(read.zone, read.end) < zones.gidx().0 {
                let address = Address::new(zones.slot, 0, 0);
                let why = "a batch that was committed is missing at its end";
                return Err(zones.damaged(address, why));
            }
        }
    }
    let mut found: Vec<Flushed> = Vec::new();
    for read in &mut read {
        let Some(fresh) = &mut read.fresh else {
            if let Some(at) = read.mark {
                let line = line_of(read.zone, at);
                targets[read.target].zones().flush(line..line + 1, &mut found);
            }
            continue;
        };
        if !read.ended {
            let zeroed = fresh.zero(planted!("lsm.tail-not-zeroed", ZONE, read.end)..ZONE);
            pool.fence([zeroed])?;
        }
        let end = if read.ended { ZONE } else { read.end };
        if end > 0 {
            found.push(fresh.flush(0..end));
        }
    }
    pool.fence_found(&found)?;
    for read in &mut read {
        let Some(fresh) = read.fresh.take() else { continue };
        let target = &targets[read.target];
        let zones = target.zones();
        zones.open_zone(read.zone, fresh, if read.ended { ZONE } else { read.end });
        let load = &loads[target.index()];
        let mut loader = load.index.loader();
        for tail in &read.tail {
            let address = Address::new(zones.slot, read.zone, tail.at);
            if let Some(payload) = zones.payload(address, tail.header.len as usize) {
                let first = address.to_bits() + HEADER as u64;
                for (at, record) in fragment::records(payload) {
                    target.add(first + at as u64, record, &mut loader, load);
                }
            }
        }
    }
    for (target, zone) in ends {
        targets[target].zones().end_at(zone);
    }
    // Now the commit points may cover these batches.
    let mut flushed = Vec::new();
    for target in targets {
        let zones = target.zones();
        let line = (zones.used_bytes() / LINE) as u32;
        if zones.gidx().0 > line {
            let address = Address::new(zones.slot, 0, 0);
            return Err(zones.damaged(address, "a batch that was committed is missing at its end"));
        }
        if zones.gidx().0 < line {
            zones.advance_gidx(line);
            flushed.push(zones.flush_gidx());
        }
    }
    pool.fence_all(&flushed)?;
    Ok(last)
}

/// The line of a memtable at a place of a zone.
fn line_of(zone: u32, at: u64) -> u32 {
    (u64::from(zone) * LINES + at / LINE) as u32
}

/// Makes the indexes of the records that were read: each by one of the targets that it points to.
fn make_indexes(targets: &[Target], loads: Vec<Load>, threads: usize) {
    for (index, load) in loads.into_iter().enumerate() {
        if let Some(target) = targets.iter().find(|target| target.index() == index) {
            target.load(load, threads);
        }
    }
}

/// Checks that the batch that was committed last is there. It is in the levels only if its tree has nothing in memory.
fn check_newest(trees: usize, targets: &[Target], read: &[Read], commit_id: u64) -> Result<()> {
    let has_some = |read: &&Read, tree| targets[read.target].zones().tree == tree;
    let in_memory = read.iter().filter(|read| read.newest.is_some());
    let are_all = (0..trees).all(|tree| in_memory.clone().any(|read| has_some(&read, tree)));
    let newest = in_memory.filter_map(|read| read.newest).max().unwrap_or(0);
    if are_all && newest < commit_id {
        return Err(Error::Damaged {
            what: "the memtables".into(),
            why: format!("all up to {commit_id} was committed, and they end with {newest}"),
        });
    }
    Ok(())
}

/// Checks that each zone's fragments come behind those of the zone before.
fn check_turns(targets: &[Target], read: &[Read]) -> Result<()> {
    for pair in read.windows(2) {
        let [before, next] = [&pair[0], &pair[1]];
        let is_one = before.target == next.target && before.has_committed && next.has_committed;
        if is_one && before.last >= next.first {
            return Err(out_of_turn(targets[next.target].zones(), next.zone, 0));
        }
    }
    Ok(())
}

/// The damage of a fragment that lies where it was not written.
fn out_of_turn(zones: &Zones, zone: u32, at: u64) -> Error {
    let address = Address::new(zones.slot, zone, at);
    zones.damaged(address, "a fragment is there that was written elsewhere")
}

/// Forgets fragments in zones behind one that has no end: its end was not durable when they were written.
fn forget_behind_ends(targets: &[Target], read: &mut [Read]) -> Result<()> {
    let mut end: Option<(usize, u32)> = None;
    for read in read {
        let is_behind = end.is_some_and(|(target, _)| target == read.target);
        if is_behind {
            if read.fresh.is_none() || read.has_committed {
                let zones = targets[read.target].zones();
                let (_, zone) = end.unwrap_or_default();
                let address = Address::new(zones.slot, zone, 0);
                return Err(
                    zones.damaged(address, "a zone before one that was committed has no end")
                );
            }
            read.tail.clear();
        } else if !read.ended {
            end = Some((read.target, read.zone));
        }
    }
    Ok(())
}

/// The last sequence of the batches behind `commit_id` that are whole and have no gap before them.
fn last_whole<'a>(tail: impl Iterator<Item = &'a Tail>, commit_id: u64) -> u64 {
    let mut batches: BTreeMap<u64, (Header, u64)> = BTreeMap::new();
    for tail in tail.filter(|tail| tail.header.sequence > commit_id) {
        let batch = batches.entry(tail.header.sequence).or_insert((tail.header, 0));
        let same =
            batch.0.records == tail.header.records && batch.0.fragments == tail.header.fragments;
        batch.1 += u64::from(same);
    }
    let mut last = commit_id;
    for (sequence, (header, fragments)) in batches {
        let follows = sequence == last + 1;
        let is_all = fragments == u64::from(header.fragments);
        let is_whole = planted!("lsm.fragment-missing", true, is_all);
        if !follows || !is_whole {
            break;
        }
        last = sequence - 1 + u64::from(header.records);
    }
    last
}
