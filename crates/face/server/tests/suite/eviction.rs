//! Keys that go when there is no room for others: `maxmemory` and its policies.

use crate::common::{self, Client, Running, request};

on_threads! {
    under_each_policy_writes_go_on_below_the_limit
    keys_that_are_used_stay
    only_keys_with_deadlines_go_if_the_policy_says_so
    the_key_that_expires_first_goes_first
    transactions_and_scripts_go_on
    large_collections_make_room
    evicted_keys_stay_gone
    the_use_of_keys_is_told
    the_bytes_of_all_records_are_known
    the_limit_holds_while_a_database_is_flushed_again_and_again
}

const FULL: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn field(client: &mut Client, section: &str, name: &str) -> u64 {
    let info = client.ask(&format!("INFO {section}"));
    let line = info.split("\\r\\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {info}")).parse().unwrap()
}

/// Sends requests together, and returns how many replies are errors.
fn send_all(client: &mut Client, requests: &[Vec<String>]) -> usize {
    let mut errors = 0;
    for some in requests.chunks(64) {
        client.send(&some.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
        errors += some.iter().filter(|_| client.reply().starts_with('-')).count();
    }
    errors
}

fn sets(numbers: std::ops::Range<usize>, prefix: &str, end: &[&str]) -> Vec<Vec<String>> {
    let value = "v".repeat(1000);
    let set = |number| {
        let words = ["SET".to_owned(), format!("{prefix}{number}"), value.clone()];
        words.into_iter().chain(end.iter().map(|&word| word.to_owned())).collect()
    };
    numbers.map(set).collect()
}

/// Has the server evict keys until the limit holds, however long that takes.
fn set_policy(client: &mut Client, policy: &str, limit: &str) {
    client.check(&[
        ("CONFIG SET maxmemory-eviction-tenacity 100 maxmemory-samples 10", "+OK"),
        (&format!("CONFIG SET maxmemory-policy {policy}"), "+OK"),
        (&format!("CONFIG SET maxmemory {limit}"), "+OK"),
    ]);
    // An engine with levels has the records added up first.
    common::eventually("the size of all records", || {
        client.ask("INFO memory").contains("maxmemory_used:")
    });
}

/// The limit's sum is that of all records, whatever was written, replaced and removed since it was made.
fn the_bytes_of_all_records_are_known() {
    let server = Running::start();
    let mut client = server.client();
    let write = |client: &mut Client, round: usize| {
        send_all(client, &sets(0..50, &format!("{round}:"), &[]));
        send_all(client, &sets(25..75, &format!("{round}:"), &["EX", "1000"]));
        for n in 0..300 {
            let element = format!("{}", n % 200);
            client.call(&["HSET", "hash", &element, &"v".repeat(n)]);
            client.call(&["ZADD", &format!("sorted:{round}"), &element, &element]);
            client.call(&["RPUSH", "list", &element]);
            client.call(&["SET", "k", &"v".repeat(n)]);
        }
        client.check(&[("MULTI", "+OK"), ("SET m 1", "+QUEUED"), ("DEL k", "+QUEUED")]);
        client.ask("EXEC");
        client.ask(&format!("DEL 0:1 0:2 {round}:70"));
        client.ask("PEXPIRE 0:3 1");
    };
    write(&mut client, 0);
    set_policy(&mut client, "noeviction", "100mb");
    write(&mut client, 1);
    client.ask("DEL sorted:0 list");
    client.ask("EXPIRE hash 2000");
    let settled = |client: &mut Client| {
        let mut before = 0;
        // Elements of what was removed go step by step.
        common::eventually("the end of removals", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let used = field(client, "memory", "maxmemory_used");
            std::mem::replace(&mut before, used) == used
        });
        before
    };
    let added = settled(&mut client);
    assert!(added > 100_000, "{added}");
    // Without the limit the sum is forgotten, and with it, made anew.
    client.check(&[("CONFIG SET maxmemory 0", "+OK")]);
    set_policy(&mut client, "noeviction", "100mb");
    assert_eq!(settled(&mut client), added);
    client.check(&[("FLUSHALL", "+OK")]);
    common::eventually("an empty database", || {
        let info = client.ask("INFO memory");
        info.contains("maxmemory_used:") && field(&mut client, "memory", "maxmemory_used") < 10_000
    });
}

fn the_limit_holds_while_a_database_is_flushed_again_and_again() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SELECT 1", "+OK")]);
    send_all(&mut client, &sets(0..500, "kept:", &[]));
    client.check(&[("SELECT 0", "+OK")]);
    set_policy(&mut client, "noeviction", "100mb");
    let kept = field(&mut client, "memory", "maxmemory_used");
    assert!(kept > 500_000, "{kept}");
    for round in 0..20 {
        send_all(&mut client, &sets(0..50, "gone:", &["EX", "1000"]));
        client.call(&["HSET", "hash", "field", &"v".repeat(5000)]);
        assert!(field(&mut client, "memory", "maxmemory_used") > kept + 50_000);
        match round % 2 {
            0 => client.check(&[("FLUSHDB", "+OK")]),
            // The later changes of the same transaction are counted.
            _ => {
                client.check(&[
                    ("MULTI", "+OK"),
                    ("FLUSHDB", "+QUEUED"),
                    ("SET gone:1 v", "+QUEUED"),
                ]);
                assert_eq!(client.ask("EXEC"), "[+OK, +OK]");
                client.check(&[("DEL gone:1", ":1")]);
            }
        }
        let used = field(&mut client, "memory", "maxmemory_used");
        // An engine that knows its records counts those of what was removed for a while.
        let is_known = if common::is_lsm() { used == kept } else { used < kept + 20_000 };
        assert!(is_known, "round {round}: {used}, {kept}");
    }
    // So a write is refused at once that has no room.
    let half = format!("CONFIG SET maxmemory {}", kept / 2);
    client.check(&[(&half, "+OK"), ("SET new 1", FULL)]);
}

fn under_each_policy_writes_go_on_below_the_limit() {
    for policy in ["lru", "lfu", "random"]
        .map(|by| [format!("allkeys-{by}"), format!("volatile-{by}")])
        .into_iter()
        .flatten()
        .chain(["volatile-ttl".to_owned()])
    {
        let server = Running::start();
        let mut client = server.client();
        client.check(&[("CONFIG SET notify-keyspace-events Ee", "+OK")]);
        set_policy(&mut client, &policy, "1mb");
        let mut listener = server.client();
        listener.ask("SUBSCRIBE __keyevent@0__:evicted");
        let errors = send_all(&mut client, &sets(0..3000, "key:", &["EX", "1000"]));
        assert_eq!(errors, 0, "{policy}");
        let used = field(&mut client, "memory", "maxmemory_used");
        assert!(used < (1 << 20) + (64 << 10), "{policy}: {used}");
        let evicted = field(&mut client, "stats", "evicted_keys");
        assert_eq!(evicted as i64, 3000 - client.integer("DBSIZE"), "{policy}");
        assert!(listener.reply().contains("evicted"));
        assert!(client.ask("CONFIG GET maxmemory-policy").contains(&policy));
    }
}

fn keys_that_are_used_stay() {
    for policy in ["allkeys-lru", "volatile-lru", "allkeys-lfu", "volatile-lfu"] {
        let server = Running::start();
        let mut client = server.client();
        set_policy(&mut client, policy, "1mb");
        send_all(&mut client, &sets(0..100, "hot:", &["EX", "1000"]));
        let reads: Vec<_> = (0..100).map(|n| vec!["GET".to_owned(), format!("hot:{n}")]).collect();
        for round in 0..40 {
            assert_eq!(send_all(&mut client, &reads), 0);
            // The clock of the last use has units of 16 milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let cold = sets(round * 50..(round + 1) * 50, "cold:", &["EX", "1000"]);
            assert_eq!(send_all(&mut client, &cold), 0);
        }
        let mut count = |prefix: &str, count: usize| {
            (0..count).map(|n| client.integer(&format!("EXISTS {prefix}{n}"))).sum::<i64>()
        };
        let (hot, cold) = (count("hot:", 100), count("cold:", 2000));
        // An engine with levels offers the few hot keys as often as all others together: without their use being known,
        // hardly one would stay.
        let least = if common::is_lsm() { 30 } else { 90 };
        assert!(hot >= least && cold < 1000, "{policy}: {hot} hot of 100, {cold} cold of 2000");
    }
}

fn only_keys_with_deadlines_go_if_the_policy_says_so() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let server = Running::start();
        let mut client = server.client();
        assert_eq!(send_all(&mut client, &sets(0..300, "kept:", &[])), 0);
        set_policy(&mut client, policy, "600kb");
        assert_eq!(
            send_all(&mut client, &sets(0..1000, "volatile:", &["EX", "1000"])),
            0,
            "{policy}"
        );
        let requests: Vec<_> = sets(1000..3000, "kept:", &[]);
        let errors = send_all(&mut client, &requests);
        assert!(errors > 1000, "{policy}: {errors}");
        let info = client.ask("INFO keyspace");
        assert!(info.contains("expires=0"), "{policy}: {info}");
        let kept = (0..300).map(|n| client.integer(&format!("EXISTS kept:{n}"))).sum::<i64>();
        assert_eq!(kept, 300, "{policy}");
        client.check(&[("SET x 1", FULL), ("CONFIG SET maxmemory-policy allkeys-random", "+OK")]);
        client.check(&[("SET x 1", "+OK")]);
    }
}

fn the_key_that_expires_first_goes_first() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..900 {
        let at = (33_177_117_420_000_u64 + number * 7919 % 900).to_string();
        client.call(&["SET", &format!("k{number}"), &"v".repeat(1000), "PXAT", &at]);
    }
    set_policy(&mut client, "volatile-ttl", "600kb");
    client.check(&[("SET x 1 PXAT 33177117520000", "+OK")]);
    let mut ttls = Vec::new();
    for number in 0..900 {
        if client.integer(&format!("EXISTS k{number}")) == 1 {
            ttls.push(number * 7919 % 900);
        }
    }
    let gone = 900 - ttls.len();
    // Each thread evicts its own keys in order.
    let slack = if common::threads() == 1 { 0 } else { 900 };
    assert!(gone > 200 && *ttls.iter().min().unwrap() + slack >= gone, "{gone}");
}

fn transactions_and_scripts_go_on() {
    let server = Running::start();
    let mut client = server.client();
    set_policy(&mut client, "allkeys-lru", "1mb");
    let value = "v".repeat(1000);
    for number in 0..300 {
        client.ask("MULTI");
        for part in 0..5 {
            let key = format!("{{{number}}}:{part}");
            assert_eq!(client.call(&["SET", &key, &value]), "+QUEUED");
        }
        assert_eq!(client.ask("EXEC"), "[+OK, +OK, +OK, +OK, +OK]");
        let script = "for i = 1, 5 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end return 1";
        let key = format!("script:{number}:");
        let reply = client.call(&["EVAL", script, "1", &key, &value]);
        assert!(reply == ":1", "{reply}");
    }
    let used = field(&mut client, "memory", "maxmemory_used");
    assert!(used < (1 << 20) + (128 << 10), "{used}");
    assert!(client.integer("DBSIZE") > 100);
}

fn large_collections_make_room() {
    let server = Running::start();
    let mut client = server.client();
    set_policy(&mut client, "allkeys-random", "2mb");
    for hash in 0..10 {
        let fields: Vec<_> = (0..1000)
            .map(|n| {
                ["HSET", &format!("hash:{hash}"), &format!("f{n}"), &"v".repeat(500)]
                    .map(String::from)
                    .to_vec()
            })
            .collect();
        assert_eq!(send_all(&mut client, &fields), 0);
    }
    assert!(field(&mut client, "memory", "maxmemory_used") < (2 << 20) + (64 << 10));
    assert!(field(&mut client, "stats", "evicted_keys") > 0);
}

fn evicted_keys_stay_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut server = Running::on(common::open(&path), |_| {});
    let mut client = server.client();
    set_policy(&mut client, "allkeys-lru", "300kb");
    assert_eq!(send_all(&mut client, &sets(0..1000, "k", &[])), 0);
    let there = |client: &mut Client| -> Vec<i64> {
        (0..1000).map(|n| client.integer(&format!("EXISTS k{n}"))).collect()
    };
    let before = there(&mut client);
    drop(client);
    server.stop().unwrap();
    drop(server);
    let server = Running::on(common::open(&path), |_| {});
    assert_eq!(there(&mut server.client()), before);
}

fn the_use_of_keys_is_told() {
    let server = Running::start();
    let mut client = server.client();
    let no_lfu = "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                  switching between policies at runtime LRU and LFU data will take some time to adjust.";
    let lfu = "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
               between policies at runtime LRU and LFU data will take some time to adjust.";
    client.check(&[
        ("SET k v", "+OK"),
        ("OBJECT FREQ k", no_lfu),
        ("OBJECT IDLETIME k", ":0"),
        ("CONFIG SET maxmemory-policy allkeys-lru lfu-log-factor 0 lfu-decay-time 0", "+OK"),
        ("GET k", "\"v\""),
        ("OBJECT IDLETIME k", ":0"),
        ("OBJECT IDLETIME none", "nil"),
        ("OBJECT FREQ k", no_lfu),
        ("CONFIG SET maxmemory-policy allkeys-lfu", "+OK"),
        ("OBJECT IDLETIME k", lfu),
        ("SET f v", "+OK"),
        ("OBJECT FREQ f", ":5"),
        ("GET f", "\"v\""),
        ("GET f", "\"v\""),
        ("TTL f", ":-1"),
        ("TYPE f", "+string"),
        ("OBJECT ENCODING f", "\"embstr\""),
        ("OBJECT FREQ f", ":7"),
        ("OBJECT FREQ none", "nil"),
        ("CONFIG SET maxmemory-policy x", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"),
        ("CONFIG SET maxmemory-samples 0", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-samples') - argument must be between 1 and 2147483647 inclusive"),
    ]);
    if common::threads() == 1 {
        client.check(&[
            ("CLIENT NO-TOUCH ON", "+OK"),
            ("GET f", "\"v\""),
            ("OBJECT FREQ f", ":7"),
            ("TOUCH f", ":1"),
            ("OBJECT FREQ f", ":8"),
        ]);
    }
}
