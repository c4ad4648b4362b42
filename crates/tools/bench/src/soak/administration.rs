//! Administration of a pool between two lives of its server: snapshots, clones, scrubs, and devices that go and come back.
//!
//! A turn is a call of the program `halite` on the database, which the server has left as a kill or a stop left it. A
//! snapshot's content, and that of a clone, is known by the digest of a scan: it has to be the same as long as it is
//! there, whatever the server writes, and whichever file of the mirror is missing. Scrubs and resilvers are killed now and
//! then, and have to come to their end when they are called again.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::child::Child;
use crate::mix::mix;
use crate::rstore::server::Server;

/// The devices: a part of the database's own pool, and a mirror of files beside it. The part leaves the log its room, which
/// lies in the pool, too; what is more goes to the mirror.
pub(super) const TOPOLOGY: &str = "pmem:@32M ; mirror file:one@1G file:two@1G";

/// The files of the mirror, in the engine's folder.
const LEAVES: [&str; 2] = ["one", "two"];

/// The engine's folder in that of the database.
const FOLDER: &str = "betree";

/// The key space of the server's database 0, which is soaked, and the one that clones are: of no database that it serves.
const SOAKED: &str = "db0";
const CLONE: &str = "db1000";

/// The most snapshots at a time.
const SNAPSHOTS_MAX: usize = 3;

/// In so many percent of its turns, something is done.
const BUSY: u64 = 60;

/// In so many percent of its calls, a scrub or a resilver is killed first, within so many milliseconds.
const KILLED: u64 = 30;
const KILLED_WITHIN: u64 = 300;

type Outcome<T = ()> = Result<T, String>;

/// A snapshot, with the digest of its content.
struct Snapshot {
    name: String,
    digest: u64,
}

/// A leaf of the mirror that the store does not have.
#[derive(Clone, Copy)]
enum Away {
    /// Its file is at another place.
    Gone(usize),
    /// It is there, and not used.
    Offline(usize),
}

/// How often something was done.
#[derive(Default)]
struct Counts {
    snapshots: u64,
    clones: u64,
    losses: u64,
    returns: u64,
    scrubs: u64,
    killed_passes: u64,
}

/// Looks after a pool, and knows what is in its snapshots.
pub(super) struct Administration {
    program: PathBuf,
    data: PathBuf,
    random: Rng,
    next: u64,
    /// The oldest first.
    snapshots: Vec<Snapshot>,
    /// The name of the snapshot that the clone began as, and the digest of the clone.
    clone: Option<(String, u64)>,
    away: Option<Away>,
    counts: Counts,
}

impl Administration {
    pub(super) fn of(server: &Server, seed: u64) -> Self {
        let (program, data) = server.database();
        Self {
            program: program.to_owned(),
            data,
            random: Rng::with_seed(mix(seed ^ mix(u64::from(b'a')))),
            next: 0,
            snapshots: Vec::new(),
            clone: None,
            away: None,
            counts: Counts::default(),
        }
    }

    /// The counts for the rows.
    pub(super) fn counts(&self) -> [(&'static str, u64); 6] {
        let Counts { snapshots, clones, losses, returns, scrubs, killed_passes } = self.counts;
        [
            ("snapshots", snapshots),
            ("clones", clones),
            ("losses", losses),
            ("returns", returns),
            ("scrubs", scrubs),
            ("killed-passes", killed_passes),
        ]
    }

    /// Does something, or nothing.
    pub(super) fn turn(&mut self) -> Outcome {
        if self.random.u64(..100) >= BUSY {
            return Ok(());
        }
        match self.random.u64(..100) {
            0..20 if self.snapshots.len() < SNAPSHOTS_MAX => self.take_snapshot(),
            0..40 => self.remove_snapshot(),
            40..55 if self.clone.is_none() => self.begin_clone(),
            40..55 => self.drop_clone(),
            55..90 if self.away.is_none() => self.lose(),
            55..90 => self.bring_back(),
            _ => self.scrub(),
        }
    }

    /// Brings a missing leaf back, and compares everything that is known once more.
    pub(super) fn finish(&mut self) -> Outcome {
        self.bring_back()?;
        self.scrub()?;
        self.drop_clone()?;
        while !self.snapshots.is_empty() {
            self.remove_snapshot()?;
        }
        Ok(())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null());
        command
    }

    /// Runs `halite`, with the database's path behind the first two words.
    fn run(&self, words: [&str; 2], rest: &[&str]) -> Outcome<String> {
        let mut command = self.command(&words);
        command.arg(&self.data).args(rest);
        let what = format!("halite {} {}", words.join(" "), rest.join(" "));
        let (status, said) = Child::run(command).map_err(|error| format!("{what}: {error}"))?;
        if status.success() { Ok(said) } else { Err(format!("{what}: {}", said.trim())) }
    }

    /// Runs a pass to its end; now and then it is killed before, and called again.
    fn pass(&mut self, name: &str) -> Outcome<String> {
        if self.random.u64(..100) < KILLED {
            let mut command = self.command(&["pool", name]);
            command.arg(&self.data).stdout(Stdio::null()).stderr(Stdio::null());
            let failed = |error| format!("halite pool {name}: {error}");
            let mut child = Child::spawn(&mut command).map_err(failed)?;
            thread::sleep(Duration::from_millis(self.random.u64(..KILLED_WITHIN)));
            child.kill().map_err(failed)?;
            self.counts.killed_passes += 1;
        }
        self.run(["pool", name], &["--json"])
    }

    /// The digest of all pairs of a key space, or of a snapshot of the soaked one.
    fn digest(&self, space: &str, snapshot: Option<&str>) -> Outcome<u64> {
        let mut command = self.command(&["scan"]);
        command.arg(&self.data).args(["--space", space]);
        if let Some(name) = snapshot {
            command.args(["--snapshot", name]);
        }
        let failed = |error| format!("halite scan: {error}");
        let mut child = Child::spawn(command.stdout(Stdio::piped())).map_err(failed)?;
        let mut pipe = child.take_stdout().ok_or("halite scan: there is no pipe")?;
        let (mut hasher, mut part) = (DefaultHasher::new(), vec![0; 1 << 16]);
        let mut total = 0_u64;
        loop {
            match pipe.read(&mut part).map_err(failed)? {
                0 => break,
                len => {
                    hasher.write(&part[..len]);
                    total += len as u64;
                }
            }
        }
        hasher.write_u64(total);
        loop {
            match child.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(hasher.finish()),
                Some(status) => {
                    return Err(format!("halite scan of {space}, {snapshot:?}: {status}"));
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn expect(&self, space: &str, snapshot: Option<&str>, digest: u64) -> Outcome {
        match self.digest(space, snapshot)? == digest {
            true => Ok(()),
            false => Err(format!("{space} has another content, as of {snapshot:?}, than before")),
        }
    }

    fn take_snapshot(&mut self) -> Outcome {
        let spaces = self.run(["dataset", "ls"], &[])?;
        if !spaces.lines().any(|line| line.split('\t').next() == Some(SOAKED)) {
            return Ok(());
        }
        let (name, digest) = (format!("soak{}", self.next), self.digest(SOAKED, None)?);
        self.next += 1;
        self.run(["snapshot", "create"], &[&name])?;
        self.expect(SOAKED, Some(&name), digest)?;
        self.snapshots.push(Snapshot { name, digest });
        self.counts.snapshots += 1;
        Ok(())
    }

    /// Compares a snapshot, and removes it.
    fn remove_snapshot(&mut self) -> Outcome {
        let origin = self.clone.as_ref().map(|(origin, _)| origin);
        let mut free: Vec<usize> = (0..self.snapshots.len()).collect();
        free.retain(|at| origin != Some(&self.snapshots[*at].name));
        let Some(at) = self.random.choice(free) else { return Ok(()) };
        let Snapshot { name, digest } = self.snapshots.remove(at);
        self.expect(SOAKED, Some(&name), digest)?;
        self.run(["snapshot", "rm"], &[&name]).map(drop)
    }

    /// Makes a clone of a snapshot, and changes it: the snapshot stays as it is.
    fn begin_clone(&mut self) -> Outcome {
        let Some(Snapshot { name, digest }) = self.random.choice(&self.snapshots) else {
            return Ok(());
        };
        self.run(["snapshot", "clone"], &[name, CLONE])?;
        self.expect(CLONE, None, *digest)?;
        let value = format!("of {name}");
        self.run(["put", "--space=db1000"], &["in the clone alone", &value])?;
        self.expect(SOAKED, Some(name), *digest)?;
        self.clone = Some((name.clone(), self.digest(CLONE, None)?));
        self.counts.clones += 1;
        Ok(())
    }

    /// Compares the clone, and removes it.
    fn drop_clone(&mut self) -> Outcome {
        let Some((_, digest)) = self.clone.take() else { return Ok(()) };
        self.expect(CLONE, None, digest)?;
        self.run(["dataset", "rm"], &[CLONE]).map(drop)
    }

    /// The path of a leaf, and where its file is while it is gone: no search looks there.
    fn places(&self, leaf: usize) -> (PathBuf, PathBuf) {
        let here = self.data.join(FOLDER).join(LEAVES[leaf]);
        (here, self.data.with_file_name(LEAVES[leaf]))
    }

    fn rename(from: &PathBuf, to: &PathBuf) -> Outcome {
        fs::rename(from, to).map_err(|error| format!("{}: {error}", from.display()))
    }

    /// Takes a file of the mirror away.
    fn lose(&mut self) -> Outcome {
        let leaf = self.random.usize(..LEAVES.len());
        let away = if self.random.bool() { Away::Gone(leaf) } else { Away::Offline(leaf) };
        match away {
            Away::Gone(leaf) => {
                let (here, there) = self.places(leaf);
                Self::rename(&here, &there)?;
            }
            Away::Offline(leaf) => drop(self.run(["pool", "offline"], &[&name_of(leaf)])?),
        }
        self.away = Some(away);
        self.counts.losses += 1;
        Ok(())
    }

    /// Brings the file back that is away; then it has everything, as the scrub tells that finds nothing damaged.
    fn bring_back(&mut self) -> Outcome {
        let Some(away) = self.away.take() else { return Ok(()) };
        let (Away::Gone(leaf) | Away::Offline(leaf)) = away;
        if let Away::Gone(leaf) = away {
            let (here, there) = self.places(leaf);
            Self::rename(&there, &here)?;
        }
        self.run(["pool", "online"], &[&name_of(leaf)])?;
        self.pass("resilver")?;
        self.counts.returns += 1;
        self.scrub()
    }

    /// Reads everything with its redundancy: nothing is damaged.
    fn scrub(&mut self) -> Outcome {
        let said = self.pass("scrub")?;
        self.counts.scrubs += 1;
        match said.contains("\"damaged\":0") {
            true => Ok(()),
            false => Err(format!("a scrub finds damage: {}", said.trim())),
        }
    }
}

/// The name of a leaf of the mirror: class, vdev, leaf.
fn name_of(leaf: usize) -> String {
    format!("1/0/{leaf}")
}
