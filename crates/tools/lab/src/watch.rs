//! The watch that is kept on threads that call stores: a call that does not return is a finding, and must not keep
//! the campaign from ending.
//!
//! A thread cannot be ended from outside. So one whose store is stuck is left behind, with the medium that its store
//! has, and another takes its place. How long a call may take is counted in looks of the watch, each after a short
//! sleep, and not by a clock: where the whole machine stands still, the watch does, too.

use std::fmt::{Display, Write};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::plan::{Clock, Progress};

/// The signs of progress that a thread gives to the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Signs>);

#[derive(Debug, Default)]
struct Signs {
    /// Calls of stores that began, and other things done.
    count: AtomicU64,
    at: Mutex<At>,
}

/// The case that a thread is examining.
#[derive(Debug, Clone, Default)]
pub(crate) struct At {
    /// The text that replays the case, without the name of the job.
    pub(crate) case: String,
    /// The story of the case, in a replay.
    pub(crate) story: Vec<String>,
}

impl Watch {
    /// A call of a store begins, or the thread has made other progress.
    pub(crate) fn sign(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    /// A store is about to recover from the image of a case.
    pub(crate) fn begin(&self, case: &impl Display, story: &[String]) {
        self.sign();
        let mut at = self.lock();
        at.case.clear();
        // A string takes every write.
        let _ = write!(at.case, "{case}");
        at.story.truncate(story.len());
        let told = at.story.len();
        at.story.extend_from_slice(&story[told..]);
    }

    pub(crate) fn at(&self) -> At {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, At> {
        self.0.at.lock().unwrap_or_else(|held| held.into_inner())
    }

    fn signs(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }
}

/// The violation of a store that is stuck.
pub(crate) const STUCK: &str = "it does not return";

/// How long the watch sleeps between two looks, at most.
const LOOK: Duration = Duration::from_millis(50);

/// Looks, of the time by which threads may be late, in which that can be told.
const LATE_LOOKS: u32 = 4;

/// Threads that are left behind because their stores are stuck, after which no other takes their place: they may keep
/// processors busy.
const STUCK_MAX: usize = 16;

/// Work that threads share.
pub(crate) trait Shift: Send + Sync + 'static {
    /// Works until no work is left or the time is over. The worker's number is its own.
    fn work(&self, worker: u64, watch: &Watch);

    /// Notes that a worker is left behind: because its store is stuck, or because the time was over meanwhile. Later
    /// results of the worker do not count.
    fn leave(&self, worker: u64, at: At, is_stuck: bool);

    /// How far the work is.
    fn progress(&self) -> Progress;
}

struct Worker {
    number: u64,
    watch: Watch,
    thread: JoinHandle<()>,
    /// Signs at the last look, and how many looks ago the last sign was.
    seen: u64,
    still: u32,
}

/// Says that a worker ended, even if by a panic.
struct Ending(u64, Sender<u64>);

impl Drop for Ending {
    fn drop(&mut self) {
        // The watch may have left.
        let _ = self.1.send(self.0);
    }
}

impl Worker {
    /// # Panics
    /// If a thread cannot be started.
    fn hire<S: Shift>(shift: &Arc<S>, number: u64, ended: &Sender<u64>) -> Self {
        let watch = Watch::default();
        let (shift, ending) = (Arc::clone(shift), Ending(number, ended.clone()));
        let shown = watch.clone();
        let thread = thread::spawn(move || {
            let ending = ending;
            shift.work(ending.0, &shown);
        });
        Self { number, watch, thread, seen: 0, still: 0 }
    }

    /// Whether a call has not returned for so many looks.
    fn is_stuck(&mut self, looks_max: u32) -> bool {
        let signs = self.watch.signs();
        self.still = if signs == self.seen { self.still + 1 } else { 0 };
        self.seen = signs;
        self.still >= looks_max
    }
}

/// Lets so many threads work, and returns when all have ended or were left behind.
///
/// # Panics
/// If a thread cannot be started, or if one panics.
pub(crate) fn supervise<S: Shift>(
    shift: &Arc<S>,
    threads: usize,
    patience: Duration,
    clock: &Clock,
    progress: &dyn Fn(Progress),
) {
    let lateness = clock.lateness();
    let look = (lateness / LATE_LOOKS).clamp(Duration::from_millis(1), LOOK);
    let looks = |time: Duration| (time.as_nanos() / look.as_nanos()).max(1) as u32;
    let (looks_max, late_max) = (looks(patience), looks(lateness));
    let (sender, ended) = mpsc::channel();
    let mut hired = threads.max(1) as u64;
    let mut crew: Vec<_> = (0..hired).map(|number| Worker::hire(shift, number, &sender)).collect();
    let (mut stuck, mut late) = (0, 0);
    while !crew.is_empty() {
        match ended.recv_timeout(look) {
            Ok(number) => {
                let of_crew = crew.iter().position(|worker| worker.number == number);
                let thread = of_crew.map(|at| crew.swap_remove(at).thread);
                if let Some(Err(panic)) = thread.map(JoinHandle::join) {
                    resume_unwind(panic);
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        progress(shift.progress());
        late = if clock.is_over() { late + 1 } else { 0 };
        let mut at = 0;
        while let Some(worker) = crew.get_mut(at) {
            let is_stuck = worker.is_stuck(looks_max);
            if !is_stuck && late < late_max {
                at += 1;
                continue;
            }
            shift.leave(worker.number, worker.watch.at(), is_stuck);
            crew.swap_remove(at);
            if is_stuck && stuck < STUCK_MAX && late == 0 {
                stuck += 1;
                crew.push(Worker::hire(shift, hired, &sender));
                hired += 1;
            }
        }
    }
}

/// Runs `f` on a thread of its own, and gives the thread up if a call in it is stuck.
///
/// # Errors
/// The case that it was examining when it was left behind.
///
/// # Panics
/// If a thread cannot be started, or if `f` panics.
pub(crate) fn watched<T: Send + 'static>(
    patience: Duration,
    f: impl FnOnce(&Watch) -> T + Send + 'static,
) -> Result<T, At> {
    let looks_max = (patience.as_millis() / LOOK.as_millis()).max(1) as u32;
    let watch = Watch::default();
    let (sender, done) = mpsc::channel();
    let shown = watch.clone();
    let thread = thread::spawn(move || {
        // The watch may have left.
        let _ = sender.send(f(&shown));
    });
    let mut worker = Worker { number: 0, watch, thread, seen: 0, still: 0 };
    loop {
        match done.recv_timeout(LOOK) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) if worker.is_stuck(looks_max) => {
                return Err(worker.watch.at());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("it ends with a result, or by a panic"),
            },
        }
    }
}
