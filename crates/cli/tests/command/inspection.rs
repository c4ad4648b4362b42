//! `stat` and `check`.

use std::fs;

use crate::run::Home;

#[test]
fn stat_counts_records_by_key_space() {
    let home = Home::new();
    home.run_with(&["load", "data", "-"], b"a\t1\nb\t2\n\\space\tpeople\nc\t3\n").ok();
    let stat = home.json(&["stat", "data", "--json"]);
    assert_eq!(stat["records"], 3);
    assert_eq!(stat["key_spaces"], serde_json::json!({ "db0": 2, "people": 1, "server:1": 0 }));
    for size in ["bytes", "bytes_max", "live_bytes", "dead_bytes", "free_bytes"] {
        assert!(stat["pool"][size].is_u64(), "{size}");
    }
    assert!(stat["domain"].is_string() && stat["index"]["dram_bytes"].is_u64());
    let table = home.text(&["stat", "data"]);
    assert!(table.contains("people: 1") && table.contains("domain"), "{table}");
}

#[test]
fn stat_of_levels_tells_what_lies_on_the_disk() {
    let home = Home::new();
    let builder = halite::Database::builder().engine("lsm").max_size(64 << 20);
    let db = builder.open(home.path("data")).unwrap();
    let space = db.key_space("db0").unwrap();
    for round in 0..3 {
        for number in 0..2_000_u64 {
            let mut word = number + round;
            let value: Vec<_> = std::iter::repeat_with(|| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (word >> 56) as u8
            })
            .take(5_000)
            .collect();
            space.put_with(number.to_be_bytes(), value, halite::Durability::Deferred).unwrap();
        }
    }
    drop((space, db));
    let stat = home.json(&["stat", "data", "--json"]);
    assert_eq!(stat["records"], 2_000);
    assert_eq!(stat["key_spaces"], serde_json::json!({ "db0": 2_000 }));
    let (levels, index) = (&stat["levels"], &stat["index"]);
    assert!(levels["bytes"].as_u64().unwrap() > 1 << 20, "{stat}");
    assert!(levels["level_zero_runs"].is_u64(), "{stat}");
    // There is a log only where the file system has no persistent memory.
    assert!(levels["log_bytes"].is_null() || levels["log_bytes"].as_u64() > Some(0), "{stat}");
    assert!(index["versions_in_memory"].is_u64() && index["dram_bytes_per_record"].is_null());
    let table = home.text(&["stat", "data"]);
    for said in ["records     2,000", "db0: 2,000", "\nlevels      ", "of level zero", " in memory"]
    {
        assert!(table.contains(said), "{said}: {table}");
    }

    let other = Home::new();
    other.ok(&["put", "data", "key", "value", "--engine", "indexlog"]);
    let stat = other.json(&["stat", "data", "--json"]);
    assert!(stat["levels"].is_null() && stat["index"]["versions_in_memory"].is_null(), "{stat}");
    assert!(!other.text(&["stat", "data"]).contains("levels"));
}

#[test]
fn a_whole_database_is_one_line() {
    let home = Home::new();
    home.run_with(&["load", "data", "-"], b"a\t1\nb\t2\n").ok();
    let line = home.text(&["check", "data"]);
    assert!(line.starts_with("data: whole: ") && line.lines().count() == 1, "{line}");
    let report = home.json(&["check", "data", "--json"]);
    assert_eq!((&report["whole"], &report["damage"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn a_flipped_bit_in_a_value_is_found() {
    let home = Home::new();
    let value = "the quick brown fox jumps over the lazy dog, again and again and again";
    home.ok(&["put", "data", "first", "1", "--engine", "indexlog"]);
    home.ok(&["put", "data", "fox", value]);
    home.ok(&["put", "data", "last", "1"]);
    let pool = home.path("data/pool.halite");
    let mut bytes = fs::read(&pool).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value.as_bytes()).unwrap();
    bytes[at + 10] ^= 4;
    fs::write(&pool, bytes).unwrap();

    let ended = home.run(&["check", "data"]);
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    let findings = String::from_utf8(ended.out).unwrap();
    assert!(findings.starts_with("damaged: "), "{findings}");
    assert!(
        ended.err.starts_with("halite: data: ") && ended.err.contains("damaged"),
        "{}",
        ended.err
    );
    let ended = home.run(&["check", "data", "--json"]);
    assert_eq!(ended.code, Some(4));
    let report: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(report["whole"], false);
    assert!(report["damage"][0]["what"].is_string());
    // Damage is never returned as data.
    let ended = home.run(&["get", "data", "fox"]);
    assert_eq!((ended.code, &ended.out[..]), (Some(4), &b""[..]), "{}", ended.err);
}

#[test]
fn what_is_not_a_database_is_an_error_and_no_panic() {
    for contents in [&b""[..], b"not a database", &[0xa5; 4 << 20]] {
        let home = Home::new();
        fs::create_dir(home.path("data")).unwrap();
        home.file("data/pool.halite", contents);
        for args in [&["check", "data"][..], &["scan", "data"], &["put", "data", "key", "value"]] {
            let ended = home.run(args);
            assert!(matches!(ended.code, Some(1 | 4)), "{args:?}: {:?} {}", ended.code, ended.err);
            assert!(ended.err.starts_with("halite: data"), "{}", ended.err);
        }
        assert!(fs::read(home.path("data/pool.halite")).unwrap() == contents);
    }
}

#[test]
fn a_database_is_served_only_as_it_was_made() {
    let home = Home::new();
    home.ok(&["put", "pool only", "key", "value", "--engine", "indexlog"]);
    home.run(&["serve", "pool only", "--engine", "lsm", "--port", "0"]).failed(
        1,
        "pool only: the store was made by the engine `indexlog`, not by `lsm`; open it with `indexlog`",
    );
    let builder = halite::Database::builder().engine("lsm");
    drop(builder.partitioning(halite::Partitioning::Hash(3)).open(home.path("data")).unwrap());
    home.run(&["serve", "data", "--engine", "indexlog", "--port", "0"]).failed(
        1,
        "data: the store was made by the engine `lsm`, not by `indexlog`; open it with `lsm`",
    );
    for partitions in ["1", "4"] {
        home.run(&["serve", "data", "--partitions", partitions, "--port", "0"]).failed(
            1,
            "data: a store of the engine `lsm` keeps its 3 partitions, spread by hash; open it without",
        );
    }
    // Other commands open the engine that they find.
    home.ok(&["put", "data", "key", "value"]);
    assert_eq!(home.json(&["stat", "data", "--json"])["engine"], "lsm");
    home.ok(&["check", "data"]);
}
