//! Histories across kills: a process runs transactions until SIGKILL ends it; another opens its database and goes on.
//! Acknowledged transactions are there, others whole or not at all, and all of them together are one history that
//! conforms to its isolation.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use halite::{Database, Durability, ENGINES, Partitioning};
use halite_lab::Random;
use halite_lab::isolation::{History, Op, Outcome, Recorder, Running, Transaction};

use crate::lists::Lists;
use crate::{WAYS, is_clean, options};

/// Where the child finds its database, the number of its round, and the engine.
const FOLDER: &str = "HALITE_ISOLATION_FOLDER";
const ROUND: &str = "HALITE_ISOLATION_ROUND";
const ENGINE: &str = "HALITE_ISOLATION_ENGINE";

const ROUNDS: u64 = 8;
const THREADS: u64 = 3;
const KEYS: u64 = 5;

/// Returns the first moment of a round: later than the last of the round before can be.
fn first_moment(round: u64) -> u64 {
    round << 32
}

fn open(folder: &Path, engine: &str) -> Lists {
    let builder =
        Database::builder().engine(engine).partitioning(Partitioning::Hash(3)).max_size(256 << 20);
    Lists::new(builder.open(folder.join("db")).expect("what was killed opens"), KEYS)
}

fn log(folder: &Path) -> File {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log"));
    log.expect("a file for the history")
}

/// Writes a line with an end: it is there when this returns, even if the process is killed, and a part of it
/// is not taken for it.
fn tell(log: &mut File, line: &str) {
    log.write_all(format!("\n{line} end\n").as_bytes()).expect("room for a line");
}

/// The child's work until it is killed. A line before each commit holds the transaction, and one after it the outcome.
#[test]
fn child() {
    let [Ok(folder), Ok(round), Ok(engine)] = [FOLDER, ROUND, ENGINE].map(std::env::var) else {
        return;
    };
    let (folder, round) = (Path::new(&folder), round.parse().expect("a number"));
    let lists = open(folder, &engine);
    let recorder = Recorder::from_time(first_moment(round));
    tell(&mut log(folder), "open");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (lists, recorder) = (&lists, &recorder);
            scope.spawn(move || {
                let mut log = log(folder);
                let mut random = Random::of(&[round, thread]);
                for number in 0_u64.. {
                    let (isolation, locking, _) = WAYS[2 + random.index(2)];
                    let steps = lists.draw(&mut random);
                    let id = (round << 40) | (thread << 36) | (number << 8);
                    let mut running = None;
                    let before_commit = |at: &Running| {
                        tell(&mut log, &format!("{id} {}", at.unknown()));
                        running = Some(at.clone());
                    };
                    let hooks = (std::thread::yield_now, before_commit);
                    let way = options(isolation, locking);
                    let immediate = Durability::Immediate;
                    let outcome = lists.run(&way, immediate, &steps, id + 1.., recorder, hooks);
                    if let Some(running) = running {
                        tell(&mut log, &format!("{id} {}", recorder.end(running, outcome)));
                    }
                }
            });
        }
    });
}

/// The history that the children wrote down. The later line of a transaction counts.
fn history(folder: &Path) -> History {
    let text = std::fs::read_to_string(folder.join("log")).expect("a history");
    let mut transactions = std::collections::BTreeMap::<u64, Transaction>::new();
    for line in text.lines() {
        let Some(line) = line.strip_suffix(" end") else { continue };
        let Some((id, transaction)) = line.split_once(' ') else { continue };
        let (id, transaction) = (id.parse().expect("a number"), transaction.parse());
        transactions.insert(id, transaction.expect("a whole line"));
    }
    transactions.into_values().collect()
}

/// Lets a child run transactions, kills it, and reads its database. Returns the history so far.
fn round(folder: &Path, engine: &str, round: u64, delay: Duration) -> History {
    let recorded = || std::fs::metadata(folder.join("log")).map_or(0, |log| log.len());
    let before = recorded();
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed::child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .env(ENGINE, engine)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    // It has begun to run transactions, and goes on for a while.
    while recorded() < before + 2_000 {
        assert!(child.try_wait().expect("a child").is_none(), "the child ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(delay);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    // Between two rounds all lists are read: their contents now must stay.
    let recorder = Recorder::from_time(first_moment(round + 1) - (1 << 16));
    open(folder, engine).read_all(&recorder);
    for (number, transaction) in (0..).zip(recorder.history().iter()) {
        let id = (round << 40) | (15 << 36) | number;
        tell(&mut log(folder), &format!("{id} {transaction}"));
    }
    history(folder)
}

fn count(history: &History, outcome: Outcome) -> usize {
    history.iter().filter(|transaction| transaction.outcome == outcome).count()
}

#[test]
fn histories_across_kills_lose_nothing_that_was_acknowledged() {
    let rounds = std::env::var("HALITE_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u64 = rounds.unwrap_or(ROUNDS);
    let mut random = Random::of(&[rounds]);
    let (mut done, mut committed, mut unknown) = (0, 0, 0);
    // Until a kill came between a commit and its acknowledgement, too.
    while done < rounds.max(ENGINES.len() as u64 * ROUNDS) || unknown == 0 {
        assert!(done < rounds + 100, "no kill came while a transaction was committed");
        let shared = Path::new("/dev/shm");
        let folder = tempfile::tempdir_in(if shared.is_dir() { shared } else { Path::new(".") });
        let folder = folder.expect("a folder");
        let mut all = History::default();
        let engine = ENGINES[(done / ROUNDS) as usize % ENGINES.len()];
        for number in 1..=ROUNDS {
            all = round(folder.path(), engine, number, Duration::from_millis(random.below(40)));
            println!("{engine}, round {number}");
            is_clean(&all, WAYS[2].2);
        }
        done += ROUNDS;
        committed += count(&all, Outcome::Committed);
        unknown += count(&all, Outcome::Unknown);
        without_an_append(all);
    }
    println!("{committed} committed, {unknown} unknown");
    assert!(committed > 100);
}

/// The check can fail: with one acknowledged append gone from the end, it does.
fn without_an_append(mut history: History) {
    let last = history.iter().filter(|of| of.outcome == Outcome::Committed).last();
    let mut without = last.expect("the last read").clone();
    let list = without.ops.iter_mut().find_map(|op| match op {
        Op::Read(_, list) if !list.is_empty() => Some(list),
        _ => None,
    });
    list.expect("a list with elements").pop();
    (without.begun, without.ended) = (without.ended + 1, without.ended + 2);
    history.push(without);
    assert!(!history.check(WAYS[2].2).is_empty());
}
