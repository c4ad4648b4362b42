//! SIGINT and SIGTERM in the middle of every command that may take long: it ends by itself with the exit code that the
//! help has, says so in one line, and leaves nothing half made, and no process.
//!
//! How soon it ends is not judged here, but that it does: a machine that stands still takes its time.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::middle::Middle::{self, ChildWorked, Made, Printed, Worked};
use crate::middle::{children, runs, signal_twice};
use crate::run::{Home, signal};

/// The names in a folder.
fn names(home: &Home) -> BTreeSet<String> {
    let entries = fs::read_dir(home.path(".")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Waits for a process that was told to end. It is lenient: it is to find a command that never ends.
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
    prepare_records(home, 20);
}

/// Does as [`prepare`], with so many records.
fn prepare_records(home: &Home, count: u32) {
    let line = |number: u32| format!("key {number}\t{}\n", "v".repeat(60_000));
    home.file("records.tsv", (0..count).map(line).collect::<String>());
    home.ok(&["load", "data", "records.tsv", "--change-log", "16MiB"]);
    home.ok(&["backup", "data", "whole.backup"]);
}

/// Checks how an interrupted command has ended, and that its folder has the same names as `before`.
fn expect_interrupted(home: &Home, args: &[&str], child: Child, before: &BTreeSet<String>) {
    let (code, err) = wait(child, args);
    // Damage that a store does not notice is not judged here.
    let has_found = args.contains(&"media") && code == Some(5);
    if !has_found {
        assert_eq!(code, Some(130), "{args:?}: {err}");
        // The bench may have said which servers there are not.
        let last = err.lines().last().unwrap_or_default();
        assert!(last.starts_with("halite: interrupted"), "{args:?}: {err}");
    }
    assert_eq!(names(home), *before, "{args:?}");
    home.ok(&["check", "data"]);
}

/// Starts commands side by side, lets each come to the middle of its work, and sends a signal. The test neither reads
/// their output nor writes their input meanwhile.
fn interrupt_all(commands: &[(&[&str], Middle)]) {
    let homes: Vec<_> = commands.iter().map(|_| Home::in_memory()).collect();
    for at in (0..commands.len()).step_by(4) {
        let (homes, commands) = (&homes[at..], &commands[at..]);
        let started: Vec<_> = homes
            .iter()
            .zip(commands)
            .zip([Signal::INT, Signal::TERM].into_iter().cycle())
            .take(4)
            .map(|((home, (args, middle)), sent)| {
                prepare(home);
                let before = names(home);
                let mut command = home.command(args);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().unwrap();
                let input = child.stdin.take();
                assert!(middle.wait(home, &mut child));
                let of_child = children(child.id());
                signal(&child, sent);
                (home, args, before, child, input, of_child)
            })
            .collect();
        for (home, args, before, child, input, of_child) in started {
            expect_interrupted(home, args, child, &before);
            drop(input);
            assert!(!of_child.into_iter().any(runs), "{args:?}: a process is left");
        }
    }
}

/// Bytes that nearly fill a pipe that nothing reads.
const PIPE: Middle = Printed(60_000);

#[test]
fn commands_on_a_database_end() {
    interrupt_all(&[
        (&["dump", "data"], PIPE),
        (&["scan", "data"], PIPE),
        (&["tail", "data"], PIPE),
        (&["dump", "data", "/dev/stdout"], PIPE),
    ]);
}

/// A load keeps the lines that it has read, and waits for the rest.
#[test]
fn a_load_ends_in_the_middle_of_its_input() {
    for (format, sent) in [("tsv", Signal::INT), ("jsonl", Signal::TERM)] {
        let home = Home::in_memory();
        prepare(&home);
        let before = names(&home);
        let args = ["load", "data", "-", "--format", format];
        let mut command = home.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        for number in 0..100 {
            let (key, value) = (format!("new {number}"), "v".repeat(60_000));
            let line = match format {
                "tsv" => format!("{key}\t{value}\n"),
                _ => format!("{{\"key\": \"{key}\", \"value\": \"{value}\"}}\n"),
            };
            // Most of it was read when the last is in the pipe.
            input.write_all(line.as_bytes()).unwrap();
        }
        signal(&child, sent);
        expect_interrupted(&home, &args, child, &before);
        drop(input);
        assert_eq!(home.text(&["get", "data", "key 7"]).len(), 60_000);
        assert_eq!(home.text(&["get", "data", "new 7"]).len(), 60_000);
    }
}

/// The command notices the signal, and then waits for its reader, to write the rest of its output.
#[test]
fn what_has_noticed_a_signal_waits_for_no_reader() {
    for args in [["scan", "data"], ["dump", "data"], ["tail", "data"]] {
        let home = Home::in_memory();
        let line = |number: u32| format!("key {number}\tvalue\n");
        home.file("records.tsv", (0..50_000).map(line).collect::<String>());
        home.ok(&["load", "data", "records.tsv", "--change-log", "16MiB"]);
        let before = names(&home);
        let mut command = home.command(&args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert!(PIPE.wait(&home, &mut child));
        signal(&child, Signal::INT);
        // The command is told meanwhile; if not, it is found where it writes.
        thread::sleep(Duration::from_millis(100));
        let out = child.stdout.as_mut().unwrap();
        out.read_exact(&mut [0; 60_000]).unwrap();
        expect_interrupted(&home, &args, child, &before);
    }
}

#[test]
fn the_lab_ends() {
    let middle = Worked(50);
    interrupt_all(&[
        (&["lab", "crash", "--budget", "1h"], middle),
        (&["lab", "crash", "--budget", "1h", "--engine", "lsm"], middle),
        (&["lab", "mutate", "--budget", "1h"], middle),
        (&["lab", "mutate", "--budget", "1h", "--engine", "lsm"], middle),
        (&["lab", "media", "--budget", "1h"], middle),
        (&["lab", "media", "--budget", "1h", "--engine", "lsm"], middle),
        (&["lab", "crash", "--budget", "1h", "--engine", "blocks"], middle),
        (&["lab", "crash", "--budget", "1h", "--rules", "failing-syncs"], middle),
    ]);
}

#[test]
fn the_bench_ends() {
    let scratch = Made("halite-bench-");
    interrupt_all(&[
        (&["bench", "kv", "--seconds", "600", "--records", "1000", "--folder", "."], scratch),
        (&["bench", "kv", "--workload", "kill", "--folder", "."], ChildWorked(5)),
        (&["bench", "device", "--repeats", "1000", "--folder", "."], scratch),
        (&["bench", "blocks", "--repeats", "1000", "--folder", "."], scratch),
        (&["bench", "lsm", "--repeats", "100", "--only", "commit", "--folder", "."], scratch),
        (
            &["bench", "rstore", "--seconds", "600", "--only", "throughput", "--folder", "."],
            ChildWorked(5),
        ),
        (&["bench", "soak", "--minutes", "10", "--folder", "."], ChildWorked(5)),
    ]);
}

#[test]
fn a_second_signal_ends_a_bench_with_all_of_its_processes() {
    for args in [
        &["bench", "kv", "--workload", "kill", "--folder", "."][..],
        &["bench", "soak", "--minutes", "10", "--folder", "."],
    ] {
        let home = Home::in_memory();
        prepare(&home);
        let before = names(&home);
        let mut command = home.command(args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert!(ChildWorked(5).wait(&home, &mut child));
        let of_child = children(child.id());
        signal_twice(&child);
        expect_interrupted(&home, args, child, &before);
        assert!(!of_child.into_iter().any(runs), "{args:?}: a process is left");
    }
}

/// A server that sends one piece of a backup, and then nothing.
#[test]
fn a_backup_of_a_server_ends_in_the_middle() {
    let home = Home::in_memory();
    prepare(&home);
    let before = names(&home);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let serving = thread::spawn(move || {
        let (socket, _) = server.accept().unwrap();
        let mut requests = BufReader::new(socket);
        for reply in ["+OK\r\n", "$5\r\npiece\r\n"] {
            let mut line = String::new();
            // `HALITE.BACKUP BEGIN`, and `NEXT`: an array of two words takes five lines.
            (0..5).for_each(|_| _ = requests.read_line(&mut line).unwrap());
            requests.get_mut().write_all(reply.as_bytes()).unwrap();
        }
        // Reads until the other end is gone.
        let _ = requests.read_to_end(&mut Vec::new());
    });
    let args = ["backup", "--server", &address, "new.backup"];
    let mut command = home.command(&args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(Made("new.backup.part").wait(&home, &mut child));
    signal(&child, Signal::TERM);
    expect_interrupted(&home, &args, child, &before);
    serving.join().unwrap();
}

/// These may be done before they notice: then all is there, and otherwise nothing.
#[test]
fn what_is_written_is_whole_or_not_there() {
    for sent in [Signal::INT, Signal::TERM] {
        for (args, file, middle) in [
            (&["dump", "data", "new.tsv"][..], "new.tsv", Made("new.tsv.part")),
            (&["backup", "data", "new.backup"], "new.backup", Made("new.backup.part")),
            (&["restore", "copy", "whole.backup"], "copy", Made("copy")),
            (&["check", "data"], "data", Worked(2)),
            (&["check", "whole.backup"], "data", Worked(2)),
            (&["repair", "levelled"], "levelled", Worked(2)),
        ] {
            let home = Home::in_memory();
            prepare_records(&home, 500);
            home.ok(&["load", "levelled", "records.tsv", "--engine", "lsm"]);
            let mut left = names(&home);
            let mut command = home.command(args);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            if middle.wait(&home, &mut child) {
                signal(&child, sent);
            }
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
    prepare_records(&home, 500);
    home.file("dump.tsv", "before");
    let mut command = home.command(&["dump", "data", "dump.tsv"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if Made("dump.tsv.part").wait(&home, &mut child) {
        signal(&child, Signal::INT);
    }
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
