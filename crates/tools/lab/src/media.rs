//! Faults of the medium under a store that is not running.
//!
//! A history runs, and ends with a clean close or with a kill after which every store is there. Then one [`Fault`]
//! strikes the bytes on the medium, now and then two, and the store opens. It may name the damage, when it opens or
//! when damaged data is read; all that it returns must be right. Right is:
//!
//! - After a close: the world that was closed, and no other.
//! - After a kill: a world between the one last acknowledged and the newest.
//! - After a kill, if the fault strikes stores behind the last *proof*: any world since the proven one. A log learns
//!   that a record was durable from later records; so it cannot tell an interrupted last write from a damaged one. A
//!   world is proven once it was acknowledged and then either a step began that stored bytes of which no line is
//!   struck, or the store came up in it. One fault that strikes proven writes together with unproven ones behind them
//!   may take all of them: a block of the log that has lost its beginning does not say with which record it began.
//!   The value that an unproven write replaced may be lost with it: its space was free for reuse once the write was
//!   durable. None of this is permitted where [`Subject::ends_unproven`] is false.
//!
//! Pairs of faults strike closed stores only: after a kill they could take proven writes with all that proves them.
//! Some pairs are not drawn, since their result is also the result of an earlier crash: pairs that strike both copies
//! of the superblock, one of them with an older state; and pairs of which each zeroes bytes or brings an older state
//! back, as for the word of a segment and all of its owner's notes on it.
//!
//! A store that names damage must still answer rightly for everything else, one name at a time, and its verification
//! must find the damage. A store that opens, reads right and verifies clean must do so again after it was closed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use halite_pmem::Medium;
use halite_sim::{Trace, What};

use crate::disk::Disk;
use crate::fault::{Fault, FaultKind};
use crate::past::{self, Past};
use crate::quiet;
use crate::run::{Run, Worlds, run};
use crate::story;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World, differences};
use crate::{Effort, Random, Rules};

/// How a history ends before the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The store is closed.
    Closed,
    /// The process is killed; every store that it made is there.
    Killed,
}

/// Faults that a store is known not to detect, and that therefore are not drawn.
#[derive(Debug, Clone, Copy)]
pub struct Unseen {
    /// The kinds of faults.
    pub kinds: &'static [FaultKind],
    /// Only in lines that this source file stored to last; the end of its path.
    pub file: &'static str,
    /// The endings after which it is not seen.
    pub endings: &'static [Ending],
}

impl Unseen {
    /// The fault that engines do not detect: a lost write to the block map of a store that was killed. The map is
    /// changed in place, and until the store is closed its newest state cannot be told from an older one.
    pub const BY_ENGINES: &[Self] = &[Self {
        kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
        file: "indexlog/src/space/block_map.rs",
        endings: &[Ending::Killed],
    }];

    /// The faults that the manager of segments does not detect by itself, but its users do.
    pub const BY_SPACE: &[Self] = &[
        // A free segment's word is zero, and only its owner knows that a segment was allocated.
        Self {
            kinds: &[
                FaultKind::ZeroedLine,
                FaultKind::ZeroedBlock,
                FaultKind::StaleLine,
                FaultKind::StaleBlock,
            ],
            file: "alloc/src/segments.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        // The owner of a segment checks its content; the lab's stamps have no checksum.
        Self {
            kinds: &FaultKind::ALL,
            file: "lab/src/space.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
    ];

    /// The faults that object pools and zones do not detect by themselves, but their users do.
    pub const BY_OBJECTS: &[Self] = &[
        Self::BY_SPACE[0],
        // Words are changed in place, and an older one has its check too.
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/object_pool.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/committed_zone.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        // The owner of an object or a zone checks its content.
        Self {
            kinds: &FaultKind::ALL,
            file: "lab/src/objects.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
    ];

    /// The faults that a heap does not detect by itself, but its users do.
    pub const BY_HEAP: &[Self] = &[
        Self::BY_SPACE[0],
        // The newest publication of a store that was killed has no proof but its record: if that is damaged, it cannot be
        // told from one that was interrupted.
        Self {
            kinds: &FaultKind::ALL,
            file: "alloc/src/heap/record.rs",
            endings: &[Ending::Killed],
        },
        // Words are changed in place, and an older one has its check too.
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/publish.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/door.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/reserve.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/reclaim.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/recovery.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/record.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/access.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
        Self {
            kinds: &[FaultKind::StaleLine, FaultKind::StaleBlock],
            file: "alloc/src/heap/base.rs",
            endings: &[Ending::Closed, Ending::Killed],
        },
    ];
}

/// The numbers that reproduce one strike: the seed of the history and the number of the fault. Its text is the argument
/// of `halite lab media --replay`: `media:1f2e3d:7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaCase {
    /// The seed of the history.
    pub seed: u64,
    /// The number of the fault; even ones strike after a close, odd ones after a kill.
    pub fault: u64,
}

impl fmt::Display for MediaCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "media:{:x}:{}", self.seed, self.fault)
    }
}

impl FromStr for MediaCase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (seed, fault) = text.strip_prefix("media:")?.split_once(':')?;
            let seed = u64::from_str_radix(seed, 16).ok()?;
            Some(Self { seed, fault: fault.parse().ok()? })
        };
        parse().ok_or_else(|| format!("`{text}` is not a case; one looks like `media:1f2e3d:7`"))
    }
}

/// A fault after which a store gave a wrong answer.
#[derive(Debug, Clone)]
pub struct MediaViolation {
    /// The case from which [`Media::replay`] reproduces it.
    pub case: MediaCase,
    /// The violation.
    pub what: String,
}

/// How strikes ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answers {
    /// The store did not open and named the damage.
    pub refused: u64,
    /// The store opened, and named the damage when it was read.
    pub named: u64,
    /// All data was right, and verification named damage all the same.
    pub found: u64,
    /// All data was right.
    pub right: u64,
    /// All data was right but for the last, unproven writes before a kill, which were gone.
    pub shortened: u64,
}

impl Answers {
    /// Strikes in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.refused + self.named + self.found + self.right + self.shortened
    }

    /// Strikes that were answered by a named error.
    #[must_use]
    pub fn named_errors(&self) -> u64 {
        self.refused + self.named + self.found
    }

    fn count(&mut self, answer: Answer) {
        *match answer {
            Answer::Refused => &mut self.refused,
            Answer::Named => &mut self.named,
            Answer::Found => &mut self.found,
            Answer::Right => &mut self.right,
            Answer::Shortened => &mut self.shortened,
        } += 1;
    }
}

impl AddAssign for Answers {
    fn add_assign(&mut self, other: Self) {
        self.refused += other.refused;
        self.named += other.named;
        self.found += other.found;
        self.right += other.right;
        self.shortened += other.shortened;
    }
}

/// Counts of the histories, of the strikes, and of the stores' answers.
#[derive(Debug, Clone, Default)]
pub struct MediaTally {
    /// Histories.
    pub histories: u64,
    /// Strikes; some of two faults.
    pub strikes: Answers,
    /// Faults by kind; both of a pair count.
    pub faults: BTreeMap<FaultKind, Answers>,
}

impl AddAssign for MediaTally {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.strikes += other.strikes;
        for (kind, answers) in other.faults {
            *self.faults.entry(kind).or_default() += answers;
        }
    }
}

/// A right answer to a strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Refused,
    Named,
    Found,
    Right,
    Shortened,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Self::Refused => "it does not open and names the damage",
            Self::Named => "it names the damage when that is read",
            Self::Found => "all data is right, and verification names damage",
            Self::Right => "all data is right",
            Self::Shortened => {
                "all data is right but for the last, unproven writes, which are gone"
            }
        }
    }
}

/// Strikes on a history by default. The first of each ending has no fault: the image itself must be right.
const STRIKES: u64 = 64;

/// Percentage of strikes on closed stores that are of two faults.
const PAIRS_PERCENT: u64 = 15;

/// Percentage of stores that verify clean and are closed and opened again.
const REOPENED_PERCENT: u64 = 25;

/// A lab of faults for one kind of store.
pub struct Media<'a, S: Subject> {
    subject: &'a S,
    disk: Disk,
    strikes: u64,
    unseen: &'a [Unseen],
    effort: Effort,
    story: Vec<String>,
    /// Counts of the histories, of the strikes, and of the stores' answers so far.
    pub tally: MediaTally,
}

impl<'a, S: Subject> Media<'a, S> {
    /// A lab for a store.
    ///
    /// # Panics
    /// If there are no addresses for its medium.
    pub fn new(subject: &'a S) -> Self {
        let medium =
            Medium::new(Rules::Memory.domain(), subject.capacity()).expect("room for a medium");
        Self {
            subject,
            disk: Disk::new(medium),
            strikes: STRIKES,
            unseen: &[],
            effort: Effort::default(),
            story: Vec::new(),
            tally: MediaTally::default(),
        }
    }

    /// Sets the number of strikes on each history.
    #[must_use]
    pub fn with_strikes(mut self, strikes: u64) -> Self {
        self.strikes = strikes;
        self
    }

    /// Leaves out faults that the store is known not to detect.
    #[must_use]
    pub fn without(mut self, unseen: &'a [Unseen]) -> Self {
        self.unseen = unseen;
        self
    }

    /// Ends when an effort is spent. Its widths do not matter here.
    #[must_use]
    pub fn with_effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// Strikes the history of a seed, again and again. Returns the first violation.
    pub fn strike(&mut self, seed: u64) -> Option<MediaViolation> {
        self.tally.histories += 1;
        quiet::quietly(|| self.strike_history(seed, 0..self.strikes)).err()
    }

    /// Examines one case alone, and returns its story, and the violation if there is one.
    pub fn replay(&mut self, case: &MediaCase) -> (Vec<String>, Option<String>) {
        let tally = self.tally.clone();
        self.story = story::of_history(&self.subject.history(&mut Random::of(&[case.seed])));
        let only = case.fault..case.fault.saturating_add(1);
        let violation = quiet::quietly(|| self.strike_history(case.seed, only)).err();
        self.tally = tally;
        (std::mem::take(&mut self.story), violation.map(|violation| violation.what))
    }

    fn strike_history(
        &mut self,
        seed: u64,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), MediaViolation> {
        let mut history = self.subject.history(&mut Random::of(&[seed]));
        let steps_end = history.len();
        history.push(Action::Reopen);
        for (parity, ending) in [(0, Ending::Closed), (1, Ending::Killed)] {
            let mut numbers = numbers.clone().filter(|number| number % 2 == parity).peekable();
            let Some(&first) = numbers.peek() else { continue };
            let actions = match ending {
                Ending::Closed => &history[..],
                Ending::Killed => &history[..steps_end],
            };
            let mut trace = Trace::default();
            self.disk.show();
            self.effort.watch.begin(&MediaCase { seed, fault: first }, &self.story);
            let (medium, recorded) = (&self.disk.medium, (&self.effort, &mut trace));
            let run = run(self.subject, medium, &[Arc::default()], actions, false, recorded);
            self.disk.was_used(&trace);
            let start = self.disk.now();
            let struck = match &run.failure {
                Some(what) => Err((first, format!("before any fault, {what}"))),
                // The run may have ended early.
                None if self.effort.is_spent() => Ok(()),
                None => {
                    let image = Image::new(self.subject, ending, actions, &run, &trace);
                    self.strike_image(seed, numbers, &image)
                }
            };
            self.disk.go_back(start);
            self.disk.forget_moments();
            struck.map_err(|(fault, what)| MediaViolation {
                case: MediaCase { seed, fault },
                what,
            })?;
        }
        Ok(())
    }

    /// Strikes the image that a history left.
    fn strike_image(
        &mut self,
        seed: u64,
        numbers: impl Iterator<Item = u64>,
        image: &Image<'_>,
    ) -> Result<(), (u64, String)> {
        image.put(&mut self.disk);
        let past = Past::new(image.trace, image.end);
        let is_told = !self.story.is_empty();
        if is_told {
            self.story.push(format!("The store is {}.", image.ending.name()));
        }
        for number in numbers {
            if self.effort.is_spent() {
                return Ok(());
            }
            let mut random = Random::of(&[seed, number]);
            let faults = if number < 2 { Vec::new() } else { self.draw(image, &past, &mut random) };
            let before = self.disk.now();
            for fault in &faults {
                if is_told {
                    self.story.extend(fault.story(&past, &self.disk));
                }
                fault.strike(&mut self.disk);
            }
            self.effort.watch.begin(&MediaCase { seed, fault: number }, &self.story);
            let answer = self.look(image.allowed(&faults), &mut random);
            self.disk.go_back(before);
            let answer = answer.map_err(|what| (number, what))?;
            if faults.is_empty() && !matches!(answer, Answer::Right | Answer::Shortened) {
                return Err((number, "it names damage where there is none".to_owned()));
            }
            self.tally.strikes.count(answer);
            for fault in &faults {
                self.tally.faults.entry(fault.kind).or_default().count(answer);
            }
            if is_told {
                self.story.push(format!("It opens: {}.", answer.name()));
            }
        }
        Ok(())
    }

    /// Draws one fault, or two.
    fn draw(&self, image: &Image<'_>, past: &Past<'_>, random: &mut Random) -> Vec<Fault> {
        const DRAWS_MAX: u64 = 32;
        let mut faults: Vec<Fault> = Vec::new();
        let pairs = image.ending == Ending::Closed && random.percent(PAIRS_PERCENT);
        let count = if pairs { 2 } else { 1 };
        for _ in 0..DRAWS_MAX {
            let fault = Fault::any(past, &self.disk, random);
            let is_unseen = self.unseen.iter().any(|unseen| {
                let stored =
                    |line| past.site(line).is_some_and(|s| s.file().ends_with(unseen.file));
                unseen.endings.contains(&image.ending)
                    && unseen.kinds.contains(&fault.kind)
                    && fault.lines.iter().any(|(line, _)| stored(*line))
            });
            let too_much = faults.iter().any(|other| undo_together(other, &fault));
            if !is_unseen && !too_much && fault.changes(&self.disk) {
                faults.push(fault);
            }
            if faults.len() == count {
                break;
            }
        }
        faults
    }

    /// Lets the store open on the disk as it is.
    fn look(&mut self, allowed: Allowed<'_>, random: &mut Random) -> Result<Answer, String> {
        self.disk.show();
        let medium = &self.disk.medium;
        let judged = catch_unwind(AssertUnwindSafe(|| {
            judge(self.subject, medium, &allowed, random.percent(REOPENED_PERCENT))
        }));
        medium.machine().cut_power();
        medium.restore_power();
        let mut trace = Trace::default();
        medium.machine().take_trace(&mut trace);
        self.disk.was_used(&trace);
        judged.unwrap_or_else(|panic| Err(format!("it panics: {}", quiet::message(&*panic))))
    }
}

impl Ending {
    /// Returns the ending's name in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
        }
    }
}

/// Whether two faults together may have the result of an early crash.
fn undo_together(a: &Fault, b: &Fault) -> bool {
    if a.kind.erases() && b.kind.erases() {
        return true;
    }
    let [first, second] = [a.copies(), b.copies()];
    let each = (first[0] || first[1]) && (second[0] || second[1]);
    let both = (first[0] || second[0]) && (first[1] || second[1]);
    each && both && (a.kind.is_stale() || b.kind.is_stale())
}

/// The image that a history leaves on the medium, and the worlds that it may hold.
struct Image<'a> {
    ending: Ending,
    trace: &'a Trace,
    /// Only the events of the trace before this one are in the image.
    end: u32,
    worlds: &'a Worlds,
    /// Worlds that are certain, the oldest first.
    certain: std::ops::Range<usize>,
    /// The world in which the store came up last.
    came_up: usize,
    ends_unproven: bool,
}

impl<'a> Image<'a> {
    fn new<S: Subject>(
        subject: &S,
        ending: Ending,
        actions: &[Action<S::Step>],
        run: &'a Run,
        trace: &'a Trace,
    ) -> Self {
        let worlds = &run.worlds;
        // The store begins in the first world, comes up in the second, and in one more by each action.
        let comes_up = actions.iter().rposition(|action| !matches!(action, Action::Step(_)));
        let newest = worlds.all.len() - 1;
        let (end, certain) = match ending {
            // Closing acknowledges, and then coming up does.
            Ending::Closed => {
                (worlds.acknowledged[worlds.acknowledged.len() - 2].0, newest..newest + 1)
            }
            Ending::Killed => {
                (trace.events.len() as u32, worlds.acknowledged_at(u32::MAX)..newest + 1)
            }
        };
        let came_up = comes_up.map_or(1, |at| at + 2);
        let ends_unproven = ending == Ending::Killed && subject.ends_unproven();
        Self { ending, trace, end, worlds, certain, came_up, ends_unproven }
    }

    /// Puts it on an empty disk.
    fn put(&self, disk: &mut Disk) {
        for event in &self.trace.events[..self.end as usize] {
            match event.what {
                What::Store { at, len, bytes, .. } => {
                    disk.change(at, self.trace.stored(bytes, len))
                }
                What::Length { to } => disk.file.len = to,
                What::Link => disk.file.named = true,
                What::Disk { number, bytes, len, .. } => {
                    let happened = disk.model.event(number);
                    let happened = happened.expect("the events of a trace are known");
                    disk.happen(&happened, self.trace.stored(bytes, len));
                }
                _ => {}
            }
        }
    }

    /// The worlds in which the store may be after faults; see the module.
    fn allowed(&self, faults: &[Fault]) -> Allowed<'a> {
        let all = &self.worlds.all;
        let certain = &all[self.certain.clone()];
        if !self.ends_unproven {
            return Allowed { worlds: certain, replaced: BTreeSet::new() };
        }
        let struck: BTreeSet<_> =
            faults.iter().flat_map(|fault| &fault.lines).map(|(line, _)| *line).collect();
        let stored = |from: u32, to: u32| {
            let events = &self.trace.events[from as usize..to as usize];
            events.iter().flat_map(|event| past::lines(event.what))
        };
        let begun = &self.worlds.begun;
        let mut proven = self.came_up;
        for step in self.came_up + 1..all.len() {
            let (from, to) = (begun[step].0, begun.get(step + 1).map_or(self.end, |next| next.0));
            let mut lines = stored(from, to).peekable();
            if lines.peek().is_some() && lines.all(|line| !struck.contains(&line)) {
                proven = proven.max(self.worlds.acknowledged_at(from));
            }
        }
        let proven_at = self.worlds.acknowledged.iter().find(|(_, world)| *world >= proven);
        let from = proven_at.map_or(self.end, |(event, _)| *event);
        let mut oldest = self.certain.start;
        for fault in faults {
            let hits = |line: u64| fault.lines.iter().any(|(struck, _)| *struck == line);
            if !stored(from, self.end).any(hits) {
                continue;
            }
            oldest = oldest.min(proven);
            let first = (self.came_up + 1..all.len()).find(|&step| {
                let to = begun.get(step + 1).map_or(self.end, |next| next.0);
                stored(begun[step].0, to).any(hits)
            });
            let before = first.map_or(proven, |step| self.worlds.acknowledged_at(begun[step].0));
            oldest = oldest.min(before.max(self.came_up));
        }
        let mut replaced = BTreeSet::new();
        if oldest < self.certain.start {
            for pair in all[oldest..].windows(2) {
                let changed = pair[0].iter().filter(|(name, now)| pair[1].get(*name) != Some(now));
                replaced.extend(changed.map(|(name, _)| &name[..]));
            }
        }
        Allowed { worlds: &all[oldest..], replaced }
    }
}

/// The worlds that a store may hold after a fault.
struct Allowed<'a> {
    worlds: &'a [Arc<World>],
    /// Names that unproven writes replaced, which may be gone.
    replaced: BTreeSet<&'a [u8]>,
}

impl Allowed<'_> {
    /// Whether an answer for a name is right in one of the worlds.
    fn fits(&self, world: &World, name: &[u8], found: Option<Digest>) -> bool {
        world.get(name).copied() == found || found.is_none() && self.replaced.contains(name)
    }

    fn fits_all(&self, world: &World, found: &World) -> bool {
        let names = world.keys().chain(found.keys());
        names.into_iter().all(|name| self.fits(world, name, found.get(name).copied()))
    }
}

/// Opens the store on a medium that may be damaged, and judges all of its answers.
fn judge<S: Subject>(
    subject: &S,
    medium: &Medium,
    allowed: &Allowed<'_>,
    is_reopened: bool,
) -> Result<Answer, String> {
    let named = |refusal: Refusal, when: &str| match refusal {
        Refusal::Named(what) => Ok(what),
        other => Err(format!("{when} it fails without naming damage: {other}")),
    };
    let mut open = match subject.open(medium) {
        Ok(open) => open,
        Err(refusal) => return named(refusal, "opening").map(|_| Answer::Refused),
    };
    let read = subject.world(&mut open);
    let found = match subject.verify(&mut open) {
        Ok(()) => None,
        Err(refusal) => Some(named(refusal, "verifying")?),
    };
    let world = match (read, found) {
        (Err(refusal), found) => {
            let what = named(refusal, "reading")?;
            look_up_all(subject, &mut open, allowed)?;
            return match found {
                Some(_) => Ok(Answer::Named),
                None => Err(format!("verification does not find what reading found: {what}")),
            };
        }
        (Ok(world), found) => {
            compare(&world, allowed)?;
            if found.is_some() {
                return Ok(Answer::Found);
            }
            world
        }
    };
    if is_reopened {
        drop(open);
        let opened = subject.open(medium);
        open = opened.map_err(|refusal| format!("it verified clean, and now: {refusal}"))?;
        let again = subject.world(&mut open);
        let again = again.map_err(|refusal| format!("it verified clean, and now: {refusal}"))?;
        if again != world {
            let differences = differences(&world, &again).join("; ");
            return Err(format!("it verified clean, and after a close {differences}"));
        }
        let verified = subject.verify(&mut open);
        verified.map_err(|refusal| format!("it verified clean, and now: {refusal}"))?;
    }
    // Closing it would test no more.
    medium.machine().cut_power();
    let is_newest = allowed.worlds.last().is_some_and(|newest| **newest == world);
    Ok(if is_newest { Answer::Right } else { Answer::Shortened })
}

fn compare(world: &World, allowed: &Allowed<'_>) -> Result<(), String> {
    let worlds = allowed.worlds;
    if worlds.iter().any(|right| allowed.fits_all(right, world)) {
        return Ok(());
    }
    let nearest = worlds.iter().map(|allowed| differences(allowed, world)).min_by_key(Vec::len);
    let shown = nearest.unwrap_or_default().into_iter().take(5).collect::<Vec<_>>().join("; ");
    Err(format!(
        "it returns wrong data ({} worlds are right; of the nearest, {shown})",
        worlds.len()
    ))
}

/// Looks every name up by itself: together, the answers must fit one of the worlds, but for those that
/// are named errors.
fn look_up_all<S: Subject>(
    subject: &S,
    open: &mut S::Open,
    allowed: &Allowed<'_>,
) -> Result<(), String> {
    let names: BTreeSet<_> = allowed.worlds.iter().flat_map(|world| world.keys()).collect();
    let mut fitting: Vec<_> = allowed.worlds.iter().collect();
    for name in names {
        match subject.look_up(open, name) {
            Ok(found) => fitting.retain(|world| allowed.fits(world, name, found)),
            Err(Refusal::Named(_)) => {}
            Err(other) => {
                let name = name.escape_ascii();
                return Err(format!("looking `{name}` up fails without naming damage: {other}"));
            }
        }
        if fitting.is_empty() {
            let name = name.escape_ascii();
            return Err(format!("it names damage, but `{name}` is wrong, looked up by itself"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_back() {
        for text in ["media:1f", "media:zz:1", "memory:1:2", "media:1:x"] {
            assert!(text.parse::<MediaCase>().is_err(), "{text}");
        }
        assert_eq!("media:1f:12".parse::<MediaCase>().unwrap().to_string(), "media:1f:12");
    }
}
