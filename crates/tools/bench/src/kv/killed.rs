//! A store that its process did not get to close.
//!
//! The measuring process starts another one, which loads the store ([`load_and_wait`]), says so on
//! its standard output and waits; then it is killed, and the store is opened here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::options::KvOptions;
use super::store::Store;
use super::workload::Workload;
use crate::{Error, Result};

/// Makes the command that runs [`load_and_wait`] for the store of that name in that folder, with
/// the options of the run.
pub type ChildCommand<'a> = &'a dyn Fn(&str, &Path) -> io::Result<Command>;

const LOADED: &str = "loaded";

/// What the process to be killed does: loads `store` in `folder`, says so, and waits to be killed.
/// It returns if its standard input ends, as it does when the measuring process is gone.
///
/// # Errors
/// What the store returns; what keeps the message from being written; [`Error::Interrupted`].
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
    // Nothing is sent: the read ends with the parent.
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
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()
        })
        .map_err(failed)?;
    let first_line = process.stdout.take().and_then(|out| BufReader::new(out).lines().next());
    process.kill().and_then(|()| process.wait()).map_err(failed)?;
    match first_line.transpose().map_err(failed)?.as_deref() {
        Some(LOADED) => Ok(()),
        // Ctrl-C at a terminal reaches both processes.
        _ if interrupted.load(Ordering::Relaxed) => Err(Error::Interrupted),
        Some(other) => Err(failed(io::Error::other(format!("it said {other:?}, not {LOADED:?}")))),
        None => Err(failed(io::Error::other("it ended before it had loaded the store"))),
    }
}
