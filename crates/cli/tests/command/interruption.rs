//! SIGINT and SIGTERM in the middle of every command that may take long: it ends by itself with the exit code that the
//! help has, says so in one line, and leaves nothing half made.
//!
//! How soon it ends is not judged here, but that it does: a machine that stands still takes its time.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::run::{Home, signal};

/// What is in a folder.
fn names(home: &Home) -> BTreeSet<String> {
    let entries = fs::read_dir(home.path(".")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Waits for a process that was told to end. It is lenient: what it finds is a command that never ends.
fn wait(mut child: Child, args: &[&str]) -> (Option<i32>, String) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{args:?} does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A database of which a dump fills any pipe, and a backup of it.
fn prepare(home: &Home) {
    let line = |number: u32| format!("key {number}\t{}\n", "v".repeat(60_000));
    home.file("records.tsv", (0..20).map(line).collect::<String>());
    home.ok(&["load", "data", "records.tsv", "--change-log", "16MiB"]);
    home.ok(&["backup", "data", "whole.backup"]);
}

/// Starts commands side by side, lets each run until it catches signals, and sends one. Nobody reads what they print, or
/// writes what they read.
fn interrupt_all(commands: &[&[&str]]) {
    let homes: Vec<_> = commands.iter().map(|_| Home::in_memory()).collect();
    for at in (0..commands.len()).step_by(4) {
        let (homes, commands) = (&homes[at..], &commands[at..]);
        let started: Vec<_> = homes
            .iter()
            .zip(commands)
            .zip([Signal::INT, Signal::TERM].into_iter().cycle())
            .take(4)
            .map(|((home, args), sent)| {
                prepare(home);
                let before = names(home);
                let mut command = home.command(args);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().unwrap();
                let input = child.stdin.take();
                signal(&child, sent);
                (home, args, before, child, input)
            })
            .collect();
        for (home, args, before, child, input) in started {
            let (code, err) = wait(child, args);
            drop(input);
            assert_eq!(code, Some(130), "{args:?}: {err}");
            // The bench may have said which servers there are not.
            let last = err.lines().last().unwrap_or_default();
            assert!(last.starts_with("halite: interrupted"), "{args:?}: {err}");
            assert_eq!(names(home), before, "{args:?}");
            home.ok(&["check", "data"]);
        }
    }
}

#[test]
fn commands_on_a_database_end() {
    interrupt_all(&[
        &["load", "data", "-"],
        &["dump", "data"],
        &["scan", "data"],
        &["tail", "data"],
        &["dump", "data", "/dev/stdout"],
        &["load", "data", "-", "--format", "jsonl"],
    ]);
}

#[test]
fn the_lab_ends() {
    interrupt_all(&[
        &["lab", "crash", "--budget", "1h"],
        &["lab", "crash", "--budget", "1h", "--engine", "lsm"],
        &["lab", "mutate", "--budget", "1h"],
        &["lab", "mutate", "--budget", "1h", "--engine", "lsm"],
        &["lab", "media", "--budget", "1h"],
        &["lab", "media", "--budget", "1h", "--engine", "lsm"],
        &["lab", "crash", "--budget", "1h", "--engine", "blocks"],
        &["lab", "crash", "--budget", "1h", "--rules", "failing-syncs"],
    ]);
}

#[test]
fn the_bench_ends() {
    interrupt_all(&[
        &["bench", "kv", "--seconds", "600", "--records", "1000", "--folder", "."],
        &["bench", "device", "--repeats", "1000", "--folder", "."],
        &["bench", "blocks", "--repeats", "1000", "--folder", "."],
        &["bench", "lsm", "--repeats", "100", "--only", "commit", "--folder", "."],
        &["bench", "rstore", "--seconds", "600", "--only", "throughput", "--folder", "."],
        &["bench", "soak", "--minutes", "10", "--folder", "."],
    ]);
}

/// These may be done before they notice: then all is there, and otherwise nothing.
#[test]
fn what_is_written_is_whole_or_not_there() {
    for sent in [Signal::INT, Signal::TERM] {
        for (args, file) in [
            (&["dump", "data", "new.tsv"][..], "new.tsv"),
            (&["backup", "data", "new.backup"], "new.backup"),
            (&["restore", "copy", "whole.backup"], "copy"),
            (&["check", "data"], "data"),
            (&["check", "whole.backup"], "data"),
            (&["repair", "levelled"], "levelled"),
        ] {
            let home = Home::in_memory();
            prepare(&home);
            home.ok(&["load", "levelled", "records.tsv", "--engine", "lsm"]);
            let mut left = names(&home);
            let mut command = home.command(args);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            signal(&child, sent);
            let (code, err) = wait(child, args);
            match code {
                Some(0) => drop(left.insert(file.to_owned())),
                code => assert_eq!(code, Some(130), "{args:?}: {err}"),
            }
            let mut found = names(&home);
            if args[0] == "restore" && code != Some(0) {
                // The folder of the database may be there, and nothing in it.
                assert!(!home.path("copy/pool.halite").exists(), "{args:?}");
                found.remove("copy");
            }
            assert_eq!(found, left, "{args:?}: {err}");
            home.ok(&["check", "data"]);
            home.ok(&["check", "levelled"]);
        }
    }
}

/// A dump replaces a file when it is complete, and not before.
#[test]
fn an_interrupted_dump_leaves_the_one_before() {
    let home = Home::in_memory();
    prepare(&home);
    home.file("dump.tsv", "before");
    let mut command = home.command(&["dump", "data", "dump.tsv"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    signal(&child, Signal::INT);
    let (code, err) = wait(child, &["dump"]);
    let dumped = fs::read_to_string(home.path("dump.tsv")).unwrap();
    match code {
        Some(130) => assert_eq!(dumped, "before", "{err}"),
        code => {
            assert_eq!(code, Some(0), "{err}");
            assert_eq!(dumped, fs::read_to_string(home.path("records.tsv")).unwrap());
        }
    }
    assert!(!home.path("dump.tsv.part").exists());
    home.ok(&["dump", "data", "dump.tsv"]);
    assert!(fs::metadata(home.path("dump.tsv")).unwrap().len() > 1_000_000);
}
