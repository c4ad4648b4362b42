//! `halite tail --server`: the changes of a server that goes on serving.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use halite_resp_client::{Client, Reply};
use rustix::process::Signal;

use crate::run::{Home, signal};
use crate::served::Served;

const LOG: [&str; 2] = ["--change-log", "16MiB"];

/// Starts `tail` with a server.
fn tail(home: &Home, served: &Served, args: &[&str]) -> Child {
    let address = served.address.to_string();
    let args = [&["tail", "--server", &address], args].concat();
    let mut command = home.command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn call(client: &mut Client, request: &str) -> Reply {
    let words: Vec<_> = request.split(' ').map(str::as_bytes).collect();
    client.call(&words).unwrap()
}

/// The positions of the last lines of partitions, as --from takes them.
fn last_of(lines: &str) -> String {
    let mut last = std::collections::BTreeMap::new();
    for line in lines.lines() {
        let (partition, position) = line.split('\t').next().unwrap().split_once(':').unwrap();
        last.insert(partition, position);
    }
    let all = last.iter().map(|(partition, position)| format!("{partition}:{position}"));
    all.collect::<Vec<_>>().join(",")
}

#[test]
fn a_server_tells_its_changes_as_its_folder_does() {
    for threads in ["1", "3"] {
        let home = Home::in_memory();
        let served = Served::start(&home, &[&LOG[..], &["--threads", threads]].concat());
        let address = served.address.to_string();
        let mut client = served.client();
        for number in 0..3000 {
            let set = format!("SET key:{number} {}", "v".repeat(300));
            assert_eq!(call(&mut client, &set), Reply::Status("OK".into()));
        }
        for request in ["DEL key:1", "RPUSH list a b c", "MSET a 1 b 2 c 3", "EXPIRE a 1000"] {
            assert!(matches!(call(&mut client, request), Reply::Integer(_) | Reply::Status(_)));
        }
        for request in ["SELECT 3", "SET other 1", "FLUSHDB"] {
            assert_eq!(call(&mut client, request), Reply::Status("OK".into()));
        }
        // A large value is not in the log itself.
        let large = "x".repeat(2 << 20);
        assert_eq!(call(&mut client, &format!("SET large {large}")), Reply::Status("OK".into()));
        let text = home.text(&["tail", "--server", &address]);
        let json = home.text(&["tail", "--server", &address, "--json"]);
        for part in ["put\tdb0\tkey:2999\tvvv", "delete-range\t", "put-list\tdb0\tlist\t"] {
            assert!(text.contains(&format!("\t{part}")), "{part}");
        }
        let last = last_of(&text);
        assert!(home.text(&["tail", "--server", &address, "--from", &last]).is_empty());
        assert_eq!(served.end(Signal::TERM).0, Some(0));
        assert!(home.text(&["tail", "data"]) == text, "the text differs");
        assert!(home.text(&["tail", "data", "--json"]) == json, "the JSON differs");
    }
}

#[test]
fn a_follower_gets_new_changes_and_goes_on_behind_a_restart() {
    let home = Home::in_memory();
    let start = || Served::start(&home, &[&LOG[..], &["--threads", "2"]].concat());
    let served = start();
    let mut client = served.client();
    call(&mut client, "SET before 1");
    let mut following = tail(&home, &served, &["--follow"]);
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut seen = String::new();
    let mut read_to = |what: &str, seen: &mut String| loop {
        let line = lines.next().unwrap().unwrap() + "\n";
        seen.push_str(&line);
        if line.contains(what) {
            break;
        }
    };
    read_to("\tput\tdb0\tbefore\t1\n", &mut seen);
    // A key space that is made later has its name.
    call(&mut client, "SELECT 5");
    for number in 0..100 {
        call(&mut client, &format!("SET key:{number} value"));
        read_to(&format!("\tput\tdb5\tkey:{number}\tvalue\n"), &mut seen);
    }
    signal(&following, Signal::INT);
    let ended = following.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let from = said.trim_end().rsplit_once(" --from ").unwrap().1;
    assert_eq!(from, last_of(&seen), "{said}");
    call(&mut client, "SET unseen 1");
    drop(client);
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    let served = start();
    call(&mut served.client(), "SET behind 2");
    let more = home.text(&["tail", "--server", &served.address.to_string(), "--from", from]);
    let mut told: Vec<_> = more.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    told.sort_unstable();
    assert_eq!(told, ["put\tdb0\tbehind\t2", "put\tdb5\tunseen\t1"]);
}

#[test]
fn the_end_of_the_server_says_where_to_go_on() {
    let home = Home::in_memory();
    let served = Served::start(&home, &[&LOG[..], &["--threads", "1"]].concat());
    call(&mut served.client(), "SET a 1");
    let mut following = tail(&home, &served, &["--follow"]);
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("\tput\tdb0\ta\t1") {}
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    let ended = following.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("; go on with --from 0:") && said.lines().count() == 1, "{said}");
}

/// Bytes that the server keeps for the clients that read changes.
fn kept_for_readers(client: &mut Client) -> u64 {
    let Reply::Bulk(list) = call(client, "CLIENT LIST") else { panic!() };
    let list = String::from_utf8(list).unwrap();
    let reader = list.lines().find(|line| line.contains("cmd=halite.changes|read")).unwrap();
    let memory = reader.split(' ').find_map(|field| field.strip_prefix("tot-mem="));
    memory.unwrap().parse().unwrap()
}

#[test]
fn a_reader_that_stops_costs_the_server_nothing_and_learns_what_it_missed() {
    let home = Home::in_memory();
    let served = Served::start(&home, &["--change-log", "4MiB", "--threads", "1"]);
    let mut client = served.client();
    let fill = |client: &mut Client, count: u32| {
        for number in 0..count {
            let key = format!("key:{}", number % 100);
            client.queue(&[b"SET", key.as_bytes(), &[b'v'; 500]]).unwrap();
        }
        client.send().unwrap();
        (0..count).for_each(|_| assert_eq!(client.reply().unwrap(), Reply::Status("OK".into())));
    };
    fill(&mut client, 1000);
    let mut following = tail(&home, &served, &["--follow"]);
    let mut out = following.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    // It waits for its reader, and meanwhile the change log goes round, several times.
    for _ in 0..40 {
        fill(&mut client, 1000);
        let kept = kept_for_readers(&mut client);
        assert!(kept < 2 << 20, "{kept}");
    }
    // It reads on.
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let ended = following.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("was released: the oldest that is kept is "), "{said}");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
}

#[test]
fn changes_that_a_server_cannot_tell_are_named() {
    let home = Home::in_memory();
    let served = Served::start(&home, &[&LOG[..], &["--threads", "1"]].concat());
    let address = served.address.to_string();
    let mut client = served.client();
    call(&mut client, "SET a 1");
    let from = |from: &str| home.run(&["tail", "--server", &address, "--from", from]);
    from("0:9999").failed(1, &format!("{address}: ERR position 9999 is none of partition 0"));
    from("7:1").failed(2, &format!("--from names partition 7; {address} has 1, numbered from 0"));
    assert_eq!(from("x").code, Some(2));
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    for engine in ["indexlog", "lsm"] {
        let home = Home::in_memory();
        let served = Served::start(&home, &["--engine", engine]);
        let address = served.address.to_string();
        let why = "ERR the store was made without a change log";
        home.run(&["tail", "--server", &address]).failed(1, &format!("{address}: {why}"));
        assert_eq!(served.end(Signal::TERM).0, Some(0));
    }
}
