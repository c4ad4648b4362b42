//! Running the binary.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder with a place for a database in it.
pub(crate) struct Home {
    folder: TempDir,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a home in memory, where a fence does not wait for a disk.
    pub(crate) fn in_memory() -> Self {
        Self { folder: tempfile::tempdir_in("/dev/shm").unwrap() }
    }

    /// Creates a home in a folder that is there.
    pub(crate) fn within(folder: &std::path::Path) -> Self {
        Self { folder: tempfile::tempdir_in(folder).unwrap() }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// The binary, started in the folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite"));
        command.args(args).current_dir(&self.folder).env_remove("HALITE_REQUIREPASS");
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ended {
        self.run_with(args, b"")
    }

    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // A process that ends without reading its input is no failure of the test.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        });
        Ended {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<u8> {
        self.run(args).ok()
    }

    /// Does as [`Home::ok`], and returns the output as text.
    pub(crate) fn text<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    /// Does as [`Home::ok`], and returns the output as JSON.
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> serde_json::Value {
        serde_json::from_slice(&self.ok(args)).unwrap()
    }
}

impl Ended {
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// Checks that the command failed with `code` and one line that begins with `message`.
    pub(crate) fn failed(self, code: i32, message: &str) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(self.err.starts_with(&format!("halite: {message}")), "{}", self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
    }
}

/// Sends the process a signal once its handler is in place: before, the signal would end it without a word. SIGTERM is
/// the last that the process asks for. A process that has ended gets none.
pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    let is_caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        let status = status.unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        if field("State:").is_some_and(|state| state.trim().starts_with('Z')) {
            return true;
        }
        let caught =
            field("SigCgt:").map_or(0, |caught| u64::from_str_radix(caught.trim(), 16).unwrap());
        caught & 1 << (Signal::TERM.as_raw() - 1) != 0
    };
    while !is_caught() {
        std::thread::yield_now();
    }
    kill_process(pid, signal).unwrap();
}
