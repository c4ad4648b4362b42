//! A full disk, below the engine lsm: writes get the error that clients know, reads go on, and so do writes when there
//! is room again.
//!
//! The disk is a file system in memory, mounted in a private mount namespace; where that is not allowed, the test
//! prints so, and passes.

#[allow(unused_macros, reason = "one test for its own threads")]
mod common;

use std::env;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Client, Running};
use halite::{Database, Durable, LsmOptions, Partitioning};

/// The folder of the file system, for the test that is run again in it.
const FOLDER: &str = "HALITE_SMALL_DISK";

const TEST: &str = "writes_are_refused_as_by_a_full_store_until_there_is_room";

/// How long room may take to be found: a machine may stall.
const PATIENCE: Duration = Duration::from_secs(60);

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn writes_are_refused_as_by_a_full_store_until_there_is_room() {
    if let Some(folder) = env::var_os(FOLDER) {
        return run(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = |args: &[&str]| {
        let script = format!("mount -t tmpfs -o size=12m none \"${FOLDER}\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", &script, "sh"]).args(args).env(FOLDER, folder.path());
        command.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["true"]) {
        eprintln!("skipped: `unshare -Urm` cannot mount a file system here");
        return;
    }
    let program = env::current_exe().unwrap();
    assert!(mounted(&[program.to_str().unwrap(), "--exact", TEST, "--nocapture"]), "it failed");
}

/// A value that cannot be compressed.
fn value(number: usize) -> Vec<u8> {
    let mut word = number as u64 + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..4_000).map(|_| next()).collect()
}

fn set(client: &mut Client, number: usize) -> String {
    client.call(&[b"SET", format!("key:{number}").as_bytes(), &value(number)])
}

fn check_all(client: &mut Client, end: usize) {
    for number in 0..end {
        let found = client.ask(&format!("GET key:{number}"));
        assert!(found == format!("\"{}\"", value(number).escape_ascii()), "{number}");
    }
}

fn run(folder: &Path) {
    let pool = tempfile::tempdir().unwrap();
    let (memtable_bytes, table_bytes) = (Some(2 << 20), Some(1 << 20));
    let (durable, levels) = (Durable::Pool, Some(folder.join("levels")));
    let lsm = LsmOptions { durable, levels, memtable_bytes, table_bytes, ..LsmOptions::default() };
    let builder = Database::builder().engine("lsm").max_size(32 << 20).lsm(lsm);
    let db = builder.partitioning(Partitioning::Hash(2)).open(pool.path()).unwrap();
    let server = Running::on(db, |_| {});
    let mut client = server.client();
    client.check(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
        ("MSET gone:1 v gone:2 v removed v", "+OK"),
        ("PEXPIRE gone:1 1", ":1"),
        ("PEXPIRE gone:2 1", ":1"),
    ]);
    let mut end = 0;
    for _ in 0..3 {
        loop {
            match &*set(&mut client, end) {
                "+OK" => end += 1,
                reply => break assert_eq!(reply, OOM),
            }
        }
    }
    // A small write may still find room, and takes it.
    let filled = (0..).find(|_| client.call(&[b"SET", &b"small"[..], &value(0)]) != "+OK");
    assert!(filled.is_some());
    client.check(&[
        ("MGET gone:1 none gone:2", "[nil, nil, nil]"),
        ("MULTI", "+OK"),
        ("GET gone:1", "+QUEUED"),
        ("EXISTS key:0 gone:2", "+QUEUED"),
        ("EXEC", "[nil, :1]"),
        ("TTL gone:1", ":-2"),
    ]);
    check_all(&mut client, end);
    // Commands that free room are accepted, and so are deadlines.
    client.check(&[
        ("EXPIRE key:0 1000", ":1"),
        ("PERSIST key:0", ":1"),
        ("MULTI", "+OK"),
        ("PEXPIRE key:0 1000000", "+QUEUED"),
        ("EXEC", "[:1]"),
        ("DEL removed", ":1"),
        ("EXISTS removed", ":0"),
    ]);

    let mut command = Command::new("mount");
    let status = command.args(["-o", "remount,size=256m"]).arg(folder).status().unwrap();
    assert!(status.success());
    // Room is looked for again now and then.
    let until = Instant::now() + PATIENCE;
    while set(&mut client, end) != "+OK" {
        assert!(Instant::now() < until, "there is room");
        thread::sleep(Duration::from_millis(20));
    }
    end += 1;
    for _ in 0..5_000 {
        assert_eq!(set(&mut client, end), "+OK");
        end += 1;
    }
    check_all(&mut client, end);
    client.check(&[("FLUSHALL", "+OK"), ("EXISTS key:0 key:7", ":0")]);
    client.check(&[("SET gone:1 7 KEEPTTL", "+OK"), ("TTL gone:1", ":-1"), ("GET gone:2", "nil")]);
}
