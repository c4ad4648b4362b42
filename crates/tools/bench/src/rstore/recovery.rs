//! Recovery: a loaded server is killed (`kill -9`), or asked to end, and started again on its files.
//!
//! `first-answer` is the time from the start of the process to the first right answer to a GET. `all-answers` is the
//! time until GETs of keys all over the key space are answered, so that each partition has answered, however the keys
//! are divided. A connection has one request at a time, so that no key waits for another one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::fleet::{Fleet, with};
use super::load::{Operations, Workload};
use super::server::{Server, Subject, Talk};
use halite_resp_client::Reply;

use crate::kv::records::{KeyForm, Records};
use crate::mix::mix;
use crate::{Contender, Error, Result, Run, Sample};

const NAME: &str = "rstore.recovery";

const RECORDS: u64 = 10_000_000;
const RECORDS_QUICK: u64 = 20_000;

const VALUE_LEN: usize = 100;

/// Connections that send requests, and the keys of each.
const ASKING: u64 = 16;
const KEYS: u64 = 8;

/// How often a refused connection tries again.
const NAP: Duration = Duration::from_millis(1);

/// Repeats at most: a server reads all of its records in each.
const REPEATS_MAX: u32 = 2;

const ENDS: [(&str, bool); 2] = [("killed", true), ("stopped", false)];

/// Returns the servers that come back with their records. Redis' log is the same however it is synced: one of them
/// suffices.
fn subjects(fleet: &Fleet) -> Vec<&Subject> {
    let has = |name: &str| fleet.subjects.iter().any(|subject| subject.name() == name);
    let is_twin = |subject: &Subject| subject.name() == "redis-everysec" && has("redis-always");
    fleet.subjects.iter().filter(|subject| subject.is_durable() && !is_twin(subject)).collect()
}

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    (ENDS.len() * subjects(fleet).len()) as u64 * u64::from(run.options.repeats.min(REPEATS_MAX))
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    let seed = run.options.seed;
    let operations = Operations::Insert { from: 0 };
    let workload = Workload { records, value_len: VALUE_LEN, operations, seed };
    let mut servers = fleet.start(&subjects(fleet), &workload, NAME, run)?;
    let repeats = run.options.repeats;
    run.options.repeats = repeats.min(REPEATS_MAX);
    let outcome = compare(fleet, &mut servers, &workload, run);
    run.options.repeats = repeats;
    outcome
}

fn compare(
    fleet: &Fleet,
    servers: &mut [Server],
    workload: &Workload,
    run: &mut Run<'_>,
) -> Result<()> {
    let interrupted = run.interrupted();
    for (ended, is_killed) in ENDS {
        let mut contenders = Vec::new();
        for server in servers.iter_mut() {
            let (name, params) = (server.subject.name(), fleet.own_params(server));
            let measure = move || restarted(server, is_killed, workload, interrupted);
            contenders.push(Contender { params, ..Contender::new(name, measure) });
        }
        let params = with(&fleet.params(workload.records, VALUE_LEN), "ended", ended);
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// Ends the server, starts it, and tells how long it took to answer.
fn restarted(
    server: &mut Server,
    is_killed: bool,
    workload: &Workload,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let begin = server.restart(is_killed)?;
    let (first_ns, stop) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
    let wrong = Mutex::new(None);
    let addr = server.target.addr;
    let outcome = thread::scope(|scope| {
        let handles: Vec<_> = (0..ASKING)
            .map(|asking| {
                let (first_ns, stop, wrong) = (&first_ns, &stop, &wrong);
                scope.spawn(move || {
                    let mut records = Records::new(KeyForm::Padded, VALUE_LEN, workload.seed);
                    let mut talk = None;
                    for key in 0..KEYS {
                        let number = mix(asking * KEYS + key) % workload.records;
                        let mut answer = None;
                        while answer.is_none() && !stop.load(Relaxed) {
                            answer = asked(&mut talk, addr, records.key(number));
                        }
                        let Some(answer) = answer else { return };
                        first_ns.fetch_min(begin.elapsed().as_nanos() as u64, Relaxed);
                        let right = match &answer {
                            Reply::Bulk(value) => {
                                records.version(records.last_key(), value).is_some()
                            }
                            _ => false,
                        };
                        if !right {
                            let mut wrong = wrong.lock().unwrap_or_else(|e| e.into_inner());
                            *wrong = Some(number);
                            stop.store(true, Relaxed);
                        }
                    }
                })
            })
            .collect();
        let mut outcome = Ok(());
        while handles.iter().any(|handle| !handle.is_finished()) {
            if outcome.is_ok() {
                outcome = if interrupted.load(Relaxed) {
                    Err(Error::Interrupted)
                } else {
                    server.check()
                };
                stop.fetch_or(outcome.is_err(), Relaxed);
            }
            thread::sleep(NAP / 2);
        }
        outcome.map(|()| begin.elapsed())
    });
    let all = outcome?;
    let wrong_answer = |why| Error::WrongAnswer { store: server.subject.name().to_owned(), why };
    if let Some(number) = *wrong.lock().unwrap_or_else(|e| e.into_inner()) {
        return Err(wrong_answer(format!("record {number} is missing or changed after a restart")));
    }
    let failed = |source| server.network("count its records", source);
    let found = server.talk()?.text(&["DBSIZE"]).map_err(failed)?;
    if found != workload.records.to_string() {
        let records = workload.records;
        return Err(wrong_answer(format!("{found} of {records} records after a restart")));
    }
    Ok(vec![
        Sample::new("first-answer", "ns", first_ns.load(Relaxed) as f64),
        Sample::new("all-answers", "ns", all.as_nanos() as f64),
    ])
}

/// The answer to a GET; `None` if the server is not there yet, or replies that it is loading.
fn asked(talk: &mut Option<Talk>, addr: std::net::SocketAddr, key: &[u8]) -> Option<Reply> {
    if talk.is_none() {
        *talk = Talk::open(addr).ok();
    }
    let answer = talk.as_mut().and_then(|talk| talk.ask(&[b"GET", key]).ok());
    match answer {
        None => *talk = None,
        Some(Reply::Error(error)) if error.starts_with("LOADING") => {}
        Some(answer) => return Some(answer),
    }
    thread::sleep(NAP);
    None
}
