//! Servers under load: the load generator on servers that misbehave, and the experiments on a server that
//! this test is itself.

mod fake;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halite_bench::kv::Distribution;
use halite_bench::rstore::load::{
    Clients, Measured, Operations, Pace, Protocol, Target, Workload, drive, insert,
};
use halite_bench::rstore::{RstoreOptions, rstore};
use halite_bench::{Error, Result, Row, Run, RunOptions, Watch};

use fake::Fault;

static NEVER: AtomicBool = AtomicBool::new(false);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "serve") {
        return fake::program(&arguments[..place], &arguments[place + 1..]);
    }
    let tests: [(&str, fn()); 12] = [
        ("requests_have_the_keys_values_and_ratio", requests_have_the_keys_values_and_ratio),
        ("both_protocols_insert_and_read_back", both_protocols_insert_and_read_back),
        ("pipelines_and_threads_answer_every_request", pipelines_and_threads_answer_every_request),
        ("a_stall_is_charged_to_all_that_waited", a_stall_is_charged_to_all_that_waited),
        ("a_schedule_is_kept_and_not_exceeded", a_schedule_is_kept_and_not_exceeded),
        ("wrong_replies_end_the_run_by_name", wrong_replies_end_the_run_by_name),
        ("what_is_no_reply_is_an_error", what_is_no_reply_is_an_error),
        ("every_experiment_has_rows", every_experiment_has_rows),
        ("a_server_that_is_missing_is_left_out_or_an_error", missing_servers),
        ("a_server_that_does_not_come_up_is_an_error", servers_that_do_not_come_up),
        ("lost_records_are_found_after_a_restart", lost_records_are_found_after_a_restart),
        ("an_interrupt_keeps_what_was_measured", an_interrupt_keeps_what_was_measured),
    ];
    let chosen = |name: &str| {
        let names: Vec<_> = arguments.iter().filter(|name| !name.starts_with('-')).collect();
        names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
    };
    for (name, test) in tests.into_iter().filter(|(name, _)| chosen(name)) {
        test();
        println!("test {name} ... ok");
    }
}

const CLIENTS: Clients = Clients { threads: 1, connections: 4, pipeline: 1 };

/// A server in a thread of this process.
fn target(protocol: Protocol, fault: Option<Fault>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr: SocketAddr = listener.local_addr().unwrap();
    std::thread::spawn(move || fake::serve(&listener, fault, None));
    Target { name: "fake".to_owned(), addr, protocol }
}

fn workload(mix: &str) -> Workload {
    let (mix, distribution) = (mix.parse().unwrap(), Distribution::Uniform);
    let operations = Operations::Mix { mix, distribution };
    Workload { records: 500, value_len: 100, operations, seed: 7 }
}

fn loaded(target: &Target) -> Measured {
    insert(target, &workload("read=1"), 0, CLIENTS, &NEVER).unwrap()
}

fn requests_have_the_keys_values_and_ratio() {
    let target = target(Protocol::Resp, None);
    assert_eq!(loaded(&target).operations, 500);
    let before = fake::counted();
    let workload = workload("read=90,update=10");
    drive(&target, &workload, CLIENTS, Pace::Operations(20_000), &NEVER).unwrap();
    let after = fake::counted();
    let (gets, puts) = (after.gets - before.gets, after.puts - before.puts);
    assert_eq!(gets + puts, 20_000);
    assert!((0.88..0.92).contains(&(gets as f64 / 20_000.0)), "{gets}");
    // `user` and 20 digits.
    assert_eq!((after.keys_of_another_form, after.values_of_another_length), (0, 0));
}

fn both_protocols_insert_and_read_back() {
    for protocol in [Protocol::Resp, Protocol::Memcached] {
        let target = target(protocol, None);
        loaded(&target);
        let pace = Pace::Operations(2_000);
        let measured = drive(&target, &workload("read=1"), CLIENTS, pace, &NEVER).unwrap();
        assert_eq!(measured.operations, 2_000);
        assert!(measured.latency_ns("get", 0.5).unwrap() > 0);
        assert_eq!(measured.latency_ns("put", 0.5), None);
    }
}

fn pipelines_and_threads_answer_every_request() {
    let target = target(Protocol::Resp, None);
    loaded(&target);
    for (threads, connections, pipeline) in [(1, 1, 64), (2, 5, 16), (8, 3, 1)] {
        let clients = Clients { threads, connections, pipeline };
        let (workload, pace) = (workload("read=50,update=50"), Pace::Operations(5_001));
        let measured = drive(&target, &workload, clients, pace, &NEVER).unwrap();
        assert_eq!((measured.operations, measured.unanswered), (5_001, 0));
        let samples = measured.samples();
        assert!(samples.iter().any(|sample| sample.metric == "latency-p99.9"));
    }
}

fn a_stall_is_charged_to_all_that_waited() {
    let time = Duration::from_millis(800);
    let p90 = |pace| {
        let target = target(Protocol::Resp, Some(Fault::Stalls));
        let measured = drive(&target, &workload("update=1"), CLIENTS, pace, &NEVER).unwrap();
        (measured.latency_ns("put", 0.9).unwrap(), measured)
    };
    // One of the 500 first puts takes 400 ms. A closed loop notes four long latencies, for its four
    // connections; of the requests on a schedule, half were due while the server stalled.
    let (closed, _) = p90(Pace::Closed(time));
    let (open, measured) = p90(Pace::Open { rate: 2_000, time });
    assert!(open > 100_000_000 && closed < open / 2, "{closed} {open}");
    assert_eq!(measured.unanswered, 0);
}

fn a_schedule_is_kept_and_not_exceeded() {
    let target = target(Protocol::Resp, None);
    let clients = Clients { threads: 2, connections: 4, pipeline: 1 };
    let pace = Pace::Open { rate: 1_000, time: Duration::from_millis(600) };
    let measured = drive(&target, &workload("update=1"), clients, pace, &NEVER).unwrap();
    // The time with the warm-up is 660 ms.
    assert_eq!((measured.all_operations, measured.unanswered), (660, 0));
}

fn wrong_replies_end_the_run_by_name() {
    for (fault, protocol, mix, said) in [
        (Fault::IsFull, Protocol::Resp, "update=1", "`-OOM no room`"),
        (Fault::IsFull, Protocol::Memcached, "update=1", "`SERVER_ERROR no room`"),
        (Fault::LosesRecords, Protocol::Resp, "read=1", "no such record"),
        (Fault::LosesRecords, Protocol::Memcached, "read=1", "no such record"),
        (Fault::CutsValues, Protocol::Resp, "read=1", "another value, of 99 bytes"),
        (Fault::MixesRecords, Protocol::Resp, "read=1", "another value, of 100 bytes"),
    ] {
        let target = target(protocol, Some(fault));
        if mix == "read=1" {
            loaded(&target);
        }
        let pace = Pace::Operations(5_000);
        let outcome = drive(&target, &workload(mix), CLIENTS, pace, &NEVER);
        let error = outcome.err().expect("an error");
        assert!(matches!(error, Error::Replies { .. }), "{fault:?}: {error}");
        let text = error.to_string();
        assert!(text.starts_with("fake: ") && text.contains(said), "{fault:?}: {text}");
    }
}

fn what_is_no_reply_is_an_error() {
    for (fault, said) in [
        (Fault::SendsGarbage, "no reply"),
        (Fault::AnswersTwice, "nobody asked for"),
        (Fault::Hangs, "cannot receive a reply"),
    ] {
        let target = target(Protocol::Resp, Some(fault));
        let pace = Pace::Operations(5_000);
        let outcome = drive(&target, &workload("update=1"), CLIENTS, pace, &NEVER);
        let text = outcome.err().expect("an error").to_string();
        assert!(text.starts_with("fake: cannot receive") && text.contains(said), "{text}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = Target { name: "gone".into(), addr: gone, protocol: Protocol::Resp };
    let clients = Clients { threads: 3, ..CLIENTS };
    let outcome = drive(&target, &workload("read=1"), clients, Pace::Operations(1), &NEVER);
    let text = outcome.err().expect("an error").to_string();
    assert!(text.starts_with("gone: cannot connect"), "{text}");
}

/// A program that is this test with a fault.
fn program(folder: &Path, fault: &str) -> PathBuf {
    let file = folder.join(format!("halite-{fault}"));
    let this = std::env::current_exe().unwrap();
    fs::write(&file, format!("#!/bin/sh\nexec {} {fault} \"$@\"\n", this.display())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn options(halite_bin: PathBuf) -> RstoreOptions {
    RstoreOptions {
        subjects: vec!["halite".to_owned()],
        records: Some(400),
        seconds: Some(Duration::from_millis(200)),
        connections: 4,
        rate: 2_000,
        pool_bytes: Some(16 << 20),
        halite_bin: Some(halite_bin),
        ..RstoreOptions::default()
    }
}

fn run(
    options: &RstoreOptions,
    only: &[&str],
    watch: &dyn Watch,
    interrupted: &AtomicBool,
) -> (Result<()>, Vec<Row>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let run_options = RunOptions {
        folder: folder.path().to_owned(),
        quick: true,
        repeats: 1,
        seed: 1,
        profile: None,
    };
    let mut run = Run::new(run_options, watch, interrupted);
    let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
    let outcome = rstore(options, &only, &mut run);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "folders are left");
    (outcome, run.into_rows())
}

fn count(rows: &[Row], experiment: &str, metric: &str) -> usize {
    let of = |row: &&Row| row.experiment == experiment && row.metric == metric;
    let rows = rows.iter().filter(of);
    rows.inspect(|row| assert!(row.value.is_finite() && row.value >= 0.0, "{row:?}")).count()
}

fn every_experiment_has_rows() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(program(folder.path(), "sound"));
    let (outcome, rows) = run(&options, &[], &(), &NEVER);
    outcome.unwrap();
    for (experiment, metric, expected) in [
        ("rstore.subject", "measured", 1),
        ("rstore.throughput", "throughput", 12),
        ("rstore.throughput", "latency-p99.9", 12),
        ("rstore.throughput", "client-busy", 12),
        ("rstore.throughput", "fences", 12),
        ("rstore.capacity", "throughput", 1),
        ("rstore.tail", "get-p99.99", 4),
        ("rstore.tail", "put-p50", 4),
        ("rstore.tail", "send-delay-p99.9", 4),
        ("rstore.gc", "throughput", 8),
        ("rstore.gc-tail", "put-p99.9", 4),
        // Rows of the server, and of the limit.
        ("rstore.gc-amplification", "collection-amplification", 6),
        ("rstore.gc-amplification", "write-amplification", 3),
        ("rstore.gc-cost", "throughput-drop", 4),
        ("rstore.gc-cost", "tail-growth", 2),
        ("rstore.recovery", "first-answer", 2),
        ("rstore.recovery", "all-answers", 2),
        // Rows of each index.
        ("rstore.memory", "dram", 6),
        ("rstore.memory", "storage", 6),
        ("rstore.memory", "cost", 6),
        ("rstore.scans", "keys", 5),
        ("rstore.scaling", "throughput", 2),
        ("rstore.prefetch", "time", 40),
        ("rstore.ranges", "pairs", 10),
    ] {
        // A drop may be below zero.
        let found = if metric == "throughput-drop" {
            rows.iter().filter(|row| row.metric == metric).count()
        } else {
            count(&rows, experiment, metric)
        };
        assert_eq!(found, expected, "{experiment} {metric}");
    }
    let of_servers = |row: &&Row| {
        row.subject == "halite" && row.unit != "bool" && row.experiment != "rstore.ranges"
    };
    for row in rows.iter().filter(of_servers) {
        assert!(row.params["durability"].as_str().unwrap().contains("--sync always"), "{row:?}");
    }
    let costs: Vec<_> =
        rows.iter().filter(|row| row.metric == "cost").map(|row| row.source).collect();
    // The costs of other indexes are not in the thesis.
    assert_eq!(costs, [Some(98.0), None, None, Some(227.0), None, None]);
    let all = rows.iter().filter(|row| row.metric == "all-answers").map(|row| row.value);
    let first = rows.iter().filter(|row| row.metric == "first-answer").map(|row| row.value);
    assert!(first.zip(all).all(|(first, all)| first <= all));
}

fn missing_servers() {
    // Beside this test there is no `halite`.
    let here = |subjects: &[&str]| RstoreOptions {
        subjects: subjects.iter().map(|name| (*name).to_owned()).collect(),
        halite_bin: None,
        ..options(PathBuf::new())
    };
    let (outcome, rows) = run(&here(&[]), &["gc"], &(), &NEVER);
    outcome.unwrap();
    for (name, option) in [("halite", "--halite-bin"), ("rocksdb", "--peers-bin")] {
        let row = rows.iter().find(|row| row.subject == name).unwrap();
        assert_eq!((row.metric.as_str(), row.value), ("measured", 0.0));
        let why = row.params["left-out"].as_str().unwrap();
        assert!(why.starts_with("there is no ") && why.contains(option), "{why}");
    }
    assert!(rows.iter().all(|row| row.experiment == "rstore.subject"), "{rows:?}");

    let (outcome, _) = run(&here(&["halite"]), &["gc"], &(), &NEVER);
    let text = outcome.unwrap_err().to_string();
    assert!(text.starts_with("halite: ") && text.contains("--halite-bin"), "{text}");
    let (outcome, _) = run(&options("/nowhere/halite".into()), &["gc"], &(), &NEVER);
    assert!(matches!(outcome, Err(Error::Wrong { option: "--halite-bin", .. })), "{outcome:?}");
}

fn servers_that_do_not_come_up() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = run(&options(program(folder.path(), "ends")), &["throughput"], &(), &NEVER);
    let text = outcome.unwrap_err().to_string();
    for part in ["halite: cannot serve", "it ended", "no luck today"] {
        assert!(text.contains(part), "{text}");
    }
    let file = folder.path().join("no-program");
    fs::write(&file, "text").unwrap();
    let (outcome, _) = run(&options(file), &["throughput"], &(), &NEVER);
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("halite: cannot serve") && text.contains("no-program"), "{text}");
}

fn lost_records_are_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(program(folder.path(), "forgets"));
    let (outcome, _) = run(&options, &["recovery"], &(), &NEVER);
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::WrongAnswer { .. }), "{error}");
}

/// Asks the run to stop when so many measurements are done.
struct Stop(u64, AtomicBool);

impl Watch for Stop {
    fn step(&self, done: u64, _: u64, _: &str) {
        self.1.fetch_or(done >= self.0, Ordering::Relaxed);
    }
}

fn an_interrupt_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(program(folder.path(), "sound"));
    let stop = Stop(2, AtomicBool::new(false));
    let (outcome, rows) = run(&options, &["throughput"], &stop, &stop.1);
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
    assert_eq!(count(&rows, "rstore.throughput", "throughput"), 2);
}
