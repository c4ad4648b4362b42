//! A server that is killed while clients write: every acknowledged write is there afterwards, and no
//! half batch, be it on keys of one partition or of several.
//!
//! `HALITE_KILL_ROUNDS` sets the number of kills, `HALITE_KILL_SEED` repeats their moments.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use halite_resp_client::{Client, Limits, Reply};
use rustix::process::Signal;

use crate::run::Home;
use crate::served::Served;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(60);

const WRITERS: usize = 4;
/// Keys of a writer that come in no transaction.
const KEYS: u64 = 40;
/// Keys of a transaction, which always have one value.
const TWINS: u64 = 5;

type Values = BTreeMap<String, Vec<u8>>;

/// One request, or several that happen together.
#[derive(Clone)]
enum Step {
    Set(String, Vec<u8>),
    Delete(String),
    /// The same value for all twins.
    Transaction(Vec<String>, Vec<u8>),
}

impl Step {
    fn apply(&self, values: &mut Values) {
        match self {
            Self::Set(key, value) => drop(values.insert(key.clone(), value.clone())),
            Self::Delete(key) => drop(values.remove(key)),
            Self::Transaction(keys, value) => {
                keys.iter().for_each(|key| drop(values.insert(key.clone(), value.clone())));
            }
        }
    }

    /// Queues the requests; returns how many replies they bring.
    fn queue(&self, to: &mut Client) -> io::Result<usize> {
        match self {
            Self::Set(key, value) => to.queue(&[b"SET", key.as_bytes(), value])?,
            Self::Delete(key) => to.queue(&[b"DEL", key.as_bytes()])?,
            Self::Transaction(keys, value) => {
                to.queue(&[b"MULTI"])?;
                keys.iter().try_for_each(|key| to.queue(&[b"SET", key.as_bytes(), value]))?;
                to.queue(&[b"EXEC"])?;
                return Ok(2 + keys.len());
            }
        }
        Ok(1)
    }
}

/// Whether a reply, or one in it, is an error.
fn is_error(reply: &Reply) -> bool {
    match reply {
        Reply::Error(_) => true,
        Reply::Array(all) => all.iter().any(is_error),
        _ => false,
    }
}

fn connect(address: SocketAddr) -> io::Result<Client> {
    Client::connect(address, PATIENCE, Limits::default())
}

/// What one writer knows: the state that was acknowledged, and what was under way, in order.
struct Writer {
    number: usize,
    /// Requests that are under way together are executed by several threads: those that took effect
    /// before a kill need not be the first ones.
    on_threads: bool,
    random: Rng,
    acknowledged: Values,
    under_way: Vec<Step>,
    count: u64,
}

impl Writer {
    fn new(number: usize, seed: u64, on_threads: bool) -> Self {
        let random = Rng::with_seed(seed ^ number as u64);
        Self {
            number,
            on_threads,
            random,
            acknowledged: Values::new(),
            under_way: Vec::new(),
            count: 0,
        }
    }

    fn step(&mut self) -> Step {
        self.count += 1;
        let long = self.random.u64(..200) == 0;
        let len = if long { 100_000 } else { self.random.u64(..300) as usize };
        let mut value = format!("{}:{}:", self.number, self.count).into_bytes();
        value.resize(value.len() + len, b'.');
        let key = format!("{}:{}", self.number, self.random.u64(..KEYS));
        match self.random.u64(..10) {
            0 => Step::Delete(key),
            1 | 2 => {
                let twins = (0..TWINS).map(|twin| format!("{}:twin:{twin}", self.number));
                Step::Transaction(twins.collect(), value)
            }
            _ => Step::Set(key, value),
        }
    }

    /// Writes, some requests at a time, until the server is gone.
    fn write_until_killed(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut connection = connect(address)?;
        loop {
            let pipeline = if self.random.u64(..4) == 0 { 8 } else { 1 };
            let mut expected = Vec::new();
            for _ in 0..pipeline {
                let step = self.step();
                expected.push(step.queue(&mut connection)?);
                self.under_way.push(step);
            }
            connection.send()?;
            for replies in expected {
                for _ in 0..replies {
                    let reply = connection.reply()?;
                    assert!(!is_error(&reply), "{reply:?}");
                }
                self.under_way.remove(0).apply(&mut self.acknowledged);
            }
        }
    }

    /// Checks the server's state against the acknowledged one and the requests that were under way, and goes on
    /// from it.
    fn check(&mut self, address: SocketAddr) {
        let found = self.read_all(address);
        if self.on_threads {
            self.check_keys(&found);
        }
        let mut possible = self.acknowledged.clone();
        let mut states = vec![possible.clone()];
        for step in self.under_way.drain(..) {
            step.apply(&mut possible);
            states.push(possible.clone());
        }
        assert!(
            self.on_threads || states.contains(&found),
            "writer {}: what is there is no state between what was acknowledged and what was asked:\
             \nlost or changed: {:?}",
            self.number,
            self.acknowledged
                .iter()
                .filter(|(key, value)| found.get(*key) != Some(value))
                .map(|(key, _)| key)
                .collect::<Vec<_>>(),
        );
        self.acknowledged = found;
    }

    /// Checks that each key has the value that was acknowledged or one that was under way, and that
    /// transactions are whole.
    fn check_keys(&self, found: &Values) {
        let before = &self.acknowledged;
        let concerned = self.under_way.iter().flat_map(|step| match step {
            Step::Set(key, _) | Step::Delete(key) => vec![key],
            Step::Transaction(keys, _) => keys.iter().collect(),
        });
        let keys: BTreeSet<_> = found.keys().chain(before.keys()).chain(concerned).collect();
        for key in keys {
            let mut state = Values::new();
            before.get(key).into_iter().for_each(|value| {
                state.insert(key.clone(), value.clone());
            });
            let mut possible = vec![state.get(key).cloned()];
            for step in &self.under_way {
                step.apply(&mut state);
                possible.push(state.get(key).cloned());
            }
            assert!(possible.contains(&found.get(key).cloned()), "writer {}: {key}", self.number);
        }
        let twins = (0..TWINS).map(|twin| found.get(&format!("{}:twin:{twin}", self.number)));
        let twins: BTreeSet<_> = twins.collect();
        assert_eq!(twins.len(), 1, "writer {}: half a transaction", self.number);
    }

    fn read_all(&self, address: SocketAddr) -> Values {
        let mut connection = connect(address).unwrap();
        let twins = (0..TWINS).map(|twin| format!("{}:twin:{twin}", self.number));
        let keys = (0..KEYS).map(|key| format!("{}:{key}", self.number)).chain(twins);
        let mut found = Values::new();
        for key in keys {
            match connection.call(&[b"GET", key.as_bytes()]).unwrap() {
                Reply::Bulk(value) => drop(found.insert(key, value)),
                Reply::Null => {}
                other => panic!("{key}: {other:?}"),
            }
        }
        found
    }
}

fn rounds(or: u64) -> u64 {
    std::env::var("HALITE_KILL_ROUNDS").map_or(or, |rounds| rounds.parse().unwrap())
}

fn kill_again_and_again(home: &Home, engine: &str, threads: usize, rounds: u64, wait_ms_max: u64) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed =
        std::env::var("HALITE_KILL_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALITE_KILL_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut writers: Vec<_> =
        (0..WRITERS).map(|number| Writer::new(number, seed, threads > 1)).collect();
    for round in 0..rounds {
        let threads = threads.to_string();
        let args = ["--engine", engine, "--max-size", "64MiB", "--threads", &threads];
        let served = Served::start(home, &args);
        let address = served.address;
        writers.iter_mut().for_each(|writer| writer.check(address));
        let wait = Duration::from_millis(random.u64(..wait_ms_max));
        thread::scope(|scope| {
            for writer in &mut writers {
                // The connection breaks when the server is killed; only its replies count.
                scope.spawn(|| drop(writer.write_until_killed(address)));
            }
            thread::sleep(wait);
            let (code, said) = served.end(Signal::KILL);
            assert_eq!(code, None, "round {round}: the server ended by itself: {said}");
        });
    }
    let served = Served::start(home, &[]);
    writers.iter_mut().for_each(|writer| writer.check(served.address));
    let writes: u64 = writers.iter().map(|writer| writer.count).sum();
    println!("{rounds} kills, {writes} writes");
    assert!(writes > rounds, "the writers wrote");
    let (code, said) = served.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    home.ok(&["check", "data"]);
}

#[test]
fn no_acknowledged_write_is_lost_to_a_kill() {
    kill_again_and_again(&Home::in_memory(), "indexlog", 1, rounds(20), 80);
}

#[test]
fn no_acknowledged_write_on_several_threads_is_lost_to_a_kill() {
    kill_again_and_again(&Home::in_memory(), "indexlog", 3, rounds(20), 80);
}

#[test]
fn no_acknowledged_write_to_an_ordinary_file_is_lost_to_a_kill() {
    kill_again_and_again(&Home::new(), "indexlog", 2, rounds(20).div_ceil(5), 200);
}

#[test]
fn no_acknowledged_write_to_memtables_that_persist_is_lost_to_a_kill() {
    kill_again_and_again(&Home::in_memory(), "lsm", 1, rounds(20), 80);
}

#[test]
fn no_acknowledged_write_to_memtables_of_several_threads_is_lost_to_a_kill() {
    kill_again_and_again(&Home::in_memory(), "lsm", 3, rounds(20), 80);
}

#[test]
fn no_acknowledged_write_to_a_log_beside_tables_is_lost_to_a_kill() {
    kill_again_and_again(&Home::new(), "lsm", 2, rounds(20).div_ceil(5), 200);
}
