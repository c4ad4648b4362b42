//! A store that its process did not get to close.
//!
//! The measuring process starts another one, which loads the store ([`load_and_wait`]), prints a line on its standard
//! output and waits; then it is killed, and the store is opened here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::options::KvOptions;
use super::store::Store;
use super::workload::Workload;
use crate::child::Child;
use crate::{Error, Result};

/// Makes the command that runs [`load_and_wait`] for the store of that name in that folder, with
/// the options of the run.
pub type ChildCommand<'a> = &'a dyn Fn(&str, &Path) -> io::Result<Command>;

const LOADED: &str = "loaded";

/// The task of the process to be killed: loads `store` in `folder`, prints a message, and waits to be killed. It
/// returns if its standard input ends, as it does when the measuring process is gone.
///
/// # Errors
/// The errors of the store; an error in writing the message; [`Error::Interrupted`].
pub fn load_and_wait(
    options: &KvOptions,
    seed: u64,
    store: &mut dyn Store,
    folder: &Path,
    interrupted: &AtomicBool,
) -> Result<()> {
    options.check()?;
    let name = store.name().to_owned();
    store.open(folder).map_err(Error::of_store(&name, "open"))?;
    super::load(options, Workload::Kill, seed, store, interrupted)?;
    tell_and_wait(&name)
}

/// Says that the store of that name is loaded, and waits to be killed.
pub(crate) fn tell_and_wait(name: &str) -> Result<()> {
    let failed = |source| Error::Child { store: name.to_owned(), source };
    let mut out = io::stdout().lock();
    writeln!(out, "{LOADED}").and_then(|()| out.flush()).map_err(failed)?;
    // The parent sends no byte: the read ends when the parent does.
    let _ = io::stdin().lock().read(&mut [0]);
    Ok(())
}

/// Loads the store called `name` in `folder` in a process of its own, and kills it.
pub(crate) fn load_and_kill(
    child: ChildCommand<'_>,
    name: &str,
    folder: &Path,
    interrupted: &AtomicBool,
) -> Result<()> {
    spawn_and_kill(child(name, folder), name, interrupted)
}

/// Starts a process that ends in [`tell_and_wait`], and kills it there.
pub(crate) fn spawn_and_kill(
    command: io::Result<Command>,
    name: &str,
    interrupted: &AtomicBool,
) -> Result<()> {
    let failed = |source| Error::Child { store: name.to_owned(), source };
    let mut process = command
        .and_then(|mut command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
            Child::spawn(&mut command)
        })
        .map_err(failed)?;
    let first_line = process.take_stdout().map(|out| first_line(out, interrupted)).transpose();
    process.kill().map_err(failed)?;
    match first_line.map_err(failed)?.flatten().as_deref() {
        Some(LOADED) => Ok(()),
        // Ctrl-C at a terminal reaches both processes.
        _ if interrupted.load(Ordering::Relaxed) => Err(Error::Interrupted),
        Some(other) => Err(failed(io::Error::other(format!("it said {other:?}, not {LOADED:?}")))),
        None => Err(failed(io::Error::other("it ended before it had loaded the store"))),
    }
}

/// The first line that a process prints; `None` if the process ends before, or this one is interrupted.
fn first_line(out: ChildStdout, interrupted: &AtomicBool) -> io::Result<Option<String>> {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !interrupted.load(Ordering::Relaxed) {
        match poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return BufReader::new(out).lines().next().transpose(),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(None)
}
