//! `--engine`, and the options that only one engine has.

use std::fs;

use rustix::process::Signal;

use crate::run::Home;
use crate::served::Served;

const LSM: [&str; 4] = ["--engine", "lsm", "--levels", "ssd"];

fn engine(home: &Home, folder: &str) -> String {
    home.json(&["stat", folder, "--json"])["engine"].as_str().unwrap().to_owned()
}

#[test]
fn whoever_makes_a_database_chooses_its_engine_and_its_folders() {
    let home = Home::in_memory();
    home.run_with(&[&["load", "loaded", "-"], &LSM[..]].concat(), b"a\t1\nb\t2\n").ok();
    assert_eq!(engine(&home, "loaded"), "lsm");
    assert!(home.path("ssd/CURRENT").exists() && home.path("loaded/levels").is_symlink());
    assert_eq!(home.text(&["get", "loaded", "b"]), "2");

    home.ok(&["put", "data", "a", "1", "--engine", "lsm"]);
    assert_eq!(engine(&home, "data"), "lsm");
    assert!(home.path("data/levels").is_dir());
    // The engine of an existing database need not be named.
    home.ok(&["put", "data", "b", "2"]);
    home.ok(&["put", "data", "c", "3", "--levels", "data/levels"]);
    home.ok(&["put", "plain", "a", "1", "--engine", "indexlog"]);
    assert_eq!(engine(&home, "plain"), "indexlog");

    let served = Served::start(&home, &["--levels", "data/levels", "--threads", "1"]);
    assert!(served.banner.contains("engine    lsm, which it was made by"), "{}", served.banner);
    let (code, said) = served.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_backup_is_restored_by_the_engine_that_is_named() {
    let home = Home::in_memory();
    home.run_with(&["load", "data", "-"], b"a\t1\nb\t2\n\\space\tpeople\nc\t3\n").ok();
    home.ok(&["backup", "data", "one"]);
    let all = home.text(&["dump", "data"]);
    let copied = |folder: &str, by: &str| {
        assert_eq!(engine(&home, folder), by, "{folder}");
        assert_eq!(home.text(&["dump", folder]), all, "{folder}");
        home.ok(&["check", folder]);
    };
    home.ok(&["restore", "copy", "one", "--engine", "lsm"]);
    copied("copy", "lsm");
    home.ok(&[&["restore", "copy", "one", "--force"], &LSM[..]].concat());
    copied("copy", "lsm");
    assert!(home.path("ssd/CURRENT").exists() && home.path("copy/levels").is_symlink());
    home.run(&[&["restore", "copy", "one", "--force"], &LSM[..]].concat())
        .failed(1, "copy: the levels of the database that is to be replaced are in `ssd`");
    copied("copy", "lsm");
    home.ok(&["restore", "copy", "one", "--force"]);
    copied("copy", "indexlog");
    assert!(fs::symlink_metadata(home.path("copy/levels")).is_err());

    // A backup of a database with levels restores to one without.
    home.ok(&["restore", "lsm", "one", "--engine", "lsm"]);
    home.ok(&["backup", "lsm", "two"]);
    home.ok(&["restore", "copy", "two", "--force"]);
    copied("copy", "indexlog");
    fs::rename(home.path("lsm/pool.halite"), home.path("lost")).unwrap();
    home.run(&["restore", "lsm", "two"]).failed(1, "lsm: there is `lsm/levels`, of a database");
}

#[test]
fn a_database_that_has_lost_its_pool_is_not_made_anew() {
    let home = Home::new();
    home.ok(&["put", "data", "a", "1", "--engine", "lsm"]);
    fs::rename(home.path("data/pool.halite"), home.path("lost")).unwrap();
    for engine in [&[][..], &["--engine", "lsm"], &["--engine", "indexlog"]] {
        home.run(&[&["put", "data", "b", "2"], engine].concat())
            .failed(4, "data: damaged: data/pool.halite: it is missing, and");
        assert!(!home.path("data/pool.halite").exists(), "{engine:?}");
    }
    fs::rename(home.path("lost"), home.path("data/pool.halite")).unwrap();
    assert_eq!(home.text(&["get", "data", "a"]), "1");
    // A file system of its own has a folder before there are levels.
    fs::create_dir_all(home.path("mounted/levels/lost+found")).unwrap();
    home.ok(&["put", "mounted", "a", "1", "--engine", "lsm"]);
}

#[test]
fn an_option_that_one_engine_has_chooses_it() {
    let home = Home::in_memory();
    home.file("input", "a\t1\n");
    home.ok(&["put", "leveled", "a", "1", "--levels", "ssd"]);
    assert_eq!(engine(&home, "leveled"), "lsm");
    let home = Home::new();
    home.file("input", "a\t1\n");
    home.ok(&["load", "hashed", "input", "--index", "hash"]);
    home.ok(&["load", "logged", "input", "--change-log", "16MiB"]);
    assert_eq!((&*engine(&home, "hashed"), &*engine(&home, "logged")), ("indexlog", "indexlog"));
}

#[test]
fn an_interrupted_restore_is_finished_by_the_next_command() {
    let home = Home::in_memory();
    home.ok(&["put", "data", "a", "new", "--engine", "lsm"]);
    for args in [
        &["get", "data", "a"][..],
        &["check", "data"],
        &["repair", "data", "--dry-run"],
        &["repair", "data"],
        &["stat", "data"],
        &["dump", "data"],
        &["put", "data", "b", "1"],
        &["put", "data", "b", "1", "--engine", "lsm"],
    ] {
        let workshop = home.path("data/.restoring");
        fs::create_dir(&workshop).unwrap();
        for name in ["pool.halite", "levels"] {
            fs::rename(home.path("data").join(name), workshop.join(name)).unwrap();
        }
        home.run(&["get", "data", "a"]).failed(1, "data: there is no database here");
        fs::write(workshop.join("complete"), "beside levels\nreplaces false\n").unwrap();
        home.ok(args);
        assert!(!workshop.exists(), "{args:?}");
        assert_eq!(home.text(&["get", "data", "a"]), "new", "{args:?}");
    }
}

#[test]
fn options_that_an_engine_has_no_use_for_are_refused() {
    let home = Home::in_memory();
    home.file("input", "a\t1\n");
    home.ok(&["put", "indexlog", "a", "1"]);
    home.ok(&["backup", "indexlog", "backup"]);
    home.ok(&["put", "lsm", "a", "1", "--engine", "lsm"]);
    let put = |folder: &'static str| vec!["put", folder, "b", "2"];
    let load = |folder: &'static str| vec!["load", folder, "input"];
    let serve = |folder: &'static str| vec!["serve", folder, "--port", "0"];
    let restore = vec!["restore", "new", "backup"];
    let refused = |command: &[&str], args: &[&str], message: &str| {
        home.run(&[command, args].concat()).failed(2, message);
        assert!(!home.path("new").exists() && !home.path("ssd").exists(), "{command:?} {args:?}");
    };

    let levels = ["--levels", "ssd"];
    for new in [put("new"), load("new"), serve("new"), restore.clone()] {
        let message =
            "--levels: the engine indexlog has no use for it; leave it out, or give --engine lsm";
        refused(&new, &["--levels", "ssd", "--engine", "indexlog"], message);
    }
    for old in [put("indexlog"), load("indexlog"), serve("indexlog")] {
        let message = "--levels: indexlog was made by the engine indexlog, which has no use for it";
        refused(&old, &levels, message);
    }
    refused(
        &["serve", "--in-memory", "64MiB", "--port", "0"],
        &["--index", "hash", "--engine", "lsm"],
        "--index: ",
    );

    for (option, value) in [("--index", "hash"), ("--change-log", "16MiB")] {
        for new in [load("new"), serve("new")] {
            let message = format!(
                "{option}: the engine lsm has no use for it; leave it out, or give --engine indexlog"
            );
            refused(&new, &[option, value, "--engine", "lsm"], &message);
            refused(
                &new,
                &[option, value, "--engine", "lsm", "--levels", "ssd"],
                "no engine has a use for both",
            );
        }
        for old in [load("lsm"), serve("lsm")] {
            let message =
                format!("{option}: lsm was made by the engine lsm, which has no use for it");
            refused(&old, &[option, value], &message);
            refused(
                &old,
                &[option, value, "--levels", "lsm/levels"],
                "no engine has a use for both",
            );
        }
    }
    refused(&restore, &["--change-log", "16MiB", "--engine", "lsm"], "--change-log: ");
    // Another engine than a database's is its own error.
    home.run(&[&put("indexlog")[..], &LSM].concat())
        .failed(1, "indexlog: the store was made by the engine `indexlog`, not by `lsm`");
    home.run(&[&load("lsm")[..], &["--index", "hash", "--engine", "indexlog"]].concat())
        .failed(1, "lsm: the store was made by the engine `lsm`, not by `indexlog`");
    assert_eq!(home.text(&["dump", "lsm"]), home.text(&["dump", "indexlog"]));
}
