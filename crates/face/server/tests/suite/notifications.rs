//! Keyspace notifications: events at keys, to those that subscribe to them.

use crate::common::{Client, Running};

on_threads! {
    every_change_has_its_events
    expired_keys_have_their_events
    events_go_to_the_channels_that_are_configured
    the_classes_of_events_are_configured
    events_of_a_transaction_leave_with_it
}

/// A server that sends these events, a client, and subscribers to all of them, which are on all threads.
pub(crate) fn server(letters: &str) -> (Running, Client, Vec<Client>) {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.ask(&format!("CONFIG SET notify-keyspace-events {letters}")), "+OK");
    let subscribers = (0..3).map(|_| {
        let mut subscriber = server.client();
        let reply = subscriber.ask("PSUBSCRIBE __key*");
        assert_eq!(reply, "[\"psubscribe\", \"__key*\", :1]");
        subscriber
    });
    let subscribers = subscribers.collect();
    (server, client, subscribers)
}

/// The next event: `0 set key`.
pub(crate) fn event(subscriber: &mut Client) -> String {
    let reply = subscriber.reply();
    let parts: Vec<_> = reply.trim_matches(&['[', ']'][..]).split(", ").collect();
    let part = |index: usize| parts[index].trim_matches('"');
    let channel = part(2).strip_prefix("__keyevent@").expect(&reply);
    format!("{} {}", channel.replace("__:", " "), part(3))
}

/// Performs requests, each of which has these events behind it, and no others.
#[track_caller]
pub(crate) fn check(client: &mut Client, subscribers: &mut [Client], requests: &[(&str, &str)]) {
    for (request, events) in requests {
        let reply = client.ask(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        for expected in events.split(", ").filter(|events| !events.is_empty()) {
            for subscriber in &mut *subscribers {
                assert_eq!(event(subscriber), expected, "event of `{request}`");
            }
        }
    }
    assert_eq!(client.ask("GETSET mark:1 1"), "nil");
    for subscriber in subscribers {
        for expected in ["0 keymiss mark:1", "0 new mark:1", "0 set mark:1"] {
            assert_eq!(event(subscriber), expected, "no event but those");
        }
    }
}

fn every_change_has_its_events() {
    let (_server, mut client, mut subscribers) = server("EAnm");
    // Those of Redis, which was asked.
    let requests = [
        ("SET a 1", "0 new a, 0 set a"),
        ("SET a 2", "0 set a"),
        ("SET a 3 EX 100", "0 set a, 0 expire a"),
        ("SET b 1 NX", "0 new b, 0 set b"),
        ("SET b 1 NX", ""),
        ("SET zz 1 XX", ""),
        ("SET zz2 1 GET", "0 keymiss zz2, 0 new zz2, 0 set zz2"),
        ("SETNX c 1", "0 new c, 0 set c"),
        ("SETNX c 1", ""),
        ("SETEX d 100 1", "0 new d, 0 set d, 0 expire d"),
        ("PSETEX d 100000 1", "0 set d, 0 expire d"),
        ("GETSET d 5", "0 set d"),
        ("GETSET e 5", "0 keymiss e, 0 new e, 0 set e"),
        ("MSET a 1 n1 2", "0 set a, 0 new n1, 0 set n1"),
        ("MSETNX n2 1 n3 1", "0 new n2, 0 set n2, 0 new n3, 0 set n3"),
        ("MSETNX n2 1", ""),
        ("APPEND a x", "0 append a"),
        ("APPEND ap x", "0 new ap, 0 append ap"),
        ("SETRANGE a 0 y", "0 setrange a"),
        ("SETRANGE a 0 ''", ""),
        ("INCR num", "0 new num, 0 incrby num"),
        ("INCRBY num 2", "0 incrby num"),
        ("DECR num", "0 incrby num"),
        ("DECRBY num 1", "0 incrby num"),
        ("INCRBYFLOAT num 1.5", "0 incrbyfloat num"),
        ("EXPIRE num 100", "0 expire num"),
        ("EXPIRE num 100 NX", ""),
        ("PERSIST num", "0 persist num"),
        ("PERSIST num", ""),
        ("EXPIRE num -1", "0 del num"),
        ("EXPIREAT c 99999999999", "0 expire c"),
        ("GETEX c", ""),
        ("GETEX c EX 10", "0 expire c"),
        ("GETEX c PERSIST", "0 persist c"),
        ("GETEX c EXAT 1", "0 del c"),
        ("GETDEL d", "0 del d"),
        ("GETDEL d", "0 keymiss d"),
        ("DEL a b nosuch", "0 del a, 0 del b"),
        ("UNLINK e", "0 del e"),
        ("RENAME n1 n2", "0 new n2, 0 rename_from n1, 0 rename_to n2"),
        ("RENAMENX n2 n9", "0 new n9, 0 rename_from n2, 0 rename_to n9"),
        ("COPY n9 n10", "0 new n10, 0 copy_to n10"),
        ("COPY n9 n10 REPLACE", "0 new n10, 0 copy_to n10"),
        ("COPY n9 n10 DB 1", "1 new n10, 1 copy_to n10"),
        ("MOVE n9 2", "2 new n9, 0 move_from n9, 2 move_to n9"),
        ("GET nosuch", "0 keymiss nosuch"),
        ("EXISTS nosuch", "0 keymiss nosuch"),
        ("TTL nosuch", "0 keymiss nosuch"),
        ("TYPE nosuch", "0 keymiss nosuch"),
        ("STRLEN nosuch", "0 keymiss nosuch"),
        ("MGET nosuch n10", "0 keymiss nosuch"),
        ("OBJECT ENCODING nosuch", ""),
        ("FLUSHDB", ""),
        ("SWAPDB 0 1", ""),
    ];
    check(&mut client, &mut subscribers, &requests);
}

fn expired_keys_have_their_events() {
    let (_server, mut client, mut subscribers) = server("EAnm");
    let requests = [
        ("SET x 1 PX 1", "0 new x, 0 set x, 0 expire x, 0 expired x"),
        ("GET x", "0 keymiss x"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", ""),
        ("SET y 1 PX 1", "0 new y, 0 set y, 0 expire y"),
        ("DEBUG SLEEP 0.01", ""),
        ("SET y 2", "0 expired y, 0 new y, 0 set y"),
        ("SET z 1 PX 1", "0 new z, 0 set z, 0 expire z"),
        ("DEBUG SLEEP 0.01", ""),
        ("EXISTS z", "0 expired z, 0 keymiss z"),
    ];
    check(&mut client, &mut subscribers, &requests);
}

fn events_go_to_the_channels_that_are_configured() {
    let (server, mut client, mut subscribers) = server("KEA");
    client.ask("SELECT 3");
    assert_eq!(client.ask("SET some:key 1"), "+OK");
    for subscriber in &mut subscribers {
        for channel in
            ["\"__keyspace@3__:some:key\", \"set\"", "\"__keyevent@3__:set\", \"some:key\""]
        {
            assert_eq!(subscriber.reply(), format!("[\"pmessage\", \"__key*\", {channel}]"));
        }
    }
    let mut other = server.client();
    other.ask("SUBSCRIBE __keyspace@3__:k");
    client.check(&[
        ("CONFIG SET notify-keyspace-events K$", "+OK"),
        ("SET k 1", "+OK"),
        ("DEL k", ":1"),
        ("CONFIG SET notify-keyspace-events ''", "+OK"),
        ("SET k 1", "+OK"),
        ("PUBLISH __keyspace@3__:k end", ":4"),
    ]);
    assert_eq!(other.reply(), "[\"message\", \"__keyspace@3__:k\", \"set\"]");
    assert_eq!(other.reply(), "[\"message\", \"__keyspace@3__:k\", \"end\"]");
}

fn the_classes_of_events_are_configured() {
    let server = Running::start();
    let mut client = server.client();
    let name = "notify-keyspace-events";
    let get = format!("CONFIG GET {name}");
    assert_eq!(client.ask(&get), format!("[\"{name}\", \"\"]"));
    assert_eq!(client.ask(&format!("CONFIG SET {name} EKx$g")), "+OK");
    assert_eq!(client.ask(&get), format!("[\"{name}\", \"g$xKE\"]"));
    let error = format!(
        "-ERR CONFIG SET failed (possibly related to argument '{name}') - Invalid event class character. Use \
         'Ag$lshzxeKEtmdn'."
    );
    assert_eq!(client.ask(&format!("CONFIG SET {name} KEq")), error);
    assert_eq!(client.ask(&get), format!("[\"{name}\", \"g$xKE\"]"));
}

fn events_of_a_transaction_leave_with_it() {
    let (_server, mut client, mut subscribers) = server("EAnm");
    client.check(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("SET b 1", "+QUEUED"),
        ("SET c 1", "+QUEUED"),
        ("GET b x", "-ERR wrong number of arguments for 'get' command"),
    ]);
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    client.check(&[
        ("MULTI", "+OK"),
        ("SET b 1", "+QUEUED"),
        ("INCR c", "+QUEUED"),
        ("DEL b", "+QUEUED"),
        ("EXEC", "[+OK, :1, :1]"),
    ]);
    for expected in ["0 new b", "0 set b", "0 new c", "0 incrby c", "0 del b"] {
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(event(subscriber), expected));
    }
    check(&mut client, &mut subscribers, &[]);
}
