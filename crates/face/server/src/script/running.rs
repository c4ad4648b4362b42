//! The scripts that are running, but for those that end at once, and the end that a client makes them.
//!
//! A thread notes its script when it first looks at the clock, so that clients of other threads see it, and may kill it. Once
//! there is one that has been running for longer than `busy-reply-threshold`, all threads refuse requests, but for a few
//! that can end it. The thread that runs it answers its own clients from within the script, see `event_loop::bystanders`.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::failure::{Failure, Outcome};
use crate::lock::lock;

/// A script that runs.
#[derive(Debug)]
pub(crate) struct RunningScript {
    /// The thread that runs it.
    pub(crate) thread: usize,
    /// Whether it is a function of a library.
    pub(crate) is_function: bool,
    /// The name of the function, or the digest of the script.
    pub(crate) name: String,
    /// The words of the command that runs it.
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) began: Instant,
    /// Whether it may be killed: its changes can be undone, or there are none.
    pub(crate) can_end: AtomicBool,
    /// Whether it has been running for longer than the threshold.
    is_busy: AtomicBool,
    killed: AtomicBool,
}

impl RunningScript {
    /// A script that `thread` has been running since `began`.
    pub(crate) fn new(
        thread: usize,
        is_function: bool,
        name: String,
        command: Vec<Vec<u8>>,
        began: Instant,
    ) -> Self {
        let (can_end, is_busy, killed) =
            (AtomicBool::new(true), AtomicBool::new(false), AtomicBool::new(false));
        Self { thread, is_function, name, command, began, can_end, is_busy, killed }
    }

    /// Whether all threads refuse requests because of it.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether a client has killed it.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

/// The scripts that run.
#[derive(Debug, Default)]
pub(crate) struct RunningScripts {
    /// How many there are.
    count: AtomicUsize,
    /// How many of them have been running for longer than the threshold.
    busy: AtomicUsize,
    all: Mutex<Vec<Arc<RunningScript>>>,
}

const BUSY_SCRIPT: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
    either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";

impl RunningScripts {
    /// Whether one has been running for longer than the threshold.
    #[inline]
    pub(crate) fn are_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Notes that a script runs.
    pub(crate) fn add(&self, script: Arc<RunningScript>) {
        self.change(|all| all.push(script));
    }

    /// Notes that a script has been running for longer than the threshold.
    pub(crate) fn note_busy(&self, script: &RunningScript) {
        self.change(|_| script.is_busy.store(true, Ordering::Relaxed));
    }

    /// Notes that a script has ended.
    pub(crate) fn remove(&self, script: &Arc<RunningScript>) {
        self.change(|all| all.retain(|other| !Arc::ptr_eq(other, script)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<RunningScript>>)) {
        let mut all = lock(&self.all);
        change(&mut all);
        self.count.store(all.len(), Ordering::Relaxed);
        let busy = all.iter().filter(|script| script.is_busy()).count();
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Notes that a script has written what cannot be undone. False: it was killed before.
    pub(crate) fn note_written(&self, script: &RunningScript) -> bool {
        let _all = lock(&self.all);
        script.can_end.store(false, Ordering::Relaxed);
        !script.is_killed()
    }

    /// The script that has been running for longest.
    pub(crate) fn first(&self) -> Option<Arc<RunningScript>> {
        let all = lock(&self.all);
        concerned(&all).next().cloned()
    }

    /// Whether a thread runs one.
    pub(crate) fn runs_on(&self, thread: usize) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && lock(&self.all).iter().any(|script| script.thread == thread)
    }

    /// The reply to a request that has to wait.
    pub(crate) fn refusal(&self) -> Failure {
        let all = lock(&self.all);
        let first = concerned(&all).next();
        if first.is_some_and(|script| script.is_function) { BUSY_FUNCTION } else { BUSY_SCRIPT }
            .into()
    }

    /// Kills the scripts that run, or the functions; only those that are busy, if there are some.
    pub(crate) fn kill(&self, functions: bool) -> Outcome {
        let all = lock(&self.all);
        if all.is_empty() {
            return Err("NOTBUSY No scripts in execution right now.".into());
        }
        let of_kind: Vec<_> =
            concerned(&all).filter(|script| script.is_function == functions).collect();
        if of_kind.is_empty() {
            return Err(if functions { BUSY_SCRIPT } else { BUSY_FUNCTION }.into());
        }
        let mut can_end =
            of_kind.iter().filter(|script| script.can_end.load(Ordering::Relaxed)).peekable();
        if can_end.peek().is_none() {
            return Err(UNKILLABLE.into());
        }
        can_end.for_each(|script| script.killed.store(true, Ordering::Relaxed));
        Ok(())
    }
}

/// The scripts that a client means who asks for those that run: the busy ones, or all if there are none.
fn concerned(all: &[Arc<RunningScript>]) -> impl Iterator<Item = &Arc<RunningScript>> {
    let are_busy = all.iter().any(|script| script.is_busy());
    all.iter().filter(move |script| !are_busy || script.is_busy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(outcome: Outcome) -> String {
        let failure = outcome.unwrap_err();
        String::from_utf8_lossy(&failure.text()).into_owned()
    }

    #[test]
    fn only_scripts_of_a_kind_are_killed() {
        let running = RunningScripts::default();
        assert!(text(running.kill(false)).starts_with("NOTBUSY"));
        let script = RunningScript::new(0, false, String::new(), Vec::new(), Instant::now());
        let script = Arc::new(script);
        running.add(Arc::clone(&script));
        assert!(!running.are_busy() && running.runs_on(0) && !running.runs_on(1));
        running.note_busy(&script);
        assert!(running.are_busy());
        assert!(text(running.kill(true)).starts_with("BUSY"));
        // A young script is not meant.
        let young = RunningScript::new(1, false, String::new(), Vec::new(), Instant::now());
        let young = Arc::new(young);
        running.add(Arc::clone(&young));
        script.can_end.store(false, Ordering::Relaxed);
        assert!(text(running.kill(false)).starts_with("UNKILLABLE"));
        script.can_end.store(true, Ordering::Relaxed);
        running.kill(false).unwrap();
        assert!(script.is_killed() && !young.is_killed());
        running.remove(&young);
        assert!(!running.note_written(&script));
        running.remove(&script);
        assert!(!running.are_busy() && !running.runs_on(0));
    }
}
