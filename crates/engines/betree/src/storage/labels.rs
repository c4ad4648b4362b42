//! The superblocks of a pool: a label on every leaf, in rings, with the identity of the leaf and the pool.
//!
//! A label's payload is the same on all leaves of a generation. A session is the time in which a process has the pool
//! open; labels have the history of sessions, so that a leaf which was used without the others is found.
//!
//! A leaf that missed writes is stale. The superblock says so before anything is acknowledged that it does not have: the
//! checkpoint notes the state of all leaves behind its sync of the data, and a large value, which is durable without a
//! checkpoint, asks for one if the last superblock does not know of a leaf that is stale ([`Labels::knows_all`]).
//!
//! The store's pool has the session that wrote last ([`SESSION`]). So of leaves that were used without each other, those are
//! taken that were used with the pool, however many and however new the others are.

use std::collections::BTreeMap;

use halite_sim::locks::Mutex;
use halite_sim::planted;
use halite_vdev::{Chosen, Epoch, Label, LeafLabels, LeafState, Position, Verdict, choose};

use super::Storage;
use crate::store::pool_record::PoolRecord;
use crate::{Error, Result};

/// Incompatible features that this program knows.
const FEATURES: u64 = 0;

/// The root of the store's pool that has the session of the newest superblock.
pub(crate) const SESSION: &str = "betree:session";

/// The identity of a pool and its leaves.
pub(crate) struct Labels {
    pool: u128,
    epochs: Vec<Epoch>,
    state: Mutex<State>,
}

struct State {
    record: PoolRecord,
    /// The leaves that the last durable superblock has as stale, by their guids.
    known_stale: Vec<u64>,
}

/// The labels that a pool is opened with.
#[derive(Debug)]
pub(crate) struct FoundLabels {
    /// The newest label.
    pub(crate) current: Label,
    /// The label of the generation before, if a leaf has it.
    pub(crate) previous: Option<Label>,
    /// How each leaf that was given stands to the newest label.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Labels {
    /// The labels of a new pool.
    pub(crate) fn new(pool: u128, session: u64, record: PoolRecord) -> Self {
        Self::of(pool, vec![Epoch { session, first_generation: 1 }], record)
    }

    /// The labels of a pool that is opened by the label that was found. Labels from now on, from a generation on, are
    /// of a new session.
    pub(crate) fn resume(
        found: &Label,
        session: u64,
        first_generation: u64,
        record: PoolRecord,
    ) -> Self {
        let mut epochs = found.epochs.clone();
        epochs.push(Epoch { session, first_generation });
        Self::of(found.pool, epochs, record)
    }

    fn of(pool: u128, epochs: Vec<Epoch>, record: PoolRecord) -> Self {
        let known_stale = stale(&record);
        Self { pool, epochs, state: Mutex::new(State { record, known_stale }) }
    }

    /// The session that writes.
    pub(crate) fn session(&self) -> u64 {
        self.epochs.last().map_or(0, |epoch| epoch.session)
    }

    /// The pool.
    pub(crate) fn pool(&self) -> u128 {
        self.pool
    }

    /// The topology, and the state of the devices.
    pub(crate) fn record(&self) -> PoolRecord {
        self.state.lock().record.clone()
    }

    /// Changes what is known of the devices.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut PoolRecord) -> T) -> T {
        change(&mut self.state.lock().record)
    }

    /// Takes note of the state of all leaves, and of the blocks of the vdevs that are durable. Returns the record.
    pub(crate) fn note(&self, storage: &Storage, durable: &[Vec<u64>]) -> PoolRecord {
        let mut state = self.state.lock();
        for (class, (vdevs, blocks)) in storage.classes().iter().zip(durable).enumerate() {
            for (number, (vdev, blocks)) in vdevs.iter().zip(blocks).enumerate() {
                let record = &mut state.record.vdevs[class][number];
                record.blocks = record.blocks.max(*blocks);
                for (leaf, status) in record.leaves.iter_mut().zip(vdev.leaves()) {
                    leaf.is_stale = status.is_stale;
                    // A leaf that is not there stays what it was.
                    if status.state != LeafState::Missing {
                        leaf.is_offline = status.state == LeafState::Offline;
                    }
                }
            }
        }
        state.record.clone()
    }

    /// Whether the last superblock has all leaves as stale that are.
    pub(crate) fn knows_all(&self, storage: &Storage) -> bool {
        if storage.vdevs().all(|vdev| !vdev.is_degraded()) {
            return true;
        }
        let state = self.state.lock();
        let vdevs = storage.vdevs().flat_map(|vdev| vdev.leaves());
        let mut leaves = vdevs.zip(state.record.leaves());
        leaves.all(|(status, (_, leaf))| !status.is_stale || state.known_stale.contains(&leaf.guid))
    }

    /// Writes the superblock of a generation, which has a record, to every leaf, durably.
    pub(crate) fn write(
        &self,
        storage: &Storage,
        generation: u64,
        record: &PoolRecord,
        payload: &[u8],
    ) -> Result<()> {
        for (class, vdevs) in storage.classes().iter().enumerate() {
            for (vdev, device) in vdevs.iter().enumerate() {
                let guids = &record.vdevs[class][vdev].leaves;
                let label = |leaf: usize| Label {
                    pool: self.pool,
                    guid: guids[leaf].guid,
                    position: Position {
                        class: class as u16,
                        vdev: vdev as u16,
                        leaf: leaf as u16,
                    },
                    incompatible: FEATURES,
                    compatible: 0,
                    generation,
                    epochs: self.epochs.clone(),
                    payload: payload.to_vec(),
                };
                device.write_labels(&label)?;
            }
        }
        storage.sync()?;
        self.state.lock().known_stale = stale(record);
        Ok(())
    }
}

/// The guids of the leaves that a record has as stale.
fn stale(record: &PoolRecord) -> Vec<u64> {
    record.leaves().filter(|(_, leaf)| leaf.is_stale).map(|(_, leaf)| leaf.guid).collect()
}

/// Finds the newest label of a pool among those of its leaves; there may be leaves of other pools among them. `None`: there
/// is no label of it. `session` is the one that wrote last, as far as that is known.
///
/// # Errors
/// [`Error::NoSuperblock`] if a leaf has labels of a newer format: its newest state cannot be read.
pub(crate) fn find(
    pool: u128,
    session: Option<u64>,
    leaves: &[&LeafLabels],
) -> Result<Option<FoundLabels>> {
    // The labels of other pools have no say in which one is the newest.
    let ours = |leaf: &&LeafLabels| leaf.labels.first().is_none_or(|label| label.pool == pool);
    let mut all: Vec<LeafLabels> = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        all.push(if ours(leaf) { (*leaf).clone() } else { LeafLabels::default() });
    }
    let newer = leaves.iter().find(|leaf| leaf.newer.is_some());
    if let Some(leaf) = newer {
        return Err(Error::NoSuperblock { found: vec![describe(leaf)] });
    }
    let Some(Chosen { label, mut verdicts }) = choose_with(session, &all) else { return Ok(None) };
    let is_newer = |verdict: &Verdict| matches!(verdict, Verdict::NewerFormat { .. });
    if let Some(at) = verdicts.iter().position(is_newer) {
        let found = format!("{}, which needs {:?}", describe(leaves[at]), verdicts[at]);
        return Err(Error::NoSuperblock { found: vec![found] });
    }
    for (verdict, leaf) in verdicts.iter_mut().zip(leaves) {
        if let Some(foreign) = leaf.labels.first().filter(|_| !ours(leaf)) {
            *verdict = Verdict::Foreign { pool: foreign.pool };
        }
    }
    // A leaf that went its own way may have another one of that generation.
    let of_history = |(leaf, verdict): &(&LeafLabels, &Verdict)| {
        !leaf.labels.is_empty() && matches!(verdict, Verdict::Current | Verdict::Stale { .. })
    };
    let before = label.generation.checked_sub(1);
    let mut older: BTreeMap<u64, Label> = BTreeMap::new();
    for (leaf, _) in all.iter().zip(&verdicts).filter(of_history) {
        older.extend(leaf.labels.iter().map(|label| (label.generation, label.clone())));
    }
    let previous = before.and_then(|before| older.remove(&before));
    Ok(Some(FoundLabels { current: label, previous, verdicts }))
}

/// Chooses among the leaves that have the history of a session, if there are any, and compares the others with these.
fn choose_with(session: Option<u64>, all: &[LeafLabels]) -> Option<Chosen> {
    let chosen = choose(FEATURES, all)?;
    planted!("betree.newest-generation-wins", return Some(chosen));
    let has = |label: &Label| label.epochs.iter().any(|epoch| Some(epoch.session) == session);
    if has(&chosen.label) {
        return Some(chosen);
    }
    let of_session: Vec<LeafLabels> =
        all.iter().filter(|leaf| leaf.labels.first().is_some_and(has)).cloned().collect();
    let Some(Chosen { label, .. }) = choose(FEATURES, &of_session) else { return Some(chosen) };
    // Two such leaves outweigh any single one.
    let ours = LeafLabels { labels: vec![label.clone()], ..LeafLabels::default() };
    let verdict = |leaf: &LeafLabels| {
        let of_three = choose(FEATURES, &[ours.clone(), ours.clone(), leaf.clone()]);
        of_three.map_or(Verdict::Blank, |mut chosen| chosen.verdicts.remove(2))
    };
    Some(Chosen { verdicts: all.iter().map(verdict).collect(), label })
}

/// The labels of a leaf in words, for messages.
pub(crate) fn describe(leaf: &LeafLabels) -> String {
    let newest = match leaf.labels.first() {
        Some(label) => format!("its newest superblock is of generation {}", label.generation),
        None => "it has no superblock".to_owned(),
    };
    match leaf.invalid.first() {
        Some(slot) => format!("{newest}, and slot {} is damaged: {}", slot.slot, slot.why),
        None => newest,
    }
}
