//! Ctrl-C, and what ends a service.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::INTERRUPTED;
use crate::{Error, Result, output};

/// How often a command that was interrupted is given time to end, and how long each: 1.8 seconds together. They are
/// counted, so that a machine that stands still does not take them.
const LOOKS: u32 = 36;
const LOOK: Duration = Duration::from_millis(50);

/// A command's way to know of SIGINT and SIGTERM. It ends by itself once it notices one. If it does not, as it waits for
/// a disk or a pipe, it is ended after a while; at a second signal, at once.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<State>);

struct State {
    is_raised: Arc<AtomicBool>,
    /// Whether the command is about to end by itself, however long that takes.
    is_noticed: AtomicBool,
    /// Removes what is nothing yet.
    tidy: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Interrupt {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> Result<Self> {
        let failed = |error| Error::io("signals", error);
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let state = Arc::new(State {
            is_raised: Arc::default(),
            is_noticed: AtomicBool::new(false),
            tidy: Mutex::default(),
        });
        let interrupt = Self(Arc::clone(&state));
        let wait = move || {
            for _ in signals.forever() {
                if state.is_raised.swap(true, Ordering::Relaxed) {
                    state.end();
                }
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    (0..LOOKS).for_each(|_| thread::sleep(LOOK));
                    if !state.is_noticed.load(Ordering::Relaxed) {
                        state.end();
                    }
                });
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
        Ok(interrupt)
    }

    /// What becomes true at the first signal, for what looks at it by itself.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.is_raised)
    }

    /// Whether there was a signal. If so, the command ends now, and is not ended.
    pub(crate) fn is_raised(&self) -> bool {
        let is_raised = self.0.is_raised.load(Ordering::Relaxed);
        if is_raised {
            self.0.is_noticed.store(true, Ordering::Relaxed);
        }
        is_raised
    }

    /// Ends a command that prints after a signal.
    ///
    /// # Errors
    /// After a signal.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_raised() {
            true => Err(Error::Stopped { left: "not everything is printed" }),
            false => Ok(()),
        }
    }

    /// `input`, of which the next read fails after a signal.
    pub(crate) fn reader<R: Read>(&self, input: R) -> Interruptible<R> {
        Interruptible { inner: input, interrupt: self.clone() }
    }

    /// `out`, of which the next write fails after a signal.
    pub(crate) fn writer<W: Write>(&self, out: W) -> Interruptible<W> {
        Interruptible { inner: out, interrupt: self.clone() }
    }

    /// What is done if the command is ended, until [`Interrupt::keep`].
    pub(crate) fn at_end(&self, tidy: impl FnOnce() + Send + 'static) {
        *self.0.tidy() = Some(Box::new(tidy));
    }

    /// A file that goes if the command is ended, until [`Interrupt::keep`].
    pub(crate) fn remove_at_end(&self, path: &Path) {
        let path = path.to_owned();
        // It has no name that anything reads.
        self.at_end(move || drop(fs::remove_file(path)));
    }

    /// The file is whole, or gone.
    pub(crate) fn keep(&self) {
        *self.0.tidy() = None;
    }
}

impl State {
    fn tidy(&self) -> MutexGuard<'_, Option<Box<dyn FnOnce() + Send>>> {
        self.tidy.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Ends the process as it is: what is open is then as after a crash, of which it comes back.
    fn end(&self) -> ! {
        let tidy = self.tidy().take();
        if let Some(tidy) = tidy {
            tidy();
        }
        output::message("interrupted");
        process::exit(INTERRUPTED.into())
    }
}

/// A reader or a writer that fails after a signal.
pub(crate) struct Interruptible<T> {
    inner: T,
    interrupt: Interrupt,
}

impl<T> Interruptible<T> {
    fn check(&self) -> io::Result<()> {
        match self.interrupt.is_raised() {
            true => Err(io::Error::other("interrupted")),
            false => Ok(()),
        }
    }
}

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.read(buffer)
    }
}

impl<W: Write> Write for Interruptible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        self.inner.flush()
    }
}
