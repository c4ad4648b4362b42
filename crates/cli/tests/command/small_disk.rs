//! Stores of tables on a disk that fills, and on one that cannot be written.
//!
//! The disk is a file system in memory, mounted in a private mount namespace; where that is not allowed, the tests say so, and
//! pass.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::run::Home;
use crate::tables::{METHODS, create, load};

/// The folder of the file system, for a test that is run again in it.
const FOLDER: &str = "HALITE_SMALL_DISK";

/// Runs a test again with a file system of 64 MiB at a folder.
fn on_small_disk(test: &str, run: impl FnOnce(&Path)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return run(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mounted = |args: &[&str]| {
        let script = format!("mount -t tmpfs -o size=64m none \"${FOLDER}\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", &script, "sh"]).args(args).env(FOLDER, folder.path());
        command.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["true"]) {
        // Written past the test harness, which shows a test's output only if the test fails.
        let _ = writeln!(std::io::stderr(), "{test} DID NOT RUN: `unshare -Urm` cannot mount here");
        return;
    }
    let program = env::current_exe().unwrap();
    let test = format!("small_disk::{test}");
    assert!(mounted(&[program.to_str().unwrap(), "--exact", &test, "--nocapture"]), "it failed");
}

/// A file that takes all the room but so many bytes.
fn take_room(folder: &Path, left: u64) -> std::path::PathBuf {
    let path = folder.join("filler");
    let mut file = File::create(&path).unwrap();
    let mut len = 0;
    while file.write_all(&[1; 4096]).is_ok() {
        len += 4096;
    }
    file.set_len(len - left.min(len)).unwrap();
    path
}

#[test]
fn a_load_onto_a_full_disk_says_what_it_kept_and_goes_on_when_there_is_room() {
    let test = "a_load_onto_a_full_disk_says_what_it_kept_and_goes_on_when_there_is_room";
    on_small_disk(test, |folder| {
        for method in METHODS {
            let home = Home::within(folder);
            create(&home, &["--method", method, "--partitions", "2"]);
            load(&home, "id,owner\n-1,a\n-2,b\n", &[]).ok();
            let filler = take_room(folder, 1 << 20);
            let rows = |from: u64| {
                let row = |id: u64| format!("{id},owner {id}\n");
                format!("id,owner\n{}", (from..60_000).map(row).collect::<String>())
            };
            let ended = load(&home, &rows(0), &["--batch", "100"]);
            let told = ended.err.split_once("; ").and_then(|_| ended.err.rsplit_once("; "));
            let kept = told.and_then(|(_, kept)| kept.split_once(" row")).expect(&ended.err);
            let kept: u64 = kept.0.replace(',', "").parse().unwrap();
            assert!(kept > 0 && kept < 60_000, "{method}: {}", ended.err);
            assert_eq!(kept % 100, 0, "{}", ended.err);
            ended.failed(1, "");
            let count = || {
                home.json(&["table", "describe", "bank", "--count", "--json"])["tables"][0]["rows"]
                    .as_u64()
            };
            // A log whose last file is full begins the next one before the store opens.
            let opened = home.run(&["table", "describe", "bank"]);
            assert!(opened.code == Some(0) || opened.err.contains("make room"), "{}", opened.err);
            fs::remove_file(filler).unwrap();
            assert_eq!(count(), Some(kept + 2), "{method}");
            load(&home, &rows(kept), &[]).ok();
            assert_eq!(count(), Some(60_002), "{method}");
        }
    });
}

#[test]
fn a_tpcc_load_onto_a_full_disk_is_continued_when_there_is_room() {
    let test = "a_tpcc_load_onto_a_full_disk_is_continued_when_there_is_room";
    on_small_disk(test, |folder| {
        for method in METHODS {
            let home = Home::within(folder);
            let engine = format!("table:{method}");
            create(&home, &["--method", method, "--partitions", "2"]);
            let filler = take_room(folder, 256 << 10);
            let load = ["tpcc", "load", "bank", "--warehouses", "2", "--scale", "tiny"];
            let load = [&load[..], &["--engine", &engine]].concat();
            let ended = home.run(&load);
            // The file that a log has reserved may have room for all rows.
            assert!(ended.code == Some(1) || method == "inp", "{method}: {}", ended.err);
            if ended.code != Some(0) {
                ended.failed(1, "bank");
                let ended = home.run(&["tpcc", "check", "bank"]);
                ended.failed(1, "bank: the ");
            }
            fs::remove_file(filler).unwrap();
            home.ok(&load);
            home.ok(&["tpcc", "check", "bank"]);
        }
    });
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_stays_as_it_is() {
    let test = "a_folder_that_cannot_be_written_is_an_error_and_stays_as_it_is";
    on_small_disk(test, |folder| {
        let mounted = |how: &str| {
            let mut command = Command::new("mount");
            command.args(["-o", &format!("remount,bind,{how}")]).arg(folder);
            assert!(command.status().unwrap().success());
        };
        for method in METHODS {
            let home = Home::within(folder);
            create(&home, &["--method", method]);
            load(&home, "id,owner\n1,a\n", &[]).ok();
            mounted("ro");
            for args in [
                &["table", "scan", "bank", "account"][..],
                &["table", "load", "bank", "account", "-"],
                &["table", "drop", "bank", "account"],
                &["tpcc", "check", "bank"],
            ] {
                let ended = home.run(args);
                assert!(ended.err.to_lowercase().contains("read-only"), "{args:?}: {}", ended.err);
                ended.failed(1, "bank");
            }
            let made = ["table", "create", "new", "t", "--column", "a int8", "--primary-key", "a"];
            home.run(&made).failed(1, "new: ");
            mounted("rw");
            assert!(!home.path("new").exists());
            assert!(home.text(&["table", "dump", "bank", "account"]).ends_with("\n1,a,,\n"));
        }
    });
}
