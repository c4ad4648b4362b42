//! Child processes, none of which outlives this one.

use std::io::{self, Read};
use std::process::{ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How long the end of a process that was killed is waited for between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Checks after which a process that does not end is left to itself, such as one that waits for a disk.
const LOOKS: u32 = 200;

/// The running child processes; `None` once this process is about to end, when no other may begin.
static RUNNING: Mutex<Option<Vec<Pid>>> = Mutex::new(Some(Vec::new()));

fn running() -> MutexGuard<'static, Option<Vec<Pid>>> {
    RUNNING.lock().unwrap_or_else(|held| held.into_inner())
}

/// A child process. It is killed when this is dropped, or by [`kill_all`].
pub(crate) struct Child {
    process: std::process::Child,
    pid: Pid,
}

impl Child {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut running = running();
        let Some(running) = &mut *running else {
            return Err(io::Error::other("this process is about to end"));
        };
        let process = command.spawn()?;
        let pid = Pid::from_child(&process);
        running.push(pid);
        Ok(Self { process, pid })
    }

    /// Runs a command to its end. Returns its exit status, and its output.
    pub(crate) fn run(mut command: Command) -> io::Result<(ExitStatus, String)> {
        let (mut reader, writer) = io::pipe()?;
        let mut child = Self::spawn(command.stdout(writer.try_clone()?).stderr(writer))?;
        // The reader waits for the end of all that can write.
        drop(command);
        let mut printed = Vec::new();
        reader.read_to_end(&mut printed)?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, String::from_utf8_lossy(&printed).into_owned()));
            }
            thread::sleep(LOOK);
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes its standard output, if that is piped; once.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// How it ended, if it has.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        // After its end, another process may get the number: no signal may be sent to it then.
        let mut running = running();
        let ended = self.process.try_wait()?;
        if let (Some(_), Some(running)) = (ended, &mut *running) {
            running.retain(|pid| *pid != self.pid);
        }
        Ok(ended)
    }

    /// Ends it at once, and waits for that.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        while self.try_wait()?.is_none() {
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process is to be gone either way, and an error cannot be reported here.
        let _ = self.kill();
    }
}

/// Kills all, for a process that is about to end.
pub(crate) fn kill_all() {
    let pids = running().take().unwrap_or_default();
    for &pid in &pids {
        let _ = kill_process(pid, Signal::KILL);
    }
    // Until then they may make files in the folders that are removed next.
    let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let runs = |pid: &Pid| matches!(waitid(WaitId::Pid(*pid), exited), Ok(None));
    for _ in 0..LOOKS {
        if !pids.iter().any(runs) {
            return;
        }
        thread::sleep(LOOK);
    }
}
