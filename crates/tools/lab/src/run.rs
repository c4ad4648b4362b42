//! One life of a store on a medium: open it, let it act, and note which worlds it may hold when.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halite_pmem::Medium;
use halite_sim::{Trace, What};

use crate::Effort;
use crate::quiet;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{World, differences};

/// The worlds that a store may be in, by the time of the power cut.
#[derive(Clone)]
pub(crate) struct Worlds {
    pub(crate) all: Vec<Arc<World>>,
    /// For each world, the event from which on a power cut may leave it.
    pub(crate) begun: Vec<(u32, usize)>,
    /// For each acknowledged world, the event from which on earlier worlds are impossible.
    pub(crate) acknowledged: Vec<(u32, usize)>,
    /// By world: the last of those that began with it, as one step of one part led to them.
    last_beside: Vec<usize>,
}

impl Worlds {
    /// Any of `allowed`, after any events.
    pub(crate) fn any_of(allowed: &[Arc<World>]) -> Self {
        Self {
            all: allowed.to_vec(),
            begun: vec![(0, allowed.len() - 1)],
            acknowledged: vec![(0, 0)],
            last_beside: (0..allowed.len()).collect(),
        }
    }

    fn last(&self) -> &Arc<World> {
        self.all.last().expect("there is always a world")
    }

    fn newest(&self) -> usize {
        self.all.len() - 1
    }
}

/// The states that a power cut may leave.
pub(crate) trait Oracle {
    /// The states that are right both for a power cut just after the event `youngest`, and for one
    /// just before the event `end`.
    fn allowed(&self, youngest: u32, end: u32) -> Vec<Arc<World>>;
}

impl Oracle for Worlds {
    fn allowed(&self, youngest: u32, end: u32) -> Vec<Arc<World>> {
        let (oldest, newest) = (self.acknowledged_at(end), at(&self.begun, youngest));
        // A step that was acknowledged without any store to the medium had begun without one, too.
        self.all[oldest..=newest.max(self.last_beside[oldest])].to_vec()
    }
}

impl Worlds {
    /// The oldest world that is still possible after an event.
    pub(crate) fn acknowledged_at(&self, event: u32) -> usize {
        at(&self.acknowledged, event)
    }
}

fn at(list: &[(u32, usize)], event: u32) -> usize {
    let after = list.partition_point(|(begun, _)| *begun <= event);
    list[after.saturating_sub(1)].1
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) worlds: Worlds,
    /// The world in which the store came up.
    pub(crate) found: Option<Arc<World>>,
    /// Whether the store reported that the platform failed, as it had to.
    pub(crate) detected: bool,
    /// The violation, if there is one.
    pub(crate) failure: Option<String>,
}

/// Why a life ends early.
enum End {
    Detected,
    /// The effort is spent.
    Spent,
    Failure(String),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Failure(refusal.to_string())
    }
}

impl From<String> for End {
    fn from(failure: String) -> Self {
        Self::Failure(failure)
    }
}

/// A note in a trace: a world is possible from now on, or certain.
const BEGUN: u64 = 0;
const ACKNOWLEDGED: u64 = 1;

struct Life<'a, S: Subject> {
    subject: &'a S,
    medium: &'a Medium,
    worlds: Worlds,
    /// Worlds before this one are gone.
    oldest: usize,
    found: Option<Arc<World>>,
    has_failed: bool,
    /// Whether a sync failed since the store was opened.
    has_failed_to_sync: bool,
    effort: &'a Effort,
}

/// Worlds that may be possible at once after a sync failed. Each step that the store takes then, and may lose, can
/// double them, so a store that still takes steps is started again before there are more.
const POSSIBLE_MAX: usize = 64;

/// The worlds that differ, in their order.
fn distinct(worlds: &[Arc<World>]) -> Vec<Arc<World>> {
    let mut seen = HashSet::with_capacity(worlds.len());
    worlds.iter().filter(|world| seen.insert(&***world)).map(Arc::clone).collect()
}

/// Opens the store, lets it act, and ends it by a kill. Its events are in `trace`.
///
/// If the platform failed before (`has_failed`), the store may report that instead. If the effort is spent meanwhile,
/// the run ends early, and that is no failure.
pub(crate) fn run<S: Subject>(
    subject: &S,
    medium: &Medium,
    allowed: &[Arc<World>],
    actions: &[Action<S::Step>],
    has_failed: bool,
    (effort, trace): (&Effort, &mut Trace),
) -> Run {
    medium.machine().take_trace(trace);
    let worlds = Worlds::any_of(&distinct(allowed));
    let mut life = Life {
        subject,
        medium,
        worlds,
        oldest: 0,
        found: None,
        has_failed,
        has_failed_to_sync: false,
        effort,
    };
    let lived = catch_unwind(AssertUnwindSafe(|| life.live(actions)));
    medium.machine().fail_sync_after(None);
    medium.machine().take_trace(trace);
    let mut worlds = life.worlds;
    for (number, event) in (0..).zip(&trace.events) {
        if let What::Mark(note) = event.what {
            let list = match note & 1 {
                BEGUN => &mut worlds.begun,
                _ => &mut worlds.acknowledged,
            };
            list.push((number, (note >> 1) as usize));
        }
    }
    let (detected, failure) = match lived {
        Ok(Ok(()) | Err(End::Spent)) => (false, None),
        Ok(Err(End::Detected)) => (true, None),
        Ok(Err(End::Failure(failure))) => (false, Some(failure)),
        Err(panic) => (false, Some(format!("it panics: {}", quiet::message(&*panic)))),
    };
    Run { worlds, found: life.found, detected, failure }
}

impl<S: Subject> Life<'_, S> {
    fn live(&mut self, actions: &[Action<S::Step>]) -> Result<(), End> {
        let mut open = self.come_up()?;
        for action in actions {
            self.go_on()?;
            match action {
                Action::Step(step) | Action::FailWithin(Some(step), _)
                    if self.has_failed_to_sync =>
                {
                    open = self.step_without_syncs(open, step)?;
                }
                Action::KillWithin(..) | Action::FailWithin(..) if self.has_failed_to_sync => {
                    open = self.kill(open)?;
                }
                Action::Step(step) => self.step(&mut open, step)?,
                Action::Reopen => {
                    drop(open);
                    if !self.has_failed_to_sync {
                        self.acknowledge();
                    }
                    open = self.come_up()?;
                }
                Action::Kill => open = self.kill(open)?,
                Action::KillWithin(step, events) => {
                    open = self.kill_within(open, step.as_ref(), *events)?;
                }
                Action::FailWithin(Some(step), syncs) => {
                    self.fail_within(&mut open, step, *syncs)?;
                }
                Action::FailWithin(None, syncs) => {
                    self.medium.machine().fail_sync_after(Some(*syncs));
                    drop(open);
                    if !self.medium.machine().has_failed_to_sync() {
                        self.acknowledge();
                    }
                    open = self.fail_to_open()?;
                }
                Action::FailOpening(syncs) => {
                    self.medium.machine().cut_power();
                    drop(open);
                    self.medium.restore_power();
                    self.medium.machine().fail_sync_after(Some(*syncs));
                    open = self.fail_to_open()?;
                }
            }
        }
        if self.has_failed_to_sync {
            open = self.kill(open)?;
        }
        self.go_on()?;
        let found = self.subject.world(&mut open)?;
        let expected = Arc::clone(self.worlds.last());
        if found != *expected {
            let differences = differences(&expected, &found).join("; ");
            return Err(format!("after it went on, {differences}").into());
        }
        self.effort.watch.sign();
        self.subject.verify(&mut open)?;
        self.medium.machine().cut_power();
        drop(open);
        self.medium.restore_power();
        Ok(())
    }

    /// Signals progress to the watch, and ends the store if the effort is spent.
    fn go_on(&self) -> Result<(), End> {
        self.effort.watch.sign();
        if self.effort.is_spent() { Err(End::Spent) } else { Ok(()) }
    }

    /// Kills the process, and starts it again.
    fn kill(&mut self, open: S::Open) -> Result<S::Open, End> {
        self.medium.machine().cut_power();
        drop(open);
        self.medium.restore_power();
        self.come_up()
    }

    /// Takes a step in which a sync may fail. The step has to return an error then, and may have happened or not. Where
    /// it may succeed all the same, the failed sync was for background work: writes that are durable by then stay so,
    /// as after every step.
    fn fail_within(&mut self, open: &mut S::Open, step: &S::Step, syncs: u32) -> Result<(), End> {
        self.medium.machine().fail_sync_after(Some(syncs));
        let certain = self.begin_step(step);
        let applied = self.subject.apply(open, step);
        self.has_failed_to_sync = self.medium.machine().has_failed_to_sync();
        self.medium.machine().fail_sync_after(None);
        match applied {
            Ok(()) if self.has_failed_to_sync && !self.may_succeed() => {
                Err(format!("{step:?} is said to be done, though a sync failed").into())
            }
            Err(why) if !self.has_failed_to_sync => Err(format!("{step:?} fails: {why}").into()),
            Err(_) => self.check_without_syncs(open),
            Ok(()) => {
                self.acknowledge_from(certain);
                Ok(())
            }
        }
    }

    /// Whether a step may succeed in which a sync fails.
    fn may_succeed(&self) -> bool {
        self.subject.tells_failures_later() || self.subject.survives_failed_syncs()
    }

    /// Takes a step after a sync failed: the step is refused and makes no change, or its result is right. Where a store
    /// survived that failure, a later one within the step may be its last, and the step may have happened or not.
    fn step_without_syncs(&mut self, mut open: S::Open, step: &S::Step) -> Result<S::Open, End> {
        let possible = distinct(&self.worlds.all[self.oldest..]);
        if possible.len() > POSSIBLE_MAX {
            let mut open = self.kill(open)?;
            self.step(&mut open, step)?;
            return Ok(open);
        }
        let first = self.worlds.all.len();
        let mut known: HashSet<Arc<World>> = possible.iter().map(Arc::clone).collect();
        for world in &possible {
            let mut after = World::clone(world);
            self.subject.model(&mut after, step);
            let within = self.subject.worlds_within(world, step);
            for world in within.into_iter().chain([after]).map(Arc::new) {
                if known.insert(Arc::clone(&world)) {
                    self.begin(world);
                }
            }
        }
        let is_refused = self.subject.apply(&mut open, step).is_err();
        if is_refused && !self.subject.survives_failed_syncs() {
            self.worlds.all[first..].fill(Arc::clone(&possible[0]));
        }
        self.check_without_syncs(&mut open)?;
        Ok(open)
    }

    /// Checks that, if a store can be read after a sync failed, its contents are a world that it may recover to.
    fn check_without_syncs(&mut self, open: &mut S::Open) -> Result<(), End> {
        match self.subject.world(open) {
            Ok(found) => self.possible(&found).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Opens a store whose syncs may fail, kills it, and starts it again.
    fn fail_to_open(&mut self) -> Result<S::Open, End> {
        let had_failed = self.medium.machine().has_failed_to_sync();
        let opened = self.subject.open(self.medium);
        let has_failed = self.medium.machine().has_failed_to_sync();
        self.medium.machine().fail_sync_after(None);
        match &opened {
            Ok(_) if has_failed && !had_failed && !self.subject.survives_failed_syncs() => {
                return Err("it opens, though a sync failed".to_owned().into());
            }
            Err(why) if !has_failed || had_failed => {
                return Err(format!("it does not open: {why}").into());
            }
            _ => {}
        }
        self.medium.machine().cut_power();
        drop(opened);
        self.medium.restore_power();
        self.come_up()
    }

    /// Kills the process within a step, or within a close and the opening after it.
    fn kill_within(
        &mut self,
        mut open: S::Open,
        step: Option<&S::Step>,
        events: u32,
    ) -> Result<S::Open, End> {
        self.medium.machine().cut_power_after(events);
        if let Some(step) = step {
            let certain = self.begin_step(step);
            match self.subject.apply(&mut open, step) {
                Ok(()) => self.acknowledge_from(certain),
                Err(why) if self.medium.machine().has_power() => {
                    return Err(format!("{step:?} fails: {why}").into());
                }
                _ => {}
            }
            self.medium.machine().cut_power();
            drop(open);
        } else {
            drop(open);
            // Without power the store does not come up, or is killed when it has.
            let opened = self.subject.open(self.medium);
            self.medium.machine().cut_power();
            drop(opened);
        }
        self.medium.restore_power();
        self.come_up()
    }

    /// Opens the store. It has to be in one of the worlds that are possible, and in no other from then
    /// on.
    fn come_up(&mut self) -> Result<S::Open, End> {
        self.effort.watch.sign();
        let mut open = self.subject.open(self.medium).map_err(|refusal| match refusal {
            Refusal::UnsafeShutdown | Refusal::Named(_)
                if self.has_failed && self.found.is_none() =>
            {
                End::Detected
            }
            Refusal::UnsafeShutdown => "it says that the platform failed".to_owned().into(),
            Refusal::Named(what) | Refusal::Failed(what) => {
                format!("it does not open: {what}").into()
            }
        })?;
        self.effort.watch.sign();
        let found = self.subject.world(&mut open)?;
        let world = self.possible(&found)?;
        self.has_failed_to_sync = false;
        self.found.get_or_insert_with(|| Arc::clone(&world));
        self.begin(world);
        self.acknowledge();
        Ok(open)
    }

    /// The newest of the currently possible worlds that equals the one found.
    fn possible(&self, found: &World) -> Result<Arc<World>, End> {
        let possible = &self.worlds.all[self.oldest..];
        let Some(world) = possible.iter().rev().find(|world| ***world == *found) else {
            let nearest = possible.iter().map(|world| differences(world, found));
            let nearest = nearest.min_by_key(Vec::len).unwrap_or_default();
            let shown = nearest.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
            return Err(format!(
                "it is in none of the {} states that are possible; the nearest differs in {}: {shown}",
                possible.len(),
                nearest.len(),
            )
            .into());
        };
        Ok(Arc::clone(world))
    }

    fn step(&mut self, open: &mut S::Open, step: &S::Step) -> Result<(), End> {
        let certain = self.begin_step(step);
        self.subject.apply(open, step).map_err(|why| format!("{step:?} fails: {why}"))?;
        self.acknowledge_from(certain);
        Ok(())
    }

    /// Begins the worlds that a step leads to. Returns the oldest world that is possible when the step has returned, if
    /// that rules out earlier ones.
    fn begin_step(&mut self, step: &S::Step) -> Option<usize> {
        let before = Arc::clone(self.worlds.last());
        let parts = self.subject.parts_of(&before, step);
        let possible = distinct(&self.worlds.all[self.oldest..]);
        for within in self.subject.worlds_within(&before, step) {
            self.begin(Arc::new(within));
        }
        let mut world = World::clone(&before);
        let durable = self.subject.model(&mut world, step);
        let Some((parts, durable)) = parts else {
            self.begin(Arc::new(world));
            return durable.then_some(self.worlds.newest());
        };
        // Other parts may be as they were when they were durable last, or at any time since.
        let first = self.worlds.all.len();
        for other in possible {
            let takes_part = |name: &[u8]| parts.contains(&self.subject.part_of(name));
            let mut apart: World = World::clone(&other);
            apart.retain(|name, _| !takes_part(name));
            let here = world.iter().filter(|(name, _)| takes_part(name));
            apart.extend(here.map(|(name, digest)| (name.clone(), *digest)));
            self.begin(Arc::new(apart));
        }
        self.begin(Arc::new(world));
        let last = self.worlds.newest();
        self.worlds.last_beside[first..].fill(last);
        durable.then_some(first)
    }

    fn acknowledge_from(&mut self, certain: Option<usize>) {
        if let Some(oldest) = certain {
            self.oldest = oldest;
            self.medium.machine().mark((oldest as u64) << 1 | ACKNOWLEDGED);
        }
    }

    fn begin(&mut self, world: Arc<World>) {
        self.worlds.all.push(world);
        self.worlds.last_beside.push(self.worlds.newest());
        self.medium.machine().mark((self.worlds.newest() as u64) << 1 | BEGUN);
    }

    fn acknowledge(&mut self) {
        self.acknowledge_from(Some(self.worlds.newest()));
    }
}
