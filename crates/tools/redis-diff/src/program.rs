//! `halite serve` on a database in a folder: a program that is killed, and started again on what it left there.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::wire::Wire;

/// How long the program may take until it answers, and how long between two looks.
const STARTING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);

/// The line of its log that tells the address.
const LISTENING: &str = "halite: listening on ";

/// A program that serves a database, which ends with this. Its folder is removed unless it is kept.
pub(crate) struct Program {
    path: PathBuf,
    options: Vec<String>,
    folder: tempfile::TempDir,
    child: Option<Child>,
    addr: SocketAddr,
}

/// The program beside this one, in the same folder or in the one above it, as tests have it.
pub(crate) fn beside_this() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    this.ancestors().skip(1).take(2).map(|folder| folder.join("halite")).find(|path| path.is_file())
}

impl Program {
    /// Starts a program on a new database in a new folder of a folder.
    pub(crate) fn start(
        path: PathBuf,
        within: &Path,
        threads: usize,
        engine: &str,
    ) -> Result<Self, Error> {
        fs::create_dir_all(within)?;
        let folder = tempfile::Builder::new().prefix("redis-diff.").tempdir_in(within)?;
        let count = threads.to_string();
        let options = ["--engine", engine, "--threads", &count, "--partitions", &count];
        let options = options.map(str::to_owned).to_vec();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut program = Self { path, options, folder, child: None, addr };
        program.spawn()?;
        program.await_ready()?;
        Ok(program)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts the program, on a port that is free.
    pub(crate) fn spawn(&mut self) -> Result<(), Error> {
        let log = File::create(self.log())?;
        let mut command = Command::new(&self.path);
        command.arg("serve").arg(self.folder.path().join("db")).args(&self.options);
        command.args(["--port", "0", "--bind", "127.0.0.1", "--max-size", "4GiB"]);
        command.args(["--enable-debug-command", "yes"]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let failed = |source| Error::Start { program: self.path.display().to_string(), source };
        self.child = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Waits until the program answers.
    pub(crate) fn await_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + STARTING;
        while Instant::now() < deadline && !self.has_ended()? {
            if let Some(addr) = self.listening()? {
                self.addr = addr;
                let reply = Wire::connect(addr).and_then(|mut wire| wire.call(&["PING"]));
                if reply.is_ok_and(|reply| reply == b"+PONG\r\n") {
                    return Ok(());
                }
            }
            thread::sleep(LOOK);
        }
        let log = fs::read_to_string(self.log())?;
        Err(Error::NotServed { program: self.path.display().to_string(), log })
    }

    /// The address that its log tells, if it has come so far.
    fn listening(&self) -> io::Result<Option<SocketAddr>> {
        let log = fs::read_to_string(self.log())?;
        let addr = log.lines().find_map(|line| line.strip_prefix(LISTENING)?.parse().ok());
        // The line may be there in part.
        Ok(addr.filter(|_| log.ends_with('\n')))
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        self.child.as_mut().map_or(Ok(true), |child| Ok(child.try_wait()?.is_some()))
    }

    /// Kills the program by SIGKILL.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Keeps the folder behind the end of this, and returns it.
    pub(crate) fn keep(&mut self) -> &Path {
        self.folder.disable_cleanup(true);
        self.folder.path()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.has_ended().unwrap_or(false) && self.child.is_some() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            eprintln!("redis-diff: `{}` has ended by itself:\n{log}", self.path.display());
        }
        let _ = self.kill();
    }
}
