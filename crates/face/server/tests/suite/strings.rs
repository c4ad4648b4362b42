//! Values: GET returns the value that was set, with every option.

use crate::common;
use crate::common::Running;

on_threads! {
    set_and_get_keep_any_bytes
    large_values_arrive_whole
    set_options_combine_as_in_redis
    the_older_ways_to_set_work
    getex_changes_the_deadline_only_as_told
    several_keys_are_set_together
    a_batch_that_cannot_be_written_changes_nothing
    parts_of_values_are_read_and_written
    integers_count_and_do_not_overflow
    floats_add_in_extended_precision
    values_are_set_and_removed_on_a_condition
    several_keys_expire_together
    counters_have_bounds_and_a_deadline
    lcs_finds_text_length_and_ranges
    lcs_refuses_what_takes_too_much_memory
}

const SYNTAX: &str = "-ERR syntax error";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";
const INVALID_EXPIRE: &str = "-ERR invalid expire time in 'set' command";

fn set_and_get_keep_any_bytes() {
    let server = Running::start();
    let mut client = server.client();
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(client.call(&[b"SET", &all[..], &all]), "+OK");
    assert_eq!(client.call(&[b"GET", &all[..]]), format!("\"{}\"", all.escape_ascii()));
    client.check(&[
        ("SET k ''", "+OK"),
        ("GET k", "\"\""),
        ("SET '' empty", "+OK"),
        ("GET ''", "\"empty\""),
        ("GET none", "nil"),
    ]);
    assert_eq!(common::stored_string(&server.db, &all).unwrap(), all);
}

fn large_values_arrive_whole() {
    let server = Running::start();
    let mut client = server.client();
    let value: Vec<u8> = (0..20_000_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(client.call(&[b"SET", &b"big"[..], &value]), "+OK");
    assert_eq!(client.ask("STRLEN big"), ":20000000");
    assert_eq!(client.ask("GETRANGE big 251 253"), "\"\\x00\\x01\\x02\"");
    assert_eq!(client.ask("GET big").len(), format!("\"{}\"", value.escape_ascii()).len());
}

fn set_options_combine_as_in_redis() {
    Running::start().client().check(&[
        ("SET k 1 NX", "+OK"),
        ("SET k 2 NX", "nil"),
        ("SET k 2 XX", "+OK"),
        ("SET none 2 XX", "nil"),
        ("SET k 3 GET", "\"2\""),
        ("SET none 3 XX GET", "nil"),
        ("EXISTS none", ":0"),
        ("SET k 4 NX GET", "\"3\""),
        ("GET k", "\"3\""),
        ("SET new 4 NX GET", "nil"),
        ("GET new", "\"4\""),
        ("SET k 1 NX XX", SYNTAX),
        ("SET k 1 EX", SYNTAX),
        ("SET k 1 EX 10 PX 10", SYNTAX),
        ("SET k 1 KEEPTTL EX 10", SYNTAX),
        ("SET k 1 EX 10 KEEPTTL", SYNTAX),
        ("SET k 1 PERSIST", SYNTAX),
        ("SET k 1 EX x", NOT_AN_INTEGER),
        ("SET k 1 EX 0", INVALID_EXPIRE),
        ("SET k 1 PX -1", INVALID_EXPIRE),
        ("SET k 1 EX 9223372036854775807", INVALID_EXPIRE),
        ("SET k 1 PX 9223372036854775807", INVALID_EXPIRE),
        ("SET k 1 EXAT 9223372036854775807", INVALID_EXPIRE),
        ("SET k 5 ex 100 get", "\"3\""),
        ("TTL k", ":100"),
        ("SET k 6 KEEPTTL", "+OK"),
        ("TTL k", ":100"),
        ("SET k 7", "+OK"),
        ("TTL k", ":-1"),
        ("SET k 8 EXAT 33177117420", "+OK"),
        ("EXPIRETIME k", ":33177117420"),
        ("SET k 8 PXAT 33177117420001", "+OK"),
        ("PEXPIRETIME k", ":33177117420001"),
        ("SET k 9 PXAT 1", "+OK"),
        ("GET k", "nil"),
        ("SET", "-ERR wrong number of arguments for 'set' command"),
    ]);
}

fn the_older_ways_to_set_work() {
    Running::start().client().check(&[
        ("SETNX k 1", ":1"),
        ("SETNX k 2", ":0"),
        ("SETEX k 100 2", "+OK"),
        ("TTL k", ":100"),
        ("SETEX k 0 2", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k -5 2", "-ERR invalid expire time in 'psetex' command"),
        ("PSETEX k 100000 3", "+OK"),
        ("GETSET k 4", "\"3\""),
        ("TTL k", ":-1"),
        ("GETSET none 1", "nil"),
        ("GETDEL k", "\"4\""),
        ("GETDEL k", "nil"),
    ]);
}

fn getex_changes_the_deadline_only_as_told() {
    Running::start().client().check(&[
        ("SET k v EX 100", "+OK"),
        ("GETEX k", "\"v\""),
        ("TTL k", ":100"),
        ("GETEX k PERSIST", "\"v\""),
        ("TTL k", ":-1"),
        ("GETEX k EX 50", "\"v\""),
        ("TTL k", ":50"),
        ("GETEX k PXAT 33177117420001", "\"v\""),
        ("PEXPIRETIME k", ":33177117420001"),
        ("GETEX k PERSIST EX 1", SYNTAX),
        ("GETEX k EX 1 PERSIST", SYNTAX),
        ("GETEX k KEEPTTL", SYNTAX),
        ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
        ("GETEX none EX 0", "nil"),
        ("GETEX k EXAT 1", "\"v\""),
        ("EXISTS k", ":0"),
    ]);
}

fn several_keys_are_set_together() {
    Running::start().client().check(&[
        ("MSET a 1 b 2 a 3", "+OK"),
        ("MGET a none b a", "[\"3\", nil, \"2\", \"3\"]"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MSETNX c 1 a 2", ":0"),
        ("EXISTS c", ":0"),
        ("MSETNX c 1 d 2", ":1"),
        ("MGET c d", "[\"1\", \"2\"]"),
        ("SET a 1 EX 100", "+OK"),
        ("MSET a 2", "+OK"),
        ("TTL a", ":-1"),
    ]);
}

fn a_batch_that_cannot_be_written_changes_nothing() {
    let server = Running::start();
    let mut client = server.client();
    let long = "k".repeat(halite::KEY_LEN_MAX + 1);
    let too_long = "-ERR the key is 65537 bytes long; the limit is 65536";
    assert_eq!(client.call(&["MSET", "a", "1", &long, "2"]), too_long);
    assert_eq!(client.ask("EXISTS a"), ":0");
    assert_eq!(client.call(&["SET", &long, "2"]), too_long);
    assert_eq!(client.call(&["GET", &long]), "nil");
    assert_eq!(client.call(&["SET", &long[1..], "2"]), "+OK");
    assert_eq!(client.call(&["GET", &long[1..]]), "\"2\"");
}

fn parts_of_values_are_read_and_written() {
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    Running::start().client().check(&[
        ("APPEND k Hello", ":5"),
        ("APPEND k World", ":10"),
        ("STRLEN k", ":10"),
        ("STRLEN none", ":0"),
        ("GETRANGE k 0 4", "\"Hello\""),
        ("GETRANGE k -5 -1", "\"World\""),
        ("GETRANGE k 5 100", "\"World\""),
        ("GETRANGE k 6 2", "\"\""),
        ("GETRANGE none 0 -1", "\"\""),
        ("GETRANGE k 0 x", NOT_AN_INTEGER),
        ("SETRANGE k 5 Redis", ":10"),
        ("GET k", "\"HelloRedis\""),
        ("SETRANGE pad 3 x", ":4"),
        ("GET pad", "\"\\x00\\x00\\x00x\""),
        ("SETRANGE none 0 ''", ":0"),
        ("EXISTS none", ":0"),
        ("SETRANGE k 100 ''", ":10"),
        ("SETRANGE k -1 x", "-ERR offset is out of range"),
        ("SETRANGE k 536870912 x", too_long),
        ("SETRANGE k 9223372036854775807 x", too_long),
        ("EXPIRE k 100", ":1"),
        ("APPEND k !", ":11"),
        ("SETRANGE k 0 h", ":11"),
        ("TTL k", ":100"),
    ]);
}

fn integers_count_and_do_not_overflow() {
    let overflow = "-ERR increment or decrement would overflow";
    Running::start().client().check(&[
        ("INCR n", ":1"),
        ("INCRBY n 41", ":42"),
        ("DECR n", ":41"),
        ("DECRBY n 50", ":-9"),
        ("GET n", "\"-9\""),
        ("EXPIRE n 100", ":1"),
        ("INCR n", ":-8"),
        ("TTL n", ":100"),
        ("INCRBY n x", NOT_AN_INTEGER),
        ("SET n 9223372036854775807", "+OK"),
        ("INCR n", overflow),
        ("SET n -9223372036854775808", "+OK"),
        ("DECR n", overflow),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ("SET n 010", "+OK"),
        ("INCR n", NOT_AN_INTEGER),
        ("SET n 1.5", "+OK"),
        ("INCR n", NOT_AN_INTEGER),
    ]);
}

fn floats_add_in_extended_precision() {
    let not_a_float = "-ERR value is not a valid float";
    Running::start().client().check(&[
        ("SET f 3.0", "+OK"),
        ("INCRBYFLOAT f 1.1", "\"4.1\""),
        ("GET f", "\"4.1\""),
        ("INCRBYFLOAT f -4.1", "\"0\""),
        ("INCRBYFLOAT new 2e2", "\"200\""),
        ("INCRBYFLOAT f 17179869184", "\"17179869184\""),
        ("INCRBYFLOAT f 1.5", "\"17179869185.5\""),
        ("INCRBYFLOAT f x", not_a_float),
        ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
        ("SET f x", "+OK"),
        ("INCRBYFLOAT f 1", not_a_float),
    ]);
}

fn values_are_set_and_removed_on_a_condition() {
    let digits = "-ERR must be exactly 16 hexadecimal characters";
    Running::start().client().check(&[
        ("SET k Hello", "+OK"),
        ("SET k a IFEQ other", "nil"),
        ("SET k a ifeq Hello", "+OK"),
        ("SET k b IFEQ x GET", "\"a\""),
        ("SET k b IFNE x GET", "\"a\""),
        ("SET k c IFNE b", "nil"),
        ("SET none c IFEQ ''", "nil"),
        ("EXISTS none", ":0"),
        ("SET none c IFNE ''", "+OK"),
        ("DIGEST none", "\"8c40219a46b9f81b\""),
        ("RPUSH l a", ":1"),
        ("DELEX l IFEQ a", "-ERR Key should be of string type if conditions are specified"),
        ("DELEX none IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("SET none d IFDEQ 8C40219A46B9F81B EX 100", "+OK"),
        ("TTL none", ":100"),
        ("SET none e IFDEQ 8c40219a46b9f81b", "nil"),
        ("SET none e IFDNE 8c40219a46b9f81b", "+OK"),
        ("SET none e IFDEQ 123", digits),
        ("SET nothing e IFDEQ 123", "nil"),
        ("SET nothing e IFDNE 123", "+OK"),
        ("SET k v NX IFEQ a", SYNTAX),
        ("SET k v IFEQ a IFEQ a", SYNTAX),
        ("SET k v IFEQ", SYNTAX),
        ("DIGEST nosuch", "nil"),
        ("DELEX nosuch IFEQ a", ":0"),
        ("DELEX nosuch IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX k IFEQ a", ":0"),
        ("DELEX k IFNE b", ":0"),
        ("DELEX k IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX k IF b", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
        ("DELEX k IFDEQ b", digits),
        ("DELEX k IFEQ b", ":1"),
        ("DELEX none", ":1"),
        ("EXISTS k none", ":0"),
    ]);
}

fn several_keys_expire_together() {
    Running::start().client().check(&[
        ("MSETEX 2 a 1 b 2 EXAT 33177117420", ":1"),
        ("EXPIRETIME a", ":33177117420"),
        ("EXPIRETIME b", ":33177117420"),
        ("MSETEX 2 a 3 c 4 NX", ":0"),
        ("MSETEX 2 a 3 c 4 XX", ":0"),
        ("MGET a b c", "[\"1\", \"2\", nil]"),
        ("MSETEX 2 a 3 b 4 XX KEEPTTL", ":1"),
        ("EXPIRETIME a", ":33177117420"),
        ("MSETEX 1 a 5", ":1"),
        ("TTL a", ":-1"),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value"),
        ("MSETEX x a 1", "-ERR invalid numkeys value"),
        ("MSETEX 3 a 1 b 2", "-ERR wrong number of key-value pairs"),
        ("MSETEX 1 a 1 NX XX", SYNTAX),
        ("MSETEX 1 a 1 IFEQ 1", SYNTAX),
        ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 1 a 1 b", SYNTAX),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 NX", "[\"a\", \"b\"]"),
    ]);
}

fn counters_have_bounds_and_a_deadline() {
    let max = "9223372036854775807";
    Running::start().client().check(&[
        ("INCREX k", "[:1, :1]"),
        ("INCREX k BYINT 5", "[:6, :5]"),
        ("INCREX k BYINT 5 UBOUND 10", "[:6, :0]"),
        ("INCREX k BYINT 5 UBOUND 10 SATURATE", "[:10, :4]"),
        ("INCREX k BYINT -20 LBOUND 0 SATURATE", "[:0, :-10]"),
        ("INCREX none BYINT 5 UBOUND 4", "[:0, :0]"),
        ("EXISTS none", ":0"),
        ("INCREX k EX 100 ENX", "[:1, :1]"),
        ("TTL k", ":100"),
        ("INCREX k EX 900 ENX", "[:2, :1]"),
        ("TTL k", ":100"),
        ("INCREX k", "[:3, :1]"),
        ("TTL k", ":100"),
        ("INCREX k PERSIST", "[:4, :1]"),
        ("TTL k", ":-1"),
        ("OBJECT ENCODING k", "\"int\""),
        (&format!("INCREX k BYINT {max}"), "[:4, :0]"),
        (&format!("INCREX k BYINT {max} SATURATE"), &format!("[:{max}, :9223372036854775803]")),
        (
            "INCREX k BYINT -9 UBOUND -9223372036854775808 SATURATE",
            "-ERR increment or decrement would overflow",
        ),
        ("SET f 1.5", "+OK"),
        ("INCREX f BYFLOAT 0.25", "[\"1.75\", \"0.25\"]"),
        ("INCREX f BYFLOAT 9 UBOUND 2.5 SATURATE", "[\"2.5\", \"0.75\"]"),
        ("INCREX f BYFLOAT -9 LBOUND -1", "[\"2.5\", \"0\"]"),
        ("INCREX f", NOT_AN_INTEGER),
        ("INCREX f BYFLOAT inf", "-ERR value or increment would produce Infinity"),
        ("INCREX f BYFLOAT x", "-ERR value is not a valid float"),
        ("INCREX f BYINT 1 BYFLOAT 1", SYNTAX),
        ("INCREX f EX 1 PERSIST", SYNTAX),
        ("INCREX f PERSIST ENX", SYNTAX),
        ("INCREX f ENX", "-ERR ENX flag requires an expiration (EX, PX, EXAT or PXAT)"),
        ("INCREX f LBOUND 3 UBOUND 2", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX f EX 0", "-ERR invalid expire time in 'increx' command"),
    ]);
}

fn lcs_finds_text_length_and_ranges() {
    Running::start().client().check(&[
        ("MSET a ohmytext b mynewtext", "+OK"),
        ("LCS a b", "\"mytext\""),
        ("LCS a b LEN", ":6"),
        ("LCS a b IDX", "[\"matches\", [[[:4, :7], [:5, :8]], [[:2, :3], [:0, :1]]], \"len\", :6]"),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "[\"matches\", [[[:4, :7], [:5, :8], :4]], \"len\", :6]",
        ),
        ("LCS a none", "\"\""),
        ("LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."),
        ("LCS a b MINMATCHLEN", SYNTAX),
        ("LCS a b X", SYNTAX),
    ]);
}

fn lcs_refuses_what_takes_too_much_memory() {
    let server = Running::start();
    let mut client = server.client();
    let value = vec![b'x'; 20_000];
    client.call(&[b"MSET", &b"a"[..], &value, b"b", &value]);
    let refused = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    assert_eq!(client.ask("LCS a b LEN"), refused);
}
