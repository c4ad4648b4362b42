//! Lists: elements at both ends and in the middle, as in Redis.

use crate::common::{Running, words};

on_threads! {
    elements_come_and_go_at_both_ends
    elements_are_found_replaced_and_inserted
    ranges_are_read_and_trimmed
    elements_are_removed_by_their_value
    positions_of_elements_are_found
    elements_move_between_lists
    elements_of_the_first_list_with_any_are_taken
    other_types_and_wrong_words_are_refused
    the_settings_say_which_lists_are_packed
    a_large_list_survives_a_restart
    a_transaction_that_fails_leaves_a_large_list_as_it_was
    a_full_store_refuses_pushes_and_lets_elements_be_taken
    ; indexlog:
    elements_are_taken_from_packed_collections_of_a_full_pool
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "-ERR syntax error";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";

fn elements_come_and_go_at_both_ends() {
    Running::start().client().check(&[
        ("RPUSH l a b c", ":3"),
        ("LPUSH l x y", ":5"),
        ("LRANGE l 0 -1", "[\"y\", \"x\", \"a\", \"b\", \"c\"]"),
        ("LLEN l", ":5"),
        ("LPUSHX none a", ":0"),
        ("RPUSHX none a", ":0"),
        ("EXISTS none", ":0"),
        ("RPUSHX l d e", ":7"),
        ("LPUSHX l z", ":8"),
        ("LPOP l", "\"z\""),
        ("RPOP l", "\"e\""),
        ("LPOP l 2", "[\"y\", \"x\"]"),
        ("RPOP l 2", "[\"d\", \"c\"]"),
        ("LPOP l 0", "[]"),
        ("LPOP none", "nil"),
        ("LPOP none 2", "nil"),
        ("RPOP l 10", "[\"b\", \"a\"]"),
        ("EXISTS l", ":0"),
        ("LPOP l x", "-ERR value is out of range, must be positive"),
        ("LPOP l -1", "-ERR value is out of range, must be positive"),
        ("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command"),
        ("TYPE l", "+none"),
        ("RPUSH l ''", ":1"),
        ("TYPE l", "+list"),
        ("LPOP l", "\"\""),
    ]);
}

fn elements_are_found_replaced_and_inserted() {
    Running::start().client().check(&[
        ("RPUSH l a b c", ":3"),
        ("LINDEX l 0", "\"a\""),
        ("LINDEX l -1", "\"c\""),
        ("LINDEX l 3", "nil"),
        ("LINDEX l x", NOT_AN_INTEGER),
        ("LINDEX none 0", "nil"),
        ("LSET l 1 B", "+OK"),
        ("LSET l -1 C", "+OK"),
        ("LSET l 3 x", "-ERR index out of range"),
        ("LSET none 0 x", "-ERR no such key"),
        ("LINSERT l BEFORE B 1", ":4"),
        ("LINSERT l after C 2", ":5"),
        ("LINSERT l BEFORE none 2", ":-1"),
        ("LINSERT none BEFORE a 2", ":0"),
        ("LINSERT l BESIDE a 2", SYNTAX),
        ("LRANGE l 0 -1", "[\"a\", \"1\", \"B\", \"C\", \"2\"]"),
    ]);
}

fn ranges_are_read_and_trimmed() {
    Running::start().client().check(&[
        ("RPUSH l 0 1 2 3 4 5", ":6"),
        ("LRANGE l 1 3", "[\"1\", \"2\", \"3\"]"),
        ("LRANGE l -2 100", "[\"4\", \"5\"]"),
        ("LRANGE l 4 2", "[]"),
        ("LRANGE none 0 -1", "[]"),
        ("LRANGE l 0 x", NOT_AN_INTEGER),
        ("EXPIRE l 100", ":1"),
        ("LTRIM l 1 -2", "+OK"),
        ("LRANGE l 0 -1", "[\"1\", \"2\", \"3\", \"4\"]"),
        ("TTL l", ":100"),
        ("LTRIM l 5 10", "+OK"),
        ("EXISTS l", ":0"),
        ("LTRIM l 0 1", "+OK"),
    ]);
}

fn elements_are_removed_by_their_value() {
    Running::start().client().check(&[
        ("RPUSH l a b a c a b", ":6"),
        ("LREM l 1 a", ":1"),
        ("LREM l -1 b", ":1"),
        ("LRANGE l 0 -1", "[\"b\", \"a\", \"c\", \"a\"]"),
        ("LREM l 0 a", ":2"),
        ("LREM l 0 none", ":0"),
        ("LREM none 0 a", ":0"),
        ("LRANGE l 0 -1", "[\"b\", \"c\"]"),
        ("LREM l 5 b", ":1"),
        ("LREM l -5 c", ":1"),
        ("EXISTS l", ":0"),
    ]);
}

fn positions_of_elements_are_found() {
    Running::start().client().check(&[
        ("RPUSH l a b c 1 2 3 c c", ":8"),
        ("LPOS l c", ":2"),
        ("LPOS l c RANK 2", ":6"),
        ("LPOS l c RANK -1", ":7"),
        ("LPOS l c COUNT 2", "[:2, :6]"),
        ("LPOS l c RANK -1 COUNT 2", "[:7, :6]"),
        ("LPOS l c COUNT 0", "[:2, :6, :7]"),
        ("LPOS l c COUNT 0 MAXLEN 7", "[:2, :6]"),
        ("LPOS l c COUNT 0 MAXLEN 1", "[]"),
        ("LPOS l x", "nil"),
        ("LPOS none x", "nil"),
        ("LPOS none x COUNT 1", "[]"),
        (
            "LPOS l c RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        ),
        ("LPOS l c COUNT -1", "-ERR COUNT can't be negative"),
        ("LPOS l c MAXLEN -1", "-ERR MAXLEN can't be negative"),
        ("LPOS l c RANK", SYNTAX),
        ("LPOS l c NONE 1", SYNTAX),
    ]);
}

fn elements_move_between_lists() {
    Running::start().client().check(&[
        ("RPUSH a 1 2 3", ":3"),
        ("LMOVE a b LEFT RIGHT", "\"1\""),
        ("LMOVE a b RIGHT LEFT", "\"3\""),
        ("RPOPLPUSH b b", "\"1\""),
        ("LRANGE b 0 -1", "[\"1\", \"3\"]"),
        ("LMOVE b b left right", "\"1\""),
        ("LRANGE b 0 -1", "[\"3\", \"1\"]"),
        ("RPOPLPUSH a b", "\"2\""),
        ("EXISTS a", ":0"),
        ("RPOPLPUSH a b", "nil"),
        ("LMOVE a b LEFT UP", SYNTAX),
        ("SET s v", "+OK"),
        ("LMOVE b s LEFT LEFT", WRONG_TYPE),
        ("LMOVE s b LEFT LEFT", WRONG_TYPE),
        ("LRANGE b 0 -1", "[\"2\", \"3\", \"1\"]"),
    ]);
}

fn elements_of_the_first_list_with_any_are_taken() {
    Running::start().client().check(&[
        ("RPUSH b 1 2 3 4", ":4"),
        ("LMPOP 2 a b LEFT", "[\"b\", [\"1\"]]"),
        ("LMPOP 2 a b right COUNT 2", "[\"b\", [\"4\", \"3\"]]"),
        ("LMPOP 1 b LEFT COUNT 10", "[\"b\", [\"2\"]]"),
        ("LMPOP 1 b LEFT", "nil"),
        ("LMPOP 0 b LEFT", "-ERR numkeys should be greater than 0"),
        ("LMPOP 2 b LEFT", SYNTAX),
        ("LMPOP 1 b UP", SYNTAX),
        ("LMPOP 1 b LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("LMPOP 1 b LEFT COUNT", SYNTAX),
        ("LMPOP 1 b LEFT NONE 1", SYNTAX),
    ]);
}

fn other_types_and_wrong_words_are_refused() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET s v", "+OK"), ("ZADD z 1 a", ":1")]);
    for request in [
        "LPUSH s a",
        "RPUSHX z a",
        "LPOP s",
        "RPOP z 1",
        "LINDEX s 0",
        "LSET s 0 a",
        "LLEN z",
        "LINSERT s BEFORE a b",
        "LRANGE s 0 1",
        "LTRIM z 0 1",
        "LREM s 0 a",
        "LPOS z a",
        "LMPOP 1 s LEFT",
        "RPOPLPUSH s l",
    ] {
        assert_eq!(client.ask(request), WRONG_TYPE, "{request}");
    }
    client.check(&[("GET s", "\"v\""), ("ZSCORE z a", "\"1\"")]);
}

fn the_settings_say_which_lists_are_packed() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("CONFIG GET list-max-listpack-size", "[\"list-max-listpack-size\", \"-2\"]"),
        ("RPUSH l a b c", ":3"),
        ("OBJECT ENCODING l", "\"listpack\""),
        ("CONFIG SET list-max-ziplist-size 3", "+OK"),
        ("CONFIG GET list-max-listpack-size", "[\"list-max-listpack-size\", \"3\"]"),
        ("CONFIG SET list-compress-depth 2", "+OK"),
        ("CONFIG GET list-compress-depth", "[\"list-compress-depth\", \"2\"]"),
    ]);
    // Another client's thread has the setting, too.
    let mut other = server.client();
    other.check(&[
        ("RPUSH l d", ":4"),
        ("OBJECT ENCODING l", "\"quicklist\""),
        ("RPOP l", "\"d\""),
        ("RPOP l", "\"c\""),
        ("OBJECT ENCODING l", "\"quicklist\""),
        ("RPOP l", "\"b\""),
        ("OBJECT ENCODING l", "\"listpack\""),
        ("CONFIG SET list-max-listpack-size -1", "+OK"),
    ]);
    let long = "x".repeat(5000);
    assert_eq!(other.call(&["RPUSH", "large", &long]), ":1");
    other.check(&[
        ("OBJECT ENCODING large", "\"quicklist\""),
        ("LSET large 0 a", "+OK"),
        ("OBJECT ENCODING large", "\"listpack\""),
    ]);
}

fn a_large_list_survives_a_restart() {
    let mut server = Running::start();
    let mut client = server.client();
    let numbers: Vec<String> = (0..5000).map(|number| format!("element:{number}")).collect();
    let mut request = words("RPUSH l");
    request.extend(numbers.iter().map(String::as_str));
    assert_eq!(client.call(&request), ":5000");
    client.check(&[
        ("OBJECT ENCODING l", "\"quicklist\""),
        ("LTRIM l 10 -11", "+OK"),
        ("LINSERT l BEFORE element:100 new", ":4981"),
        ("LREM l 1 element:101", ":1"),
        ("LPOP l 2", "[\"element:10\", \"element:11\"]"),
    ]);
    server.stop().unwrap();
    let server = Running::on(server.db.clone(), |_| {});
    server.client().check(&[
        ("LLEN l", ":4978"),
        ("LRANGE l 87 90", "[\"element:99\", \"new\", \"element:100\", \"element:102\"]"),
        ("LINDEX l -1", "\"element:4989\""),
        ("LTRIM l -2 -1", "+OK"),
        ("LRANGE l 0 -1", "[\"element:4988\", \"element:4989\"]"),
        ("OBJECT ENCODING l", "\"listpack\""),
        ("DEL l", ":1"),
        ("RPUSH l a", ":1"),
        ("LRANGE l 0 -1", "[\"a\"]"),
    ]);
}

fn a_transaction_that_fails_leaves_a_large_list_as_it_was() {
    let server = Running::start_with(|config| config.limits.transaction_len_max = 1 << 20);
    let mut client = server.client();
    client.check(&[("CONFIG SET list-max-listpack-size 2", "+OK"), ("RPUSH l a b c d", ":4")]);
    let long = "x".repeat(300_000);
    assert_eq!(client.call(&["RPUSH", "l", &long]), ":5");
    client.check(&[
        ("MULTI", "+OK"),
        ("LPUSH l z", "+QUEUED"),
        ("LREM l 0 b", "+QUEUED"),
        ("LINSERT l AFTER c d", "+QUEUED"),
        ("LRANGE l 0 3", "+QUEUED"),
    ]);
    for copy in 0..5 {
        assert_eq!(client.ask(&format!("COPY l copy:{copy}")), "+QUEUED");
    }
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    client.check(&[
        ("LLEN l", ":5"),
        ("LRANGE l 0 3", "[\"a\", \"b\", \"c\", \"d\"]"),
        ("LINDEX l 1", "\"b\""),
        ("EXISTS copy:0", ":0"),
    ]);
}

fn a_full_store_refuses_pushes_and_lets_elements_be_taken() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("CONFIG SET list-max-listpack-size 2", "+OK"), ("RPUSH l a b c d", ":4")]);
    if crate::common::is_lsm() {
        return;
    }
    client.check(&[
        ("CONFIG SET maxmemory 1", "+OK"),
        ("RPUSH l e", "-OOM command not allowed when used memory > 'maxmemory'."),
        ("LMOVE l m LEFT LEFT", "-OOM command not allowed when used memory > 'maxmemory'."),
        ("LPOP l", "\"a\""),
        ("LMPOP 1 l RIGHT", "[\"l\", [\"d\"]]"),
        ("LTRIM l 1 1", "+OK"),
        ("LREM l 0 c", ":1"),
        ("EXISTS l", ":0"),
    ]);
}

fn elements_are_taken_from_packed_collections_of_a_full_pool() {
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
    let folder = tempfile::tempdir().unwrap();
    let db = crate::common::builder().max_size(32 << 20).open(folder.path().join("data")).unwrap();
    let server = Running::on(db, |_| {});
    let mut client = server.client();
    client.check(&[("RPUSH l a b c d e", ":5"), ("ZADD z 1 a 2 b 3 c", ":3")]);
    for len in [65_536, 512, 1] {
        let (mut refused, mut number, value) = (0, 0, "v".repeat(len));
        while refused < 40 {
            let reply = client.call(&["SET", &format!("{len}:{number}"), &value]);
            assert!(reply == "+OK" || reply == oom, "{reply}");
            refused = if reply == oom { refused + 1 } else { 0 };
            number += 1;
        }
    }
    client.check(&[
        ("LPOP l", "\"a\""),
        ("LTRIM l 0 1", "+OK"),
        ("ZPOPMIN z", "[\"a\", \"1\"]"),
        ("ZREM z b", ":1"),
        ("LREM l 0 b", ":1"),
        ("LRANGE l 0 -1", "[\"c\"]"),
        ("ZRANGE z 0 -1", "[\"c\"]"),
    ]);
}
