//! The servers that are compared: their programs, how they are started, and the durability of their acknowledged
//! writes.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use halite_pmem::Domain;

use crate::rstore::RstoreOptions;
use crate::rstore::load::Protocol;

/// The names of all subjects, in the order of the rows.
pub(crate) const NAMES: [&str; 6] =
    ["halite", "halite-in-memory", "redis-always", "redis-everysec", "memcached", "rocksdb"];

/// A server that is there.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    kind: Kind,
    program: PathBuf,
    /// The version as the program prints it.
    pub(crate) version: String,
    /// Whether it takes a number of threads.
    pub(crate) has_threads: bool,
    /// The durability of an acknowledged write.
    pub(crate) durability: String,
}

/// A server that is not there, and why.
#[derive(Debug)]
pub(crate) struct Absent {
    pub(crate) name: &'static str,
    pub(crate) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Halite,
    HaliteInMemory,
    RedisAlways,
    RedisEverysec,
    Memcached,
    RocksDb,
}

const KINDS: [Kind; 6] = [
    Kind::Halite,
    Kind::HaliteInMemory,
    Kind::RedisAlways,
    Kind::RedisEverysec,
    Kind::Memcached,
    Kind::RocksDb,
];

/// How a server is started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// Its threads, where it takes a number of them.
    pub(crate) threads: usize,
    /// Bytes that its store may take, where it takes a limit.
    pub(crate) size_max: Option<u64>,
    /// Bytes of keys and values that it will hold.
    pub(crate) data_bytes: u64,
    /// The index of a store that has several, if not its default.
    pub(crate) index: Option<&'static str>,
    /// The engine of a store that has several, if not its default.
    pub(crate) engine: Option<String>,
    /// The devices of a store of Halite that are made before its server starts, if it has some.
    pub(crate) topology: Option<&'static str>,
}

impl Launch {
    /// Memory of those that keep all data there: twice the data, for their overhead and for a collector, and without
    /// eviction of records.
    fn memory_bytes(&self) -> u64 {
        2 * self.data_bytes + (256 << 20)
    }
}

/// Looks for the program of the subject of that name.
pub(crate) fn find(
    name: &'static str,
    options: &RstoreOptions,
    domain: Domain,
) -> Result<Subject, Absent> {
    let place = NAMES.iter().position(|known| *known == name).unwrap_or(0);
    KINDS[place].find(options, domain).map_err(|why| Absent { name, why })
}

impl Kind {
    fn find(self, options: &RstoreOptions, domain: Domain) -> Result<Subject, String> {
        let program = match self {
            Self::Halite | Self::HaliteInMemory => {
                beside("halite", options.halite_bin.as_deref(), "--halite-bin")?
            }
            Self::RocksDb => {
                beside("halite-bench-peers", options.peers_bin.as_deref(), "--peers-bin")?
            }
            Self::RedisAlways | Self::RedisEverysec => in_path("redis-server")?,
            Self::Memcached => in_path("memcached")?,
        };
        let help = output(&program, &["serve", "--help"]);
        if self == Self::RocksDb && help.is_none() {
            return Err(format!(
                "{} is built without it; `scripts/bench-peers rstore` builds it",
                program.display()
            ));
        }
        let takes_memory = || help.as_ref().is_some_and(|help| help.contains("--in-memory"));
        if self == Self::HaliteInMemory && !takes_memory() {
            return Err(format!("{} has no --in-memory", program.display()));
        }
        let takes_threads = || help.is_some_and(|help| help.contains("--threads"));
        let version = output(&program, &["--version"]);
        let version = version.as_deref().and_then(|text| text.lines().next()).unwrap_or("unknown");
        Ok(Subject {
            kind: self,
            version: version.trim().to_owned(),
            has_threads: match self {
                Self::Halite | Self::HaliteInMemory | Self::RocksDb => takes_threads(),
                Self::Memcached => true,
                Self::RedisAlways | Self::RedisEverysec => false,
            },
            durability: self.durability(domain),
            program,
        })
    }

    fn durability(self, domain: Domain) -> String {
        match self {
            Self::Halite => {
                format!("acknowledged when fenced (--sync always); {}", domain.guarantee())
            }
            Self::HaliteInMemory => format!("none: {}", Domain::Volatile.guarantee()),
            Self::RedisAlways => "acknowledged after fdatasync of the log of writes \
                                  (appendonly yes, appendfsync always)"
                .to_owned(),
            Self::RedisEverysec => "acknowledged before; fdatasync of the log of writes once a \
                                    second (appendonly yes, appendfsync everysec)"
                .to_owned(),
            Self::Memcached => "none: volatile".to_owned(),
            Self::RocksDb => "acknowledged after fdatasync of the write-ahead log, one for all \
                              requests that arrived together"
                .to_owned(),
        }
    }
}

impl Subject {
    pub(crate) fn name(&self) -> &'static str {
        NAMES[KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0)]
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the place where a store has its data, in its server's folder.
    pub(super) fn data(folder: &Path) -> PathBuf {
        folder.join("data")
    }

    pub(crate) fn protocol(&self) -> Protocol {
        if self.kind == Kind::Memcached { Protocol::Memcached } else { Protocol::Resp }
    }

    /// Whether it has its acknowledged writes when it is started again.
    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self.kind, Kind::Memcached | Kind::HaliteInMemory)
    }

    /// The section of `INFO` with the numbers for the rows.
    pub(super) fn info_section(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Halite | Kind::HaliteInMemory => Some("everything"),
            Kind::RedisAlways | Kind::RedisEverysec => Some("persistence"),
            Kind::Memcached | Kind::RocksDb => None,
        }
    }

    /// Whether it limits its space on a medium and tells how much of that it has filled.
    pub(crate) fn has_limit(&self) -> bool {
        self.kind == Kind::Halite
    }

    /// The indexes that it can have.
    pub(crate) fn indexes(&self) -> &'static [Option<&'static str>] {
        match self.kind {
            Kind::Halite => &[Some("ordered:8"), Some("ordered:4"), Some("hash")],
            _ => &[None],
        }
    }

    /// Whether its folder is where its data lies, not a log beside data in memory.
    pub(crate) fn is_store(&self) -> bool {
        matches!(self.kind, Kind::Halite | Kind::RocksDb)
    }

    /// The command that serves `folder` on that port of the loopback interface.
    pub(crate) fn command(&self, launch: &Launch, folder: &Path, port: u16) -> Command {
        let mut command = Command::new(&self.program);
        let port = port.to_string();
        match self.kind {
            Kind::Halite | Kind::RocksDb => {
                command.arg("serve").arg(Self::data(folder)).args(["--port", &port]);
                if let (Kind::Halite, Some(bytes)) = (self.kind, launch.size_max) {
                    command.args(["--max-size", &bytes.to_string()]);
                }
                if let (Kind::Halite, Some(index)) = (self.kind, launch.index) {
                    command.args(["--index", index]);
                }
                if let (Kind::Halite, Some(engine)) = (self.kind, &launch.engine) {
                    command.args(["--engine", engine]);
                }
                self.take_threads(&mut command, launch);
            }
            Kind::HaliteInMemory => {
                let bytes = launch.memory_bytes().to_string();
                command.args(["serve", "--in-memory", &bytes, "--port", &port]);
                self.take_threads(&mut command, launch);
            }
            Kind::RedisAlways | Kind::RedisEverysec => {
                let sync = if self.kind == Kind::RedisAlways { "always" } else { "everysec" };
                command.args(["--bind", "127.0.0.1", "--port", &port, "--dir"]).arg(folder);
                command.args(["--appendonly", "yes", "--appendfsync", sync, "--save", ""]);
                // The bench asks for rewrites between measurements.
                command.args(["--auto-aof-rewrite-percentage", "0"]);
            }
            Kind::Memcached => {
                let mib = launch.memory_bytes() >> 20;
                command.args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-M", "-c", "4096"]);
                command.args(["-m", &mib.to_string(), "-t", &launch.threads.to_string()]);
                if rustix::process::geteuid().is_root() {
                    command.args(["-u", "root"]);
                }
            }
        }
        command
    }

    fn take_threads(&self, command: &mut Command, launch: &Launch) {
        if self.has_threads {
            command.args(["--threads", &launch.threads.to_string()]);
        }
    }
}

/// A program of ours: the one that was named, this one, or the one beside it.
fn beside(name: &str, given: Option<&Path>, option: &str) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let that = this.with_file_name(name);
    if that.is_file() {
        Ok(that)
    } else {
        Err(format!("there is no {}; name it by {option}", that.display()))
    }
}

/// A program in one of the folders of PATH.
fn in_path(name: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("there is no {name} in PATH; Debian's package installs it"))
}

/// The output of a program; `None` if it fails.
fn output(program: &Path, arguments: &[&str]) -> Option<String> {
    let arguments = arguments.iter().map(OsStr::new);
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
