//! Several threads, and clients that cannot tell.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{Client, Running, request, scan};
use fastrand::Rng;

on_threads! {
    many_large_replies_at_once_all_arrive
    who_waits_for_room_between_threads_goes_on
    a_pipeline_over_all_partitions_is_answered_in_order
    random_commands_do_what_they_do_alone
    what_is_written_together_is_read_together
    a_transaction_fails_if_a_key_of_any_partition_changed
    a_scan_returns_what_stays_while_other_clients_change_keys
    clients_that_leave_in_the_middle_leave_nothing_behind
    commands_about_all_threads_answer_while_keys_are_borrowed
    threads_are_told_of
    slow_commands_are_told_of_by_all_threads
    spikes_of_latency_are_told_of
    how_long_commands_take_is_told_of_by_all_threads
    partitions_are_told_of
    memory_is_told_of
    metrics_are_served_to_who_asks_for_them
    a_slow_reader_of_metrics_keeps_nobody_waiting
    nothing_is_written_while_writes_are_paused
    nothing_expires_while_clients_are_paused
}

/// A generator from a seed that the test prints.
fn seeded() -> Rng {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed =
        std::env::var("HALITE_TEST_SEED").map_or(now, |seed| seed.parse().expect("a number"));
    println!("HALITE_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

fn a_pipeline_over_all_partitions_is_answered_in_order() {
    let server = Running::start();
    let mut client = server.client();
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    let mut add = |words: &[&str], reply: String| {
        requests.extend(request(words));
        expected.push(reply);
    };
    let long = "v".repeat(10_000);
    for number in 0..2000 {
        let (key, text) = (format!("key:{number}"), number.to_string());
        add(&["SET", &key, &text], "+OK".into());
        match number % 7 {
            0 => add(&["PING"], "+PONG".into()),
            1 => add(&["MGET", &key, "nothing", "key:0"], format!("[\"{text}\", nil, \"0\"]")),
            2 => {
                add(&["NOSUCH"], "-ERR unknown command 'NOSUCH', with args beginning with: ".into())
            }
            3 => add(&["SET", "long", &long], "+OK".into()),
            4 => add(&["GET", "long"], format!("\"{long}\"")),
            5 => add(&["INCR", "long"], "-ERR value is not an integer or out of range".into()),
            _ => add(&["INCR", "count"], format!(":{}", number / 7 + 1)),
        }
        add(&["GET", &key], format!("\"{text}\""));
    }
    let mut writer = client.socket.get_ref().try_clone().unwrap();
    let sender = thread::spawn(move || writer.write_all(&requests).unwrap());
    for (index, reply) in expected.iter().enumerate() {
        assert_eq!(client.reply(), *reply, "reply {index}");
    }
    sender.join().unwrap();
}

/// The keys of one client, and the values that it expects.
struct Model {
    prefix: String,
    random: Rng,
    values: BTreeMap<String, String>,
}

impl Model {
    fn key(&mut self) -> String {
        format!("{}:{}", self.prefix, self.random.u64(..12))
    }

    fn show(&self, key: &str) -> String {
        self.values.get(key).map_or("nil".into(), |value| format!("\"{value}\""))
    }

    /// A request, and the reply to it.
    fn step(&mut self) -> (Vec<String>, String) {
        let (a, b, c) = (self.key(), self.key(), self.key());
        let value = self.random.u64(..1000).to_string();
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        match self.random.u64(..12) {
            0 | 1 => {
                let request = words(&["SET", &a, &value]);
                self.values.insert(a, value);
                (request, "+OK".into())
            }
            2 => (words(&["GET", &a]), self.show(&a)),
            3 => {
                let request = words(&["MSET", &a, &value, &b, "2", &c, "3"]);
                self.values.insert(a, value);
                self.values.insert(b, "2".into());
                self.values.insert(c, "3".into());
                (request, "+OK".into())
            }
            4 | 5 => {
                let shown = [&a, &b, &c].map(|key| self.show(key)).join(", ");
                (words(&["MGET", &a, &b, &c]), format!("[{shown}]"))
            }
            6 => {
                let request = words(&["DEL", &a, &b]);
                let gone = [a, b].iter().filter(|key| self.values.remove(*key).is_some()).count();
                (request, format!(":{gone}"))
            }
            7 => {
                let request = words(&["RENAME", &a, &b]);
                match self.values.remove(&a) {
                    Some(value) => {
                        self.values.insert(b, value);
                        (request, "+OK".into())
                    }
                    None => (request, "-ERR no such key".into()),
                }
            }
            8 if a != b => {
                let request = words(&["COPY", &a, &b, "REPLACE"]);
                let copied = self.values.get(&a).cloned();
                let reply = format!(":{}", usize::from(copied.is_some()));
                copied.into_iter().for_each(|value| drop(self.values.insert(b.clone(), value)));
                (request, reply)
            }
            9 => {
                let found: Vec<_> = self.values.keys().map(|key| format!("\"{key}\"")).collect();
                (words(&["KEYS", &format!("{}:*", self.prefix)]), format!("[{}]", found.join(", ")))
            }
            10 => {
                let request = words(&["MSETNX", &a, &value, &b, &value]);
                let free = !self.values.contains_key(&a) && !self.values.contains_key(&b);
                if free {
                    self.values.insert(a, value.clone());
                    self.values.insert(b, value);
                }
                (request, format!(":{}", usize::from(free)))
            }
            _ => {
                let request = words(&["APPEND", &a, "0"]);
                let value = self.values.entry(a).or_default();
                value.push('0');
                (request, format!(":{}", value.len()))
            }
        }
    }

    /// Sends some requests at a time, now and then as a transaction, and compares the replies.
    fn run(&mut self, client: &mut Client, rounds: usize) {
        for _ in 0..rounds {
            let (mut requests, mut expected) = (Vec::new(), Vec::new());
            let mut transaction: Option<Vec<String>> = None;
            for _ in 0..self.random.u64(..30) {
                match (self.random.u64(..8), &transaction) {
                    (0, None) => {
                        requests.extend(request(&["MULTI"]));
                        expected.push("+OK".to_owned());
                        transaction = Some(Vec::new());
                    }
                    (0 | 1, Some(replies)) => {
                        requests.extend(request(&["EXEC"]));
                        expected.push(format!("[{}]", replies.join(", ")));
                        transaction = None;
                    }
                    _ => {
                        let (words, reply) = self.step();
                        requests.extend(request(&words));
                        match &mut transaction {
                            Some(replies) => {
                                replies.push(reply);
                                expected.push("+QUEUED".to_owned());
                            }
                            None => expected.push(reply),
                        }
                    }
                }
            }
            if let Some(replies) = transaction {
                requests.extend(request(&["EXEC"]));
                expected.push(format!("[{}]", replies.join(", ")));
            }
            client.send(&requests);
            for reply in expected {
                assert_eq!(client.reply(), reply);
            }
        }
    }
}

fn random_commands_do_what_they_do_alone() {
    let server = Running::start();
    let mut random = seeded();
    thread::scope(|scope| {
        for number in 0..6 {
            let random = random.fork();
            let prefix = format!("client{number}");
            let mut model = Model { prefix, random, values: BTreeMap::new() };
            let mut client = server.client();
            scope.spawn(move || model.run(&mut client, 150));
        }
    });
}

/// Changes all keys together, by one way and the other, until `stop`.
fn change_together(addr: SocketAddr, keys: &[String], name: &str, stop: &AtomicBool) -> usize {
    let mut client = Client::connect(addr);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let value = format!("{name}:{count}");
        if count % 2 == 0 {
            let mut words = vec!["MSET"];
            keys.iter().for_each(|key| words.extend([key.as_str(), &value]));
            assert_eq!(client.call(&words), "+OK");
        } else {
            let mut requests = request(&["MULTI"]);
            keys.iter().for_each(|key| requests.extend(request(&["SET", key, &value])));
            requests.extend(request(&["EXEC"]));
            client.send(&requests);
            (0..=keys.len() + 1).for_each(|_| drop(client.reply()));
        }
    }
    count
}

fn what_is_written_together_is_read_together() {
    let server = Running::start();
    let keys: Vec<_> = (0..8).map(|number| format!("twin:{number}")).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (keys, stop, addr) = (&keys, &stop, server.addr);
        let writers: Vec<_> = (0..3)
            .map(|name| scope.spawn(move || change_together(addr, keys, &name.to_string(), stop)))
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::connect(addr);
                    let words: Vec<_> =
                        ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
                    for _ in 0..300 {
                        let reply = if number == 0 {
                            client.send(&request(&["MULTI"]));
                            client.send_words(&words);
                            client.send(&request(&["EXEC"]));
                            assert_eq!([client.reply(), client.reply()], ["+OK", "+QUEUED"]);
                            let reply = client.reply();
                            reply[1..reply.len() - 1].to_owned()
                        } else {
                            client.call(&words)
                        };
                        let values: BTreeSet<_> = reply[1..reply.len() - 1].split(", ").collect();
                        assert_eq!(values.len(), 1, "{reply}");
                    }
                })
            })
            .collect();
        let read = readers.into_iter().map(|reader| reader.join()).collect::<Vec<_>>();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| assert!(writer.join().unwrap() > 0));
        read.into_iter().for_each(|read| read.unwrap());
    });
}

fn a_transaction_fails_if_a_key_of_any_partition_changed() {
    let server = Running::start();
    let keys: Vec<_> = (0..4).map(|number| format!("count:{number}")).collect();
    let succeeded = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (keys, succeeded) = (&keys, &succeeded);
            let mut client = server.client();
            scope.spawn(move || {
                let words = |name: &'static str| {
                    [name].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>()
                };
                let mut done = 0;
                while done < 25 {
                    assert_eq!(client.call(&words("WATCH")), "+OK");
                    let found = client.call(&words("MGET"));
                    let values: BTreeSet<_> = found[1..found.len() - 1].split(", ").collect();
                    let value = values.first().unwrap().trim_matches('"');
                    let next = (value.parse::<u64>().unwrap_or(0) + 1).to_string();
                    client.ask("MULTI");
                    for key in keys {
                        assert_eq!(client.call(&["SET", key, &next]), "+QUEUED");
                    }
                    if client.ask("EXEC") != "nil" {
                        // A transaction that succeeds has read one state.
                        assert_eq!(values.len(), 1, "{found}");
                        done += 1;
                        succeeded.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let total = succeeded.into_inner();
    let expected = vec![format!("\"{total}\""); keys.len()].join(", ");
    let words: Vec<_> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    assert_eq!(server.client().call(&words), format!("[{expected}]"));
}

fn a_scan_returns_what_stays_while_other_clients_change_keys() {
    let server = Running::start();
    let mut client = server.client();
    let stays: BTreeSet<_> = (0..500).map(|number| format!("stays:{number}")).collect();
    for key in &stays {
        client.call(&["SET", key, "v"]);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in 0..2 {
            let (stop, mut client) = (&stop, server.client());
            scope.spawn(move || {
                for step in (0..50u32).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let (a, b) =
                        (format!("goes:{name}:{step}"), format!("goes:{name}:{}", step + 7));
                    client.call(&["MSET", &a, "1", &b, "2"]);
                    client.call(&["DEL", &format!("goes:{name}:{}", (step + 20) % 57)]);
                }
            });
        }
        for options in ["COUNT 3", "MATCH stays:* COUNT 10", "TYPE string COUNT 200"] {
            let found: BTreeSet<_> = scan(&mut client, options, |_| {}).into_iter().collect();
            if !stays.is_subset(&found) {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(stays.is_subset(&found), "{options}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let server = Running::start();
    let keys: Vec<_> = (0..6).map(|number| format!("k{number}")).collect();
    let words =
        |name| [name].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>();
    for round in 0..60 {
        let mut client = server.client();
        client.send_words(&words("WATCH"));
        for key in &keys {
            client.send_words(&["SET", key, "1"]);
        }
        client.send_words(&words(["MGET", "DEL", "TOUCH"][round % 3]));
        client.send(b"MULTI\r\nDBSIZE\r\nINFO\r\nEXEC\r\n");
    }
    let mut client = server.client();
    common::eventually("the end of all other connections", || {
        client.ask("CLIENT LIST").matches("id=").count() == 1
    });
    client.check(&[("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
    assert_eq!(client.call(&words("MGET")), "[nil, nil, nil, nil, nil, nil]");
}

fn many_large_replies_at_once_all_arrive() {
    let server = Running::start();
    let mut client = server.client();
    let keys: Vec<_> = (0..8).map(|number| format!("key{number}")).collect();
    for len in [16 << 10, 20 << 10] {
        let value = "v".repeat(len);
        for key in &keys {
            assert_eq!(client.call(&["SET", key, &value]), "+OK");
        }
        // Requests are sent one at a time to the owner of one key, and no other request meanwhile.
        for key in &keys {
            let requests: Vec<u8> = (0..40).flat_map(|_| request(&["GET", key])).collect();
            client.send(&requests);
            for _ in 0..40 {
                assert_eq!(client.reply().len(), len + 2);
            }
        }
    }
}

fn who_waits_for_room_between_threads_goes_on() {
    let server = Running::start();
    for round in 0..5 {
        // The end of a watch is sent to the keys' owners, and there is no reply to it.
        let mut watching = server.client();
        let keys: Vec<_> = (0..3000).map(|number| format!("watched{round}:{number}")).collect();
        let words: Vec<_> = ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        assert_eq!(watching.call(&words), "+OK");
        let mut clients: Vec<_> = (0..6).map(|_| server.client()).collect();
        watching.send(&request(&["UNWATCH"]));
        for _ in 0..20 {
            for client in &mut clients {
                (0..4).for_each(|number| client.send(&request(&["GET", &format!("key{number}")])));
            }
            for client in &mut clients {
                (0..4).for_each(|_| assert_eq!(client.reply(), "nil"));
            }
        }
        assert_eq!(watching.reply(), "+OK");
    }
}

fn commands_about_all_threads_answer_while_keys_are_borrowed() {
    let server = Running::start();
    let keys: Vec<_> = (0..8).map(|number| format!("twin:{number}")).collect();
    let stop = AtomicBool::new(false);
    let mut admin = server.client();
    thread::scope(|scope| {
        let (keys, stop, addr) = (&keys, &stop, server.addr);
        for name in ["a", "b"] {
            scope.spawn(move || change_together(addr, keys, name, stop));
        }
        for _ in 0..50 {
            let info = admin.ask("INFO");
            let list = admin.ask("CLIENT LIST");
            let counted = admin.ask("DBSIZE");
            let transaction = [
                admin.ask("MULTI"),
                admin.ask("INFO stats"),
                admin.ask("DBSIZE"),
                admin.ask("EXEC"),
            ];
            let right = info.contains("# Halite")
                && list.contains("id=1 ")
                && [":0", ":8"].contains(&&*counted)
                && transaction[3].contains("# Stats");
            if !right {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(right, "{info} {list} {counted} {transaction:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn threads_are_told_of() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..30 {
        client.check(&[(&format!("SET key:{number} v"), "+OK")]);
    }
    client.ask("MGET key:1 key:2 key:3 key:4 key:5 key:6 key:7");
    let info = client.ask("INFO halite");
    let threads = common::threads();
    for said in [format!("threads:{threads}\\r"), format!("partitions:{threads}\\r")] {
        assert!(info.contains(&said), "{said}: {info}");
    }
    let alone = threads == 1;
    assert_eq!(info.contains("requests_forwarded:0\\r"), alone, "{info}");
    assert_eq!(info.contains("messages_sent:0\\r"), alone, "{info}");
    assert_eq!(info.contains("parts_lent:0\\r"), alone, "{info}");
    assert!(client.ask("INFO stats").contains("total_commands_processed:33"));
}

fn slow_commands_are_told_of_by_all_threads() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    other.check(&[("CLIENT SETNAME the-other", "+OK")]);
    client.check(&[
        ("SLOWLOG GET", "[]"),
        ("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000", "+OK"),
    ]);
    for number in 0..20 {
        other.check(&[(&format!("SET key:{number} v"), "+OK")]);
    }
    let told = client.ask("SLOWLOG GET -1");
    for number in 0..20 {
        assert!(told.contains(&format!("[\"SET\", \"key:{number}\", \"v\"]")), "{told}");
    }
    assert_eq!(told.matches("\"the-other\"").count(), 20, "{told}");
    let addr = other.socket.get_ref().local_addr().unwrap();
    assert!(told.contains(&format!("\"{addr}\"")), "{told}");
    client.check(&[
        ("CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 3", "+OK"),
        ("SLOWLOG RESET", "+OK"),
        ("GET key:1", "\"v\""),
        ("SLOWLOG LEN", ":0"),
        ("CONFIG SET slowlog-log-slower-than 200000", "+OK"),
        ("PING", "+PONG"),
        ("DEBUG SLEEP 0.25", "+OK"),
        ("SLOWLOG LEN", ":1"),
        ("SLOWLOG GET x", "-ERR value is not an integer or out of range"),
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
        ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
    ]);
    for _ in 0..10 {
        other.check(&[("PING", "+PONG")]);
    }
    assert_eq!(client.integer("SLOWLOG LEN"), 3);
}

fn spikes_of_latency_are_told_of() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("LATENCY LATEST", "[]"), ("LATENCY HISTORY command", "[]")]);
    assert!(client.ask("LATENCY DOCTOR").contains("is not monitored"));
    client.check(&[
        ("CONFIG SET slowlog-log-slower-than -1", "+OK"),
        ("DEBUG SLEEP 0.02", "+OK"),
        ("LATENCY LATEST", "[]"),
        ("CONFIG SET latency-monitor-threshold 200", "+OK"),
        ("DEBUG SLEEP 0.25", "+OK"),
    ]);
    let latest = server.client().ask("LATENCY LATEST");
    assert!(latest.contains("[\"command\", :"), "{latest}");
    assert!(client.ask("LATENCY HISTORY command").starts_with("[[:"));
    assert!(client.ask("LATENCY DOCTOR").contains("command: "));
    let graph = client.ask("LATENCY GRAPH command");
    assert!(graph.starts_with("\"command - high "), "{graph}");
    // A column for each second: on a busy machine other commands may have been slow, too.
    let columns = graph.matches('_').count();
    assert!(columns > 0 && graph.contains(&format!("{}\\n\\n", "_".repeat(columns))), "{graph}");
    assert!(graph.ends_with(&format!("\\n{}\\n\"", "s".repeat(columns))), "{graph}");
    client.check(&[
        ("LATENCY GRAPH none", "-ERR No samples available for event 'none'"),
        ("SLOWLOG LEN", ":0"),
        ("LATENCY RESET none", ":0"),
        ("CONFIG SET latency-monitor-threshold 0", "+OK"),
    ]);
    client.check(&[("LATENCY RESET command", ":1"), ("LATENCY HISTORY command", "[]")]);
}

fn how_long_commands_take_is_told_of_by_all_threads() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..30 {
        client.check(&[(&format!("SET key:{number} v"), "+OK")]);
    }
    client.ask("CLIENT ID");
    let told = client.ask("LATENCY HISTOGRAM set client nothing");
    assert!(told.starts_with("[\"client|id\", [\"calls\", :1, \"histogram_usec\", [:"), "{told}");
    assert!(told.contains("\"set\", [\"calls\", :30, \"histogram_usec\", [:"), "{told}");
    assert!(told.ends_with(", :30]]]"), "{told}");
    client.check(&[("CONFIG RESETSTAT", "+OK"), ("LATENCY HISTOGRAM set", "[]")]);
}

/// The numbers behind `name=` in the lines of INFO that tell about partitions.
fn of_partitions(info: &str, name: &str) -> Vec<u64> {
    let lines = info.split("\\r\\n").filter(|line| line.starts_with("partition"));
    let fields = lines.flat_map(|line| line.split([':', ',']));
    let found = fields.filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    found.map(|number| number.parse().unwrap()).collect()
}

fn partitions_are_told_of() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..200 {
        client.check(&[(&format!("SET key:{number} value"), "+OK")]);
    }
    let info = client.ask("INFO partitions");
    let name = if common::is_lsm() { "versions_in_memory" } else { "records" };
    let records = of_partitions(&info, name);
    let all: u64 = records.iter().sum();
    assert_eq!(records.len(), common::threads(), "{info}");
    // The names of key spaces are versions, too.
    // One record is the server's own.
    assert!(all == 201 || common::is_lsm() && all > 200, "{info}");
    assert!(records.iter().all(|&records| records > 0), "{info}");
    assert_eq!(of_partitions(&info, "thread"), Vec::from_iter(0..common::threads() as u64));
    for name in ["live_bytes", "pool_bytes", "index_bytes"] {
        assert!(of_partitions(&info, name).iter().all(|&bytes| bytes > 0), "{name}: {info}");
    }
    assert_eq!(info.matches("domain=").count(), common::threads());
}

fn memory_is_told_of() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET k v", "+OK"), ("MEMORY USAGE none", "nil")]);
    client.call(&["SET", "large", &"v".repeat(100_000)]);
    let (small, large) =
        (client.integer("MEMORY USAGE k"), client.integer("MEMORY USAGE large SAMPLES 5"));
    assert!((2..200).contains(&small) && (100_000..200_000).contains(&large), "{small} {large}");
    client.check(&[("MEMORY USAGE k SAMPLES", "-ERR syntax error")]);
    let stats = client.ask("MEMORY STATS");
    let (told, not_told) = match common::is_lsm() {
        true => ("\"levels.bytes\", :0", "keys.count"),
        // With the one of the server itself.
        false => ("\"keys.count\", :3", "levels.bytes"),
    };
    assert!(stats.contains(told) && !stats.contains(not_told), "{stats}");
    assert!(client.ask("MEMORY DOCTOR").contains("Nothing is wrong"));
}

/// Sends bytes to the address of the metrics, and returns the reply.
fn http(addr: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(addr).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    // The server may close while it is written to.
    let _ = socket.read_to_string(&mut reply);
    reply
}

fn metrics_are_served_to_who_asks_for_them() {
    let server = Running::start_with(|config| {
        config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let addr = server.metrics.unwrap();
    server.client().check(&[("SET a 1", "+OK"), ("SET b 2", "+OK")]);
    // A connection that sends half a request does not block others for ever.
    let _silent = TcpStream::connect(addr).unwrap();
    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    common::eventually("the commands in the metrics", || {
        let text = http(addr, get);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let has_levels = common::is_lsm();
        for name in ["level_bytes", "level_zero_runs"] {
            assert!(text.contains(&format!("\nhalite_{name} 0\n")) == has_levels, "{text}");
        }
        assert!(text.contains("\nhalite_log_bytes ") == common::has_log(), "{text}");
        assert!(text.contains("\nhalite_records 3\n") != has_levels, "{text}");
        assert!(text.contains("\nhalite_versions_in_memory ") == has_levels, "{text}");
        text.contains("\nhalite_commands_total{thread=\"0\"} 2\n")
    });
    let text = http(addr, get);
    assert!(text.contains(&format!("\nhalite_partitions {}\n", common::threads())), "{text}");
    for line in text.split("\r\n\r\n").nth(1).unwrap().lines() {
        let is_value = line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
        assert!(line.starts_with("# ") || is_value, "{line}");
    }
    for wrong in ["GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "x\r\n\r\n"] {
        assert!(http(addr, wrong).starts_with("HTTP/1.1 404 "), "{wrong}");
    }
    assert_eq!(http(addr, &"x".repeat(20_000)), "");
}

fn a_slow_reader_of_metrics_keeps_nobody_waiting() {
    let mut server = Running::start_with(|config| {
        config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let addr = server.metrics.unwrap();
    let slow: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
    slow.iter().for_each(|mut socket| socket.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap());
    let text = http(addr, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.contains("halite_partition_served{partition=\"0\"} 1\n"), "{text}");
    // Nor does the end of the server wait for them.
    for mut socket in &slow {
        socket.set_nonblocking(true).unwrap();
        let read = socket.read(&mut [0]);
        assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    server.stop().unwrap();
}

/// The values of some keys.
fn read_all(client: &mut Client, keys: &[String]) -> String {
    client.call(&[&["MGET".to_owned()], keys].concat())
}

fn nothing_is_written_while_writes_are_paused() {
    let server = Running::start();
    let keys: Vec<_> = (0..20).map(|number| format!("key:{number}")).collect();
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..6 {
            let (keys, stop, rounds, server) = (&keys, &stop, &rounds, &server);
            scope.spawn(move || {
                let mut client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    let mut requests = Vec::new();
                    for key in keys {
                        requests.extend(match writer % 3 {
                            0 => request(&["INCR", key]),
                            1 => request(&["APPEND", key, "1"]),
                            _ => request(&["MSET", key, "1", &keys[0], "1"]),
                        });
                    }
                    client.send(&requests);
                    keys.iter().for_each(|_| assert!(!client.reply().starts_with("closed")));
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut admin = server.client();
        for _ in 0..30 {
            admin.check(&[("CLIENT PAUSE 100000 WRITE", "+OK")]);
            let before = read_all(&mut admin, &keys);
            for _ in 0..20 {
                assert_eq!(read_all(&mut admin, &keys), before);
            }
            admin.check(&[("CLIENT UNPAUSE", "+OK")]);
            let seen = rounds.load(Ordering::Relaxed);
            common::eventually("writing", || rounds.load(Ordering::Relaxed) > seen + 6);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn nothing_expires_while_clients_are_paused() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..50 {
        client.check(&[(&format!("SET key:{number} v PX 30"), "+OK")]);
    }
    client.check(&[("CLIENT PAUSE 100000 WRITE", "+OK")]);
    let left = client.integer("DBSIZE");
    common::eventually("the keys' time", || client.ask("GET key:49") == "nil");
    thread::sleep(std::time::Duration::from_millis(300));
    // They are hidden from readers, and no key was removed.
    for number in 0..50 {
        client.check(&[(&format!("GET key:{number}"), "nil")]);
    }
    assert!(scan(&mut client, "COUNT 100", |_| {}).is_empty());
    assert_eq!(client.integer("DBSIZE"), left);
    client.check(&[("CLIENT UNPAUSE", "+OK")]);
    common::eventually("the end of the keys", || client.integer("DBSIZE") == 0);
}
