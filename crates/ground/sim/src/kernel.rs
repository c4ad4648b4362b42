//! Calls of the kernel: the handling of their failures, and failures that a test asks for.
//!
//! Every call that `pmem` and `disk` make about a file goes through [`Kernel::ask`], but for those whose
//! failure changes nothing: advice, guesses at a file's medium, and cutting a file after a failed call. So
//! one place decides which failures are tried again, and a test can let any call fail ([`Failures`]).
//!
//! - A call that a signal interrupted is made again, always.
//! - A write that the kernel has no memory or descriptor for *now* is made again a few times, a little later each
//!   time: it goes to the same place, so it may be repeated, and a caller that gives up a write has to give up the
//!   bytes behind it, too.
//! - No other call is repeated: the caller knows how to go on after a failed open, and a failed sync must not be
//!   asked for again, as the kernel reports a failure once.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;

/// The kind of a call to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Opens or creates a file or a folder.
    Open,
    /// Looks at a file, a lock or a list of names.
    Look,
    /// Reads bytes.
    Read,
    /// Writes bytes at a place.
    Write,
    /// Sets space aside for a file, or cuts it.
    Resize,
    /// Maps a file.
    Map,
    /// Gives a file a name, another one, or removes it.
    Name,
    /// Makes bytes or names durable. After one that failed, their state is unknown.
    Sync,
}

/// How often a write is made again.
const TRIES: u32 = 8;

/// The way to the kernel of one pool or disk.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    failures: Option<Failures>,
}

impl Kernel {
    /// A kernel, some of whose calls fail where a test wants that.
    #[must_use]
    pub fn new(failures: Option<Failures>) -> Self {
        Self { failures }
    }

    /// The failures that a test asks for.
    #[must_use]
    pub fn failures(&self) -> Option<&Failures> {
        self.failures.as_ref()
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The call's failure, if it is not tried again.
    pub fn ask<T>(
        &self,
        call: Call,
        mut ask: impl FnMut() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        let is_interrupted = |errno: &Errno| *errno == Errno::INTR;
        self.ask_until(call, is_interrupted, |errno| is_transient(*errno), &mut ask)
    }

    /// Does as [`Kernel::ask`], of calls of the standard library.
    ///
    /// # Errors
    /// As [`Kernel::ask`].
    pub fn ask_std<T>(&self, call: Call, mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let is_interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        let may_pass = |error: &io::Error| Errno::from_io_error(error).is_some_and(is_transient);
        self.ask_until(call, is_interrupted, may_pass, &mut ask)
    }

    fn ask_until<T, E: From<Errno>>(
        &self,
        call: Call,
        is_interrupted: impl Fn(&E) -> bool,
        may_pass: impl Fn(&E) -> bool,
        ask: &mut dyn FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tries = 0;
        loop {
            let wanted = self.failures.as_ref().and_then(|failures| failures.next(call));
            match wanted.map_or_else(&mut *ask, |errno| Err(errno.into())) {
                Err(error) if is_interrupted(&error) => {}
                Err(error) if call == Call::Write && tries < TRIES && may_pass(&error) => {
                    thread::sleep(Duration::from_millis(1 << tries));
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }
}

/// Whether the same call may well succeed a little later.
fn is_transient(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE)
}

/// For tests: lets calls of the kernel fail. Cloning makes another handle; a pool and a disk may share one.
#[derive(Debug, Clone, Default)]
pub struct Failures(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// Calls that were made.
    calls: u64,
    /// The calls that fail: the number of the first, and the number behind the last.
    from: u64,
    until: u64,
    errno: i32,
    /// The calls that may fail, if not all.
    only: Option<Call>,
    failed: Vec<Call>,
}

impl Failures {
    /// Lets `count` calls fail with an error number of the operating system, once `after` more were made.
    pub fn fail(&self, after: u64, count: u64, errno: i32) {
        let mut plan = self.0.lock();
        plan.from = plan.calls + after;
        plan.until = plan.from.saturating_add(count);
        plan.errno = errno;
        plan.only = None;
        plan.failed.clear();
    }

    /// Lets every call of a kind fail with an error number of the operating system, from now on.
    pub fn fail_every(&self, call: Call, errno: i32) {
        self.fail(0, u64::MAX, errno);
        self.0.lock().only = Some(call);
    }

    /// Lets no more calls fail.
    pub fn stop(&self) {
        self.0.lock().until = 0;
    }

    /// How many calls were made.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// The calls that failed since [`Failures::fail`] was last called.
    #[must_use]
    pub fn failed(&self) -> Vec<Call> {
        self.0.lock().failed.clone()
    }

    /// Counts a call. Returns the error that it is to fail with, if any.
    fn next(&self, call: Call) -> Option<Errno> {
        let mut plan = self.0.lock();
        let number = plan.calls;
        plan.calls += 1;
        let may_fail = plan.only.is_none_or(|only| only == call);
        let is_wanted = may_fail && (plan.from..plan.until).contains(&number);
        if is_wanted {
            plan.failed.push(call);
        }
        is_wanted.then(|| Errno::from_raw_os_error(plan.errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fail_as_planned_and_are_made_again_where_that_makes_sense() {
        let failures = Failures::default();
        let kernel = Kernel::new(Some(failures.clone()));
        let mut made = 0;
        let mut ask = |call| {
            kernel.ask(call, || {
                made += 1;
                Ok(made)
            })
        };
        assert_eq!(ask(Call::Open), Ok(1));
        failures.fail(1, 1, Errno::MFILE.raw_os_error());
        assert_eq!(ask(Call::Open), Ok(2));
        assert_eq!(ask(Call::Open), Err(Errno::MFILE));
        assert_eq!(ask(Call::Open), Ok(3));
        assert_eq!(failures.failed(), [Call::Open]);
        // A signal, and a write.
        failures.fail(0, 3, Errno::INTR.raw_os_error());
        assert_eq!(ask(Call::Sync), Ok(4));
        failures.fail(0, 2, Errno::NOMEM.raw_os_error());
        assert_eq!(ask(Call::Write), Ok(5));
        assert_eq!(failures.failed(), [Call::Write; 2]);
        // A sync is not repeated, nor a write for ever.
        failures.fail(0, u64::MAX, Errno::AGAIN.raw_os_error());
        assert_eq!(ask(Call::Sync), Err(Errno::AGAIN));
        assert_eq!(ask(Call::Write), Err(Errno::AGAIN));
        failures.stop();
        assert_eq!(ask(Call::Write), Ok(6));
        assert_eq!(failures.calls(), 13 + u64::from(TRIES) + 1);
    }
}
