//! A round of automatic migration.
//!
//! A round looks at a window of the store: runs and the large values that they refer to, from where the last round ended
//! on, until it has seen so many units, or has read so many bytes of runs that refer to values. So its cost does not grow
//! with the store; a store of more data has more rounds until all of it was looked at. The policy chooses; what goes down
//! goes first, and two checkpoints give its space to what comes up.
//!
//! Left alone are keys whose dataset or object prefers a class.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::Result;
use halite_vdev::BLOCK;

use super::gather::{bytes_of, extents_of, runs, runs_of};
use super::policy::{Lfu, MigrationPolicy, Move, Reinforcement, Tier, Unit};
use super::slice::{Job, SLICE_BYTES};
use crate::dataset::history::Fate;
use crate::large::value_id;
use crate::message::LargeValue;
use crate::options::{Migration, Policy};
use crate::run::Run;
use crate::store::Store;
use crate::store::view::View;
use crate::tree::Tree;
use crate::tree::walk::large_entries;

/// Units of a round, and bytes of runs that it reads for their references to values, at most.
const UNITS_MAX: usize = 1 << 16;
const READ_BYTES_MAX: u64 = 16 << 20;

/// The part of the hotness that is kept from round to round (Zhang, Hellander and Toor: α).
const KEPT: f64 = 0.8;

/// The outcome of a round of automatic migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MigrationRound {
    /// Bytes that moved to a faster class.
    pub promoted_bytes: u64,
    /// Bytes that moved to a slower class.
    pub demoted_bytes: u64,
    /// Bytes that were to move, and that a flush has replaced meanwhile.
    pub skipped_bytes: u64,
    /// Runs and large values that the round has looked at.
    pub units: u64,
    /// Whether it ended before all was done that was planned: it was stopped, a class was full, or data could not be read.
    pub ended_early: bool,
}

impl MigrationRound {
    /// Bytes that moved.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.promoted_bytes + self.demoted_bytes
    }
}

/// The state of automatic migration between its rounds.
pub(crate) struct Rounds {
    options: Migration,
    policy: Box<dyn MigrationPolicy>,
    /// The dataset, and the key, from which on the next window is.
    hand: (u32, Vec<u8>),
}

/// A unit's data.
struct Item {
    dataset: u32,
    /// The number of its run in the window.
    run: usize,
    /// The large value, if the unit is not the run itself.
    value: Option<LargeValue>,
}

/// The moves of a run and its values.
#[derive(Default)]
struct Wanted {
    dataset: u32,
    bytes: u64,
    /// The class that the run is to lie in, if it moves.
    run: Option<u8>,
    /// The classes that values are to lie in, by their names.
    values: BTreeMap<u64, u8>,
}

/// A run of the window, and its slot.
struct Slot {
    level: u8,
    key: Vec<u8>,
    run: Arc<Run>,
}

/// The part of the store that a round looks at.
#[derive(Default)]
struct Window {
    slots: Vec<Slot>,
    items: Vec<Item>,
    units: Vec<Unit>,
    read: u64,
}

impl Rounds {
    pub(crate) fn new(options: Migration) -> Self {
        let policy: Box<dyn MigrationPolicy> = match options.policy {
            Policy::Lfu => Box::new(Lfu),
            Policy::Reinforcement => Box::new(Reinforcement::default()),
        };
        Self { options, policy, hand: (0, Vec::new()) }
    }
}

impl Store {
    /// Does a round. Between its steps, `goes_on` may end it.
    ///
    /// # Errors
    /// [`crate::Error::MigrationOff`]; those of reading nodes and of publishing. That data could not be copied is no error.
    pub(crate) fn migrate_round(&self, goes_on: &dyn Fn() -> bool) -> Result<MigrationRound> {
        let rounds = self.rounds.as_ref().ok_or(crate::Error::MigrationOff)?;
        let rounds = &mut *rounds.lock();
        self.health.check()?;
        let window = self.window(&self.view(), &mut rounds.hand)?;
        let tiers = self.tiers(rounds.options.threshold_percent);
        let budget = rounds.options.budget_bytes_per_round;
        let moves = rounds.policy.plan(&tiers, &window.units, budget);
        if let Some(heat) = &self.trees.runs.heat {
            heat.decay(KEPT);
        }
        let mut round =
            MigrationRound { units: window.units.len() as u64, ..MigrationRound::default() };
        let is_up = |one: &Move| one.to < window.units[one.unit].tier;
        let (up, down): (Vec<Move>, Vec<Move>) = moves.into_iter().partition(is_up);
        for (moves, has_room_by_checkpoints) in [(down, false), (up, true)] {
            if moves.is_empty() || round.ended_early {
                continue;
            }
            if has_room_by_checkpoints && round.demoted_bytes > 0 {
                self.give_back()?;
            }
            self.move_units(&window, &moves, goes_on, &mut round)?;
        }
        if round.moved_bytes() > 0 {
            self.give_back()?;
        }
        Ok(round)
    }

    /// The runs and values from the hand on, and the hand behind them.
    fn window(&self, view: &View, hand: &mut (u32, Vec<u8>)) -> Result<Window> {
        let mut window = Window::default();
        let (first, from) = std::mem::take(hand);
        for (dataset, tree) in view.trees.range(first..) {
            let from = if *dataset == first { &from[..] } else { &[] };
            let walked = runs(&self.trees, tree, (from, None), &mut |found| {
                self.add_units(&mut window, *dataset, (found.level, found.key), found.run)?;
                let is_full = window.units.len() >= UNITS_MAX || window.read >= READ_BYTES_MAX;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if let ControlFlow::Break(next) = walked {
                *hand = next.map_or((dataset + 1, Vec::new()), |key| (*dataset, key));
                break;
            }
        }
        self.note_frees(&mut window);
        Ok(window)
    }

    /// Adds a run, and its values.
    fn add_units(
        &self,
        window: &mut Window,
        dataset: u32,
        (level, key): (u8, &[u8]),
        run: &Arc<Run>,
    ) -> crate::Result<()> {
        let placed =
            self.catalogue.load().preferences().placed(self.trees.settings.placement, dataset);
        let heat = |id| self.trees.runs.heat.as_ref().map_or(0.0, |heat| heat.get(id));
        let slot = window.slots.len();
        let mut add = |extents: &mut dyn Iterator<Item = crate::storage::Extent>, id, value| {
            let mut class = 0;
            let bytes = bytes_of(extents.inspect(|extent| class = extent.address.class()));
            window.items.push(Item { dataset, run: slot, value });
            window.units.push(Unit { tier: class.into(), bytes, hotness: heat(id), frees: true });
        };
        let pointer = run.pointer();
        if !placed.is_preferred(key) {
            add(&mut pointer.extents.iter().copied(), run.id(), None);
        }
        if pointer.large_bytes > 0 {
            for (key, value) in large_entries(run)? {
                // A reference without extents has nothing to move.
                if !placed.is_preferred(&key) && !value.pieces.is_empty() {
                    let id = value_id(&value);
                    add(&mut extents_of(&value.clone()), id, Some(value));
                }
            }
            window.read += pointer.bytes;
        }
        window.slots.push(Slot { level, key: key.to_vec(), run: Arc::clone(run) });
        Ok(())
    }

    /// Notes which units snapshots have, too.
    fn note_frees(&self, window: &mut Window) {
        let checkpoints = self.checkpoints.lock();
        let mut histories = BTreeMap::new();
        for (item, unit) in window.items.iter().zip(&mut window.units) {
            let history = histories
                .entry(item.dataset)
                .or_insert_with(|| checkpoints.histories.of(item.dataset));
            let entered = match &item.value {
                Some(value) => value.entered,
                None => window.slots[item.run].run.pointer().entered,
            };
            unit.frees = history.fate(entered) == Fate::Free;
        }
    }

    fn tiers(&self, threshold_percent: u8) -> Vec<Tier> {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK as u64);
        self.trees.storage.space(|space| {
            let classes = 0..self.trees.storage.classes().len() as u8;
            let tier = |class| {
                let capacity = bytes(space.capacity_max(class));
                let limit = (u128::from(capacity) * u128::from(threshold_percent) / 100) as u64;
                Tier { taken: bytes(space.taken(class)), limit }
            };
            classes.map(tier).collect()
        })
    }

    /// Moves units, a slice after the other.
    fn move_units(
        &self,
        window: &Window,
        moves: &[Move],
        goes_on: &dyn Fn() -> bool,
        round: &mut MigrationRound,
    ) -> Result<()> {
        let is_up = moves.first().is_some_and(|one| one.to < window.units[one.unit].tier);
        let mut slots: BTreeMap<usize, Wanted> = BTreeMap::new();
        for one in moves {
            let item = &window.items[one.unit];
            let wanted = slots.entry(item.run).or_default();
            wanted.dataset = item.dataset;
            wanted.bytes += window.units[one.unit].bytes;
            match &item.value {
                Some(value) => drop(wanted.values.insert(value_id(value), one.to as u8)),
                None => wanted.run = Some(one.to as u8),
            }
        }
        let mut slots = slots.into_iter().peekable();
        while let Some((number, wanted)) = slots.next() {
            let (dataset, mut bytes) = (wanted.dataset, wanted.bytes);
            let mut slice = vec![(number, wanted)];
            while bytes < SLICE_BYTES
                && let Some(next) = slots.next_if(|(_, wanted)| wanted.dataset == dataset)
            {
                bytes += next.1.bytes;
                slice.push(next);
            }
            if !goes_on() {
                round.ended_early = true;
                return Ok(());
            }
            // A view of its own, so that what earlier slices have replaced comes back.
            let view = self.view();
            let mut jobs = Vec::new();
            if let Some(tree) = view.trees.get(&dataset) {
                for (number, wanted) in &slice {
                    self.add_jobs(tree, &window.slots[*number], wanted, &mut jobs)?;
                }
            }
            let found = jobs.iter().map(Job::bytes).sum();
            round.skipped_bytes += bytes.saturating_sub(found);
            let outcome = self.move_slice(dataset, &jobs)?;
            let moved = if is_up { &mut round.promoted_bytes } else { &mut round.demoted_bytes };
            *moved += outcome.moved;
            round.skipped_bytes += outcome.skipped;
            if outcome.failure.is_some() {
                round.ended_early = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds the jobs for the runs that a slot has now: an earlier slice may have written the slot's run anew, and a
    /// flush may have merged several runs of the window. A merged run gets one job for all their values: a second job
    /// would undo the first one's references.
    fn add_jobs(
        &self,
        tree: &Tree,
        slot: &Slot,
        wanted: &Wanted,
        jobs: &mut Vec<Job>,
    ) -> crate::Result<()> {
        for run in runs_of(&self.trees, tree, slot.level, &slot.key)? {
            let is_same = run.pointer() == slot.run.pointer();
            let to = wanted.run.filter(|_| is_same);
            let mut values = Vec::new();
            if !wanted.values.is_empty() && run.pointer().large_bytes > 0 {
                for (_, value) in large_entries(&run)? {
                    let to = wanted.values.get(&value_id(&value)).copied();
                    values.extend(to.map(|to| (value, to)));
                }
            }
            if to.is_some() || !values.is_empty() {
                let known = jobs.iter_mut().find(|job| job.run.pointer() == run.pointer());
                if let Some(job) = known {
                    job.to = job.to.or(to);
                    for (value, to) in values {
                        if job.values.iter().all(|(known, _)| *known != value) {
                            job.values.push((value, to));
                        }
                    }
                    continue;
                }
                let (level, key) = (slot.level, slot.key.clone());
                jobs.push(Job { level, key, run, to, values });
            }
        }
        Ok(())
    }
}
