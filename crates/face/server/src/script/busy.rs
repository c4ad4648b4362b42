//! The scripts that have been running for longer than `busy-reply-threshold`, and the end that a client makes them.
//!
//! While there is one, all threads refuse requests, but for a few that can end it. The thread that runs it answers its
//! own clients from within the script, see `event_loop::bystanders`.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::failure::{Failure, Outcome};
use crate::lock::lock;

/// A script that runs for long.
#[derive(Debug)]
pub(crate) struct BusyScript {
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
    killed: AtomicBool,
}

impl BusyScript {
    /// A script that `thread` has been running since `began`.
    pub(crate) fn new(
        thread: usize,
        is_function: bool,
        name: String,
        command: Vec<Vec<u8>>,
        began: Instant,
    ) -> Self {
        let (can_end, killed) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { thread, is_function, name, command, began, can_end, killed }
    }

    /// Whether a client has killed it.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

/// The scripts that run for long.
#[derive(Debug, Default)]
pub(crate) struct BusyScripts {
    /// How many there are.
    count: AtomicUsize,
    all: Mutex<Vec<Arc<BusyScript>>>,
}

const BUSY_SCRIPT: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
    either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";

impl BusyScripts {
    /// Whether there is one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Notes that a script runs for long.
    pub(crate) fn add(&self, script: Arc<BusyScript>) {
        let mut all = lock(&self.all);
        all.push(script);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// Notes that a script has ended.
    pub(crate) fn remove(&self, script: &Arc<BusyScript>) {
        let mut all = lock(&self.all);
        all.retain(|other| !Arc::ptr_eq(other, script));
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// The script that has been running for longest.
    pub(crate) fn first(&self) -> Option<Arc<BusyScript>> {
        lock(&self.all).first().cloned()
    }

    /// Whether a thread runs one.
    pub(crate) fn runs_on(&self, thread: usize) -> bool {
        self.any() && lock(&self.all).iter().any(|script| script.thread == thread)
    }

    /// The reply to a request that has to wait.
    pub(crate) fn refusal(&self) -> Failure {
        let is_function = self.first().is_some_and(|script| script.is_function);
        if is_function { BUSY_FUNCTION } else { BUSY_SCRIPT }.into()
    }

    /// Kills the scripts that run for long, or the functions.
    pub(crate) fn kill(&self, functions: bool) -> Outcome {
        let all = lock(&self.all);
        if all.is_empty() {
            return Err("NOTBUSY No scripts in execution right now.".into());
        }
        let of_kind: Vec<_> = all.iter().filter(|script| script.is_function == functions).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(outcome: Outcome) -> String {
        let failure = outcome.unwrap_err();
        String::from_utf8_lossy(&failure.text()).into_owned()
    }

    #[test]
    fn only_scripts_of_a_kind_are_killed() {
        let busy = BusyScripts::default();
        assert!(text(busy.kill(false)).starts_with("NOTBUSY"));
        let script = BusyScript::new(0, false, String::new(), Vec::new(), Instant::now());
        let script = Arc::new(script);
        busy.add(Arc::clone(&script));
        assert!(busy.any() && busy.runs_on(0) && !busy.runs_on(1));
        assert!(text(busy.kill(true)).starts_with("BUSY"));
        script.can_end.store(false, Ordering::Relaxed);
        assert!(text(busy.kill(false)).starts_with("UNKILLABLE"));
        script.can_end.store(true, Ordering::Relaxed);
        busy.kill(false).unwrap();
        assert!(script.is_killed());
        busy.remove(&script);
        assert!(!busy.any());
    }
}
