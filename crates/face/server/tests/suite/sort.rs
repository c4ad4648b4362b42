//! SORT: by elements and by keys that they name, in any partition.

use crate::common::{Client, Running};

on_threads! {
    elements_are_sorted_as_numbers_and_as_texts
    a_part_of_the_elements_is_returned
    elements_are_sorted_by_keys_that_they_name
    keys_that_elements_name_are_returned
    what_is_sorted_is_stored
    wrong_words_of_sort_are_refused
    sort_works_in_transactions
}

fn list(client: &mut Client, key: &str, elements: &str) {
    client.ask(&format!("DEL {key}"));
    client.ask(&format!("RPUSH {key} {elements}"));
}

fn elements_are_sorted_as_numbers_and_as_texts() {
    let server = Running::start();
    let mut client = server.client();
    list(&mut client, "l", "10 9 2.5 -3 1e1");
    list(&mut client, "c", "0x10 17 1e400");
    client.check(&[
        ("SORT c", "-ERR One or more scores can't be converted into double"),
        ("LREM c 0 1e400", ":1"),
        ("SORT c DESC", "[\"17\", \"0x10\"]"),
    ]);
    list(&mut client, "t", "b10 b9 a '' B");
    client.check(&[
        ("SORT l", "[\"-3\", \"2.5\", \"9\", \"10\", \"1e1\"]"),
        ("SORT l DESC", "[\"1e1\", \"10\", \"9\", \"2.5\", \"-3\"]"),
        ("SORT l ALPHA", "[\"-3\", \"10\", \"1e1\", \"2.5\", \"9\"]"),
        ("SORT t ALPHA", "[\"\", \"B\", \"a\", \"b10\", \"b9\"]"),
        ("SORT t ALPHA DESC", "[\"b9\", \"b10\", \"a\", \"B\", \"\"]"),
        ("SORT t", "-ERR One or more scores can't be converted into double"),
        ("SORT none", "[]"),
        ("SADD s 3 1 2", ":3"),
        ("SORT s", "[\"1\", \"2\", \"3\"]"),
        ("SORT_RO s DESC", "[\"3\", \"2\", \"1\"]"),
    ]);
}

fn a_part_of_the_elements_is_returned() {
    let server = Running::start();
    let mut client = server.client();
    list(&mut client, "l", "5 4 3 2 1");
    client.check(&[
        ("SORT l LIMIT 1 2", "[\"2\", \"3\"]"),
        ("SORT l LIMIT -5 2", "[\"1\", \"2\"]"),
        ("SORT l LIMIT 3 100", "[\"4\", \"5\"]"),
        ("SORT l LIMIT 0 -1", "[\"1\", \"2\", \"3\", \"4\", \"5\"]"),
        ("SORT l LIMIT 9 1", "[]"),
        ("SORT l LIMIT 0 0", "[]"),
        ("SORT l BY nosort LIMIT 1 2", "[\"4\", \"3\"]"),
        ("SORT l BY nosort DESC LIMIT 1 2", "[\"2\", \"3\"]"),
    ]);
}

/// Elements whose names are in keys of all partitions.
fn weigh(client: &mut Client) {
    list(client, "l", "1 2 3 4 5 6 7 8");
    for element in 1..=8 {
        client.ask(&format!("SET weight_{element} {}", (element * 5) % 9));
        client.ask(&format!("SET name_{element}_x n{element}"));
        client.ask(&format!("HSET object_{element} weight {} name o{element}", (element * 7) % 11));
    }
}

fn elements_are_sorted_by_keys_that_they_name() {
    let server = Running::start();
    let mut client = server.client();
    weigh(&mut client);
    let by_weight = "[\"2\", \"4\", \"6\", \"8\", \"1\", \"3\", \"5\", \"7\"]";
    client.check(&[
        ("SORT l BY weight_*", by_weight),
        ("SORT_RO l BY weight_*", by_weight),
        ("SORT l BY object_*->weight LIMIT 0 4", "[\"8\", \"5\", \"2\", \"7\"]"),
        ("SORT l BY object_*->name ALPHA DESC LIMIT 0 2", "[\"8\", \"7\"]"),
        // Keys that are not there weigh nothing.
        ("SORT l BY none_* LIMIT 0 3", "[\"1\", \"2\", \"3\"]"),
        ("SORT l BY object_* LIMIT 0 3", "[\"1\", \"2\", \"3\"]"),
        ("SORT l BY nosort DESC LIMIT 0 3", "[\"8\", \"7\", \"6\"]"),
        ("SORT l BY name_*_x", "-ERR One or more scores can't be converted into double"),
        ("DEL weight_7", ":1"),
        ("SORT l BY weight_* ALPHA LIMIT 0 2", "[\"7\", \"2\"]"),
    ]);
}

fn keys_that_elements_name_are_returned() {
    let server = Running::start();
    let mut client = server.client();
    weigh(&mut client);
    client.check(&[
        ("SORT l LIMIT 0 2 GET name_*_x", "[\"n1\", \"n2\"]"),
        (
            "SORT l DESC LIMIT 0 2 GET # GET object_*->name GET none_* GET weight_1",
            "[\"8\", \"o8\", nil, nil, \"7\", \"o7\", nil, nil]",
        ),
        ("SORT l LIMIT 0 1 GET object_* GET name_*_x->a GET object_*->", "[nil, nil, nil]"),
        ("SORT_RO l BY weight_* LIMIT 0 2 GET object_*->weight", "[\"3\", \"6\"]"),
    ]);
}

fn what_is_sorted_is_stored() {
    let server = Running::start();
    let mut client = server.client();
    weigh(&mut client);
    client.check(&[
        ("SET to x", "+OK"),
        ("SORT l BY weight_* LIMIT 0 3 STORE to", ":3"),
        ("TYPE to", "+list"),
        ("SORT to BY nosort", "[\"2\", \"4\", \"6\"]"),
        ("SORT l LIMIT 0 2 GET none_* GET # STORE to", ":4"),
        ("SORT to BY nosort", "[\"\", \"1\", \"\", \"2\"]"),
        ("SORT l DESC STORE l", ":8"),
        ("SORT l BY nosort LIMIT 0 2", "[\"8\", \"7\"]"),
        ("SORT none STORE l", ":0"),
        ("EXISTS l", ":0"),
        ("SADD s c a b", ":3"),
        ("SORT s BY nosort STORE to", ":3"),
        ("SORT to BY nosort", "[\"a\", \"b\", \"c\"]"),
        ("SORT_RO s STORE to", "-ERR syntax error"),
    ]);
}

fn wrong_words_of_sort_are_refused() {
    let server = Running::start();
    let mut client = server.client();
    list(&mut client, "l", "2 1");
    client.check(&[
        ("SORT l LIMIT 0", "-ERR syntax error"),
        ("SORT l LIMIT x 1", "-ERR value is not an integer or out of range"),
        ("SORT l BY", "-ERR syntax error"),
        ("SORT l GET", "-ERR syntax error"),
        ("SORT l STORE", "-ERR syntax error"),
        ("SORT l NONSENSE", "-ERR syntax error"),
        ("SET str x", "+OK"),
        ("SORT str", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HSET h a 1", ":1"),
        ("SORT h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        // A word that looks like an option may be the value of another one.
        ("SORT l STORE GET BY weight_*", ":2"),
        ("LLEN GET", ":2"),
    ]);
}

fn sort_works_in_transactions() {
    let server = Running::start();
    let mut client = server.client();
    weigh(&mut client);
    client.check(&[
        ("MULTI", "+OK"),
        ("SET weight_3 -1", "+QUEUED"),
        ("SORT l BY weight_* LIMIT 0 2 GET # GET weight_*", "+QUEUED"),
        ("SORT l LIMIT 0 1 STORE to", "+QUEUED"),
        ("LLEN to", "+QUEUED"),
        ("EXEC", "[+OK, [\"3\", \"-1\", \"2\", \"1\"], :1, :1]"),
    ]);
}
