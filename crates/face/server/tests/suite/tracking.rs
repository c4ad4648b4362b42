//! CLIENT TRACKING: clients that cache keys get to know that these have changed.

use std::collections::BTreeMap;
use std::thread;

use fastrand::Rng;

use crate::common::{Client, Running, eventually, request};

on_threads! {
    a_reader_is_told_once_of_each_change
    a_change_is_told_of_behind_the_value_that_was_read
    a_reader_may_choose_what_it_caches
    a_client_may_not_want_to_know_its_own_changes
    a_script_reads_and_changes_as_its_client
    all_changes_of_keys_with_a_prefix_are_told_of
    another_client_is_told_instead
    a_redirection_to_a_client_that_is_gone_is_broken
    removals_of_all_kinds_are_told_of
    the_keys_that_are_remembered_are_bounded
    what_does_not_go_together_is_refused
    trackers_are_told_of
    no_cache_is_out_of_date
}

fn reader(server: &Running, options: &str) -> Client {
    let mut client = server.client();
    client.ask("HELLO 3");
    assert_eq!(client.ask(&format!("CLIENT TRACKING ON {options}")), "+OK");
    client
}

/// Checks that there is no message before the reply to a PING.
#[track_caller]
fn check_silent(client: &mut Client) {
    assert_eq!(client.ask("PING"), "+PONG");
}

fn a_reader_is_told_once_of_each_change() {
    let server = Running::start();
    let mut readers: Vec<_> = (0..3).map(|_| reader(&server, "")).collect();
    let mut writer = server.client();
    for number in 0..10 {
        let key = format!("key:{number}");
        readers.iter_mut().for_each(|client| assert_eq!(client.ask(&format!("GET {key}")), "nil"));
        writer.check(&[(&format!("SET {key} 1"), "+OK"), (&format!("SET {key} 2"), "+OK")]);
        for client in &mut readers {
            assert_eq!(client.reply(), format!(">[\"invalidate\", [\"{key}\"]]"));
            check_silent(client);
        }
    }
    let client = &mut readers[0];
    client.check(&[("MGET key:1 key:2 nothing", "[\"2\", \"2\", nil]")]);
    assert_eq!(writer.ask("MSET key:1 a nothing b other c"), "+OK");
    let mut told = [client.reply(), client.reply()];
    told.sort();
    assert_eq!(told, [">[\"invalidate\", [\"key:1\"]]", ">[\"invalidate\", [\"nothing\"]]"]);
    check_silent(client);
    client.check(&[("GET key:1", "\"a\""), ("CLIENT TRACKING OFF", "+OK")]);
    assert_eq!(writer.ask("SET key:1 b"), "+OK");
    check_silent(client);
}

fn a_change_is_told_of_behind_the_value_that_was_read() {
    let server = Running::start();
    let mut client = reader(&server, "");
    for number in 0..50 {
        let key = format!("key:{number}");
        let requests = [
            request(&["GET", &key]),
            request(&["SET", &key, "1"]),
            request(&["GET", &key]),
            request(&["DEL", &key]),
            request(&["PING"]),
        ];
        client.send(&requests.concat());
        let told = format!(">[\"invalidate\", [\"{key}\"]]");
        let replies: Vec<_> = (0..7).map(|_| client.reply()).collect();
        let answers: Vec<_> = replies.iter().filter(|reply| **reply != told).collect();
        assert_eq!(answers, ["nil", "+OK", "\"1\"", ":1", "+PONG"]);
        let at = |wanted: &str| replies.iter().position(|reply| reply == wanted).unwrap();
        assert!(at("nil") < at(&told), "{replies:?}");
        let last = replies.iter().rposition(|reply| *reply == told).unwrap();
        assert!(at("\"1\"") < last, "{replies:?}");
    }
}

fn a_reader_may_choose_what_it_caches() {
    let server = Running::start();
    let mut writer = server.client();
    let mut opt_in = reader(&server, "OPTIN");
    opt_in.check(&[
        ("GET a", "nil"),
        ("CLIENT CACHING YES", "+OK"),
        ("GET b", "nil"),
        ("GET c", "nil"),
        ("CLIENT CACHING YES", "+OK"),
        ("MULTI", "+OK"),
        ("GET d", "+QUEUED"),
        ("GET e", "+QUEUED"),
        ("EXEC", "[nil, nil]"),
        ("GET f", "nil"),
    ]);
    let mut opt_out = reader(&server, "OPTOUT");
    opt_out.check(&[("GET a", "nil"), ("CLIENT CACHING NO", "+OK"), ("GET b", "nil")]);
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(writer.ask(&format!("SET {key} 1")), "+OK");
    }
    for key in ["b", "d", "e"] {
        assert_eq!(opt_in.reply(), format!(">[\"invalidate\", [\"{key}\"]]"));
    }
    check_silent(&mut opt_in);
    assert_eq!(opt_out.reply(), ">[\"invalidate\", [\"a\"]]");
    check_silent(&mut opt_out);
}

fn a_script_reads_and_changes_as_its_client() {
    let server = Running::start();
    let mut writer = server.client();
    let mut client = reader(&server, "NOLOOP");
    client.check(&[("SET a 1", "+OK"), ("GET a", "\"1\"")]);
    // It is not told of what its script changes, nor of keys that this does not read.
    client.call(&["EVAL", "return redis.call('set', KEYS[1], '2')", "2", "a", "b"]);
    check_silent(&mut client);
    writer.check(&[("SET b 1", "+OK")]);
    check_silent(&mut client);
    for command in ["EVAL", "EVAL_RO"] {
        client.call(&[command, "return redis.call('get', KEYS[2])", "2", "a", "b"]);
        writer.check(&[("SET a 3", "+OK"), ("SET b 2", "+OK")]);
        assert_eq!(client.reply(), ">[\"invalidate\", [\"b\"]]");
        check_silent(&mut client);
    }
}

fn a_client_may_not_want_to_know_its_own_changes() {
    let server = Running::start();
    let mut writer = server.client();
    let mut client = reader(&server, "NOLOOP");
    let mut other = reader(&server, "");
    for key in ["a", "b", "c", "d"] {
        client.check(&[(&format!("GET {key}"), "nil"), (&format!("SET {key} 1"), "+OK")]);
        client.check(&[(&format!("GET {key}"), "\"1\"")]);
        assert_eq!(writer.ask(&format!("SET {key} 2")), "+OK");
        assert_eq!(client.reply(), format!(">[\"invalidate\", [\"{key}\"]]"));
        check_silent(&mut client);
        other.check(&[(&format!("GET {key}"), "\"2\""), (&format!("SET {key} 3"), "+OK")]);
        assert_eq!(other.reply(), format!(">[\"invalidate\", [\"{key}\"]]"));
        check_silent(&mut other);
    }
}

/// The keys of messages, until there are so many.
fn keys(client: &mut Client, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        let reply = client.reply();
        let inner = reply.strip_prefix(">[\"invalidate\", [").expect(&reply);
        let inner = inner.strip_suffix("]]").unwrap();
        keys.extend(inner.split(", ").map(|key| key.trim_matches('"').to_owned()));
    }
    keys.sort();
    keys
}

fn all_changes_of_keys_with_a_prefix_are_told_of() {
    let server = Running::start();
    let mut writer = server.client();
    let mut all = reader(&server, "BCAST");
    let mut some = reader(&server, "BCAST PREFIX user: PREFIX item:");
    let mut others = reader(&server, "BCAST PREFIX user: NOLOOP");
    writer.check(&[
        ("MSET user:1 a item:1 b x c", "+OK"),
        ("SET user:1 b", "+OK"),
        ("DEL user:1 nothing", ":1"),
    ]);
    assert_eq!(keys(&mut all, 5), ["item:1", "user:1", "user:1", "user:1", "x"]);
    assert_eq!(keys(&mut some, 4), ["item:1", "user:1", "user:1", "user:1"]);
    assert_eq!(keys(&mut others, 3), ["user:1"; 3]);
    assert_eq!(others.ask("SET user:2 1"), "+OK");
    check_silent(&mut others);
    assert_eq!(keys(&mut some, 1), ["user:2"]);
    assert_eq!(keys(&mut all, 1), ["user:2"]);
    some.check(&[("CLIENT TRACKING OFF", "+OK")]);
    assert_eq!(writer.ask("SET user:3 1"), "+OK");
    check_silent(&mut some);
    assert_eq!(keys(&mut others, 1), ["user:3"]);
}

fn another_client_is_told_instead() {
    let server = Running::start();
    let mut writer = server.client();
    // They are on all threads.
    for _ in 0..4 {
        let (mut client, mut listener) = (server.client(), server.client());
        let mut third = server.client();
        third.ask("PING");
        let id = listener.integer("CLIENT ID");
        let on = format!("CLIENT TRACKING ON REDIRECT {id}");
        let subscribed = "[\"subscribe\", \"__redis__:invalidate\", :1]";
        listener.check(&[("SUBSCRIBE __redis__:invalidate", subscribed)]);
        client.check(&[(&on, "+OK"), ("GET a", "nil"), ("GET b", "nil")]);
        assert_eq!(client.integer("CLIENT GETREDIR"), id);
        writer.check(&[("SET a 1", "+OK"), ("SET b 1", "+OK"), ("FLUSHALL", "+OK")]);
        for told in ["[\"a\"]", "[\"b\"]", "nil"] {
            let expected = format!("[\"message\", \"__redis__:invalidate\", {told}]");
            assert_eq!(listener.reply(), expected);
        }
        client.check(&[("GET a", "nil"), ("SET a 1", "+OK"), ("PING", "+PONG")]);
        assert_eq!(listener.reply(), "[\"message\", \"__redis__:invalidate\", [\"a\"]]");
        client.check(&[("DEL a", ":1")]);
        assert_eq!(listener.ask("PING"), "[\"pong\", \"\"]");
    }
}

fn a_redirection_to_a_client_that_is_gone_is_broken() {
    let server = Running::start();
    let mut writer = server.client();
    for _ in 0..3 {
        let (mut client, mut listener) = (server.client(), server.client());
        let id = listener.integer("CLIENT ID");
        client.ask("HELLO 3");
        client.check(&[(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK")]);
        drop(listener);
        let is_gone = |writer: &mut Client| writer.ask(&format!("CLIENT LIST ID {id}")) == "\"\"";
        eventually("the end of the other client", || is_gone(&mut writer));
        client.check(&[("GET a", "nil")]);
        writer.check(&[("SET a 1", "+OK"), ("DEL a", ":1")]);
        assert_eq!(client.reply(), format!(">[\"tracking-redir-broken\", :{id}]"));
        let info = client.ask("CLIENT TRACKINGINFO");
        assert!(info.contains("~[\"on\", \"broken_redirect\"]"), "{info}");
        let gone = "-ERR The client ID you want redirect to does not exist";
        client.check(&[(&format!("CLIENT TRACKING ON REDIRECT {id}"), gone)]);
    }
}

/// Reads a key, and returns its value, whatever is told before.
fn value(client: &mut Client, key: &str) -> String {
    let mut reply = client.ask(&format!("GET {key}"));
    while reply.starts_with('>') {
        reply = client.reply();
    }
    reply
}

fn removals_of_all_kinds_are_told_of() {
    let server = Running::start();
    let mut writer = server.client();
    let mut client = reader(&server, "");
    let mut broadcast = reader(&server, "BCAST");
    for (request, told) in [
        ("EXPIRE a 100", "[\"a\"]"),
        ("PERSIST a", "[\"a\"]"),
        ("GETDEL a", "[\"a\"]"),
        ("RENAME a c", "[\"a\"]"),
        ("FLUSHDB", "nil"),
        ("FLUSHALL", "nil"),
        ("SWAPDB 0 1", "nil"),
    ] {
        writer.ask("SET a 1 EX 100");
        client.check(&[("GET a", "\"1\"")]);
        assert!(!writer.ask(request).starts_with('-'), "{request}");
        assert_eq!(client.reply(), format!(">[\"invalidate\", {told}]"), "{request}");
        check_silent(&mut client);
    }
    // By itself, once its time is over; a slow client may find it over.
    for time_ms in (100..).step_by(100) {
        writer.ask(&format!("SET a 1 PX {time_ms}"));
        if value(&mut client, "a") == "\"1\"" {
            break;
        }
    }
    assert_eq!(client.reply(), ">[\"invalidate\", [\"a\"]]");
    writer.check(&[("SET e 1 PX 1", "+OK")]);
    let mut told = Vec::new();
    while told.iter().filter(|reply| *reply == ">[\"invalidate\", [\"e\"]]").count() < 2 {
        told.push(broadcast.reply());
    }
    assert_eq!(told.iter().filter(|reply| *reply == ">[\"invalidate\", nil]").count(), 3);
}

fn the_keys_that_are_remembered_are_bounded() {
    let server = Running::start();
    let mut writer = server.client();
    let mut client = reader(&server, "");
    let name = "tracking-table-max-keys";
    assert_eq!(writer.ask(&format!("CONFIG GET {name}")), format!("[\"{name}\", \"1000000\"]"));
    assert_eq!(writer.ask(&format!("CONFIG SET {name} 10")), "+OK");
    let mut told = 0;
    for number in 0..100 {
        client.send_words(&["GET", &format!("key:{number}")]);
        while client.reply().starts_with(">[\"invalidate\", [\"key:") {
            told += 1;
        }
    }
    client.send_words(&["PING"]);
    while client.reply() != "+PONG" {
        told += 1;
    }
    assert!(told >= 90, "{told}");
    let info = writer.ask("INFO stats");
    let keys = info.split_once("tracking_total_keys:").unwrap().1.split_once("\\r").unwrap().0;
    assert!(keys.parse::<usize>().unwrap() <= 10, "{keys}");
}

fn what_does_not_go_together_is_refused() {
    let server = Running::start();
    let mut client = server.client();
    let switch = "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                  re-enabling it with a different mode.";
    client.check(&[
        ("CLIENT TRACKINGINFO", "[\"flags\", [\"off\"], \"redirect\", :-1, \"prefixes\", []]"),
        ("CLIENT GETREDIR", ":-1"),
        (
            "CLIENT CACHING yes",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ),
        ("CLIENT TRACKING", "-ERR wrong number of arguments for 'client|tracking' command"),
        ("CLIENT TRACKING on PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("CLIENT TRACKING on BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        (
            "CLIENT TRACKING on OPTIN OPTOUT",
            "-ERR You can't specify both OPTIN mode and OPTOUT mode",
        ),
        (
            "CLIENT TRACKING on REDIRECT 99999",
            "-ERR The client ID you want redirect to does not exist",
        ),
        ("CLIENT TRACKING on REDIRECT x", "-ERR value is not an integer or out of range"),
        ("CLIENT TRACKING on REDIRECT", "-ERR syntax error"),
        ("CLIENT TRACKING foo", "-ERR syntax error"),
        ("CLIENT TRACKING on foo", "-ERR syntax error"),
        (
            "CLIENT TRACKING on BCAST PREFIX a PREFIX ab",
            "-ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single client must not \
             overlap.",
        ),
        ("CLIENT TRACKING on BCAST PREFIX foo PREFIX bar", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"bcast\"], \"redirect\", :0, \"prefixes\", [\"bar\", \"foo\"]]",
        ),
        (
            "CLIENT TRACKING on BCAST PREFIX fo",
            "-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. Prefixes for a single client must not overlap.",
        ),
        ("CLIENT TRACKING on", switch),
        ("CLIENT GETREDIR", ":0"),
        ("CLIENT TRACKING off", "+OK"),
        ("CLIENT TRACKING on", "+OK"),
        ("CLIENT TRACKING on BCAST", switch),
        (
            "CLIENT CACHING yes",
            "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ),
        ("CLIENT TRACKING on OPTIN", "+OK"),
        (
            "CLIENT CACHING no",
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        ("CLIENT CACHING foo", "-ERR syntax error"),
        ("CLIENT CACHING yes", "+OK"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"optin\", \"caching-yes\"], \"redirect\", :0, \"prefixes\", []]",
        ),
        ("PING", "+PONG"),
        (
            "CLIENT TRACKINGINFO",
            "[\"flags\", [\"on\", \"optin\"], \"redirect\", :0, \"prefixes\", []]",
        ),
        (
            "CLIENT TRACKING on OPTOUT",
            "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
             it with a different mode.",
        ),
        ("RESET", "+RESET"),
        ("CLIENT TRACKINGINFO", "[\"flags\", [\"off\"], \"redirect\", :-1, \"prefixes\", []]"),
    ]);
}

fn trackers_are_told_of() {
    let server = Running::start();
    let mut client = server.client();
    let mut first = reader(&server, "");
    let second = reader(&server, "BCAST PREFIX a PREFIX b");
    let third = reader(&server, "BCAST PREFIX a");
    first.check(&[("MGET x y z", "[nil, nil, nil]")]);
    let info = client.ask("INFO stats");
    for line in ["tracking_total_keys:3", "tracking_total_items:3", "tracking_total_prefixes:2"] {
        assert!(info.contains(&format!("{line}\\r")), "{line} {info}");
    }
    assert!(client.ask("INFO clients").contains("tracking_clients:3\\r"));
    let list = client.ask("CLIENT LIST");
    assert_eq!(list.matches(" flags=t ").count(), 1, "{list}");
    assert_eq!(list.matches(" flags=tB ").count(), 2, "{list}");
    assert_eq!(list.matches(" redir=0 ").count(), 3, "{list}");
    drop((first, second, third));
    eventually("the end of the trackers", || {
        client.ask("INFO clients").contains("tracking_clients:0\\r")
    });
    let is_empty = |info: String| info.contains("tracking_total_keys:0\\r");
    eventually("the end of what they have read", || is_empty(client.ask("INFO stats")));
    assert_eq!(client.ask("SET x 1"), "+OK");
}

/// A client that caches what it reads, while others change it.
struct Cache {
    client: Client,
    values: BTreeMap<String, String>,
}

impl Cache {
    /// Takes replies, and what comes between them, until so many have come.
    fn take(&mut self, mut keys: Vec<String>) {
        keys.reverse();
        while !keys.is_empty() {
            let reply = self.client.reply();
            match reply.strip_prefix(">[\"invalidate\", [\"") {
                Some(key) => drop(self.values.remove(key.strip_suffix("\"]]").unwrap())),
                None => drop(self.values.insert(keys.pop().unwrap(), reply)),
            }
        }
    }
}

fn no_cache_is_out_of_date() {
    const KEYS: u64 = 40;
    let server = Running::start();
    let caches: Vec<_> = (0..3).map(|_| reader(&server, "")).collect();
    let writers: Vec<_> = (0..2).map(|_| server.client()).collect();
    let key = |random: &mut Rng| format!("key:{}", random.u64(..KEYS));
    let writers: Vec<_> = writers
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || {
                let mut random = Rng::new();
                for number in 0..600 {
                    let (a, b, value) = (key(&mut random), key(&mut random), number.to_string());
                    let reply = match random.u8(..6) {
                        0 => client.call(&["MSET", &a, &value, &b, &value]),
                        1 => client.call(&["DEL", &a, &b]),
                        2 => client.call(&["APPEND", &a, "x"]),
                        3 => {
                            client.ask("MULTI");
                            client.call(&["SET", &a, &value]);
                            client.call(&["SET", &b, &value]);
                            client.ask("EXEC")
                        }
                        _ => client.call(&["SET", &a, &value]),
                    };
                    assert!(!reply.starts_with('-'), "{reply}");
                }
            })
        })
        .collect();
    let caches: Vec<_> = caches
        .into_iter()
        .map(|client| {
            thread::spawn(move || {
                let mut cache = Cache { client, values: BTreeMap::new() };
                let mut random = Rng::new();
                for _ in 0..300 {
                    let keys: Vec<_> = (0..random.usize(1..8)).map(|_| key(&mut random)).collect();
                    let requests = keys.iter().flat_map(|key| request(&["GET", key]));
                    cache.client.send(&requests.collect::<Vec<_>>());
                    cache.take(keys);
                }
                cache
            })
        })
        .collect();
    let mut caches: Vec<_> = caches.into_iter().map(|thread| thread.join().unwrap()).collect();
    writers.into_iter().for_each(|thread| thread.join().unwrap());
    let mut client = server.client();
    for cache in &mut caches {
        // All that was changed before has been told of by now.
        cache.client.send_words(&["PING"]);
        cache.take(vec!["ping".to_owned()]);
        cache.values.remove("ping");
        for (key, value) in &cache.values {
            assert_eq!(client.ask(&format!("GET {key}")), *value, "{key}");
        }
    }
}
