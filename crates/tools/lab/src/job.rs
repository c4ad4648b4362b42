//! A job of a campaign: a subject under a set of rules.
//!
//! Subjects differ in their types. A [`Job`] hides that, so that a list mixes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_contract::{Engine, EngineOptions};
use halite_sim::{Request, Site};
use xxhash_rust::xxh3::xxh3_64;

use crate::media::{Media, Unseen};
use crate::{Case, Effort, Explorer, Lints, Rules, Store, Subject, Tally, Violation};

/// A search for violations, one seed at a time. A campaign calls it from several threads.
pub trait Job: Send + Sync + 'static {
    /// The name that its cases begin with.
    fn name(&self) -> &str;

    /// The rules under which it searches.
    fn rules(&self) -> Rules;

    /// Its part of the time, relative to the other jobs.
    fn share(&self) -> u64;

    /// Examines the history of each seed, until there are no more seeds, the effort is spent, or a violation is found.
    /// `without` is a request that is left out.
    fn look(
        &self,
        seeds: &mut dyn Iterator<Item = u64>,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Seen;

    /// Examines one of its own cases again, and returns its story. `case` is without the name. Of `effort`, only the
    /// limits that end it and its watch matter.
    ///
    /// # Errors
    /// Why it is not a case of this job; any reason if the effort is spent.
    fn replay(
        &self,
        case: &str,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Result<Replay, String>;
}

impl dyn Job {
    /// The name and the rules.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} {}", self.name(), self.rules().name())
    }

    /// The number from which its seeds are derived.
    pub(crate) fn number(&self) -> u64 {
        xxh3_64(self.label().as_bytes())
    }
}

/// The results of a job.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Counts of the histories, images and recoveries that it examined.
    pub tally: Tally,
    /// The needless and careless requests of the store.
    pub lints: Lints,
    /// The places that requested durability.
    pub requests: BTreeSet<(Site, Request)>,
    /// The violation, if one was found.
    pub finding: Option<Finding>,
}

/// A violation, and the case from which [`Job::replay`] reproduces it.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The job's name, a colon, and its case.
    pub case: String,
    /// The violation.
    pub what: String,
}

/// The story of a case.
#[derive(Debug, Clone)]
pub struct Replay {
    /// One line each.
    pub story: Vec<String>,
    /// The violation, if there is one.
    pub what: Option<String>,
}

/// The job of exploring a subject's histories.
pub struct Exploration<S> {
    subject: S,
    rules: Rules,
    share: u64,
}

impl<S: Subject> Exploration<S> {
    /// Explores a subject under the given rules.
    pub fn new(subject: S, rules: Rules, share: u64) -> Self {
        Self { subject, rules, share }
    }
}

/// The job of exploring an engine's concurrent histories, each under several schedules.
pub struct Concurrency<F> {
    subject: Store<F>,
    rules: Rules,
    share: u64,
}

/// Schedules of one concurrent history.
const SCHEDULES: u32 = 8;

/// The effort for the crashes of each schedule: small, since there are many schedules.
const OF_A_SCHEDULE: (u64, u64) = (24, 300);

impl<F> Concurrency<F>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + 'static,
{
    /// Explores an engine under the given rules.
    pub fn new(subject: Store<F>, rules: Rules, share: u64) -> Self {
        Self { subject, rules, share }
    }
}

impl<F> Job for Concurrency<F>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.subject.name()
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn share(&self) -> u64 {
        self.share
    }

    fn look(
        &self,
        mut seeds: &mut dyn Iterator<Item = u64>,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Seen {
        let (images_max, history_images_max) = OF_A_SCHEDULE;
        let effort = Effort { images_max, history_images_max, ..effort.clone() };
        let mut explorer = Explorer::new(&self.subject, self.rules, effort);
        explorer.disregard(without);
        let violation =
            Iterator::find_map(&mut seeds, |seed| explorer.explore_schedules(seed, SCHEDULES));
        seen(explorer, violation, self.name())
    }

    fn replay(
        &self,
        case: &str,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Result<Replay, String> {
        let case: Case = case.parse()?;
        let mut explorer = Explorer::new(&self.subject, case.rules, of_replay(effort));
        explorer.disregard(without);
        let (story, what) = explorer.replay_schedule(&case, SCHEDULES);
        replayed(&explorer, &case, story, what)
    }
}

/// The job of striking the stores of a subject's histories with faults of the medium.
pub struct Striking<S> {
    subject: S,
    unseen: &'static [Unseen],
    share: u64,
}

impl<S: Subject> Striking<S> {
    /// Strikes a subject, but not with faults that it is known not to detect.
    pub fn new(subject: S, unseen: &'static [Unseen], share: u64) -> Self {
        Self { subject, unseen, share }
    }

    fn media(&self, effort: &Effort) -> Media<'_, S> {
        Media::new(&self.subject).without(self.unseen).with_effort(effort.clone())
    }
}

impl<S: Subject + Send + 'static> Job for Striking<S> {
    fn name(&self) -> &str {
        self.subject.name()
    }

    fn rules(&self) -> Rules {
        Rules::Memory
    }

    fn share(&self) -> u64 {
        self.share
    }

    /// No request is left out here: faults do not depend on a store's requests.
    fn look(
        &self,
        mut seeds: &mut dyn Iterator<Item = u64>,
        effort: &Effort,
        _: Option<(Site, Request)>,
    ) -> Seen {
        let mut media = self.media(effort);
        let mut seeds = Iterator::take_while(&mut seeds, |_| !effort.is_spent());
        let violation = seeds.find_map(|seed| media.strike(seed));
        let finding = violation.map(|violation| Finding {
            case: format!("{}:{}", self.name(), violation.case),
            what: violation.what,
        });
        let histories = media.tally.histories;
        let tally = Tally { histories, media: media.tally, ..Tally::default() };
        Seen { tally, finding, ..Seen::default() }
    }

    fn replay(
        &self,
        case: &str,
        effort: &Effort,
        _: Option<(Site, Request)>,
    ) -> Result<Replay, String> {
        let (story, what) = self.media(effort).replay(&case.parse()?);
        Ok(Replay { story, what })
    }
}

/// The effort of a replay: unlimited, even if a limited effort has found the case.
fn of_replay(effort: &Effort) -> Effort {
    let Effort { deadline, interrupt, watch, .. } = effort.clone();
    Effort { deadline, interrupt, watch, ..Effort::default() }
}

fn seen<S: Subject>(explorer: Explorer<'_, S>, violation: Option<Violation>, name: &str) -> Seen {
    let finding = violation.map(|violation| Finding {
        case: format!("{name}:{}", violation.case),
        what: violation.what,
    });
    let Explorer { tally, lints, requests, .. } = explorer;
    Seen { tally, lints, requests, finding }
}

fn replayed<S: Subject>(
    explorer: &Explorer<'_, S>,
    case: &Case,
    story: Vec<String>,
    what: Option<String>,
) -> Result<Replay, String> {
    let (found, named) = (explorer.crashes_replayed(), case.crashes.len());
    if what.is_none() && found < named {
        return Err(format!(
            "the history of seed {:x} has no crash number {} of this case; \
             a case is replayed by the version that found it, and with the same request left out",
            case.seed,
            found + 1
        ));
    }
    Ok(Replay { story, what })
}

impl<S: Subject + Send + 'static> Job for Exploration<S> {
    fn name(&self) -> &str {
        self.subject.name()
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn share(&self) -> u64 {
        self.share
    }

    fn look(
        &self,
        mut seeds: &mut dyn Iterator<Item = u64>,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Seen {
        let mut explorer = Explorer::new(&self.subject, self.rules, effort.clone());
        explorer.disregard(without);
        let violation = Iterator::find_map(&mut seeds, |seed| explorer.explore(seed));
        seen(explorer, violation, self.name())
    }

    fn replay(
        &self,
        case: &str,
        effort: &Effort,
        without: Option<(Site, Request)>,
    ) -> Result<Replay, String> {
        let case: Case = case.parse()?;
        let mut explorer = Explorer::new(&self.subject, case.rules, of_replay(effort));
        explorer.disregard(without);
        let (story, what) = explorer.replay(&case);
        replayed(&explorer, &case, story, what)
    }
}
