//! The program with the engine of one's own: the command line, the server, backups and the crash lab have it by its row
//! in the registry.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_halite-toy");

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

/// Runs the program, which must succeed, and returns its output.
fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_command_line_has_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = text(&data);
    let help = done(&["put", "--help"]);
    assert!(
        help.split_whitespace().collect::<Vec<_>>().join(" ").contains("toy, with a map in memory")
    );
    done(&["put", data, "--engine", "toy", "greeting", "hello"]);
    // The pool says which engine made it.
    assert_eq!(done(&["get", data, "greeting"]).trim_end(), "hello");
    assert!(done(&["stat", data]).contains("toy"));
    done(&["check", data]);
    done(&["del", data, "greeting"]);
    assert_eq!(run(&["get", data, "greeting"]).status.code(), Some(3));
    let repair = run(&["repair", data]);
    let why = String::from_utf8_lossy(&repair.stderr).into_owned();
    assert!(why.contains("`toy`"), "{why}");
    let refused = run(&["put", data, "--engine", "lsm", "greeting", "hello"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`toy`"));
}

#[test]
fn backups_go_from_any_engine_to_any() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (toy, log, one) = (path("toy"), path("indexlog"), path("one"));
    done(&["put", &toy, "--engine", "toy", "of", "toy"]);
    // A database of two partitions.
    done(&["put", &one, "of", "indexlog"]);
    done(&["backup", &one, &path("one.backup")]);
    done(&["restore", &log, &path("one.backup"), "--partitions", "2"]);
    for (from, to, engine, value) in [
        (&toy, "copy", "lsm", "toy"),
        (&log, "other", "toy", "indexlog"),
        (&toy, "same", "toy", "toy"),
    ] {
        let (backup, to) = (path(&format!("{to}.backup")), path(to));
        done(&["backup", from, &backup]);
        done(&["restore", &to, &backup, "--engine", engine]);
        assert_eq!(done(&["get", &to, "of"]).trim_end(), value);
        assert!(done(&["stat", &to]).contains(engine));
    }
}

/// A server, and a client of it.
struct Server {
    process: Child,
    client: TcpStream,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["serve", text(data), "--engine", "toy", "--port", "0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut banner = BufReader::new(process.stderr.take().unwrap());
        let mut address = None;
        while address.is_none() {
            let mut line = String::new();
            assert_ne!(banner.read_line(&mut line).unwrap(), 0, "the server ended");
            let found = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
            address =
                found.map(|word| word.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned());
        }
        Self { process, client: TcpStream::connect(address.unwrap()).unwrap() }
    }

    fn ask(&mut self, request: &str, reply: &str) {
        self.client.write_all(request.as_bytes()).unwrap();
        let mut found = vec![0; reply.len()];
        self.client.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), reply, "{request}");
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn the_server_serves_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for round in 0..2 {
        let mut server = Server::start(&data);
        let mut ask = |request: &str, reply: &str| server.ask(request, reply);
        if round == 0 {
            ask("SET greeting hello\r\n", "+OK\r\n");
            ask("INCR counter\r\n", ":1\r\n");
        }
        // Counted once before, in the server that was ended.
        ask("GET greeting\r\n", "$5\r\nhello\r\n");
        ask("INCR counter\r\n", &format!(":{}\r\n", 2 + round));
        ask("DBSIZE\r\n", ":2\r\n");
        server.kill();
    }
}

#[test]
fn a_frame_that_was_torn_stays_lost() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data);
    server.ask("SET first 1\r\n", "+OK\r\n");
    server.ask("SET second the-value-of-second\r\n", "+OK\r\n");
    server.kill();

    let pool = data.join("pool.halite");
    let bytes = std::fs::read(&pool).unwrap();
    let value = b"the-value-of-second";
    let at = bytes.windows(value.len()).position(|found| found == value).unwrap() as u64;
    let pool = OpenOptions::new().write(true).open(&pool).unwrap();
    pool.write_all_at(&[0], at).unwrap();
    let get = |key| run(&["get", text(&data), key]).status.code();
    assert_eq!((get("first"), get("second")), (Some(0), Some(3)));
    // Another write at the same place, torn in its turn, could bring the missing byte back.
    pool.write_all_at(&value[..1], at).unwrap();
    assert_eq!((get("first"), get("second")), (Some(0), Some(3)));
    done(&["check", text(&data)]);
    done(&["put", text(&data), "second", "again"]);
    assert_eq!(done(&["get", text(&data), "second"]).trim_end(), "again");
}

#[test]
fn the_crash_lab_has_the_engine() {
    let found = done(&["lab", "crash", "--engine", "toy", "--budget", "2s"]);
    assert!(found.contains("violations"), "{found}");
}
