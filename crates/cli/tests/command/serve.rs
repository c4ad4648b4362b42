//! `serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::middle::signal_twice;
use crate::run::Home;
use crate::served::Served;

#[test]
fn the_banner_says_what_durable_means() {
    let home = Home::new();
    let served = Served::start(&home, &["--max-size", "64MiB", "--sync", "interval=50"]);
    for said in ["version", "data, new", "engine    ", "domain", "sync", "interval=50"] {
        assert!(served.banner.contains(said), "{said}: {}", served.banner);
    }
    let default = match served.banner.contains("domain    page-cache") {
        true => "lsm, the default on page-cache",
        false => "indexlog, the default on ",
    };
    assert!(served.banner.contains(default), "{default}: {}", served.banner);
    assert!(served.banner.contains("grows up to 64.0 MiB"), "{}", served.banner);
    assert!(!served.banner.contains("recovery"), "{}", served.banner);
    // Where a file is synced at all, the banner says when.
    let is_synced = served.banner.contains("page-cache");
    let check = |banner: &str, said: &str| {
        assert!(!is_synced || banner.contains(said), "{said}: {banner}");
    };
    check(&served.banner, "a power cut once it is synced, which happens every 50 ms");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    for (policy, said) in [
        ("always", "a power cut, as it is synced before it is acknowledged"),
        ("never", "a power cut once the operating system has synced it"),
    ] {
        let served = Served::start(&home, &["--sync", policy]);
        check(&served.banner, said);
        assert!(served.banner.contains("recovery  "), "{}", served.banner);
        assert!(!served.banner.contains(", new"), "{}", served.banner);
        assert_eq!(served.end(Signal::TERM).0, Some(0));
    }
}

#[test]
fn partitions_stay_until_others_are_asked_for() {
    let home = Home::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for (args, threads, partitions) in [
        (&["--threads", "2"][..], Some(2), 2),
        (&[][..], None, 2),
        (&["--threads", "1"][..], Some(1), 2),
        (&["--partitions", "3"][..], None, 3),
        (&["--partitions", "3", "--threads", "2"][..], Some(2), 3),
        (&["--threads", "9"][..], Some(3), 3),
    ] {
        // The partitions of the other engine stay as they were made.
        let served = Served::start(&home, &[&["--engine", "indexlog"], args].concat());
        let default = (cores / 2).max(1).min(partitions);
        let said = format!("{} for {partitions} partitions", threads.unwrap_or(default));
        assert!(served.banner.contains(&said), "{args:?}: {}", served.banner);
        let is_told = served.banner.contains("(--threads sets it)");
        assert_eq!(is_told, threads.is_none(), "{}", served.banner);
        let mut connection = served.connect();
        served.expect(&mut connection, "MSETNX a 1 b 2 c 3\r\nMGET a b c\r\n", ":");
        let (code, said) = served.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(home.text(&["get", "data", "c"]), "3");
    }
}

#[test]
fn a_number_of_partitions_or_threads_that_cannot_be_is_named() {
    let home = Home::new();
    for option in ["--partitions", "--threads"] {
        for count in ["0", "65", "5000", "-1", "many", "99999999999999999999"] {
            let count = format!("{option}={count}");
            let refused = home.run(&["serve", "data", "--port", "0", &count]);
            assert_eq!(refused.code, Some(2), "{count}: {}", refused.err);
            assert!(refused.err.contains(option), "{count}: {}", refused.err);
        }
    }
    let refused = home.run(&["serve", "data", "--port", "0", "--partitions", "5000"]);
    assert!(refused.err.contains("5000 is not in 1..=64"), "{}", refused.err);
    assert!(!home.path("data").exists());
}

/// Lets this process have so many files, or says that it cannot.
fn may_open(files: u64) -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|soft| soft >= files) {
        return true;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum });
    if raised.is_err() {
        eprintln!("skipped: a process may have {maximum:?} files here, {files} are needed");
    }
    raised.is_ok()
}

#[test]
fn ten_thousand_connections_are_served_and_no_more() {
    const CLIENTS: usize = 10_000;
    if !may_open(CLIENTS as u64 + 200) {
        return;
    }
    let home = Home::new();
    for threads in ["1", "2", "3"] {
        let args = ["--partitions", "3", "--threads", threads, "--maxclients", "10000"];
        let served = Served::start(&home, &args);
        let mut connections: Vec<_> = (0..CLIENTS).map(|_| served.connect()).collect();
        for (number, connection) in connections.iter_mut().enumerate() {
            let set = format!("SET key:{number} {number}\r\n");
            connection.write_all(set.as_bytes()).unwrap();
        }
        for connection in &mut connections {
            served.expect(connection, "", "+OK\r\n");
        }
        served.expect(&mut served.connect(), "", "-ERR max number of clients reached\r\n");
        for (number, connection) in connections.iter_mut().enumerate().step_by(101) {
            let number = number.to_string();
            let reply = format!("${}\r\n{number}\r\n", number.len());
            served.expect(connection, &format!("GET key:{number}\r\n"), &reply);
        }
        // Clients that leave make room.
        connections.truncate(CLIENTS / 2);
        let is_served = || {
            let mut connection = served.connect();
            connection.write_all(b"DBSIZE\r\n").unwrap();
            let mut reply = String::new();
            BufReader::new(connection).read_line(&mut reply).unwrap();
            reply == ":10000\r\n"
        };
        assert!((0..1000).any(|_| is_served() || {
            sleep(Duration::from_millis(10));
            false
        }));
        let (code, said) = served.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_signal_finishes_the_server_cleanly() {
    let home = Home::new();
    for (signal, key) in [(Signal::TERM, "term"), (Signal::INT, "int")] {
        let served = Served::start(&home, &[]);
        let mut connection = served.connect();
        let set = format!("SET {key} value\r\n");
        served.expect(&mut connection, &set, "+OK\r\n");
        let (code, said) = served.end(signal);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(home.text(&["get", "data", key]), "value");
    }
}

/// Leaves a client that has asked for more than sockets hold, and reads nothing of it.
fn connect_slow_reader(served: &Served) -> TcpStream {
    let mut connection = served.connect();
    let value = "v".repeat(1 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n{value}\r\n", value.len());
    served.expect(&mut connection, &set, "+OK\r\n");
    connection.write_all("GET large\r\n".repeat(64).as_bytes()).unwrap();
    while ioctl_fionread(&connection).unwrap() < 100_000 {
        sleep(Duration::from_millis(5));
    }
    connection
}

#[test]
fn no_client_keeps_the_server_from_ending() {
    for threads in ["1", "2"] {
        let home = Home::new();
        let served = Served::start(&home, &["--threads", threads]);
        let (_idle, _slow) = (served.connect(), connect_slow_reader(&served));
        let mut busy = served.connect();
        for number in 0..20_000 {
            busy.write_all(format!("SET {number} {threads}\r\n").as_bytes()).unwrap();
        }
        let mut first = [0; 5];
        busy.read_exact(&mut first).unwrap();
        let (code, said) = served.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        let mut replies = Vec::new();
        // The connection may be reset behind the requests that were not read.
        let _ = busy.read_to_end(&mut replies);
        let replies = String::from_utf8(replies).unwrap();
        let set = 1 + replies.lines().filter(|reply| *reply == "+OK").count();
        for number in [0, set / 2, set - 1] {
            assert_eq!(home.text(&["get", "data", &number.to_string()]), threads);
        }
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let mut connection = served.connect();
    served.expect(&mut connection, "SET key value\r\n", "+OK\r\n");
    // The server waits for this client for a while.
    let _slow = connect_slow_reader(&served);
    signal_twice(&served.process);
    let (code, said) = served.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.ends_with("halite: interrupted\n"), "{said}");
    assert_eq!(home.text(&["get", "data", "key"]), "value");
}

#[test]
fn debug_is_refused_unless_it_is_allowed_and_keeps_no_server_from_ending() {
    let home = Home::new();
    let refused = home.run(&["serve", "data", "--enable-debug-command", "maybe"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("no, local or yes"), "{}", refused.err);
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option";
    let served = Served::start(&home, &[]);
    served.expect(&mut served.connect(), "DEBUG SLEEP 0\r\n", refused);
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    let served = Served::start(&home, &["--enable-debug-command", "local", "--threads", "2"]);
    let mut connection = served.connect();
    served.expect(&mut connection, "SET key value\r\nDEBUG SLEEP 0\r\n", "+OK\r\n+OK\r\n");
    connection.write_all(b"DEBUG SLEEP 3600\r\n").unwrap();
    let (code, said) = served.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(home.text(&["get", "data", "key"]), "value");
}

#[test]
fn what_is_loaded_is_served_and_what_is_served_is_dumped() {
    let home = Home::new();
    home.run_with(&["load", "data", "-"], b"loaded\t1\n").ok();
    let served = Served::start(&home, &[]);
    let mut connection = served.connect();
    served.expect(&mut connection, "GET loaded\r\n", "$1\r\n1\r\n");
    served.expect(&mut connection, "SET served 2\r\n", "+OK\r\n");
    home.run(&["get", "data", "loaded"]).failed(1, "data/pool.halite: the pool is in use");
    // Acknowledged writes are there after a kill.
    let (code, _) = served.end(Signal::KILL);
    assert_eq!(code, None);
    assert_eq!(home.text(&["dump", "data", "--space", "db0"]), "loaded\t1\nserved\t2\n");
}

#[test]
fn a_password_comes_from_the_environment_or_a_file() {
    let home = Home::new();
    home.file("secret", "sesame\n");
    let by_file = Served::start(&home, &["--requirepass-file", "secret"]);
    let mut connection = by_file.connect();
    by_file.expect(&mut connection, "GET key\r\n", "-NOAUTH");
    assert!(!by_file.banner.contains("sesame"));
    assert_eq!(by_file.end(Signal::TERM).0, Some(0));

    let mut command = home.command(&["serve", "data", "--port", "0"]);
    command.env("HALITE_REQUIREPASS", "sesame").stderr(Stdio::piped());
    let by_environment = Served::spawn(command.spawn().unwrap());
    let mut connection = by_environment.connect();
    by_environment.expect(&mut connection, "AUTH sesame\r\nPING\r\n", "+OK\r\n+PONG\r\n");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = home.run(&["serve", "data", "--port", &address.port().to_string()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains(&address.to_string()), "{}", ended.err);
    let metrics = address.to_string();
    let ended = home.run(&["serve", "data", "--port", "0", "--metrics", &metrics]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains(&metrics), "{}", ended.err);
    assert!(!home.path("data").exists(), "a server that cannot listen leaves no database");
}

#[test]
fn limits_of_memory_are_options() {
    let home = Home::new();
    let args = ["--maxmemory-clients", "64MiB", "--client-output-buffer-limit", "8MiB,1MiB,30"];
    let served = Served::start(&home, &args);
    let mut connection = served.connect();
    served.expect(
        &mut connection,
        "CONFIG GET maxmemory-clients\r\nCONFIG GET client-output-buffer-limit\r\n",
        "*2\r\n$17\r\nmaxmemory-clients\r\n$8\r\n67108864\r\n\
         *2\r\n$26\r\nclient-output-buffer-limit\r\n\
         $64\r\nnormal 8388608 1048576 30 slave 0 0 0 pubsub 33554432 8388608 60\r\n",
    );
    let refused = home.run(&["serve", "data", "--client-output-buffer-limit", "1,2"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("HARD,SOFT,SECONDS"), "{}", refused.err);
}

#[test]
fn a_server_in_memory_says_that_nothing_survives_it() {
    let home = Home::new();
    let args = ["serve", "--in-memory", "64MiB", "--port", "0", "--threads", "2"];
    let mut command = home.command(&args);
    let served = Served::spawn(command.stderr(Stdio::piped()).spawn().unwrap());
    for said in ["in memory", "volatile: memory of the process: nothing survives", "64.0 MiB"] {
        assert!(served.banner.contains(said), "{said}: {}", served.banner);
    }
    let mut connection = served.connect();
    served.expect(
        &mut connection,
        "MSETNX a 1 b 2\r\nMGET a b\r\n",
        ":1\r\n*2\r\n$1\r\n1\r\n$1\r\n2",
    );
    let mut connection = served.connect();
    let info = served.info(&mut connection);
    for line in ["domain:volatile", "durability:memory of the process: nothing", "aof_enabled:0"] {
        assert!(info.contains(line), "{line}: {info}");
    }
    assert!(info.contains("traffic_fences:0\r\n"), "{info}");
    let (code, said) = served.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::read_dir(home.path("")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_promises_durability_does_not_go_with_memory() {
    let home = Home::new();
    for (args, named) in [
        (&["data"][..], "leave out the folder `data`"),
        (&["--sync", "always"][..], "leave out --sync always"),
        (&["--max-size", "1GiB"][..], "leave out --max-size"),
    ] {
        let args = [&["serve", "--in-memory", "64MiB", "--port", "0"], args].concat();
        let refused = home.run(&args);
        assert!(refused.err.contains(named), "{}", refused.err);
        refused.failed(2, "--in-memory: nothing that it keeps survives the server");
    }
    assert!(!home.path("data").exists());
    assert_eq!(home.run(&["serve", "--port", "0"]).code, Some(2), "neither a folder nor memory");
}
