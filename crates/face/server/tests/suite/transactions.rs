//! MULTI and EXEC: all commands or none, on the condition of the watched keys.

use crate::common;
use crate::common::Running;
use halite_server::Config;

on_threads! {
    queued_commands_happen_at_exec
    a_refused_command_aborts_and_a_failed_one_does_not
    a_transaction_sees_what_it_did
    exec_fails_if_a_watched_key_changed
    exec_succeeds_if_nothing_watched_changed
    expiry_of_a_watched_key_is_a_change_unless_it_was_before
    a_transaction_that_cannot_be_written_changes_nothing
    a_swap_with_what_has_expired_is_no_change
    a_watched_key_that_expired_and_was_flushed_has_changed
    what_is_watched_is_bounded
    the_queue_is_bounded
    a_client_that_goes_leaves_nothing_behind
}

fn a_swap_with_what_has_expired_is_no_change() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    // Nothing, or what has expired, is in the databases that are exchanged.
    for (before, behind) in [(false, true), (true, true), (true, false)] {
        client.ask("FLUSHALL");
        for db in [1, 0].into_iter().zip([before, behind]).filter_map(|(db, has)| has.then_some(db))
        {
            client.check(&[(&format!("SELECT {db}"), "+OK"), ("SET x v PX 1", "+OK")]);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.check(&[
            ("SELECT 1", "+OK"),
            ("WATCH x", "+OK"),
            ("SWAPDB 0 1", "+OK"),
            ("MULTI", "+OK"),
            ("PING", "+QUEUED"),
            ("EXEC", "[+PONG]"),
        ]);
    }
    // A key that was there when the watch began, and has expired since, has changed.
    client.ask("FLUSHALL");
    client.check(&[("SET x v", "+OK"), ("WATCH x", "+OK")]);
    other.check(&[("SELECT 1", "+OK"), ("PEXPIRE x 1", ":1")]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    other.check(&[("SWAPDB 0 1", "+OK")]);
    client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "nil")]);
}

fn queued_commands_happen_at_exec() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.check(&[("MULTI", "+OK"), ("SET k 1", "+QUEUED"), ("INCR k", "+QUEUED")]);
    assert_eq!(other.ask("GET k"), "nil");
    client.check(&[("GET k", "+QUEUED"), ("EXEC", "[+OK, :2, \"2\"]")]);
    assert_eq!(other.ask("GET k"), "\"2\"");
    client.check(&[
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH k", "-ERR WATCH inside MULTI is not allowed"),
        ("SET k 3", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET k", "\"2\""),
        ("MULTI", "+OK"),
        ("EXEC", "[]"),
    ]);
}

fn a_refused_command_aborts_and_a_failed_one_does_not() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    Running::start().client().check(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        ("EXEC", aborted),
        ("EXISTS a", ":0"),
        ("MULTI", "+OK"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("EXEC", aborted),
        ("SET text x", "+OK"),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("INCR text", "+QUEUED"),
        ("SET b 2", "+QUEUED"),
        ("EXEC", "[+OK, -ERR value is not an integer or out of range, +OK]"),
        ("MGET a b", "[\"1\", \"2\"]"),
        ("MULTI", "+OK"),
        ("SAVE", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
}

fn a_transaction_sees_what_it_did() {
    Running::start().client().check(&[
        ("MSET a 1 b 2 c 3", "+OK"),
        ("MULTI", "+OK"),
        ("DEL b", "+QUEUED"),
        ("SET d 4 EX 100", "+QUEUED"),
        ("EXPIRE a 50", "+QUEUED"),
        ("TTL a", "+QUEUED"),
        ("KEYS *", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("SCAN 0 MATCH c", "+QUEUED"),
        ("RENAME d e", "+QUEUED"),
        ("TTL e", "+QUEUED"),
        ("APPEND c x", "+QUEUED"),
        ("SWAPDB 0 1", "+QUEUED"),
        ("DBSIZE", "+QUEUED"),
        ("SELECT 1", "+QUEUED"),
        ("MGET a b c d e", "+QUEUED"),
        ("FLUSHDB", "+QUEUED"),
        ("RANDOMKEY", "+QUEUED"),
        ("SET last 1", "+QUEUED"),
        ("RANDOMKEY", "+QUEUED"),
        (
            "EXEC",
            "[:1, +OK, :1, :50, [\"a\", \"c\", \"d\"], :3, [\"0\", [\"c\"]], +OK, \
             :100, :2, +OK, :0, +OK, [\"1\", nil, \"3x\", nil, \"4\"], +OK, nil, +OK, \"last\"]",
        ),
        ("KEYS *", "[\"last\"]"),
        ("SELECT 0", "+OK"),
        ("DBSIZE", ":0"),
    ]);
}

fn exec_fails_if_a_watched_key_changed() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    for change in [
        "SET k 2",
        "DEL k",
        "APPEND k x",
        "EXPIRE k 100",
        "RENAME k x",
        "RENAME other k",
        "COPY other k REPLACE",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 1",
        "MSET k 1 x 2",
        "GETDEL k",
        "GETEX k EX 10",
    ] {
        other.check(&[("FLUSHALL", "+OK"), ("MSET k 1 other 1", "+OK")]);
        client.check(&[("WATCH x0 k", "+OK")]);
        other.ask(change);
        client.check(&[("MULTI", "+OK"), ("SET done 1", "+QUEUED"), ("EXEC", "nil")]);
        // The watch has ended.
        other.ask("SET k 3");
        client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
        assert_eq!(client.ask("EXISTS done"), ":0", "after {change}");
    }
}

fn exec_succeeds_if_nothing_watched_changed() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    other.check(&[("SET k 1", "+OK")]);
    for change in ["GET k", "SET other 1", "DEL none", "FLUSHDB 1", "EXPIRE none 10", "TTL k"] {
        client.check(&[("WATCH k none", "+OK")]);
        other.ask(change);
        client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
    }
    // The work of groups is no change of a stream, but entries are.
    other.check(&[("XADD s 1-1 a 1", "\"1-1\""), ("RPUSH l 1 2", ":2")]);
    for (change, is_seen) in [
        ("XGROUP CREATE s g 0", false),
        ("XREADGROUP GROUP g c STREAMS s >", false),
        ("XCLAIM s g d 0 1-1", false),
        ("XAUTOCLAIM s g e 0 0", false),
        ("XACK s g 1-1", false),
        ("XGROUP CREATECONSUMER s g f", false),
        ("XGROUP SETID s g 0", false),
        ("XGROUP DELCONSUMER s g f", false),
        ("XGROUP DESTROY s g", false),
        ("XSETID s 9-9", false),
        ("XGROUP CREATE none g 0 MKSTREAM", true),
        ("XADD s 10-1 a 1", true),
        ("XDEL s 10-1", true),
        ("LTRIM l 0 -1", true),
        ("HSETEX none EXAT 1 FIELDS 1 f v", true),
    ] {
        other.ask("DEL none");
        client.check(&[("WATCH s l none", "+OK")]);
        assert!(!other.ask(change).starts_with('-'), "{change}");
        let expected = if is_seen { "nil" } else { "[+PONG]" };
        client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", expected)]);
    }
    other.check(&[("DEL s l", ":2")]);
    // The same name in another database is another key.
    client.check(&[("WATCH k", "+OK")]);
    other.check(&[("SELECT 1", "+OK"), ("SET k 2", "+OK")]);
    client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
    // A key that did not exist was not flushed.
    client.check(&[("WATCH none", "+OK")]);
    other.check(&[("FLUSHALL", "+OK")]);
    client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
    client.check(&[("WATCH k", "+OK"), ("UNWATCH", "+OK")]);
    other.check(&[("SELECT 0", "+OK"), ("SET k 2", "+OK")]);
    client.check(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
    client.check(&[("WATCH k", "+OK"), ("SET k 3", "+OK"), ("MULTI", "+OK"), ("EXEC", "nil")]);
}

fn expiry_of_a_watched_key_is_a_change_unless_it_was_before() {
    Running::start().client().check(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
        ("SET k 1 PX 1500", "+OK"),
        ("WATCH k", "+OK"),
        ("DEBUG SLEEP 1.6", "+OK"),
        ("MULTI", "+OK"),
        ("EXEC", "nil"),
        ("SET k 1 PX 1", "+OK"),
        ("DEBUG SLEEP 0.01", "+OK"),
        ("WATCH k", "+OK"),
        ("EXISTS k", ":0"),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("EXEC", "[+PONG]"),
    ]);
}

fn a_transaction_that_cannot_be_written_changes_nothing() {
    let server = Running::start();
    let mut client = server.client();
    let long = "k".repeat(halite::KEY_LEN_MAX + 1);
    client.check(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED")]);
    assert_eq!(client.call(&["SET", &long, "1"]), "+QUEUED");
    let reply = client.ask("EXEC");
    assert!(reply.starts_with("-EXECABORT Transaction discarded because of: the key"), "{reply}");
    client.check(&[("EXISTS a", ":0"), ("SET a 2", "+OK"), ("GET a", "\"2\"")]);
    client.check(&[("MULTI", "+OK"), ("SELECT 1", "+QUEUED")]);
    assert_eq!(client.call(&["SET", &long, "1"]), "+QUEUED");
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    client.check(&[("SET b 1", "+OK"), ("SELECT 0", "+OK"), ("GET b", "\"1\"")]);
}

fn what_is_watched_is_bounded() {
    let server =
        Running::start_with(|config: &mut Config| config.limits.transaction_len_max = 10_000);
    let mut client = server.client();
    for number in 0..70 {
        assert_eq!(client.ask(&format!("WATCH key{number}")), "+OK");
        assert_eq!(client.ask(&format!("WATCH key{number}")), "+OK", "once is enough");
    }
    let refused = "-ERR the watched keys take more than 10000 bytes; EXEC or UNWATCH first";
    let more: Vec<String> = (70..100).map(|number| format!("key{number}")).collect();
    assert_eq!(client.ask(&format!("WATCH {}", more.join(" "))), refused);
    client.check(&[("UNWATCH", "+OK"), ("WATCH key70", "+OK"), ("MULTI", "+OK"), ("EXEC", "[]")]);
}

fn a_watched_key_that_expired_and_was_flushed_has_changed() {
    let server = Running::start();
    for flush in ["FLUSHDB", "SWAPDB 0 1"] {
        let mut client = server.client();
        client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("FLUSHALL", "+OK")]);
        client.check(&[
            ("SET k v PX 1500", "+OK"),
            ("WATCH k", "+OK"),
            ("DEBUG SLEEP 1.6", "+OK"),
            (flush, "+OK"),
            ("MULTI", "+OK"),
            ("SET x 1", "+QUEUED"),
            ("EXEC", "nil"),
        ]);
    }
}

fn the_queue_is_bounded() {
    let server =
        Running::start_with(|config: &mut Config| config.limits.transaction_len_max = 10_000);
    let mut client = server.client();
    let value = "v".repeat(6000);
    client.check(&[("MULTI", "+OK")]);
    assert_eq!(client.call(&["SET", "a", &value]), "+QUEUED");
    let refused = "-ERR the transaction is too large, end it with EXEC or DISCARD";
    assert_eq!(client.call(&["SET", "b", &value]), refused);
    client.check(&[
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXISTS a", ":0"),
    ]);
}

fn a_client_that_goes_leaves_nothing_behind() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.check(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("SET k 1", "+QUEUED")]);
    drop(client);
    common::eventually("the end of a connection", || {
        other.ask("CLIENT LIST").matches("id=").count() == 1
    });
    other.check(&[("EXISTS k", ":0"), ("SET k 2", "+OK"), ("GET k", "\"2\"")]);
}
