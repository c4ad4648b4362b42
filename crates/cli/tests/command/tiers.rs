//! The storage classes of key spaces and objects, and the object stores.

use crate::run::Home;

/// A database of two classes.
fn prepare(home: &Home) {
    home.ok(&["pool", "init", "data", "--topology", "file:fast@64M ; file:slow"]);
}

/// Bytes in use in a class.
fn used(home: &Home, class: usize) -> u64 {
    home.json(&["pool", "status", "data", "--json"])["classes"][class]["used_bytes"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_key_space_prefers_a_class_and_moves_there() {
    let home = Home::in_memory();
    prepare(&home);
    let lines: String = (0..3000).map(|n| format!("key{n:05}\t{}\n", "v".repeat(1000))).collect();
    home.run_with(&["load", "data", "-", "--space", "logs"], lines.as_bytes()).ok();
    home.ok(&["dataset", "set", "data", "logs", "--prefer", "slowest"]);
    assert_eq!(home.text(&["dataset", "ls", "data"]), "logs\tprefers slowest\n");
    assert_eq!(home.json(&["dataset", "ls", "data", "--json"])["preference"], "slowest");
    let before = used(&home, 1);
    let moved = home.json(&["dataset", "migrate", "data", "logs", "--to", "1", "--json"]);
    let moved = moved["moved"].as_u64().unwrap();
    assert!(moved > 0 && used(&home, 1) >= before + moved, "{moved} bytes above {before}");
    assert_eq!(home.text(&["scan", "data", "--space", "logs", "--count"]), "3000\n");
    let part = ["dataset", "migrate", "data", "logs", "--to", "0", "--prefix", "key00"];
    assert!(home.text(&part).starts_with("moved "));
    home.ok(&["dataset", "set", "data", "logs", "--prefer", "none"]);
    assert_eq!(home.text(&["dataset", "ls", "data"]), "logs\n");
    home.run(&["dataset", "migrate", "data", "logs", "--to", "2"]).failed(1, "data: ");
    home.run(&["dataset", "migrate", "data", "nobody", "--to", "1"])
        .failed(1, "data: there is no key space `nobody`");
    for args in [
        &["dataset", "migrate", "data", "logs", "--to", "256"][..],
        &["dataset", "migrate", "data", "logs", "--to", "-1"],
        &["dataset", "migrate", "data", "logs"],
        &["dataset", "set", "data", "logs", "--prefer", "any"],
    ] {
        assert_eq!(home.run(args).code, Some(2), "{args:?}");
    }
    home.ok(&["check", "data"]);
}

#[test]
fn an_object_prefers_a_class_and_moves_there() {
    let home = Home::in_memory();
    prepare(&home);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    home.run_with(&["obj", "put", "data", "o"], &bytes).ok();
    home.ok(&["obj", "set", "data", "o", "--prefer", "slowest"]);
    assert_eq!(home.json(&["obj", "stat", "data", "o", "--json"])["preference"], "slowest");
    let moved = home.json(&["obj", "migrate", "data", "o", "--to", "1", "--json"]);
    assert!(moved["moved"].as_u64().unwrap() > 2_000_000, "{moved}");
    assert!(home.ok(&["obj", "get", "data", "o"]) == bytes);
    for args in [
        &["obj", "set", "data", "p", "--prefer", "fast"][..],
        &["obj", "migrate", "data", "p", "--to", "1"],
    ] {
        home.run(args).failed(3, "p: there is no such object");
    }
    home.run(&["obj", "migrate", "data", "o", "--to", "9"]).failed(1, "data: ");
    home.ok(&["check", "data"]);
}

#[test]
fn object_stores_are_listed_and_removed() {
    let home = Home::in_memory();
    for store in ["raw", "photos"] {
        home.run_with(&["obj", "put", "data", "o", "--store", store], b"x").ok();
    }
    assert_eq!(home.text(&["obj", "stores", "data"]), "photos\nraw\n");
    home.ok(&["obj", "drop-store", "data", "raw"]);
    home.run(&["obj", "drop-store", "data", "raw"])
        .failed(1, "data: there is no object store `raw`; there is `photos`");
    assert_eq!(home.json(&["obj", "stores", "data", "--json"])["name"], "photos");
    assert_eq!(home.text(&["obj", "get", "data", "o", "--store", "photos"]), "x");
}

#[test]
fn an_engine_without_classes_names_the_one_that_has_them() {
    let home = Home::in_memory();
    home.ok(&["put", "data", "a", "1", "--space", "logs", "--engine", "lsm"]);
    for args in [
        &["dataset", "set", "data", "logs", "--prefer", "fast"][..],
        &["dataset", "migrate", "data", "logs", "--to", "1"],
    ] {
        home.run(args).failed(1, "data: the engine `lsm` has no storage classes; `betree` has");
    }
    home.run(&["dataset", "copy", "data", "logs", "other"])
        .failed(1, "data: the engine `lsm` has no ");
    assert_eq!(home.text(&["dataset", "ls", "data"]), "logs\n", "no copy was begun");
}
