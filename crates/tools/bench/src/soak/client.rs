//! A client of the soak: it comes back whenever the server does, checks all that it knows, and goes on.

use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use halite_resp_client::{Client as Connection, Limits, Reply};

use super::known::{Known, Place, Step};
use super::values::{Key, TWINS, Values, Version};
use super::{Shared, Stage};
use crate::mix::mix;

/// Requests of a check that are sent at once.
const CHECKED_AT_ONCE: u64 = 64;

/// The deepest pipeline.
const PIPELINE_MAX: u64 = 16;

/// One pipeline in this many is the last of its connection, and another one follows a scan.
const RECONNECTS: u64 = 500;
const SCANS: u64 = 2000;

/// How long a reply may take: a server that hangs is a finding.
const PATIENCE: Duration = Duration::from_secs(60);

/// No request here has a longer reply.
const LIMITS: Limits = Limits {
    line_len_max: 64 << 10,
    string_len_max: 1 << 30,
    items_max: 1 << 30,
    depth_max: 4,
    queue_len_max: 1 << 30,
};

/// Between two attempts to connect.
const NAP: Duration = Duration::from_millis(5);

/// The work of a client.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Done {
    /// Writes that were acknowledged.
    pub(super) acknowledged: u64,
    /// Values that were read and compared.
    pub(super) compared: u64,
    /// Times that it compared all of its keys after a restart.
    pub(super) checks: u64,
    /// Scans that had all keys.
    pub(super) scans: u64,
    /// Keys that are there.
    pub(super) present: u64,
}

/// Why a client cannot go on.
enum Trouble {
    /// The connection ended.
    Lost(io::Error),
    /// The server gave a wrong answer.
    Found(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

type Outcome<T = ()> = Result<T, Trouble>;

fn found<T>(what: String) -> Outcome<T> {
    Err(Trouble::Found(what))
}

pub(super) struct Client<'a> {
    shared: &'a Shared,
    number: u64,
    values: Values,
    random: Rng,
    known: Known,
    version: Version,
    done: Done,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared, number: u64, values: Values) -> Self {
        let random = Rng::with_seed(mix(shared.seed ^ mix(number)));
        let known = Known::new(shared.keys, shared.groups);
        Self { shared, number, values, random, known, version: 0, done: Done::default() }
    }

    /// Works until the soak is over, and then makes the last check; or until a violation is found.
    pub(super) fn run(mut self) -> Result<Done, String> {
        let mut checked = None;
        while !self.shared.has_failed() {
            let Some((life, addr, stage)) = self.shared.place() else {
                thread::sleep(NAP);
                continue;
            };
            if stage == Stage::Checked && checked == Some(life) {
                break;
            }
            let outcome = Connection::connect(addr, PATIENCE, LIMITS)
                .map_err(Trouble::Lost)
                .and_then(|mut connection| {
                    if checked != Some(life) {
                        self.check(&mut connection)?;
                        checked = Some(life);
                    }
                    self.work(&mut connection, life)
                });
            match outcome {
                Ok(()) => {}
                Err(Trouble::Found(what)) => return Err(format!("client {}: {what}", self.number)),
                Err(Trouble::Lost(_)) if self.shared.is_ending(life) => thread::sleep(NAP),
                Err(Trouble::Lost(error)) => {
                    let number = self.number;
                    return Err(format!(
                        "client {number} lost its connection to a server that ran: {error}"
                    ));
                }
            }
        }
        self.done.present = self.present().len() as u64;
        Ok(self.done)
    }

    fn key(&self, number: u64) -> Key {
        Key { client: self.number, number, twin: None }
    }

    /// The keys that are there.
    fn present(&self) -> BTreeSet<Vec<u8>> {
        let is_there = |place| self.known.version(place) > 0;
        let keys = (0..self.known.keys()).filter(|number| is_there(Place::Key(*number)));
        let groups = (0..self.known.groups()).filter(|number| is_there(Place::Group(*number)));
        let twins = groups.flat_map(|number| twins(self.number, number));
        keys.map(|number| self.key(number)).chain(twins).map(Key::bytes).collect()
    }

    /// Compares all keys with the acknowledged and the outstanding writes, and goes on from the values found.
    fn check(&mut self, connection: &mut Connection) -> Outcome {
        let (mut keys, mut groups) = (Vec::new(), Vec::new());
        for first in (0..self.known.keys()).step_by(CHECKED_AT_ONCE as usize) {
            let part = first..(first + CHECKED_AT_ONCE).min(self.known.keys());
            part.clone()
                .try_for_each(|number| connection.queue(&[b"GET", &self.key(number).bytes()]))?;
            connection.send()?;
            for number in part {
                let version = self.version_of(self.key(number), &connection.reply()?)?;
                keys.push(self.allowed(Place::Key(number), version)?);
            }
        }
        for first in (0..self.known.groups()).step_by(CHECKED_AT_ONCE as usize) {
            let part = first..(first + CHECKED_AT_ONCE).min(self.known.groups());
            part.clone().try_for_each(|number| ask_group(connection, self.number, number))?;
            connection.send()?;
            for number in part {
                let version = self.group_version(self.number, number, &connection.reply()?)?;
                groups.push(self.allowed(Place::Group(number), version)?);
            }
        }
        self.known.goes_on(keys, groups);
        self.done.checks += 1;
        Ok(())
    }

    fn allowed(&self, place: Place, version: Version) -> Outcome<Version> {
        if self.known.may_have(place, version) {
            return Ok(version);
        }
        let acknowledged = self.known.version(place);
        found(format!(
            "{place:?} has version {version} after a restart; {acknowledged} was acknowledged (0: none)"
        ))
    }

    /// The version of a value, zero without one.
    fn version_of(&mut self, key: Key, reply: &Reply) -> Outcome<Version> {
        self.done.compared += 1;
        match reply {
            Reply::Null => Ok(0),
            Reply::Bulk(value) => match self.values.version(key, value) {
                Some(version) => Ok(version),
                None => found(format!("{key:?} has {} bytes that nobody put there", value.len())),
            },
            other => found(format!("{key:?} was answered by {}", shown(other))),
        }
    }

    /// The version that all keys of a group have.
    fn group_version(&mut self, client: u64, group: u64, reply: &Reply) -> Outcome<Version> {
        let Reply::Array(values) = reply else {
            return found(format!("group {group} was answered by {}", shown(reply)));
        };
        let mut versions = BTreeSet::new();
        for (key, value) in twins(client, group).zip(values) {
            versions.insert(self.version_of(key, value)?);
        }
        match (versions.len(), values.len() as u64) {
            (1, TWINS) => Ok(versions.pop_first().unwrap_or_default()),
            _ => found(format!("half a transaction: group {group} of {client} has {versions:?}")),
        }
    }

    /// Pipelines, until it is time for another connection, or the work is over.
    fn work(&mut self, connection: &mut Connection, life: u64) -> Outcome {
        while self.shared.is_working(life) {
            let depth =
                if self.random.u64(..4) == 0 { 1 } else { 1 + self.random.u64(..PIPELINE_MAX) };
            let before = self.known.next();
            debug_assert!(before.is_none(), "a pipeline begins when the last one is answered");
            for _ in 0..depth {
                let step = self.step();
                self.ask(connection, step)?;
                self.known.sent(step);
            }
            connection.send()?;
            while let Some(step) = self.known.next() {
                self.hear(connection, step)?;
                self.known.answered();
            }
            if self.random.u64(..SCANS) == 0 {
                self.scan(connection)?;
            }
            if self.random.u64(..RECONNECTS) == 0 {
                return Ok(());
            }
        }
        // Between the end of the work and that of the server the client is idle.
        thread::sleep(NAP);
        Ok(())
    }

    fn step(&mut self) -> Step {
        let key = Place::Key(self.random.u64(..self.known.keys()));
        let group = self.random.u64(..self.known.groups());
        match self.random.u64(..100) {
            0..45 => Step::Get(key),
            45..50 => Step::Delete(key),
            50..55 => Step::Put(Place::Group(group), self.next_version()),
            55..60 => Step::Look { client: self.random.u64(..self.shared.clients), group },
            _ => Step::Put(key, self.next_version()),
        }
    }

    fn next_version(&mut self) -> Version {
        self.version += 1;
        self.version
    }

    fn ask(&self, connection: &mut Connection, step: Step) -> io::Result<()> {
        match step {
            Step::Get(Place::Key(number)) => connection.queue(&[b"GET", &self.key(number).bytes()]),
            Step::Get(Place::Group(number)) => ask_group(connection, self.number, number),
            Step::Look { client, group } => ask_group(connection, client, group),
            Step::Put(Place::Key(number), version) => {
                let key = self.key(number);
                connection.queue(&[b"SET", &key.bytes(), &self.values.value(key, version)])
            }
            Step::Put(Place::Group(number), version) => {
                connection.queue(&[b"MULTI"])?;
                for key in twins(self.number, number) {
                    connection.queue(&[b"SET", &key.bytes(), &self.values.value(key, version)])?;
                }
                connection.queue(&[b"EXEC"])
            }
            Step::Delete(Place::Key(number)) => {
                connection.queue(&[b"DEL", &self.key(number).bytes()])
            }
            Step::Delete(Place::Group(number)) => {
                let keys: Vec<_> = twins(self.number, number).map(Key::bytes).collect();
                let words: Vec<_> =
                    [&b"DEL"[..]].into_iter().chain(keys.iter().map(|k| &k[..])).collect();
                connection.queue(&words)
            }
        }
    }

    /// Receives the reply to the next request, which is certain: no other client writes these keys.
    fn hear(&mut self, connection: &mut Connection, step: Step) -> Outcome {
        match step {
            Step::Get(place) => {
                let reply = connection.reply()?;
                let version = match place {
                    Place::Key(number) => self.version_of(self.key(number), &reply)?,
                    Place::Group(number) => self.group_version(self.number, number, &reply)?,
                };
                let known = self.known.version(place);
                if version != known {
                    return found(format!(
                        "{place:?} has version {version}; {known} was acknowledged"
                    ));
                }
            }
            Step::Look { client, group } => {
                let reply = connection.reply()?;
                self.group_version(client, group, &reply)?;
            }
            Step::Put(Place::Key(_), _) => expect(connection.reply()?, "OK")?,
            Step::Put(Place::Group(_), _) => {
                expect(connection.reply()?, "OK")?;
                (0..TWINS).try_for_each(|_| expect(connection.reply()?, "QUEUED"))?;
                match connection.reply()? {
                    Reply::Array(all) => all.into_iter().try_for_each(|one| expect(one, "OK"))?,
                    other => {
                        return found(format!("a transaction was answered by {}", shown(&other)));
                    }
                }
            }
            Step::Delete(place) => {
                let is_there = self.known.version(place) > 0;
                match connection.reply()? {
                    Reply::Integer(count) if count == i64::from(is_there) => {}
                    other => return found(format!("a removal was answered by {}", shown(&other))),
                }
            }
        }
        self.done.acknowledged += u64::from(matches!(step, Step::Put(..) | Step::Delete(_)));
        Ok(())
    }

    /// A scan returns all keys that exist, whatever others write meanwhile, and no other key.
    fn scan(&mut self, connection: &mut Connection) -> Outcome {
        let (mut cursor, mut all) = (b"0".to_vec(), BTreeSet::new());
        let pattern = format!("{}:*", self.number);
        loop {
            connection.queue(&[
                b"SCAN",
                &cursor,
                b"MATCH",
                pattern.as_bytes(),
                b"COUNT",
                b"1000",
            ])?;
            connection.send()?;
            let mut parts = match connection.reply()? {
                Reply::Array(parts) => parts.into_iter(),
                other => return found(format!("a scan was answered by {}", shown(&other))),
            };
            let (Some(Reply::Bulk(next)), Some(Reply::Array(keys))) = (parts.next(), parts.next())
            else {
                return found("a scan was answered by neither a cursor nor keys".to_owned());
            };
            all.extend(keys.into_iter().filter_map(|key| match key {
                Reply::Bulk(bytes) => Some(bytes),
                _ => None,
            }));
            if next == b"0" {
                break;
            }
            cursor = next;
        }
        let present = self.present();
        if all != present {
            let missing = present.difference(&all).count();
            let strange = all.difference(&present).count();
            return found(format!(
                "a scan lacks {missing} keys and has {strange} that are not there"
            ));
        }
        self.done.scans += 1;
        Ok(())
    }
}

fn twins(client: u64, number: u64) -> impl Iterator<Item = Key> {
    (0..TWINS).map(move |twin| Key { client, number, twin: Some(twin) })
}

fn ask_group(connection: &mut Connection, client: u64, group: u64) -> io::Result<()> {
    let keys: Vec<_> = twins(client, group).map(Key::bytes).collect();
    let words: Vec<_> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| &key[..])).collect();
    connection.queue(&words)
}

fn expect(reply: Reply, word: &str) -> Outcome {
    match reply {
        Reply::Status(said) if said == word => Ok(()),
        other => found(format!("`{word}` was expected, {} was said", shown(&other))),
    }
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Status(text) | Reply::Error(text) => format!("`{text}`"),
        Reply::Integer(number) => format!("`{number}`"),
        Reply::Null => "nothing".to_owned(),
        Reply::Bulk(bytes) | Reply::Verbatim(bytes) => format!("{} bytes", bytes.len()),
        Reply::Array(all) | Reply::Set(all) | Reply::Push(all) => format!("{} replies", all.len()),
        Reply::Map(all) => format!("{} pairs of replies", all.len()),
    }
}
