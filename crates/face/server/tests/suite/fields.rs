//! Fields of hashes expire, and only those.

use crate::common::{Client, Running, eventually};

on_threads! {
    deadlines_of_fields_are_set_and_told
    conditions_decide_about_fields
    wrong_words_about_fields_are_refused
    a_deadline_in_the_past_removes_the_field
    a_field_that_is_set_anew_stays
    expired_fields_are_hidden_and_removed_where_they_are_found
    expired_fields_are_removed_in_the_background
    deadlines_of_fields_move_with_their_hash
    values_are_read_with_a_new_deadline_or_removed
    fields_are_set_together_with_their_deadline
    deadlines_of_fields_survive_a_restart
    no_record_of_deadlines_is_left_behind
    hashes_with_deadlines_are_counted
    expired_fields_are_hidden_while_changes_are_paused
}

const FAR: &str = "33177117420";

/// Runs a test with hashes that are one record, and with hashes of which each field is one.
fn in_both_forms(test: impl Fn(&Running, &mut Client)) {
    for entries in ["512", "0"] {
        let server = Running::start();
        let mut client = server.client();
        client.check(&[(&format!("CONFIG SET hash-max-listpack-entries {entries}"), "+OK")]);
        test(&server, &mut client);
    }
}

fn deadlines_of_fields_are_set_and_told() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HTTL h FIELDS 2 a none", "[:-1, :-2]"),
            ("HTTL none FIELDS 2 a b", "[:-2, :-2]"),
            (&format!("HEXPIREAT h {FAR} FIELDS 2 a none"), "[:1, :-2]"),
            (&format!("HPEXPIREAT h {FAR}123 FIELDS 1 b"), "[:1]"),
            ("HEXPIRETIME h FIELDS 3 a b c", &format!("[:{FAR}, :33177117421, :-1]")),
            ("HPEXPIRETIME h FIELDS 2 a b", &format!("[:{FAR}000, :{FAR}123]")),
            ("HEXPIRE h 1000000 FIELDS 1 c", "[:1]"),
            ("HPEXPIRE none 1000 FIELDS 2 a b", "[:-2, :-2]"),
            ("HPERSIST h FIELDS 3 a b none", "[:1, :1, :-2]"),
            ("HPERSIST h FIELDS 2 a c", "[:-1, :1]"),
            ("HPERSIST none FIELDS 1 a", "[:-2]"),
            ("HTTL h FIELDS 3 a b c", "[:-1, :-1, :-1]"),
            ("HMGET h a b c", "[\"1\", \"2\", \"3\"]"),
            ("HPEXPIRE h 1000000 FIELDS 1 a", "[:1]"),
        ]);
        let ttl = client.ask("HTTL h FIELDS 1 a");
        assert!(["[:1000]", "[:999]", "[:998]"].contains(&&ttl[..]), "{ttl}");
    });
}

fn conditions_decide_about_fields() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSET h a 1 b 2", ":2"),
            ("HEXPIRE h 1000 XX FIELDS 1 a", "[:0]"),
            ("HEXPIRE h 1000 GT FIELDS 1 a", "[:0]"),
            ("HEXPIRE h 1000 NX FIELDS 1 a", "[:1]"),
            ("HEXPIRE h 2000 nx FIELDS 2 a b", "[:0, :1]"),
            ("HEXPIRE h 500 GT FIELDS 1 a", "[:0]"),
            ("HEXPIRE h 1500 GT FIELDS 2 a b", "[:1, :0]"),
            ("HEXPIRE h 1800 LT FIELDS 2 a b", "[:0, :1]"),
            ("HEXPIRE h 3000 XX FIELDS 3 a b none", "[:1, :1, :-2]"),
            ("HPERSIST h FIELDS 1 a", "[:1]"),
            ("HEXPIRE h 1 LT FIELDS 1 a", "[:1]"),
            ("HEXPIREAT h 1 NX FIELDS 1 a", "[:0]"),
        ]);
    });
}

fn wrong_words_about_fields_are_refused() {
    let no_fields = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    let not_all = "-ERR The `numfields` parameter must match the number of arguments";
    let no_count = "-ERR Number of fields must be a positive integer";
    let one_deadline = "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    Running::start().client().check(&[
        ("HSET h a 1", ":1"),
        ("HEXPIRE h 1 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command"),
        ("HEXPIRE h 1 FIELD 1 a", no_fields),
        ("HEXPIRE h 1 NX FIELD 1 a", no_fields),
        ("HEXPIRE h 1 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS 2 a", not_all),
        ("HEXPIRE h 1 FIELDS 1 a b", not_all),
        ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h 70368744178 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
        (
            "HPEXPIREAT h 70368744177664 FIELDS 1 a",
            "-ERR invalid expire time in 'hpexpireat' command",
        ),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "[:1]"),
        ("HTTL h FIELD 1 a", no_fields),
        ("HTTL h FIELDS 0 a", no_count),
        ("HPERSIST h FIELDS 2 a", not_all),
        ("HGETDEL h FIELDS x a", no_count),
        ("HGETEX h XFIELDX 1 a", no_fields),
        ("HGETEX h PXAT 1 1", no_fields),
        ("HGETEX h PERSIST 1 FIELDS 1 a", no_fields),
        ("HGETEX h EX x FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HGETEX h PX -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("HGETEX h FIELDS 2 a", not_all),
        ("HSETEX h FIELDS 2 a 1", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h FIELDS 1 a 1 b", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields"),
        ("HSETEX h KEEPTTL FIELDS x 1", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h NX FIELDS 1 a 1", "-ERR unknown argument: NX"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
        ("HSETEX h EX 1 PX 1 FIELDS 1 a 1", one_deadline),
        ("HSETEX h KEEPTTL KEEPTTL FIELDS 1 a 1", one_deadline),
        ("HSETEX h FNX EX 1 KEEPTTL KEEPTTL", one_deadline),
        ("HSETEX h FNX FNX2 EX 1 X", "-ERR unknown argument: FNX2"),
        ("HGET h a", "\"1\""),
    ]);
}

fn a_deadline_in_the_past_removes_the_field() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSET h a 1 b 2 c 3 d 4", ":4"),
            ("HEXPIREAT h 1 FIELDS 2 a none", "[:2, :-2]"),
            ("HEXISTS h a", ":0"),
            ("HPEXPIRE h 0 FIELDS 1 b", "[:2]"),
            ("HLEN h", ":2"),
            ("HGETEX h PXAT 1 FIELDS 2 c c", "[\"3\", nil]"),
            ("EXISTS h", ":1"),
            ("HPEXPIREAT h 1 FIELDS 1 d", "[:2]"),
            ("EXISTS h", ":0"),
            ("HSETEX h EXAT 1 FIELDS 2 a 1 b 2", ":1"),
            ("EXISTS h", ":0"),
        ]);
    });
}

fn a_field_that_is_set_anew_stays() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSETEX h EX 1000 FIELDS 3 a 1 b 2 c 3", ":1"),
            ("HSET h a 1", ":0"),
            ("HTTL h FIELDS 1 a", "[:-1]"),
            ("HSETNX h b 5", ":0"),
            ("HINCRBY h b 5", ":7"),
            ("HINCRBYFLOAT h c 0.5", "\"3.5\""),
        ]);
        for field in ["b", "c"] {
            let ttl = client.ask(&format!("HTTL h FIELDS 1 {field}"));
            assert!(["[:1000]", "[:999]", "[:998]"].contains(&&ttl[..]), "{field}: {ttl}");
        }
        client.check(&[
            ("HMSET h b 1 c 2", "+OK"),
            ("HTTL h FIELDS 2 b c", "[:-1, :-1]"),
            ("HDEL h a", ":1"),
            ("HSET h a 1", ":1"),
            ("HTTL h FIELDS 1 a", "[:-1]"),
        ]);
    });
}

fn expired_fields_are_hidden_and_removed_where_they_are_found() {
    in_both_forms(|_, client| {
        client.check(&[
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
            ("HSET h stays 0 n 5", ":2"),
            ("HSETEX h PX 1 FIELDS 6 a 1 b 2 c 3 d 4 e 5 f 6", ":1"),
            ("HPEXPIRE h 1 FIELDS 1 n", "[:1]"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("HLEN h", ":8"),
            ("HGETALL h", "[\"stays\", \"0\"]"),
            ("HKEYS h", "[\"stays\"]"),
            ("HVALS h", "[\"0\"]"),
            ("HSCAN h 0 COUNT 100", "[\"0\", [\"stays\", \"0\"]]"),
            ("HTTL h FIELDS 2 a stays", "[:-2, :-1]"),
            ("HLEN h", ":8"),
            ("HGET h a", "nil"),
            ("HLEN h", ":7"),
            ("HEXISTS h b", ":0"),
            ("HSTRLEN h c", ":0"),
            ("HLEN h", ":5"),
            // Redis does not look whether a field that it removes has expired.
            ("HDEL h d", ":1"),
            ("HMGET h e stays", "[nil, \"0\"]"),
            ("HLEN h", ":3"),
            ("HINCRBY h n 1", ":1"),
            ("HTTL h FIELDS 1 n", "[:-1]"),
            ("HSETNX h f 7", ":1"),
            ("HLEN h", ":3"),
            ("HPEXPIRE h 1 FIELDS 2 f n", "[:1, :1]"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("HRANDFIELD h", "\"stays\""),
            ("HRANDFIELD h 5", "[\"stays\"]"),
            ("HLEN h", ":1"),
            ("HPEXPIRE h 1 FIELDS 1 stays", "[:1]"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("EXISTS h", ":1"),
            ("HRANDFIELD h -3", "[]"),
            ("EXISTS h", ":0"),
            ("HSETEX h PX 1 FIELDS 1 a 1", ":1"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("HSETEX h FXX FIELDS 1 a 1", ":0"),
            ("EXISTS h", ":0"),
            ("HSETEX h PX 1 FIELDS 2 a 1 b 2", ":1"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("MULTI", "+OK"),
            ("HGET h a", "+QUEUED"),
            ("HGETDEL h FIELDS 1 b", "+QUEUED"),
            ("EXISTS h", "+QUEUED"),
            ("EXEC", "[nil, [nil], :0]"),
            ("EXISTS h", ":0"),
        ]);
        assert!(client.ask("INFO stats").contains("expired_subkeys:12\\r\\n"));
    });
}

fn expired_fields_are_removed_in_the_background() {
    in_both_forms(|server, client| {
        for hash in 0..20 {
            let mut words = vec!["HSETEX".to_owned(), format!("h{hash}")];
            words.extend(["PX", "1", "FIELDS", "300"].map(str::to_owned));
            words.extend((0..600).map(|word| word.to_string()));
            client.call(&words);
            if hash % 2 == 0 {
                client.ask(&format!("HSET h{hash} stays 1"));
            }
        }
        eventually("the removal of hashes", || client.ask("DBSIZE") == ":10");
        eventually("the removal of fields", || {
            (0..20).step_by(2).all(|hash| client.ask(&format!("HLEN h{hash}")) == ":1")
        });
        client.check(&[("HGET h4 stays", "\"1\"")]);
        eventually("their elements are gone", || {
            client.ask("DEL h0 h2 h4 h6 h8 h10 h12 h14 h16 h18");
            let elements = server.db.find_key_space("db0:elements").unwrap().unwrap();
            elements.is_empty().unwrap()
        });
    });
}

fn deadlines_of_fields_move_with_their_hash() {
    in_both_forms(|server, client| {
        let told = format!("[:{FAR}, :-1]");
        client.check(&[
            ("HSET h a 1 b 2", ":2"),
            (&format!("HEXPIREAT h {FAR} FIELDS 1 a"), "[:1]"),
            ("RENAME h renamed", "+OK"),
            ("HEXPIRETIME renamed FIELDS 2 a b", &told),
            ("COPY renamed copied", ":1"),
            ("HEXPIRETIME copied FIELDS 2 a b", &told),
            ("MOVE copied 3", ":1"),
            ("SWAPDB 3 4", "+OK"),
            ("SELECT 4", "+OK"),
            ("HEXPIRETIME copied FIELDS 2 a b", &told),
            ("HPEXPIRE copied 1 FIELDS 2 a b", "[:1, :1]"),
        ]);
        eventually("the removal of the copy", || client.ask("DBSIZE") == ":0");
        client.check(&[
            ("SELECT 0", "+OK"),
            ("HLEN renamed", ":2"),
            ("HPEXPIRE renamed 300000 FIELDS 1 a", "[:1]"),
            ("HSET other x 1", ":1"),
            ("HPEXPIRE other 1 FIELDS 1 x", "[:1]"),
            ("SET other string", "+OK"),
            ("DEBUG SLEEP 0.2", "+OK"),
            ("GET other", "\"string\""),
            ("FLUSHALL", "+OK"),
            ("HSET renamed a 1", ":1"),
            ("HTTL renamed FIELDS 1 a", "[:-1]"),
            ("DEL renamed", ":1"),
        ]);
        let _ = server;
    });
}

fn values_are_read_with_a_new_deadline_or_removed() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HGETEX h FIELDS 2 a none", "[\"1\", nil]"),
            ("HTTL h FIELDS 1 a", "[:-1]"),
            (&format!("HGETEX h EXAT {FAR} FIELDS 2 a b"), "[\"1\", \"2\"]"),
            ("HEXPIRETIME h FIELDS 3 a b c", &format!("[:{FAR}, :{FAR}, :-1]")),
            ("HGETEX h PERSIST FIELDS 3 a c none", "[\"1\", \"3\", nil]"),
            ("HEXPIRETIME h FIELDS 3 a b c", &format!("[:-1, :{FAR}, :-1]")),
            ("HGETEX none EX 1 FIELDS 2 a b", "[nil, nil]"),
            ("HGETDEL none FIELDS 1 a", "[nil]"),
            ("HGETDEL h FIELDS 3 a none a", "[\"1\", nil, nil]"),
            ("HGETDEL h FIELDS 2 b c", "[\"2\", \"3\"]"),
            ("EXISTS h", ":0"),
        ]);
    });
}

fn fields_are_set_together_with_their_deadline() {
    in_both_forms(|_, client| {
        client.check(&[
            ("HSETEX h FXX FIELDS 1 a 1", ":0"),
            ("EXISTS h", ":0"),
            ("HSETEX h FIELDS 2 a 1 b 2", ":1"),
            ("HSETEX h FNX FIELDS 2 b 3 c 3", ":0"),
            ("HSETEX h FXX FIELDS 2 b 3 c 3", ":0"),
            ("HMGET h a b c", "[\"1\", \"2\", nil]"),
            (&format!("HSETEX h FNX EXAT {FAR} FIELDS 2 c 3 d 4"), ":1"),
            (&format!("HSETEX h PXAT {FAR}000 FXX FIELDS 1 a 5"), ":1"),
            ("HEXPIRETIME h FIELDS 4 a b c d", &format!("[:{FAR}, :-1, :{FAR}, :{FAR}]")),
            ("HSETEX h KEEPTTL FIELDS 3 a 6 b 7 e 8", ":1"),
            ("HEXPIRETIME h FIELDS 3 a b e", &format!("[:{FAR}, :-1, :-1]")),
            ("HMGET h a b e", "[\"6\", \"7\", \"8\"]"),
            ("HSETEX h FIELDS 1 a 9", ":1"),
            ("HTTL h FIELDS 1 a", "[:-1]"),
        ]);
    });
}

fn deadlines_of_fields_survive_a_restart() {
    for entries in ["512", "0"] {
        let mut server = Running::start();
        let mut client = server.client();
        client.check(&[
            (&format!("CONFIG SET hash-max-listpack-entries {entries}"), "+OK"),
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
            ("HSET h a 1 b 2", ":2"),
            (&format!("HEXPIREAT h {FAR} FIELDS 1 a"), "[:1]"),
            ("HSETEX gone PX 1 FIELDS 2 a 1 b 2", ":1"),
            ("HSETEX part PX 1 FIELDS 1 a 1", ":1"),
            ("HSET part b 2", ":1"),
        ]);
        server.stop().unwrap();
        let again = Running::on(server.db.clone(), |_| {});
        let mut client = again.client();
        client.check(&[("HEXPIRETIME h FIELDS 2 a b", &format!("[:{FAR}, :-1]"))]);
        eventually("the removal of the hash", || client.ask("EXISTS gone") == ":0");
        eventually("the removal of the field", || client.ask("HLEN part") == ":1");
        client.check(&[("HGETALL part", "[\"b\", \"2\"]")]);
    }
}

fn no_record_of_deadlines_is_left_behind() {
    let server = Running::start();
    let mut client = server.client();
    let far = &format!("EXAT {FAR} FIELDS 1 a 1");
    for (made, removed) in [
        ("h", "DEL h"),
        ("h", "HDEL h a"),
        ("h", "HGETDEL h FIELDS 1 a"),
        ("h", "SET h x"),
        ("h", "PEXPIRE h 0"),
        ("h", "FLUSHDB"),
        ("h", "FLUSHALL"),
        ("h", "SUNIONSTORE h none"),
        ("h", "HEXPIREAT h 1 FIELDS 1 a"),
    ] {
        client.check(&[(&format!("HSETEX {made} {far}"), ":1")]);
        client.ask(removed);
        let elements = server.db.find_key_space("db0:elements").unwrap().unwrap();
        assert!(elements.is_empty().unwrap(), "{removed}");
        client.ask("DEL h");
    }
    client.check(&[
        (&format!("HSETEX h {far}"), ":1"),
        ("HPERSIST h FIELDS 1 a", "[:1]"),
        ("MULTI", "+OK"),
        (&format!("HSETEX i {far}"), "+QUEUED"),
        ("DEL i", "+QUEUED"),
        ("EXEC", "[:1, :1]"),
        (&format!("HSETEX j {far}"), ":1"),
        ("PEXPIRE j 1", ":1"),
    ]);
    eventually("the removal of the hash", || client.ask("EXISTS j") == ":0");
    let elements = server.db.find_key_space("db0:elements").unwrap().unwrap();
    eventually("the removal of its record", || elements.is_empty().unwrap());
}

fn hashes_with_deadlines_are_counted() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("HSET a f 1", ":1"),
        ("HSETEX b EX 1000 FIELDS 2 f 1 g 2", ":1"),
        ("HSETEX c EX 1000 FIELDS 1 f 1", ":1"),
    ]);
    let keyspace = |client: &mut Client| client.ask("INFO keyspace");
    let told = keyspace(&mut client);
    assert!(told.contains("db0:keys=3,expires=0,avg_ttl=0,subexpiry=2"), "{told}");
    client.check(&[("HPERSIST b FIELDS 2 f g", "[:1, :1]"), ("HDEL c f", ":1")]);
    let told = keyspace(&mut client);
    assert!(told.contains("db0:keys=2,expires=0,avg_ttl=0\\r\\n"), "{told}");
}

fn expired_fields_are_hidden_while_changes_are_paused() {
    in_both_forms(|_, client| {
        client.check(&[
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
            ("HSETEX h PX 1 FIELDS 3 a 1 b 2 c 3", ":1"),
            ("HSETEX gone PX 1 FIELDS 1 a 1", ":1"),
            ("HSET h stays 0", ":1"),
            ("DEBUG SLEEP 0.01", "+OK"),
            ("CLIENT PAUSE 1000000 WRITE", "+OK"),
            ("HGET h a", "nil"),
            ("HGETALL h", "[\"stays\", \"0\"]"),
            ("HRANDFIELD h", "\"stays\""),
            ("HRANDFIELD h 5", "[\"stays\"]"),
            ("HRANDFIELD h -2", "[\"stays\", \"stays\"]"),
            ("HRANDFIELD gone -2", "[]"),
            ("HLEN h", ":4"),
            ("CLIENT UNPAUSE", "+OK"),
            ("HGET h a", "nil"),
            ("HLEN h", ":3"),
        ]);
    });
}
