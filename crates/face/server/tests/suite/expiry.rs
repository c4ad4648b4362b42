//! Keys expire, and only those.

use crate::common;
use crate::common::{Running, eventually};

on_threads! {
    deadlines_are_set_in_each_unit
    conditions_decide_and_conflicts_are_named
    a_deadline_in_the_past_removes_the_key
    expired_keys_are_gone_for_every_command_before_they_are_collected
    scans_pass_expired_keys_over_and_remove_them
    keys_that_nobody_asks_for_are_collected
    deadlines_survive_a_restart
    keys_expire_that_a_large_transaction_has_left
    a_damaged_deadline_keeps_the_server_from_starting
}

fn keys_expire_that_a_large_transaction_has_left() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..128 {
        client.check(&[(&format!("SET k{number:03} v PX 5000"), "+OK")]);
    }
    let removed: Vec<_> = (0..100).map(|number| format!("k{number:03}")).collect();
    client.check(&[
        ("MULTI", "+OK"),
        ("SET a v EX 1000", "+QUEUED"),
        (&format!("DEL {}", removed.join(" ")), "+QUEUED"),
        ("EXEC", "[+OK, :100]"),
        ("DBSIZE", ":29"),
    ]);
    eventually("the others expire", || client.integer("DBSIZE") == 1);
}

fn deadlines_are_set_in_each_unit() {
    Running::start().client().check(&[
        ("SET k v", "+OK"),
        ("TTL k", ":-1"),
        ("PTTL none", ":-2"),
        ("EXPIRETIME k", ":-1"),
        ("PEXPIRETIME none", ":-2"),
        ("EXPIRE k 100", ":1"),
        ("TTL k", ":100"),
        ("PEXPIRE k 200000", ":1"),
        ("TTL k", ":200"),
        ("EXPIREAT k 33177117420", ":1"),
        ("EXPIRETIME k", ":33177117420"),
        ("PEXPIREAT k 33177117420123", ":1"),
        ("PEXPIRETIME k", ":33177117420123"),
        ("PERSIST k", ":1"),
        ("PERSIST k", ":0"),
        ("PERSIST none", ":0"),
        ("TTL k", ":-1"),
        ("EXPIRE none 100", ":0"),
    ]);
}

fn conditions_decide_and_conflicts_are_named() {
    let nx = "-ERR NX and XX, GT or LT options at the same time are not compatible";
    Running::start().client().check(&[
        ("SET k v", "+OK"),
        ("EXPIRE k 100 XX", ":0"),
        ("EXPIRE k 100 GT", ":0"),
        ("EXPIRE k 100 NX", ":1"),
        ("EXPIRE k 200 NX", ":0"),
        ("EXPIRE k 50 GT", ":0"),
        ("EXPIRE k 200 gt", ":1"),
        ("EXPIRE k 300 LT", ":0"),
        ("EXPIRE k 100 LT", ":1"),
        ("EXPIRE k 150 XX GT", ":1"),
        ("PERSIST k", ":1"),
        ("EXPIRE k 100 LT", ":1"),
        ("EXPIRE k 1 NX XX", nx),
        ("EXPIRE k 1 NX GT", nx),
        ("EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE k 1 AB", "-ERR Unsupported option AB"),
        ("EXPIRE k x", "-ERR value is not an integer or out of range"),
        ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
        ("EXPIREAT k 9223372036854775807", "-ERR invalid expire time in 'expireat' command"),
        ("PEXPIREAT k 9223372036854775807", ":1"),
        ("PEXPIRETIME k", ":9223372036854775807"),
    ]);
}

fn a_deadline_in_the_past_removes_the_key() {
    let server = Running::start();
    let mut client = server.client();
    for request in
        ["EXPIRE k -1", "PEXPIRE k 0", "EXPIREAT k 1", "PEXPIREAT k -9223372036854775808"]
    {
        client.check(&[("SET k v", "+OK"), (request, ":1"), ("EXISTS k", ":0")]);
    }
    assert!(server.db.find_key_space("db0").unwrap().unwrap().is_empty().unwrap());
    assert!(server.db.find_key_space("db0:expires").unwrap().unwrap().is_empty().unwrap());
}

fn expired_keys_are_gone_for_every_command_before_they_are_collected() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
        ("MSET a 1 b 2 c 3 d 4 e 5 stays 6", "+OK"),
        ("MULTI", "+OK"),
        ("PEXPIRE a 1", "+QUEUED"),
        ("PEXPIRE b 1", "+QUEUED"),
        ("PEXPIRE c 1", "+QUEUED"),
        ("PEXPIRE d 1", "+QUEUED"),
        ("PEXPIRE e 1", "+QUEUED"),
        ("EXEC", "[:1, :1, :1, :1, :1]"),
        ("DEBUG SLEEP 0.01", "+OK"),
        ("DBSIZE", ":6"),
        ("RANDOMKEY", "\"stays\""),
        ("GET a", "nil"),
        ("DBSIZE", ":5"),
        ("EXISTS b", ":0"),
        ("SETNX b new", ":1"),
        ("TTL b", ":-1"),
        ("SET c new KEEPTTL", "+OK"),
        ("TTL c", ":-1"),
        ("APPEND d new", ":3"),
        ("TTL d", ":-1"),
        ("RENAME e x", "-ERR no such key"),
    ]);
    // Expired keys are removed from the store too.
    let deadlines = server.db.find_key_space("db0:expires").unwrap().unwrap();
    let keys: Vec<_> = deadlines.iter().unwrap().map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, Vec::<Vec<u8>>::new());
}

fn scans_pass_expired_keys_over_and_remove_them() {
    for scan in [("KEYS *", "[\"stays\"]"), ("SCAN 0", "[\"0\", [\"stays\"]]")] {
        let server = Running::start();
        let mut client = server.client();
        client.check(&[
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
            ("SET gone v PX 1", "+OK"),
            ("SET stays v", "+OK"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("MULTI", "+OK"),
            (scan.0, "+QUEUED"),
            ("EXEC", &format!("[{}]", scan.1)),
            ("DBSIZE", ":2"),
        ]);
        match scan.0 {
            "SCAN 0" => assert_eq!(common::scan(&mut client, "", |_| {}), ["stays"]),
            _ => client.check(&[scan]),
        }
        client.check(&[("DBSIZE", ":1")]);
    }
}

fn keys_that_nobody_asks_for_are_collected() {
    let server = Running::start();
    let mut client = server.client();
    for key in 0..3000 {
        client.call(&["SET", &format!("key:{key}"), "v", "PX", "1"]);
    }
    client.check(&[("SET stays v", "+OK"), ("SELECT 9", "+OK"), ("SET x v PX 1", "+OK")]);
    eventually("the removal of expired keys", || client.ask("DBSIZE") == ":0");
    client.ask("SELECT 0");
    eventually("the removal of all expired keys", || client.ask("DBSIZE") == ":1");
    assert!(client.ask("INFO stats").contains("expired_keys:3001\\r\\n"));
    assert!(server.db.find_key_space("db0:expires").unwrap().unwrap().is_empty().unwrap());
}

fn deadlines_survive_a_restart() {
    let mut server = Running::start();
    server.client().check(&[
        ("SET long v PXAT 33177117420123", "+OK"),
        ("SET short v PX 1", "+OK"),
        ("SET never v", "+OK"),
        ("SET was v EX 100", "+OK"),
        ("SET was v", "+OK"),
    ]);
    server.stop().unwrap();
    let again = Running::on(server.db.clone(), |_| {});
    again.client().check(&[
        ("DEBUG SLEEP 0.01", "+OK"),
        ("PEXPIRETIME long", ":33177117420123"),
        ("EXISTS short", ":0"),
        ("TTL never", ":-1"),
        ("TTL was", ":-1"),
    ]);
}

fn a_damaged_deadline_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let db = common::open(folder.path().join("data"));
    db.key_space("db3:expires").unwrap().put("k", "short").unwrap();
    let mut config = halite_server::Config::default();
    config.port = 0;
    let error = halite_server::Server::bind(db, config).err().unwrap().to_string();
    assert!(error.contains("the deadline of `k` in db3:expires"), "{error}");
}
