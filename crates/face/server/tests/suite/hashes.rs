//! Hashes, as one record and as one of each field.

use std::collections::BTreeSet;

use crate::common::{Client, Running, page};

on_threads! {
    fields_are_set_read_and_removed
    wrong_words_and_types_are_refused
    numbers_in_fields_are_added_to
    random_fields_are_of_the_hash
    every_field_is_as_likely
    a_scan_returns_every_field_that_stays
    replies_have_the_types_of_their_protocol
    a_hash_is_there_after_a_restart
}

/// Runs a test with hashes that are one record, and with hashes of which each field is one.
fn in_both_forms(test: impl Fn(&mut Client)) {
    for entries in ["512", "0"] {
        let server = Running::start();
        let mut client = server.client();
        client.check(&[(&format!("CONFIG SET hash-max-listpack-entries {entries}"), "+OK")]);
        test(&mut client);
    }
}

/// The words of an array.
fn elements(reply: &str) -> Vec<String> {
    let inner = reply.strip_prefix('[').and_then(|reply| reply.strip_suffix(']')).unwrap();
    let words = inner.split(", ").filter(|word| !word.is_empty());
    words.map(|word| word.trim_matches('"').to_owned()).collect()
}

fn fields_are_set_read_and_removed() {
    let long = "x".repeat(2000);
    in_both_forms(|client| {
        client.check(&[
            ("HSET h a 1 b 2", ":2"),
            ("HSET h a 3 c 4", ":1"),
            ("HSET h a 3", ":0"),
            ("HMSET h b 5 '' empty", "+OK"),
            ("HSETNX h a 9", ":0"),
            ("HSETNX h d ''", ":1"),
            ("HGET h a", "\"3\""),
            ("HGET h ''", "\"empty\""),
            ("HGET h none", "nil"),
            ("HGET none a", "nil"),
            ("HMGET h a none d", "[\"3\", nil, \"\"]"),
            ("HMGET none a b", "[nil, nil]"),
            ("HLEN h", ":5"),
            ("HLEN none", ":0"),
            ("HEXISTS h d", ":1"),
            ("HEXISTS h e", ":0"),
            ("HSTRLEN h ''", ":5"),
            ("HSTRLEN h none", ":0"),
            ("HGETALL none", "[]"),
            ("HKEYS none", "[]"),
            ("HDEL h a a none", ":1"),
            ("HDEL none a", ":0"),
            ("HDEL h '' d", ":2"),
        ]);
        let pairs: BTreeSet<_> = elements(&client.ask("HGETALL h")).into_iter().collect();
        assert_eq!(pairs.into_iter().collect::<Vec<_>>(), ["4", "5", "b", "c"]);
        assert_eq!(elements(&client.ask("HKEYS h")).len(), 2);
        assert_eq!(elements(&client.ask("HVALS h")).len(), 2);
        // Fields longer than keys of the engine are read as well.
        client.check(&[
            (&format!("HSET h {long} v {long}2 w"), ":2"),
            (&format!("HGET h {long}"), "\"v\""),
            (&format!("HMGET h {long}2 {long}3"), "[\"w\", nil]"),
            (&format!("HDEL h {long}"), ":1"),
            ("HDEL h b c", ":2"),
            ("EXISTS h", ":1"),
            (&format!("HDEL h {long}2"), ":1"),
            ("EXISTS h", ":0"),
            ("TYPE h", "+none"),
        ]);
    });
}

fn wrong_words_and_types_are_refused() {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SET s x", "+OK"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
        ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command"),
        ("HSCAN h x", "-ERR invalid cursor"),
        ("HSET h a x", ":1"),
        ("HSCAN h 0 COUNT 0", "-ERR syntax error"),
        ("HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("HRANDFIELD h 1 VALUES", "-ERR syntax error"),
        ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range"),
        ("HINCRBY h a 1", "-ERR hash value is not an integer"),
        ("HINCRBYFLOAT h a 1", "-ERR hash value is not a float"),
        ("HINCRBY h b x", "-ERR value is not an integer or out of range"),
        ("HINCRBYFLOAT h b x", "-ERR value is not a valid float"),
        ("HINCRBYFLOAT h b inf", "-ERR value is NaN or Infinity"),
        ("GET h", wrong_type),
        ("LPUSH h x", wrong_type),
        ("SADD h x", wrong_type),
    ]);
    for request in [
        "HSET s a 1",
        "HMSET s a 1",
        "HSETNX s a 1",
        "HGET s a",
        "HMGET s a",
        "HGETALL s",
        "HDEL s a",
        "HLEN s",
        "HEXISTS s a",
        "HKEYS s",
        "HVALS s",
        "HSTRLEN s a",
        "HINCRBY s a 1",
        "HINCRBYFLOAT s a 1",
        "HRANDFIELD s",
        "HSCAN s 0",
        "HEXPIRE s 1 FIELDS 1 a",
        "HTTL s FIELDS 1 a",
        "HPERSIST s FIELDS 1 a",
        "HGETEX s FIELDS 1 a",
        "HGETDEL s FIELDS 1 a",
        "HSETEX s FIELDS 1 a 1",
    ] {
        client.check(&[(request, wrong_type)]);
    }
}

fn numbers_in_fields_are_added_to() {
    in_both_forms(|client| {
        client.check(&[
            ("HINCRBY h n 5", ":5"),
            ("HINCRBY h n -7", ":-2"),
            ("HSET h n 9223372036854775807", ":0"),
            ("HINCRBY h n 1", "-ERR increment or decrement would overflow"),
            ("HGET h n", "\"9223372036854775807\""),
            ("HINCRBYFLOAT h f 1.5", "\"1.5\""),
            ("HINCRBYFLOAT h f 3.0e3", "\"3001.5\""),
            ("HINCRBYFLOAT h f -3001.5", "\"0\""),
            ("HLEN h", ":2"),
        ]);
    });
}

fn random_fields_are_of_the_hash() {
    in_both_forms(|client| {
        client.check(&[
            ("HRANDFIELD none", "nil"),
            ("HRANDFIELD none 3", "[]"),
            ("HRANDFIELD none -3 WITHVALUES", "[]"),
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HRANDFIELD h 0", "[]"),
        ]);
        let one = client.ask("HRANDFIELD h");
        assert!(["\"a\"", "\"b\"", "\"c\""].contains(&&one[..]), "{one}");
        let mut all = elements(&client.ask("HRANDFIELD h 10"));
        all.sort();
        assert_eq!(all, ["a", "b", "c"]);
        let two = elements(&client.ask("HRANDFIELD h 2"));
        assert!(two.len() == 2 && two[0] != two[1], "{two:?}");
        let many = elements(&client.ask("HRANDFIELD h -50 WITHVALUES"));
        assert_eq!(many.len(), 100);
        for pair in many.chunks(2) {
            let value = ["a", "b", "c"].iter().position(|field| *field == pair[0]).unwrap() + 1;
            assert_eq!(pair[1], value.to_string());
        }
    });
}

fn every_field_is_as_likely() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("CONFIG SET hash-max-listpack-entries 4");
    const FIELDS: usize = 50;
    let request: Vec<String> = ["HSET".to_owned(), "h".to_owned()]
        .into_iter()
        .chain((0..2 * FIELDS).map(|number| (number / 2).to_string()))
        .collect();
    client.call(&request);
    let mut counts = [0_u32; FIELDS];
    for field in elements(&client.ask("HRANDFIELD h -20000")) {
        counts[field.parse::<usize>().unwrap()] += 1;
    }
    let expected = 20_000.0 / FIELDS as f64;
    let squares = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected);
    // A sum of 49 squares that a fair draw exceeds about once in a billion times.
    assert!(squares.sum::<f64>() < 125.0, "{counts:?}");
}

fn a_scan_returns_every_field_that_stays() {
    in_both_forms(|client| {
        for field in 0..300 {
            client.ask(&format!("HSET h {field} v{field}"));
        }
        for (options, has_values) in [("", true), ("NOVALUES", false), ("COUNT 7", true)] {
            let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
            let mut step = 300;
            loop {
                let (next, found) = page(&client.ask(&format!("HSCAN h {cursor} {options}")));
                for pair in found.chunks(if has_values { 2 } else { 1 }) {
                    if has_values {
                        assert_eq!(pair[1], format!("v{}", pair[0]));
                    }
                    seen.insert(pair[0].clone());
                }
                // Fields that come and go meanwhile.
                client.ask(&format!("HSET h {step} x"));
                client.ask(&format!("HDEL h {step}"));
                step += 1;
                if next == "0" {
                    break;
                }
                cursor = next;
            }
            assert!((0..300).all(|field| seen.contains(&field.to_string())), "{options}");
        }
        let (_, found) = page(&client.ask("HSCAN h 0 MATCH 29? COUNT 1000"));
        assert_eq!(found.len(), 20);
        client.check(&[("HSCAN none 0 COUNT nonsense", "[\"0\", []]")]);
    });
}

fn replies_have_the_types_of_their_protocol() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("HELLO 3");
    client.check(&[
        ("HSET h a 1", ":1"),
        ("HGETALL h", "{\"a\": \"1\"}"),
        ("HGETALL none", "{}"),
        ("HKEYS h", "[\"a\"]"),
        ("HVALS h", "[\"1\"]"),
        ("HRANDFIELD h 1 WITHVALUES", "[[\"a\", \"1\"]]"),
        ("HRANDFIELD h -2 WITHVALUES", "[[\"a\", \"1\"], [\"a\", \"1\"]]"),
        ("HSCAN h 0", "[\"0\", [\"a\", \"1\"]]"),
        ("HGET h b", "nil"),
        ("HINCRBYFLOAT h a 1", "\"2\""),
    ]);
}

fn a_hash_is_there_after_a_restart() {
    let mut server = Running::start();
    let mut client = server.client();
    client.ask("CONFIG SET hash-max-listpack-entries 10");
    for field in 0..50 {
        client.ask(&format!("HSET large {field} {field}"));
    }
    client.check(&[("HSET small a 1", ":1"), ("HDEL large 7 8", ":2")]);
    server.stop().unwrap();
    let again = Running::on(server.db.clone(), |_| {});
    again.client().check(&[
        ("HLEN large", ":48"),
        ("HGET large 49", "\"49\""),
        ("HGET large 7", "nil"),
        ("HGETALL small", "[\"a\", \"1\"]"),
        ("OBJECT ENCODING large", "\"hashtable\""),
    ]);
}
