//! A server answers while its partitions are recovered: requests that need one of them wait.

use crate::common;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::gated::Gated;
use crate::common::{Client, Running, eventually, page, request, scan, threads};
use halite::{Database, EngineError, LsmError};

on_threads! {
    ; indexlog:
    what_needs_no_key_is_answered_at_once
    a_request_waits_for_its_partition_and_those_of_others_do_not
    a_pipeline_keeps_its_order_while_a_partition_is_recovered
    what_changes_several_partitions_waits_for_all
    deadlines_hold_from_the_first_answer_on
    a_damaged_partition_refuses_its_requests_and_the_others_go_on
    a_scan_returns_what_lies_before_a_damaged_partition_and_then_the_reason
    keys_that_cannot_be_removed_keep_no_others
    keys_that_have_expired_are_gone_where_nothing_can_be_written
    keys_are_counted_on_threads_that_have_none_yet
    a_damaged_deadline_refuses_the_requests_of_its_partition
    the_server_ends_if_the_names_of_its_databases_are_damaged
    clients_that_leave_while_they_wait_leave_nothing_behind
    the_end_does_not_wait_for_partitions
    who_waits_before_the_server_runs_is_answered
}

/// A server over more partitions than threads, with some keys in each.
struct Loading {
    db: Database,
    gates: Arc<Gated>,
    server: Running,
    _folder: tempfile::TempDir,
}

const KEYS: usize = 200;

/// Returns the number of partitions: some have nothing but their keys.
fn partitions() -> usize {
    2 * threads() + 2
}

impl Loading {
    fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Starts a server on a database with the records that `fill` writes.
    fn start_with(fill: impl FnOnce(&Database)) -> Self {
        let (db, gates, folder) = Gated::database(partitions(), |db| {
            let mut server = Running::on(db.clone(), |config| config.threads = Some(threads()));
            let mut client = server.client();
            for number in 0..KEYS {
                client.check(&[(&format!("SET key:{number} {number}"), "+OK")]);
            }
            server.stop().unwrap();
            drop(server);
            fill(db);
        });
        let server = Running::on(db.clone(), |config| config.threads = Some(threads()));
        Self { db, gates, server, _folder: folder }
    }

    /// The partition with the order of the databases, beside the first one.
    fn of_order(&self) -> usize {
        self.db.partition_of("databases")
    }

    /// A partition that has nothing but its keys.
    fn plain(&self) -> usize {
        (1..partitions()).rev().find(|&number| number != self.of_order()).unwrap()
    }

    /// The keys of a partition, and their values.
    fn keys(&self, partition: usize) -> Vec<(String, usize)> {
        let keys = (0..KEYS).map(|number| (format!("key:{number}"), number));
        keys.filter(|(key, _)| self.db.partition_of(key) == partition).collect()
    }

    fn get(&self, client: &mut Client, partition: usize) {
        let (key, number) = &self.keys(partition)[0];
        client.check(&[(&format!("GET {key}"), &format!("\"{number}\""))]);
    }
}

/// Checks that no reply comes for a while.
#[track_caller]
fn check_waits(client: &mut Client) {
    let socket = client.socket.get_ref();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let arrived = socket.peek(&mut [0]);
    assert!(arrived.is_err(), "an answer came: {arrived:?}");
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
}

fn check_loading(client: &mut Client, expected: bool) {
    let info = client.ask("INFO persistence");
    assert!(info.contains(&format!("\\nloading:{}\\r", u8::from(expected))), "{info}");
}

fn what_needs_no_key_is_answered_at_once() {
    let loading = Loading::start();
    let mut clients: Vec<_> = (0..2 * threads()).map(|_| loading.server.client()).collect();
    for client in &mut clients {
        client.check(&[("PING", "+PONG"), ("SELECT 3", "+OK"), ("SELECT 0", "+OK")]);
        check_loading(client, true);
        let info = client.ask("INFO everything");
        assert!(info.contains("loading_loaded_perc:0.00"), "{info}");
        assert!(info.contains("partition1:thread="), "{info}");
        assert_eq!(info.matches(",state=recovering,").count(), partitions(), "{info}");
        assert!(client.ask("CLIENT LIST").contains("cmd=client|list"));
        client.check(&[("MULTI", "+OK"), ("SET key:1 x", "+QUEUED"), ("DISCARD", "+OK")]);
        assert!(client.ask("MEMORY STATS").contains("keys.count"));
        client.check(&[("GET", "-ERR wrong number of arguments for 'get' command")]);
    }
    let mut asks = loading.server.client();
    asks.send(b"DBSIZE\r\n");
    check_waits(&mut asks);
    (0..partitions()).for_each(|number| loading.gates.open(number));
    assert_eq!(asks.reply(), format!(":{KEYS}"));
    for client in &mut clients {
        check_loading(client, false);
        let info = client.ask("INFO");
        assert!(info.contains(&format!("db0:keys={KEYS},")), "{info}");
        assert_eq!(info.matches(",state=ready,").count(), partitions(), "{info}");
    }
}

fn a_request_waits_for_its_partition_and_those_of_others_do_not() {
    let loading = Loading::start();
    let last = loading.plain();
    let mut waiting: Vec<_> = (0..3 * threads()).map(|_| loading.server.client()).collect();
    let (key, number) = &loading.keys(last)[0];
    waiting.iter_mut().for_each(|client| client.send(format!("GET {key}\r\n").as_bytes()));
    loading.gates.open_all_but(last);
    for _ in 0..threads() {
        let mut client = loading.server.client();
        for partition in (0..partitions()).filter(|&partition| partition != last) {
            loading.get(&mut client, partition);
        }
        check_loading(&mut client, true);
        let info = client.ask("INFO");
        assert!(info.contains("db0:keys="), "{info}");
        // Reads of several partitions that are ready do not wait either.
        let (a, _) = &loading.keys(0)[0];
        let (b, _) = &loading.keys(if last == 1 { 2 } else { 1 })[0];
        assert!(client.ask(&format!("MGET {a} {b}")).starts_with("[\""));
    }
    waiting.iter_mut().for_each(check_waits);
    loading.gates.open(last);
    for client in &mut waiting {
        assert_eq!(client.reply(), format!("\"{number}\""));
    }
    let found: BTreeSet<_> = scan(&mut waiting[0], "COUNT 7", |_| {}).into_iter().collect();
    assert_eq!(found.len(), KEYS);
}

fn a_pipeline_keeps_its_order_while_a_partition_is_recovered() {
    let loading = Loading::start();
    let mut client = loading.server.client();
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for number in 0..KEYS {
        requests.extend(request(&["GET", &format!("key:{number}")]));
        expected.push(format!("\"{number}\""));
        requests.extend(request(&["PING"]));
        expected.push("+PONG".to_owned());
        requests.extend(request(&["INCR", &format!("key:{number}")]));
        expected.push(format!(":{}", number + 1));
        requests.extend(request(&["MGET", "key:0", &format!("key:{number}")]));
        expected.push(format!("[\"1\", \"{}\"]", number + 1));
    }
    client.send(&requests);
    for partition in (0..partitions()).rev() {
        loading.gates.open(partition);
    }
    for reply in expected {
        assert_eq!(client.reply(), reply);
    }
}

fn what_changes_several_partitions_waits_for_all() {
    let loading = Loading::start();
    let last = loading.plain();
    loading.gates.open_all_but(last);
    let other = (1..partitions()).find(|&number| number != last).unwrap();
    let (a, b) = (&loading.keys(0)[0].0, &loading.keys(other)[0].0);
    let mut reader = loading.server.client();
    loading.get(&mut reader, 0);
    let mut writers = [loading.server.client(), loading.server.client()];
    writers[0].send(format!("MSET {a} x {b} y\r\n").as_bytes());
    writers[1].check(&[("MULTI", "+OK")]);
    writers[1].check(&[(&format!("SET {a} x"), "+QUEUED"), (&format!("SET {b} y"), "+QUEUED")]);
    writers[1].send(b"EXEC\r\n");
    writers.iter_mut().for_each(check_waits);
    loading.get(&mut reader, 0);
    loading.gates.open(last);
    assert_eq!(writers[0].reply(), "+OK");
    assert_eq!(writers[1].reply(), "[+OK, +OK]");
    reader.check(&[(&format!("MGET {a} {b}"), "[\"x\", \"y\"]")]);
}

fn deadlines_hold_from_the_first_answer_on() {
    let loading = Loading::start_with(|db| {
        let (values, expires) =
            (db.key_space("db0").unwrap(), db.key_space("db0:expires").unwrap());
        for number in 0..KEYS / 2 {
            expires.put(format!("key:{number}"), 1_u64.to_be_bytes()).unwrap();
        }
        assert_eq!(values.len().unwrap(), KEYS as u64);
    });
    let mut client = loading.server.client();
    for number in 0..KEYS {
        client.send(format!("GET key:{number}\r\n").as_bytes());
    }
    (0..partitions()).for_each(|number| loading.gates.open(number));
    for number in 0..KEYS {
        let expected = if number < KEYS / 2 { "nil".into() } else { format!("\"{number}\"") };
        assert_eq!(client.reply(), expected);
    }
}

/// Checks that one partition's requests are refused, for a reason, and those of others are not.
fn check_refused(loading: &Loading, broken: usize, reason: &str) {
    for _ in 0..threads() {
        let mut client = loading.server.client();
        let (lost, _) = &loading.keys(broken)[0];
        let refused = |reply: String| {
            assert!(reply.starts_with("-ERR ") && reply.contains(reason), "{reply}");
            assert!(reply.contains(&format!("partition {broken}")), "{reply}");
        };
        for partition in (0..partitions()).filter(|&partition| partition != broken) {
            loading.get(&mut client, partition);
            let (key, number) = &loading.keys(partition)[0];
            client.check(&[(&format!("SET {key} {number}"), "+OK")]);
            refused(client.ask(&format!("MGET {key} {lost}")));
        }
        for request in ["GET", "DEL", "TTL", "INCR", "WATCH"] {
            refused(client.ask(&format!("{request} {lost}")));
        }
        for request in ["DBSIZE", "KEYS *", "FLUSHALL", "RANDOMKEY", &format!("SCAN {broken}")] {
            refused(client.ask(request));
        }
        let other = (0..partitions()).find(|&partition| partition != broken);
        let keys = loading.keys(other.expect("there are several partitions"));
        let (kept, number) = &keys[0];
        client.check(&[
            ("MULTI", "+OK"),
            (&format!("SET {kept} gone"), "+QUEUED"),
            (&format!("SET {lost} gone"), "+QUEUED"),
        ]);
        let reply = client.ask("EXEC");
        assert!(reply.starts_with("-EXECABORT ") && reply.contains(reason), "{reply}");
        client.check(&[(&format!("GET {kept}"), &format!("\"{number}\""))]);
        check_loading(&mut client, false);
        let info = client.ask("INFO");
        assert!(info.contains(&format!("partition{broken}:")), "{info}");
        assert_eq!(info.matches(",state=failed,").count(), 1, "{info}");
        assert!(info.contains("db0:keys="), "{info}");
    }
}

fn a_damaged_partition_refuses_its_requests_and_the_others_go_on() {
    let mut loading = Loading::start();
    let broken = loading.plain();
    let mut early = loading.server.client();
    early.send(format!("GET {}\r\n", loading.keys(broken)[0].0).as_bytes());
    loading.gates.open_all_but(broken);
    check_waits(&mut early);
    loading.gates.damage(broken);
    assert!(early.reply().contains("a test has damaged it"));
    check_refused(&loading, broken, "a test has damaged it");
    loading.server.stop().unwrap();
}

/// Scans until an error, which names the partition, and checks that all keys before it were returned.
fn check_scan_until(loading: &Loading, broken: usize) {
    for count in [7, 100_000] {
        let mut client = loading.server.client();
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        let error = loop {
            let reply = client.ask(&format!("SCAN {cursor} COUNT {count}"));
            if reply.starts_with('-') {
                break reply;
            }
            let (next, keys) = page(&reply);
            assert!(next != "0", "the scan has passed partition {broken}");
            found.extend(keys);
            cursor = next;
        };
        assert!(error.contains(&format!("partition {broken} ")), "{error}");
        let before = (0..broken).flat_map(|number| loading.keys(number)).map(|(key, _)| key);
        assert_eq!(found, before.collect());
    }
}

fn a_scan_returns_what_lies_before_a_damaged_partition_and_then_the_reason() {
    let loading = Loading::start();
    let broken = loading.plain();
    loading.gates.damage(broken);
    loading.gates.open_all_but(broken);
    let mut client = loading.server.client();
    eventually("the end of loading", || client.ask("INFO").contains("nloading:0"));
    check_scan_until(&loading, broken);
    // The next partition is found to be damaged later.
    let earlier = (1..broken).find(|&number| number != loading.of_order()).unwrap();
    loading.gates.damage(earlier);
    check_scan_until(&loading, earlier);
    loading.gates.open(earlier);
}

fn keys_that_cannot_be_removed_keep_no_others() {
    let loading = Loading::start();
    (0..partitions()).for_each(|number| loading.gates.open(number));
    let mut client = loading.server.client();
    let number_of = |client: &mut Client| {
        let info = client.ask("INFO stats");
        let (_, rest) = info.split_once("expired_keys:").unwrap();
        rest.split('\\').next().unwrap().parse::<usize>().unwrap()
    };
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")]);
    for number in 0..KEYS {
        client.check(&[(&format!("PEXPIRE key:{number} 1"), ":1")]);
    }
    loading.gates.damage(0);
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 1", "+OK")]);
    let others = KEYS - loading.keys(0).len();
    eventually("the end of the other keys", || number_of(&mut client) == others);
    loading.gates.open(0);
    eventually("the end of all keys", || number_of(&mut client) == KEYS);
}

fn keys_that_have_expired_are_gone_where_nothing_can_be_written() {
    let loading = Loading::start();
    (0..partitions()).for_each(|number| loading.gates.open(number));
    let mut client = loading.server.client();
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")]);
    fn full() -> EngineError {
        EngineError::Full { used: 1, limit: 1, held: 0, holder: None }
    }
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
    let poisoned =
        "-ERR the store no longer takes writes after an earlier failure (a test); reopen it";
    type Refusal = fn() -> EngineError;
    let refusals: [(Refusal, &str); 3] = [
        (full, oom),
        (|| LsmError::NoRoomBelow { reason: Arc::new(full()) }.into(), oom),
        (|| EngineError::Poisoned { why: "a test".into() }, poisoned),
    ];
    for (number, (refusal, reply)) in refusals.into_iter().enumerate() {
        let key = format!("key:{number}");
        client.check(&[(&format!("SET {key} 7 PX 1"), "+OK"), ("DEBUG SLEEP 0.01", "+OK")]);
        loading.gates.refuse_writes(Some(refusal));
        client.check(&[
            (&format!("GET {key}"), "nil"),
            (&format!("EXISTS {key} key:9"), ":1"),
            (&format!("TTL {key}"), ":-2"),
            (&format!("DEL {key}"), ":0"),
            (&format!("MGET {key} key:9"), "[nil, \"9\"]"),
            (&format!("INCR {key}"), reply),
            ("SET key:9 x", reply),
            ("MULTI", "+OK"),
            (&format!("GET {key}"), "+QUEUED"),
            ("EXEC", "[nil]"),
            ("GET key:9", "\"9\""),
        ]);
        // The failed removal of the expired value must not remove a later one.
        loading.gates.refuse_writes(None);
        client.check(&[(&format!("INCR {key}"), ":1"), (&format!("TTL {key}"), ":-1")]);
    }
}

fn keys_are_counted_on_threads_that_have_none_yet() {
    let loading = Loading::start();
    let open: BTreeSet<_> = [0, loading.of_order()].into();
    open.iter().for_each(|&number| loading.gates.open(number));
    let count: usize = open.iter().map(|&number| loading.keys(number).len()).sum();
    for _ in 0..threads() {
        let mut client = loading.server.client();
        eventually("the count of keys", || {
            client.ask("INFO keyspace").contains(&format!("db0:keys={count},"))
        });
    }
    (0..partitions()).for_each(|number| loading.gates.open(number));
}

fn a_damaged_deadline_refuses_the_requests_of_its_partition() {
    let loading = Loading::start_with(|db| {
        let expires = db.key_space("db0:expires").unwrap();
        let order = db.partition_of("databases");
        let plain = |key: &String| ![0, order].contains(&db.partition_of(key));
        let mut keys = (0..KEYS).map(|number| format!("key:{number}"));
        expires.put(keys.find(plain).unwrap(), b"soon").unwrap();
    });
    (0..partitions()).for_each(|number| loading.gates.open(number));
    let mut client = loading.server.client();
    eventually("the end of loading", || client.ask("INFO").contains("nloading:0"));
    let info = client.ask("INFO");
    let failed = info.split("\\r\\n").find(|line| line.contains(",state=failed,")).unwrap();
    let broken = failed["partition".len()..].split(':').next().unwrap().parse().unwrap();
    let mut client = loading.server.client();
    let reply = client.ask(&format!("GET {}", loading.keys(broken)[0].0));
    assert!(reply.starts_with("-ERR damaged: the deadline of `key:"), "{reply}");
    loading.get(&mut client, 0);
}

fn the_server_ends_if_the_names_of_its_databases_are_damaged() {
    let mut loading = Loading::start();
    let mut client = loading.server.client();
    client.check(&[("PING", "+PONG")]);
    client.send(b"GET key:1\r\n");
    loading.gates.damage(0);
    let error = loading.server.wait().unwrap_err().to_string();
    assert!(error.contains("partition 0 could not be recovered"), "{error}");
    assert_eq!(client.reply(), "closed");
}

fn clients_that_leave_while_they_wait_leave_nothing_behind() {
    let loading = Loading::start();
    let mut last = loading.server.client();
    for round in 0..20 {
        let mut client = loading.server.client();
        client.send(format!("INCR gone\r\nGET key:{round}\r\nMGET key:1 key:2\r\n").as_bytes());
        if round % 2 == 0 {
            check_waits(&mut client);
        }
    }
    last.send(b"GET key:7\r\n");
    (0..partitions()).for_each(|number| loading.gates.open(number));
    assert_eq!(last.reply(), "\"7\"");
    eventually("the end of the other clients", || {
        last.ask("INFO clients").contains("connected_clients:1\\r")
    });
    last.check(&[("GET gone", "\"20\"")]);
}

fn the_end_does_not_wait_for_partitions() {
    let mut loading = Loading::start();
    let closed = loading.plain();
    loading.gates.open_all_but(closed);
    let mut ready = loading.server.client();
    loading.get(&mut ready, 0);
    let mut clients: Vec<_> = (0..2 * threads()).map(|_| loading.server.client()).collect();
    let (key, _) = &loading.keys(closed)[0];
    for client in &mut clients {
        client.send(format!("PING\r\nGET {key}\r\nPING\r\n").as_bytes());
        assert_eq!(client.reply(), "+PONG");
    }
    let (kept, _) = &loading.keys(0)[0];
    ready.check(&[(&format!("SET {kept} kept"), "+OK")]);
    loading.server.stop().unwrap();
    for client in &mut clients {
        assert_eq!(client.reply(), "closed");
    }
    assert_eq!(common::stored_string(&loading.db, kept).unwrap(), b"kept");
}

fn who_waits_before_the_server_runs_is_answered() {
    let loading = Loading::start();
    let mut client = loading.server.client();
    client.send(b"GET key:3\r\nSHUTDOWN\r\n");
    (0..partitions()).for_each(|number| loading.gates.open(number));
    assert_eq!(client.reply(), "\"3\"");
    assert_eq!(client.reply(), "closed");
}
