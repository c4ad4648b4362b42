//! Exploration: every crash point of a history, the images that a power cut may leave there, and the same again in the
//! recovery from each.
//!
//! The set of possible images only grows from one event to the next, except where an event makes bytes durable. So it
//! suffices to examine it just before each such event (and at the end): every image that a crash at any point may leave
//! is among the images there, and is examined once, however many points lead to it. An image is possible since the
//! youngest store in it. So a store must recover from it to a state that is right both for the earliest and for the
//! latest of its crash points.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use halite_disk::DiskModel;
use halite_pmem::{Medium, ModelFile};
use halite_sim::{Request, Site, Trace, What};

use crate::case::{Case, Crash};
use crate::disk::Disk;
use crate::failures;
use crate::images::Images;
use crate::lint::Lints;
use crate::media::MediaTally;
use crate::pending::Pending;
use crate::run::{Oracle, run};
use crate::story;
use crate::subject::{Action, Subject};
use crate::watch::Watch;
use crate::world::World;
use crate::{Random, Rules};

/// How deep and how wide to look.
#[derive(Debug, Clone)]
pub struct Effort {
    /// The most images of one crash point of a history that are examined; if there are fewer, all are.
    pub images_max: u64,
    /// Images of a whole history, about; a long one has fewer at each point.
    pub history_images_max: u64,
    /// The most images of a crash point of a recovery, and of one of the recovery after that.
    pub nested_images_max: [u64; 2],
    /// Percentage of recoveries that are crashed in turn; and of those of the next depth.
    pub nested_percent: [u64; 2],
    /// When to stop, finished or not.
    pub deadline: Option<Instant>,
    /// Stops it at once when it becomes true.
    pub interrupt: Arc<AtomicBool>,
    /// The record of progress for the supervisor, which detects a store that is stuck.
    pub watch: Watch,
}

impl Effort {
    pub(crate) fn is_spent(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            images_max: 96,
            history_images_max: 3000,
            nested_images_max: [12, 4],
            nested_percent: [12, 6],
            deadline: None,
            interrupt: Arc::default(),
            watch: Watch::default(),
        }
    }
}

impl Effort {
    /// A short look, for many histories.
    #[must_use]
    pub fn quick() -> Self {
        Self { images_max: 12, history_images_max: 300, ..Self::default() }
    }
}

/// Counts of the histories, images and recoveries that were examined.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Histories.
    pub histories: u64,
    /// Schedules of concurrent histories.
    pub schedules: u64,
    /// Points at which the power was cut: events that change the set of possible images.
    pub crash_points: u64,
    /// Points at which every image was examined.
    pub complete_points: u64,
    /// Images, as they were drawn.
    pub images: u64,
    /// Identities of the images, so that each counts once.
    pub distinct: HashSet<u64>,
    /// Recoveries of images.
    pub recoveries: u64,
    /// Recoveries that were interrupted, or followed an interrupted one.
    pub nested: u64,
    /// Stores that rightly reported that the platform had failed.
    pub detected: u64,
    /// Faults of the medium, and the stores' responses.
    pub media: MediaTally,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.schedules += other.schedules;
        self.crash_points += other.crash_points;
        self.complete_points += other.complete_points;
        self.images += other.images;
        self.distinct.extend(other.distinct);
        self.recoveries += other.recoveries;
        self.nested += other.nested;
        self.detected += other.detected;
        self.media += other.media;
    }
}

/// A crash from which a store did not recover as it must.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The case from which [`Explorer::replay`] reproduces it with its story.
    pub case: Case,
    /// The violation.
    pub what: String,
}

/// The deepest recovery: of a crash in the recovery from a crash in a recovery.
const DEPTH_MAX: usize = 2;

/// A lab for one kind of store.
pub struct Explorer<'a, S: Subject> {
    subject: &'a S,
    rules: Rules,
    effort: Effort,
    disk: Disk,
    /// Recoveries by the image's identity: the world that came up, or `None` if the store reported that the platform
    /// had failed.
    known: HashMap<u64, Option<Arc<World>>>,
    /// Only this case, with its story.
    replay: Option<Case>,
    /// How many crashes of that case there were.
    replayed: usize,
    /// The seed of the history at hand, and its schedule.
    history: (u64, Option<u32>),
    disregarded: Option<(Site, Request)>,
    crashes: Vec<Crash>,
    traces: Vec<Trace>,
    story: Vec<String>,
    /// Counts of the histories, images and recoveries examined so far.
    pub tally: Tally,
    /// The needless and careless requests of the store so far.
    pub lints: Lints,
    /// The places that requested durability so far.
    pub requests: BTreeSet<(Site, Request)>,
}

impl<'a, S: Subject> Explorer<'a, S> {
    /// A lab under the given rules.
    ///
    /// # Panics
    /// If there are no addresses for its medium.
    pub fn new(subject: &'a S, rules: Rules, effort: Effort) -> Self {
        let medium = Medium::new(rules.domain(), subject.capacity()).expect("room for a medium");
        let shutdowns = rules.counts_failures().then_some(0);
        medium.restore(ModelFile { unsafe_shutdowns: shutdowns, ..ModelFile::default() }, []);
        Self {
            subject,
            rules,
            effort,
            disk: Disk::new(medium),
            known: HashMap::new(),
            replay: None,
            replayed: 0,
            history: (0, None),
            disregarded: None,
            crashes: Vec::new(),
            traces: Vec::new(),
            story: Vec::new(),
            tally: Tally::default(),
            lints: Lints::new(rules),
            requests: BTreeSet::new(),
        }
    }

    /// Disregards the requests of one place in the code from now on.
    pub fn disregard(&mut self, request: Option<(Site, Request)>) {
        self.disregarded = request;
        self.disk.medium.machine().disregard(request);
    }

    pub(crate) fn disregarded(&self) -> Option<(Site, Request)> {
        self.disregarded
    }

    /// Examines the history of a seed. Returns the first violation.
    pub fn explore(&mut self, seed: u64) -> Option<Violation> {
        crate::quiet::quietly(|| self.explore_history(seed))
    }

    /// Examines one case alone, and returns its story, and the violation if there is one.
    pub fn replay(&mut self, case: &Case) -> (Vec<String>, Option<String>) {
        let history = story::of_history(&self.actions(case.seed));
        self.replay_by(case, history, |explorer| explorer.explore(case.seed))
    }

    /// Examines one case by an exploration that reaches it.
    pub(crate) fn replay_by(
        &mut self,
        case: &Case,
        history: Vec<String>,
        explore: impl FnOnce(&mut Self) -> Option<Violation>,
    ) -> (Vec<String>, Option<String>) {
        self.replay = Some(case.clone());
        self.replayed = 0;
        self.story = history;
        let violation = explore(self);
        self.replay = None;
        (std::mem::take(&mut self.story), violation.map(|violation| violation.what))
    }

    pub(crate) fn subject(&self) -> &'a S {
        self.subject
    }

    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// Identifies the state of the disk.
    pub(crate) fn identity(&self) -> u64 {
        self.disk.identity()
    }

    /// The files beside the pool.
    pub(crate) fn model(&self) -> DiskModel {
        self.disk.model.clone()
    }

    /// The one schedule that is replayed.
    pub(crate) fn only_schedule(&self) -> Option<u32> {
        self.replay.as_ref()?.schedule
    }

    /// Explores the crashes of a concurrent history from the event `from` on. It began on the disk as it is now; the
    /// events of files are in `model`.
    pub(crate) fn explore_trace(
        &mut self,
        history: (u64, u32),
        (trace, model): (&Trace, &DiskModel),
        oracle: &dyn Oracle,
        from: u32,
        failure: Option<String>,
    ) -> Option<Violation> {
        let (seed, schedule) = history;
        self.history = (seed, Some(schedule));
        self.tally.schedules += 1;
        if let Some(what) = failure {
            return Some(self.violation(what));
        }
        let end = trace.events.len() as u32;
        if oracle.allowed(end, end + 1).is_empty() {
            let what = "what the threads read is in no order that their calls can have had";
            return Some(self.violation(what.to_owned()));
        }
        let start = self.disk.now();
        let explored = self.crash_everywhere(oracle, (trace, model), from, seed);
        self.disk.go_back(start);
        self.disk.forget_moments();
        explored.err()
    }

    /// How many of the crashes of the last replayed case occurred: fewer than the case has if the store differs from
    /// the one in which it was found.
    pub(crate) fn crashes_replayed(&self) -> usize {
        self.replayed
    }

    /// The history of a seed, under these rules.
    fn actions(&self, seed: u64) -> Vec<Action<S::Step>> {
        let mut random = Random::of(&[seed]);
        let actions = self.subject.history(&mut random);
        if self.rules == Rules::FailingSyncs {
            failures::among(actions, &mut random)
        } else {
            actions
        }
    }

    fn explore_history(&mut self, seed: u64) -> Option<Violation> {
        self.history = (seed, None);
        self.tally.histories += 1;
        let actions = self.actions(seed);
        let start = self.disk.now();
        let lived = self.live(&[Arc::default()], &actions, true, seed);
        self.disk.go_back(start);
        self.disk.forget_moments();
        lived.err()
    }

    /// Lets the store live on the disk as it is now, and if requested explores the crashes of that life.
    fn live(
        &mut self,
        allowed: &[Arc<World>],
        actions: &[Action<S::Step>],
        goes_deeper: bool,
        seed: u64,
    ) -> Result<(), Violation> {
        let identity = self.disk.identity();
        let mut trace = self.traces.pop().unwrap_or_default();
        let has_failed = self.rules == Rules::FailedPlatform && !self.crashes.is_empty();
        self.disk.show();
        let medium = &self.disk.medium;
        let case = self.case();
        self.effort.watch.begin(&case, &self.story);
        let recorded = (&self.effort, &mut trace);
        let run = run(self.subject, medium, allowed, actions, has_failed, recorded);
        self.disk.was_used(&trace);
        self.tally.detected += u64::from(run.detected);
        let result = match run.failure {
            Some(what) => Err(self.violation(what)),
            // The run may have ended early.
            None if self.effort.is_spent() => Ok(()),
            None => {
                if !self.crashes.is_empty() {
                    self.known.insert(identity, run.found);
                }
                if goes_deeper && !run.detected {
                    self.lints.see(&trace);
                    let model = self.model();
                    self.crash_everywhere(&run.worlds, (&trace, &model), 0, seed)
                } else {
                    Ok(())
                }
            }
        };
        self.traces.push(trace);
        result
    }

    fn violation(&self, what: String) -> Violation {
        Violation { case: self.case(), what }
    }

    /// The case that is being examined.
    fn case(&self) -> Case {
        let (seed, schedule) = self.history;
        Case { rules: self.rules, seed, schedule, crashes: self.crashes.clone() }
    }

    pub(crate) fn effort(&self) -> &Effort {
        &self.effort
    }

    /// Shows the watch which schedule of a history is about to be carried out.
    pub(crate) fn begin_schedule(&mut self, seed: u64, schedule: u32) {
        self.history = (seed, Some(schedule));
        self.effort.watch.begin(&self.case(), &self.story);
    }

    /// Walks through a trace, and from the event `from` on examines the possible images before each event that shrinks
    /// their set.
    fn crash_everywhere(
        &mut self,
        oracle: &dyn Oracle,
        (trace, model): (&Trace, &DiskModel),
        from: u32,
        seed: u64,
    ) -> Result<(), Violation> {
        let mut pending = Pending::new(self.rules, trace, model);
        let waits =
            trace.events.iter().filter(|event| event.what.request().is_some()).count() as u64;
        let images_max = self.effort.history_images_max * 2 / (waits + 1);
        let images_max = images_max.clamp(4.min(self.effort.images_max), self.effort.images_max);
        let (mut certain_since, mut grew) = (0, true);
        for (number, event) in (0..).zip(&trace.events) {
            self.effort.watch.sign();
            pending.begin(number, event.what, &self.disk);
            grew |= !matches!(event.what, What::Mark(_) | What::Publish { .. });
            let shrinks = pending.shrinks(event.what);
            let request = event.what.request().filter(|request| self.rules.heed(*request, shrinks));
            self.requests.extend(request.map(|request| (event.site, request)));
            if shrinks {
                let point =
                    Point { number, certain_since, oracle, trace, pending: &pending, images_max };
                if number >= from {
                    self.crash_at(&point, seed)?;
                }
                pending.end(event.what, &mut self.disk);
                certain_since = number;
                grew = false;
            }
            if self.effort.is_spent() {
                return Ok(());
            }
        }
        if grew {
            let number = trace.events.len() as u32;
            let point =
                Point { number, certain_since, oracle, trace, pending: &pending, images_max };
            self.crash_at(&point, seed)?;
        }
        Ok(())
    }

    fn crash_at(&mut self, point: &Point<'_>, seed: u64) -> Result<(), Violation> {
        let depth = self.crashes.len();
        let only = match &self.replay {
            None => None,
            Some(case) => match case.crashes.get(depth) {
                Some(crash) if crash.point == point.number => Some(crash.image),
                _ => return Ok(()),
            },
        };
        let uncertain = point.pending.uncertain(&self.disk);
        let ways = uncertain.ways();
        let images_max = match depth {
            0 => point.images_max,
            depth => self.effort.nested_images_max[depth - 1],
        };
        let seed = Random::of(&[seed, point.number.into()]).next();
        let images = Images::new(&uncertain.dirty, &ways, point.trace, seed);
        self.tally.crash_points += 1;
        let (numbers, is_complete) = match only {
            Some(number) => (vec![number].into_iter().filter(|&n| images.has(n)).collect(), false),
            None => images.numbers(images_max),
        };
        self.tally.complete_points += u64::from(is_complete);
        for number in numbers {
            if self.effort.is_spent() {
                return Ok(());
            }
            let image = images.get(number);
            if only.is_some() {
                self.replayed = depth + 1;
                let told =
                    story::of_crash(point.number, point.pending, &uncertain, &image, &self.disk);
                self.story.extend(told);
            }
            let before = self.disk.now();
            self.crashes.push(Crash { point: point.number, image: number });
            let left = point.pending.leave(&uncertain, &image, &mut self.disk);
            let youngest = left.max(point.certain_since);
            let looked = self.look(&point.oracle.allowed(youngest, point.number), seed ^ number);
            self.crashes.pop();
            self.disk.go_back(before);
            looked?;
        }
        Ok(())
    }

    /// Lets the store recover from the image on the disk.
    fn look(&mut self, allowed: &[Arc<World>], seed: u64) -> Result<(), Violation> {
        if allowed.is_empty() {
            let what = "what was read up to here contradicts every state that it may leave";
            return Err(self.violation(what.to_owned()));
        }
        let depth = self.crashes.len();
        self.tally.images += 1;
        self.effort.watch.sign();
        let identity = self.disk.identity();
        if self.replay.is_none()
            && let Some(known) = self.known.get(&identity)
        {
            return match known {
                Some(world) if !allowed.contains(world) => {
                    let what = "it comes back in a state that is not possible at this point";
                    Err(self.violation(what.to_owned()))
                }
                _ => Ok(()),
            };
        }
        self.tally.distinct.insert(identity);
        self.tally.recoveries += 1;
        self.tally.nested += u64::from(depth > 1);
        let mut random = Random::of(&[seed]);
        let mut actions = afterlife(self.subject, &mut random);
        if self.rules == Rules::FailingSyncs {
            actions = failures::among(actions, &mut random);
        }
        let goes_deeper = match &self.replay {
            Some(case) => case.crashes.len() > depth,
            None => depth <= DEPTH_MAX && random.percent(self.effort.nested_percent[depth - 1]),
        };
        self.live(allowed, &actions, goes_deeper, seed)
    }
}

/// The steps of a store after its recovery: it goes on, is closed and opened now and then, and goes on.
fn afterlife<S: Subject>(subject: &S, random: &mut Random) -> Vec<Action<S::Step>> {
    let mut actions: Vec<_> = subject.afterlife(random).into_iter().map(Action::Step).collect();
    if random.percent(25) {
        actions.push(match random.below(3) {
            0 => Action::Reopen,
            1 => Action::Kill,
            _ => Action::KillWithin(None, random.below(24) as u32),
        });
    }
    actions
}

/// A crash point.
struct Point<'a> {
    /// The event before which the power is cut.
    number: u32,
    /// The event after which all certain changes are certain.
    certain_since: u32,
    oracle: &'a dyn Oracle,
    trace: &'a Trace,
    pending: &'a Pending<'a>,
    /// How many images of a history to examine here.
    images_max: u64,
}
