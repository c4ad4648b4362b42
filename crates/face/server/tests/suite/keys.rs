//! Keys and databases.

use crate::common;
use crate::common::{Client, Running, eventually};

on_threads! {
    keys_are_counted_and_removed
    keys_are_found_by_pattern
    a_key_moves_with_its_deadline
    a_key_is_copied_with_its_deadline
    a_key_moves_to_another_database
    databases_are_apart
    swapped_databases_stay_swapped_after_a_restart
    everything_is_there_when_the_database_is_opened_again
    many_keys_are_counted_while_nobody_waits
    objects_are_described_as_redis_would
}

fn keys_are_counted_and_removed() {
    Running::start().client().check(&[
        ("MSET a 1 b 2 c 3", "+OK"),
        ("EXISTS a b a none", ":3"),
        ("TOUCH a none", ":1"),
        ("TYPE a", "+string"),
        ("TYPE none", "+none"),
        ("DBSIZE", ":3"),
        ("DEL a a none", ":1"),
        ("UNLINK b c", ":2"),
        ("DBSIZE", ":0"),
        ("DEL", "-ERR wrong number of arguments for 'del' command"),
    ]);
}

fn keys_are_found_by_pattern() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("MSET user:1 a user:2 b other c u?er d", "+OK"),
        ("KEYS user:*", "[\"user:1\", \"user:2\"]"),
        ("KEYS u\\?er", "[\"u?er\"]"),
        ("KEYS *[er]*2", "[\"user:2\"]"),
        ("KEYS none*", "[]"),
        ("KEYS *", "[\"other\", \"u?er\", \"user:1\", \"user:2\"]"),
    ]);
    let random: Vec<_> = (0..200).map(|_| client.ask("RANDOMKEY")).collect();
    for key in ["\"other\"", "\"u?er\"", "\"user:1\"", "\"user:2\""] {
        assert!(random.iter().any(|found| found == key), "{key} is among 200 random keys");
    }
    client.check(&[("FLUSHALL", "+OK"), ("RANDOMKEY", "nil")]);
}

fn a_key_moves_with_its_deadline() {
    Running::start().client().check(&[
        ("SET a 1 EX 100", "+OK"),
        ("SET b 2", "+OK"),
        ("RENAME a b", "+OK"),
        ("TTL b", ":100"),
        ("EXISTS a", ":0"),
        ("SET c 3", "+OK"),
        ("RENAME c b", "+OK"),
        ("TTL b", ":-1"),
        ("RENAME none x", "-ERR no such key"),
        ("RENAMENX none x", "-ERR no such key"),
        ("RENAME b b", "+OK"),
        ("RENAMENX b b", ":0"),
        ("SET d 4", "+OK"),
        ("RENAMENX b d", ":0"),
        ("RENAMENX b e", ":1"),
        ("GET e", "\"3\""),
    ]);
}

fn a_key_is_copied_with_its_deadline() {
    Running::start().client().check(&[
        ("SET a 1 EX 100", "+OK"),
        ("COPY a b", ":1"),
        ("TTL b", ":100"),
        ("SET c 2", "+OK"),
        ("COPY a c", ":0"),
        ("COPY a c REPLACE", ":1"),
        ("GET c", "\"1\""),
        ("COPY none x", ":0"),
        ("COPY a a", "-ERR source and destination objects are the same"),
        ("COPY a a DB 3", ":1"),
        ("SELECT 3", "+OK"),
        ("TTL a", ":100"),
        ("COPY a a DB 16", "-ERR DB index is out of range"),
        ("COPY a a DB x", "-ERR value is not an integer or out of range"),
        ("COPY a a DB", "-ERR syntax error"),
    ]);
}

fn a_key_moves_to_another_database() {
    Running::start().client().check(&[
        ("SET a 1 EX 100", "+OK"),
        ("MOVE a 1", ":1"),
        ("MOVE a 1", ":0"),
        ("SET a 2", "+OK"),
        ("MOVE a 1", ":0"),
        ("MOVE a 0", "-ERR source and destination objects are the same"),
        ("MOVE a 16", "-ERR DB index is out of range"),
        ("SELECT 1", "+OK"),
        ("GET a", "\"1\""),
        ("TTL a", ":100"),
    ]);
}

fn databases_are_apart() {
    Running::start().client().check(&[
        ("SET k zero", "+OK"),
        ("SELECT 15", "+OK"),
        ("GET k", "nil"),
        ("SET k fifteen", "+OK"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT -1", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("GET k", "\"fifteen\""),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SELECT 0", "+OK"),
        ("GET k", "\"zero\""),
        ("FLUSHALL ASYNC", "+OK"),
        ("GET k", "nil"),
        ("FLUSHDB X", "-ERR syntax error"),
    ]);
}

fn swapped_databases_stay_swapped_after_a_restart() {
    let mut server = Running::start();
    server.client().check(&[
        ("SET k zero EX 100", "+OK"),
        ("SWAPDB 0 1", "+OK"),
        ("GET k", "nil"),
        ("SELECT 1", "+OK"),
        ("GET k", "\"zero\""),
        ("TTL k", ":100"),
        ("SWAPDB 1 2", "+OK"),
        ("SWAPDB x 1", "-ERR invalid first DB index"),
        ("SWAPDB 0 x", "-ERR invalid second DB index"),
        ("SWAPDB 0 16", "-ERR DB index is out of range"),
    ]);
    server.stop().unwrap();
    let again = Running::on(server.db.clone(), |_| {});
    again.client().check(&[("SELECT 2", "+OK"), ("GET k", "\"zero\""), ("TTL k", ":100")]);
    drop(again);
    // A server with fewer databases leaves the others alone.
    let fewer = Running::on(server.db.clone(), |config| config.databases = 2);
    fewer.client().check(&[("DBSIZE", ":0"), ("SELECT 2", "-ERR DB index is out of range")]);
    drop(fewer);
    let more = Running::on(server.db.clone(), |config| config.databases = 20);
    more.client().check(&[("SELECT 2", "+OK"), ("GET k", "\"zero\""), ("SELECT 19", "+OK")]);
}

fn everything_is_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for round in 0..3 {
        let server = Running::on(common::open(&path), |_| {});
        let mut client = server.client();
        if round > 0 {
            client.check(&[
                ("MGET a b gone", &format!("[\"{round}\", \"x{round}\", nil]")),
                ("PEXPIRETIME b", ":33177117420123"),
                ("PEXPIRETIME a", ":-1"),
                ("DBSIZE", ":602"),
                ("GET key:599", "\"599\""),
                ("SELECT 1", "+OK"),
                ("DBSIZE", ":0"),
                ("SELECT 2", "+OK"),
                ("KEYS *", "[\"swapped\"]"),
                ("SELECT 0", "+OK"),
                ("FLUSHDB", "+OK"),
                ("SWAPDB 1 2", "+OK"),
            ]);
        }
        let next = round + 1;
        client.check(&[
            ("SET gone v EX 100", "+OK"),
            ("MULTI", "+OK"),
            (&format!("SET a {next}"), "+QUEUED"),
            (&format!("SET b x{next} PXAT 33177117420123"), "+QUEUED"),
            ("DEL gone", "+QUEUED"),
            ("SELECT 1", "+QUEUED"),
            ("SET swapped 1", "+QUEUED"),
            ("SWAPDB 1 2", "+QUEUED"),
            ("EXEC", "[+OK, +OK, :1, +OK, +OK, +OK]"),
            ("SELECT 0", "+OK"),
        ]);
        for number in 0..600 {
            client.send_words(&["SET", &format!("key:{number}"), &number.to_string()]);
        }
        (0..600).for_each(|_| assert_eq!(client.reply(), "+OK"));
    }
}

/// INFO's lines for the first two databases.
fn keyspace(client: &mut Client) -> [String; 2] {
    let info = client.ask("INFO keyspace");
    ["db0:", "db1:"].map(|db| {
        let line = info.split("\\r\\n").find_map(|line| line.strip_prefix(db));
        line.unwrap_or_default().to_owned()
    })
}

fn many_keys_are_counted_while_nobody_waits() {
    const KEYS: usize = 25_000;
    let server = Running::start();
    let mut client = server.client();
    let put = |client: &mut Client, from: usize| {
        for page in 0..10 {
            let pairs = (0..KEYS / 10).flat_map(|n| [format!("{from}:{page}:{n}"), "v".to_owned()]);
            let words: Vec<_> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
            assert_eq!(client.call(&words), "+OK");
        }
    };
    put(&mut client, 0);
    client.check(&[("SELECT 1", "+OK"), ("SET k v", "+OK"), ("SELECT 0", "+OK")]);
    let exactly = |keys: usize| format!("keys={keys},expires=0,avg_ttl=0");
    let [first, few] = keyspace(&mut client);
    assert_eq!(few, exactly(1));
    if !common::is_lsm() {
        assert_eq!(first, exactly(KEYS));
        return;
    }
    // Either as far as the limited count went, or the count that was finished meanwhile.
    assert!(first.ends_with(",counted_ago=-1") && first.starts_with("keys=9"), "{first}");
    let all = exactly(KEYS);
    eventually("a count of all keys", || keyspace(&mut client)[0].starts_with(&all));
    // Later ones are counted some time later.
    put(&mut client, 1);
    let then = keyspace(&mut client);
    let age = then[0].strip_prefix(&format!("{all},counted_ago=")).unwrap();
    assert!(age.parse::<u64>().is_ok_and(|age| age < 60), "{age}");
    assert_eq!(then[1], exactly(1));
    client.check(&[("DBSIZE", &format!(":{}", 2 * KEYS)), ("SWAPDB 0 1", "+OK")]);
    let swapped = keyspace(&mut client);
    assert!(swapped[0] == exactly(1) && swapped[1].starts_with("keys="), "{swapped:?}");
    client.check(&[
        ("FLUSHALL", "+OK"),
        ("DBSIZE", ":0"),
        ("SET k v", "+OK"),
        ("RANDOMKEY", "\"k\""),
    ]);
}

fn objects_are_described_as_redis_would() {
    let number = "9".repeat(20);
    let (short, long) = ("x".repeat(44), "x".repeat(45));
    let server = Running::start();
    let mut client = server.client();
    for (value, encoding) in [
        ("123", "int"),
        (number.as_str(), "embstr"),
        (short.as_str(), "embstr"),
        (long.as_str(), "raw"),
    ] {
        client.call(&["SET", "k", value]);
        assert_eq!(client.ask("OBJECT ENCODING k"), format!("\"{encoding}\""));
    }
    client.check(&[
        ("OBJECT REFCOUNT k", ":1"),
        ("SET few 9998", "+OK"),
        ("INCR few", ":9999"),
        ("OBJECT REFCOUNT few", ":2147483647"),
        ("INCR few", ":10000"),
        ("OBJECT REFCOUNT few", ":1"),
        ("SET few -1", "+OK"),
        ("OBJECT REFCOUNT few", ":1"),
        ("APPEND few x", ":3"),
        ("OBJECT REFCOUNT few", ":1"),
        ("OBJECT REFCOUNT none", "nil"),
        ("OBJECT IDLETIME k", ":0"),
        ("OBJECT ENCODING none", "nil"),
        ("OBJECT NOSUCH k", "-ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP."),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
    ]);
    assert!(
        client.ask("OBJECT FREQ k").starts_with("-ERR An LFU maxmemory policy is not selected")
    );
}
