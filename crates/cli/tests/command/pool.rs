//! `pool`: databases on several devices, with devices that go, come back and are replaced.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::run::{Home, signal};

/// A database on a mirror of two files.
fn mirrored(home: &Home) {
    home.ok(&["pool", "init", "data", "--topology", "mirror file:./one file:./two"]);
}

/// Puts objects of so many bytes each, which are as good as random, into a database.
fn fill(home: &Home, objects: usize, len: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
    home.file("bytes", &bytes);
    for object in 0..objects {
        home.ok(&["obj", "put", "data", &object.to_string(), "bytes"]);
    }
}

fn leaf(status: &Value, number: usize) -> &Value {
    &status["classes"][0]["vdevs"][0]["leaves"][number]
}

#[test]
fn a_pool_is_made_as_its_topology_says_and_shown() {
    let home = Home::in_memory();
    mirrored(&home);
    assert!(home.path("one").exists() && home.path("two").exists());
    assert_eq!(home.json(&["stat", "data", "--json"])["engine"], "betree");
    home.ok(&["put", "data", "a", "1"]);
    assert_eq!(home.text(&["get", "data", "a"]), "1");

    let status = home.json(&["pool", "status", "data", "--json"]);
    assert_eq!(status["degraded"], false);
    assert_eq!(status["classes"][0]["vdevs"][0]["arrangement"], "mirror");
    for (number, file) in ["one", "two"].into_iter().enumerate() {
        let leaf = leaf(&status, number);
        assert_eq!(
            (&leaf["leaf"], &leaf["state"]),
            (&format!("0/0/{number}").into(), &"online".into())
        );
        assert!(leaf["place"].as_str().unwrap().ends_with(file), "{leaf}");
        assert_eq!((&leaf["missed_writes"], &leaf["checksum_errors"]), (&false.into(), &0.into()));
        assert!(leaf["read_bytes"].as_u64().unwrap() > 0);
    }
    let class = &status["classes"][0];
    let bytes = |name: &str| class[name].as_u64().unwrap();
    assert!(bytes("used_bytes") > 0 && bytes("free_bytes") > 0);
    assert!(bytes("capacity_bytes") >= bytes("used_bytes") + bytes("free_bytes"));
    assert_eq!(status["scrub"], Value::Null);
    let table = home.text(&["pool", "status", "data"]);
    for text in [
        "all devices are whole",
        "\n            mirror\n",
        "\n  0/0/1     online   file:",
        "scrub       none",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
}

#[test]
fn a_topology_is_read_from_a_file_and_without_one_the_pool_has_the_default() {
    let home = Home::in_memory();
    let json = r#"{"classes": [{"vdevs": [{"parity1": [{"file": "./a"}, {"file": "./b"}, {"file": "./c"}]}]}]}"#;
    home.file("pool.json", json);
    home.ok(&["pool", "init", "data", "--topology-file", "pool.json", "--json"]);
    let status = home.json(&["pool", "status", "data", "--json"]);
    assert_eq!(status["classes"][0]["vdevs"][0]["arrangement"], "parity1");
    home.ok(&["pool", "init", "plain"]);
    let status = home.json(&["pool", "status", "plain", "--json"]);
    assert_eq!(leaf(&status, 0)["state"], "online");

    home.run(&["pool", "init", "data"]).failed(1, "data: there is a database here already");
    home.file("empty", "");
    home.run(&["pool", "init", "new", "--topology-file", "empty"])
        .failed(1, "empty: the description names no device");
    home.run(&["pool", "init", "new", "--topology-file", "missing"]).failed(1, "missing: No such");
    assert!(!home.path("new").exists());
}

#[test]
fn a_wrong_topology_makes_nothing() {
    let home = Home::in_memory();
    home.file("there", "something");
    for (topology, why) in [
        ("", "names no device"),
        ("mirror file:./a", "mirror has 2 to 32 leaves"),
        ("mirror file:./a file:./a", "named twice"),
        ("file:./a ; file:a", "named twice"),
        ("parity1 file:./a file:./b", "parity1 has 3 to"),
        ("miror file:./a file:./b", "`miror` is no device"),
        ("file:./a@-4K", "is no size"),
        ("file:./a@99999999999T", "is no size"),
        ("file:./a ; file:./b ; file:./c ; file:./d ; file:./e", "5 classes"),
        ("{\"classes\": [", "begins as JSON"),
    ] {
        let ended = home.run(&["pool", "init", "data", "--topology", topology]);
        assert_eq!(ended.code, Some(2), "{topology}: {}", ended.err);
        assert!(ended.err.contains(why), "{topology}: {}", ended.err);
    }
    for (topology, why) in [
        ("mirror file:./there file:./b", "cannot be used"),
        ("mirror file:./nowhere/a file:./b", "cannot be used"),
        ("memory:64M", "memory does not outlive the process"),
    ] {
        let ended = home.run(&["pool", "init", "data", "--topology", topology]);
        assert_eq!(ended.code, Some(1), "{topology}: {}", ended.err);
        assert!(ended.err.contains(why), "{topology}: {}", ended.err);
        assert!(!home.path("data/pool.halite").exists(), "{topology}");
    }
    home.run(&["pool", "init", "data", "--engine", "lsm"]).failed(
        1,
        "data: the engine `lsm` has no pool of devices; `betree` has: `halite dump`, and `halite load --engine betree`",
    );
    assert_eq!(fs::read(home.path("there")).unwrap(), b"something");
}

#[test]
fn other_engines_have_no_pools_objects_snapshots_and_trees() {
    let home = Home::in_memory();
    home.ok(&["put", "data", "a", "1", "--engine", "indexlog"]);
    for (args, lacks) in [
        (&["pool", "status", "data"][..], "pool of devices"),
        (&["pool", "scrub", "data"], "pool of devices"),
        (&["pool", "offline", "data", "0/0/0"], "pool of devices"),
        (&["obj", "ls", "data"], "object stores"),
        (&["obj", "put", "data", "a"], "object stores"),
        (&["snapshot", "create", "data", "s"], "snapshots that are kept"),
        (&["snapshot", "ls", "data"], "snapshots that are kept"),
        (&["get", "data", "a", "--snapshot", "s"], "snapshots that are kept"),
        (&["scan", "data", "--snapshot", "s"], "snapshots that are kept"),
        (&["dataset", "rename", "data", "db0", "db1"], "snapshots that are kept"),
        (&["tree", "dump", "data"], "trees"),
    ] {
        let ended = home.run(args);
        let why = format!("data: the engine `indexlog` has no {lacks}");
        assert!(ended.err.contains("`betree` has"), "{args:?}: {}", ended.err);
        ended.failed(1, &why);
    }
    for args in [&["pool", "status", "none"][..], &["obj", "ls", "none"], &["tree", "dump", "none"]]
    {
        home.run(args).failed(1, "none: there is no database here");
        assert!(!home.path("none").exists(), "{args:?}");
    }
}

#[test]
fn a_device_goes_and_comes_back() {
    let home = Home::in_memory();
    mirrored(&home);
    home.ok(&["pool", "offline", "data", "0/0/1"]);
    home.ok(&["put", "data", "a", "1"]);
    let status = home.json(&["pool", "status", "data", "--json"]);
    assert_eq!(
        (&status["degraded"], &leaf(&status, 1)["state"]),
        (&true.into(), &"offline".into())
    );
    assert!(home.text(&["pool", "status", "data"]).contains("degraded: a device is away"));
    // The other one has all data alone.
    let refused = home.run(&["pool", "offline", "data", "0/0/0"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    let online = home.run(&["pool", "online", "data", "0/0/1"]);
    assert!(online.err.contains("0/0/1 lacks data; `halite pool resilver`"), "{}", online.err);
    let report = home.json(&["pool", "resilver", "data", "--json"]);
    assert_eq!((&report["complete"], &report["lost"]), (&true.into(), &0.into()));
    let status = home.json(&["pool", "status", "data", "--json"]);
    assert_eq!(
        (&status["degraded"], &status["resilver"]["complete"]),
        (&false.into(), &true.into())
    );
    home.ok(&["pool", "offline", "data", "0/0/0"]);
    assert_eq!(home.text(&["get", "data", "a"]), "1");
}

#[test]
fn a_device_is_replaced_by_its_path() {
    let home = Home::in_memory();
    mirrored(&home);
    fill(&home, 1, 300_000);
    fs::remove_file(home.path("two")).unwrap();
    let status = home.json(&["pool", "status", "data", "--json"]);
    assert_eq!(
        (&status["degraded"], &leaf(&status, 1)["state"]),
        (&true.into(), &"missing".into())
    );
    let place = leaf(&status, 1)["place"].as_str().unwrap().to_owned();
    home.file("there", "something");
    let taken = home.run(&["pool", "replace", "data", &place, "file:./there"]);
    assert!(taken.code == Some(1) && taken.err.contains("cannot be used"), "{}", taken.err);
    let path = place.trim_start_matches("file:");
    home.ok(&["pool", "replace", "data", path, "file:./three"]);
    home.ok(&["pool", "resilver", "data"]);
    fs::remove_file(home.path("one")).unwrap();
    assert_eq!(home.ok(&["obj", "get", "data", "0"]), fs::read(home.path("bytes")).unwrap());

    for name in ["0/0/2", "0/1/0", "1/0/0", "two", "", "99999999999/0/0"] {
        home.run(&["pool", "offline", "data", name])
            .failed(1, &format!("data: there is no device `{name}`; there is 0/0/0 (file:"));
    }
    for new in ["", "three", "mirror file:./a file:./b", "file:./a file:./b", "file:./a@1"] {
        let ended = home.run(&["pool", "replace", "data", "0/0/0", new]);
        assert_eq!(ended.code, Some(2), "{new}: {}", ended.err);
    }
}

#[test]
fn a_scrub_repairs_what_one_device_has_wrong_and_tells_what_is_lost() {
    let home = Home::in_memory();
    mirrored(&home);
    fill(&home, 1, 1 << 20);
    let report = home.json(&["pool", "scrub", "data", "--json"]);
    assert_eq!((&report["complete"], &report["damaged"]), (&true.into(), &0.into()));
    assert!(report["bytes"].as_u64().unwrap() > 1 << 20);
    let damage = |file: &str| {
        let mut bytes = fs::read(home.path(file)).unwrap();
        let needle = &fs::read(home.path("bytes")).unwrap()[1000..1032];
        let at = bytes.windows(32).position(|window| window == needle).unwrap();
        bytes[at] ^= 1;
        fs::write(home.path(file), bytes).unwrap();
    };
    damage("one");
    let ended = home.run(&["pool", "scrub", "data"]);
    let text = String::from_utf8(ended.ok()).unwrap();
    assert!(
        text.starts_with("data: ") && text.ends_with("1 damaged, 1 repaired, 0 lost\n"),
        "{text}"
    );
    let status = home.text(&["pool", "status", "data"]);
    assert!(status.contains("scrub       complete, 20"), "{status}");
    assert_eq!(home.ok(&["obj", "get", "data", "0"]), fs::read(home.path("bytes")).unwrap());

    damage("one");
    damage("two");
    let ended = home.run(&["pool", "scrub", "data", "--json"]);
    let report: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!((&report["lost"], &report["errors"].as_array().unwrap().len()), (&1.into(), &1));
    assert!(report["errors"][0]["why"].as_str().is_some_and(|why| !why.is_empty()), "{report}");
    ended.failed(4, "data: 1 extent damaged");
    assert!(home.text_of_failing_scrub().starts_with("lost: the "));
    home.run(&["obj", "get", "data", "0", "copy"]).failed(4, "data: damaged: ");
    assert!(!home.path("copy").exists());
}

impl Home {
    fn text_of_failing_scrub(&self) -> String {
        String::from_utf8(self.run(&["pool", "scrub", "data"]).out).unwrap()
    }
}

#[test]
fn a_scrub_that_was_interrupted_goes_on() {
    let home = Home::in_memory();
    mirrored(&home);
    fill(&home, 6, 8 << 20);
    let mut stopped = None;
    // A scrub may be through before its signal comes.
    for sent in [Signal::INT, Signal::TERM].into_iter().cycle().take(20) {
        let mut command = home.command(&["pool", "scrub", "data"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        signal(&child, sent);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        if output.status.code() == Some(130) {
            assert_eq!(err, "halite: interrupted; the next scrub goes on where this one stopped\n");
            stopped = Some(home.json(&["pool", "status", "data", "--json"])["scrub"].clone());
            break;
        }
        assert_eq!(output.status.code(), Some(0), "{err}");
    }
    let stopped = stopped.expect("a scrub is interrupted");
    assert_eq!(stopped["complete"], false);
    let (before, all) = (stopped["bytes"].as_u64().unwrap(), 6 * (8 << 20));
    assert!(0 < before && before < all, "{stopped}");
    let report = home.json(&["pool", "scrub", "data", "--json"]);
    assert_eq!((&report["complete"], &report["lost"]), (&true.into(), &0.into()));
    assert!(report["bytes"].as_u64().unwrap() >= all);
    home.ok(&["check", "data"]);
}

#[test]
fn devices_that_were_moved_are_found_in_a_folder_that_is_named() {
    let home = Home::in_memory();
    fs::create_dir(home.path("old")).unwrap();
    home.ok(&["pool", "init", "data", "--topology", "mirror file:./old/one file:./old/two"]);
    home.ok(&["put", "data", "a", "1"]);
    fs::rename(home.path("old"), home.path("new")).unwrap();
    assert_eq!(home.run(&["get", "data", "a"]).code, Some(1));
    home.ok(&["pool", "status", "data", "--search", "new"]);
    assert_eq!(home.text(&["get", "data", "a"]), "1");
}
