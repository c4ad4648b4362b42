//! An append-only file, into a database.
//!
//! The keys of the RDB file that it begins with are put as `import` does. Then a server of this process opens the
//! database, and gets the commands as a client's. For that server no key expires: a log may change a key after the time
//! at which it would have expired, if it was given more time before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use halite::Database;
use halite_rdb::aof::{Files, LogEvent, Replay, ReplayError};
use halite_rdb::{Limits, Why};
use halite_resp_client::{Client, Reply};
use halite_server::{Config, Handle, Server, SyncPolicy};
use indicatif::ProgressBar;

use super::import::{Extras, Import};
use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::{Error, Result, escape, output};

/// Commands, or bytes of them, that are sent together.
const BATCH_COMMANDS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of commands after which they are made durable.
const SYNC_BYTES: usize = 64 << 20;
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Databases that the log can choose from, as in Redis.
const DATABASES: u32 = 16;
/// Bytes of a command's name that errors show.
const NAME_SHOWN: usize = 64;

/// Carries out what is in the files of an append-only file. The file `-` is standard input.
pub(crate) fn load_log(
    files: Files,
    db: &Database,
    loader: &mut Loader<'_>,
    extras: &mut Extras,
    (bar, interrupt): (&ProgressBar, &Interrupt),
) -> Result<()> {
    let name = files.paths.first().map(|path| path.display().to_string()).unwrap_or_default();
    let open = |path: &Path| -> io::Result<Box<dyn Read>> {
        match path.as_os_str() == "-" {
            true => Ok(Box::new(bar.wrap_read(io::stdin()))),
            false => Ok(Box::new(bar.wrap_read(File::open(path)?))),
        }
    };
    let replay = Replay::new(files, Limits::default(), open);
    let mut import = Import::new(db, name, None);
    let mut served = None;
    let done = go_on(replay, &mut import, db, loader, extras, &mut served, interrupt);
    let done = done.and(import.finish());
    let closed = served.map_or(Ok(()), Served::close);
    done.and(closed)
}

/// Goes through the log. `served` is the server, once it is needed.
fn go_on<R: Read>(
    mut replay: Replay<impl FnMut(&Path) -> io::Result<R>, R>,
    import: &mut Import<'_>,
    db: &Database,
    loader: &mut Loader<'_>,
    extras: &mut Extras,
    served: &mut Option<Served>,
    interrupt: &Interrupt,
) -> Result<()> {
    while !interrupt.is_raised() {
        match replay.next_event() {
            Ok(None) => break,
            Ok(Some(LogEvent::Rdb(event))) => import.add(loader, extras, event)?,
            Ok(Some(LogEvent::Command(words))) => {
                let served = match served {
                    Some(served) => served,
                    None => {
                        import.finish()?;
                        loader.finish()?;
                        served.insert(Served::start(db)?)
                    }
                };
                if let Some((path, offset)) = replay.place() {
                    served.queue(&words, path, offset, extras)?;
                }
            }
            Ok(Some(_)) => {}
            Err(error) if error.is_cut_off => {
                cut_off(&error);
                break;
            }
            Err(ReplayError { path, source, .. }) => {
                let read = served.as_mut().map_or(Ok(()), |served| served.send(extras));
                let thing = path.display().to_string();
                return read.and(Err(Error::Rdb { thing, source }));
            }
        }
    }
    served.as_mut().map_or(Ok(()), |served| served.send(extras))
}

/// Says that the end of the last file is missing.
fn cut_off(error: &ReplayError) {
    if let Why::Truncated { good } = error.source.why {
        let path = error.path.display();
        output::message(format_args!(
            "warning: {path}: the last command or transaction is not whole; loaded up to byte {good}"
        ));
    }
}

/// A server in this process, and its one client.
struct Served {
    client: Client,
    handle: Handle,
    thread: JoinHandle<std::result::Result<(), halite_server::Error>>,
    /// The file of the queued commands, and for each its name and its offset.
    path: PathBuf,
    queued: Vec<(Vec<u8>, u64)>,
    queued_bytes: usize,
    unsynced_bytes: usize,
    /// The commands that were queued last are of a transaction whose end is to come.
    is_in_transaction: bool,
}

impl Served {
    fn start(db: &Database) -> Result<Self> {
        let mut config = Config::default();
        config.port = 0;
        // No other program gets in.
        let password = password()?;
        config.requirepass = Some(password.clone());
        config.sync = SyncPolicy::Never;
        config.databases = DATABASES;
        config.threads = Some(1);
        config.keys_expire = false;
        let server = Server::bind(db.clone(), config)?;
        let (addrs, handle) = (server.local_addrs(), server.handle());
        let thread = std::thread::Builder::new().name("server".to_owned());
        let thread = thread.spawn(move || server.run());
        let thread = thread.map_err(|error| Error::io("threads", error))?;
        let limits = halite_resp_client::Limits::default();
        let connected = Client::connect(&addrs[..], PATIENCE, limits);
        let client = connected.and_then(|mut client| {
            match client.call(&[b"AUTH", password.as_bytes()])? {
                Reply::Status(_) => Ok(client),
                other => Err(io::Error::other(format!("{other:?}"))),
            }
        });
        let client = client.map_err(|error| {
            handle.shutdown();
            lost(error)
        })?;
        Ok(Self {
            client,
            handle,
            thread,
            path: PathBuf::new(),
            queued: Vec::new(),
            queued_bytes: 0,
            unsynced_bytes: 0,
            is_in_transaction: false,
        })
    }

    /// Sends a command with others.
    fn queue(
        &mut self,
        words: &[Vec<u8>],
        path: &Path,
        offset: u64,
        extras: &mut Extras,
    ) -> Result<()> {
        if self.path != path {
            self.send(extras)?;
            self.path = path.to_owned();
        }
        if is_relative(words) {
            self.send(extras)?;
            let why =
                "it gives a key a time from now on, which is not known; Redis writes times of day";
            return Err(self.refused(&words[0], offset, why, 0));
        }
        let slices: Vec<_> = words.iter().map(Vec::as_slice).collect();
        self.client.queue(&slices).map_err(lost)?;
        let name = &words[0][..words[0].len().min(NAME_SHOWN)];
        self.queued.push((name.to_vec(), offset));
        self.queued_bytes += words.iter().map(Vec::len).sum::<usize>();
        let is = |name: &[u8]| words[0].eq_ignore_ascii_case(name);
        self.is_in_transaction = is(b"MULTI") || self.is_in_transaction && !is(b"EXEC");
        match self.queued.len() >= BATCH_COMMANDS || self.queued_bytes >= BATCH_BYTES {
            true => self.send(extras),
            false => Ok(()),
        }
    }

    /// Sends the queued commands, and looks at their replies. Those behind a refused one are carried out, too.
    fn send(&mut self, extras: &mut Extras) -> Result<()> {
        self.client.send().map_err(lost)?;
        let mut refused = None;
        let mut behind = 0;
        for (name, offset) in std::mem::take(&mut self.queued) {
            let reply = self.client.reply().map_err(lost)?;
            match (error_of(reply), &refused) {
                (Some(text), None) => refused = Some((name, offset, text)),
                (Some(_), Some(_)) => {}
                (None, None) => extras.commands += 1,
                (None, Some(_)) => behind += 1,
            }
        }
        if let Some((name, offset, text)) = refused {
            return Err(self.refused(&name, offset, text.trim_end(), behind));
        }
        self.unsynced_bytes += std::mem::take(&mut self.queued_bytes);
        if self.unsynced_bytes >= SYNC_BYTES && !self.is_in_transaction {
            self.unsynced_bytes = 0;
            self.client.call(&[b"SAVE"]).map_err(lost)?;
        }
        Ok(())
    }

    /// Ends the server, which makes all durable.
    fn close(self) -> Result<()> {
        self.handle.shutdown();
        drop(self.client);
        let ended = self.thread.join();
        let ended = ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
        ended.map_err(Error::from)
    }

    fn refused(&self, name: &[u8], offset: u64, why: &str, behind: u64) -> Error {
        let name = escape::to_text(&name[..name.len().min(NAME_SHOWN)]);
        let behind = match behind {
            0 => String::new(),
            behind => format!("; {behind} behind it were carried out"),
        };
        let why = format!("at byte {offset}, the command `{name}` was refused: {why}{behind}");
        Error::input(self.path.display(), why)
    }
}

/// An error of the connection to the server.
fn lost(error: io::Error) -> Error {
    Error::io("the server of this process", error)
}

/// A password that no other program knows.
fn password() -> Result<String> {
    const FROM: &str = "/dev/urandom";
    let mut bytes = [0; 16];
    let read = File::open(FROM).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::io(FROM, error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a command gives a key a time from now on.
fn is_relative(words: &[Vec<u8>]) -> bool {
    let is = |word: &[u8], name: &[u8]| word.eq_ignore_ascii_case(name);
    let (name, options_at) = match words {
        [name, ..] if is(name, b"SET") => (name, 3),
        [name, ..] if is(name, b"GETEX") => (name, 2),
        [name, ..] => (name, words.len()),
        [] => return false,
    };
    let mut options = words.iter().skip(options_at);
    let relative: [&[u8]; 4] = [b"EXPIRE", b"PEXPIRE", b"SETEX", b"PSETEX"];
    relative.iter().any(|relative| is(name, relative))
        || options.any(|option| is(option, b"EX") || is(option, b"PX"))
}

/// The error in a reply, or in one of the replies of a transaction.
fn error_of(reply: Reply) -> Option<String> {
    match reply {
        Reply::Error(text) => Some(text),
        Reply::Array(replies) => replies.into_iter().find_map(error_of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_now_on_are_told_from_times_of_day() {
        let relative = |line: &str| {
            let words: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            is_relative(&words)
        };
        for line in ["expire a 1", "SETEX a 1 b", "set a b NX ex 1", "GETEX a PX 1"] {
            assert!(relative(line), "{line}");
        }
        for line in
            ["set a ex", "SET a b PXAT 1", "GETEX px PERSIST", "pexpireat a 1", "MSET a b ex px"]
        {
            assert!(!relative(line), "{line}");
        }
    }

    #[test]
    fn errors_are_found_in_transactions() {
        let of = |replies| error_of(Reply::Array(replies));
        assert_eq!(of(vec![Reply::Integer(1), Reply::Error("ERR a".into())]), Some("ERR a".into()));
        assert_eq!(of(vec![Reply::Integer(1), Reply::Null]), None);
    }
}
