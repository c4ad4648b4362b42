//! Ctrl-C, and the other signals that end a service.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::error::INTERRUPTED;
use crate::{Error, Result, output};

/// How long a command that was interrupted has to end by itself.
const PATIENCE: Duration = Duration::from_millis(1800);

/// How often it is looked for a second signal meanwhile. The looks are counted, so that a machine that stands still
/// does not take a command's time.
const LOOK: Duration = Duration::from_millis(50);

/// A command's way to know of SIGINT and SIGTERM. It ends by itself once it notices one. If it has not ended after a
/// while, as it waits for a disk or a pipe, it is ended; at a second signal, at once.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    is_raised: Arc<AtomicBool>,
    /// Removes an unfinished output.
    tidy: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Interrupt {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> Result<Self> {
        Self::catch_for(PATIENCE, || ())
    }

    /// Does as [`Interrupt::catch`], for a command to which `stop` reports the first signal, and which is ended if it
    /// has not ended within `patience`.
    pub(crate) fn catch_for(
        patience: Duration,
        stop: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let failed = |error| Error::io("signals", error);
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let state = Arc::<State>::default();
        let interrupt = Self(Arc::clone(&state));
        let wait = move || {
            if signals.forever().next().is_none() {
                return;
            }
            state.is_raised.store(true, Ordering::Relaxed);
            stop();
            for _ in 0..patience.as_millis() / LOOK.as_millis() {
                if signals.pending().next().is_some() {
                    break;
                }
                thread::sleep(LOOK);
            }
            state.end();
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
        Ok(interrupt)
    }

    /// A flag that becomes true at the first signal, for code that polls it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.is_raised)
    }

    /// Whether there was a signal: the command ends now.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::Relaxed)
    }

    /// Lets work that reports its progress go on until there is a signal.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.is_raised() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
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

    /// Sets the action for the case that the command is ended, until [`Interrupt::keep`].
    pub(crate) fn at_end(&self, tidy: impl FnOnce() + Send + 'static) {
        *self.0.tidy() = Some(Box::new(tidy));
    }

    /// A file that goes if the command is ended, until [`Interrupt::keep`].
    pub(crate) fn remove_at_end(&self, path: &Path) {
        let path = path.to_owned();
        // No reader knows its name.
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

    /// Ends the process as it is: an open store is then as after a crash, from which it recovers. It does not wait for
    /// a resource that another thread may hold for long, such as standard output, which may wait for its reader.
    fn end(&self) -> ! {
        let tidy = self.tidy().take();
        if let Some(tidy) = tidy {
            tidy();
        }
        output::brief_message("interrupted");
        low_level::exit(INTERRUPTED.into())
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
