//! Databases of the engine lsm whose sorted tables or manifest are missing, damaged or another database's: `check`
//! names the file, the rest can be read, `repair` goes on without it.
//!
//! Apart from the other tests of the command, and one at a time: a database is open in this process now and then,
//! and a process that is started just then has its lock for a moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use halite::{Database, Durability, Durable, LsmOptions};

use run::{Ended, Home};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "command/run.rs"]
mod run;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const KEYS: u32 = 6_000;

fn key(number: u32) -> String {
    format!("key {number:05}")
}

fn value(number: u32) -> Vec<u8> {
    // The value cannot be compressed.
    let mut word = u64::from(number) + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..900 + number % 100).map(|_| next()).collect()
}

fn open(path: &Path, durable: Durable) -> halite::Result<Database> {
    let (memtable_bytes, table_bytes) = (Some(1 << 20), Some(128 << 10));
    let global_index_bytes = Some(1 << 20);
    let lsm = LsmOptions {
        durable,
        memtable_bytes,
        global_index_bytes,
        table_bytes,
        ..Default::default()
    };
    Database::builder().engine("lsm").max_size(64 << 20).lsm(lsm).open(path)
}

/// A database with most of its records in tables.
fn create(path: &Path, durable: Durable) {
    let db = open(path, durable).unwrap();
    let space = db.key_space("db0").unwrap();
    for first in (0..KEYS).step_by(100) {
        let mut batch = db.batch();
        (first..first + 100).for_each(|number| batch.put(&space, key(number), value(number)));
        batch.commit_with(Durability::Immediate).unwrap();
    }
    while db.stats().figure("level_bytes").unwrap() < 1 << 20 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The files of the levels whose names have a part, ascending.
fn files(path: &Path, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("levels")).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part))
        .collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    format!("levels/{}", file.file_name().unwrap().to_str().unwrap())
}

/// The numbers of the keys that can be read; others fail for a file.
fn readable(path: &Path, durable: Durable, file: &str) -> Vec<u32> {
    let db = open(path, durable).unwrap();
    let space = db.key_space("db0").unwrap();
    let is_readable = |number: &u32| match space.get(key(*number)) {
        Ok(found) => {
            assert_eq!(found.unwrap(), value(*number));
            true
        }
        Err(error) => {
            assert_eq!(error.damage().unwrap().what, file);
            false
        }
    };
    (0..KEYS).filter(is_readable).collect()
}

/// A way to damage a file: its name, and the function that does it.
type Harm = (&'static str, fn(&Path, &Path));

fn remove(file: &Path, _: &Path) {
    fs::remove_file(file).unwrap();
}

fn truncate(file: &Path, _: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() * 2 / 3]).unwrap();
}

fn flip(file: &Path, _: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 8;
    fs::write(file, bytes).unwrap();
}

/// Replaces the file by another database's file of the same kind.
fn swap(file: &Path, theirs: &Path) {
    fs::copy(theirs, file).unwrap();
}

fn finds(ended: &Ended, file: &str) {
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    let out = String::from_utf8_lossy(&ended.out);
    assert!(out.contains(file), "{file}: {out}");
}

/// The subjects of the findings in a JSON report.
fn parts(report: &serde_json::Value, name: &str) -> Vec<String> {
    let parts = report[name].as_array().unwrap().iter();
    parts.map(|part| part["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_table_that_cannot_be_read_is_named_and_the_rest_is_there() {
    let _alone = alone();
    const HARMS: [Harm; 4] =
        [("missing", remove), ("truncated", truncate), ("flipped", flip), ("foreign", swap)];
    for durable in [Durable::Pool, Durable::Log] {
        let home = Home::new();
        create(&home.path("theirs"), durable);
        for (what, harm) in HARMS {
            let path = home.path("data");
            create(&path, durable);
            assert!(home.text(&["repair", "data"]).contains("nothing to repair"));
            let tables = files(&path, ".sst");
            let table = &tables[tables.len() / 2];
            harm(table, &files(&home.path("theirs"), ".sst")[0]);
            let file = name(table);

            finds(&home.run(&["check", "data"]), &file);
            // Counting needs all tables; the rest is shown.
            finds(&home.run(&["stat", "data"]), &file);
            let ended = home.run(&["stat", "data", "--json"]);
            assert_eq!(ended.code, Some(4), "{}", ended.err);
            let stat: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
            assert_eq!(parts(&stat, "damage"), [&*file], "{what}: {stat}");
            assert!(stat["key_spaces"]["db0"].is_null() && stat["pool"]["bytes"].is_u64());
            let at_once = matches!(what, "missing" | "truncated");
            let told = parts(&stat["recovery"], "damage").contains(&file);
            assert!(told || !at_once, "{what}: {stat}");
            let before = readable(&path, durable, &file);
            assert!((1..KEYS as usize).contains(&before.len()), "{what}: {}", before.len());

            finds(&home.run(&["repair", "data", "--dry-run"]), &format!("lost: {file}: "));
            finds(&home.run(&["check", "data"]), &file);
            let ended = home.run(&["repair", "data", "--dry-run", "--json"]);
            let to_be: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
            let report = home.json(&["repair", "data", "--json"]);
            assert_eq!(parts(&report, "lost"), [&*file], "{what}: {report}");
            assert_eq!((&report["repaired"], &report["rebuilt"]), (&true.into(), &false.into()));
            for part in ["tables", "entries", "set_aside"] {
                assert_eq!(report[part], to_be[part], "{what}: {part}");
            }
            let is_set_aside = table.with_extension("sst.damaged").exists();
            assert_eq!(is_set_aside, matches!(what, "truncated" | "flipped"), "{what}");
            assert_eq!(table.exists(), what == "foreign");

            home.ok(&["check", "data"]);
            let db = open(&path, durable).unwrap();
            let space = db.key_space("db0").unwrap();
            let mut lost = Vec::new();
            for number in 0..KEYS {
                match space.get(key(number)).unwrap() {
                    Some(found) => assert_eq!(found, value(number), "{what}"),
                    None => lost.push(number),
                }
            }
            assert_eq!(space.len().unwrap(), u64::from(KEYS) - lost.len() as u64);
            // Keys were written in their order: a table has some that follow each other. It is left out whole.
            assert_eq!(lost.len() as u32, lost.last().unwrap() - lost[0] + 1, "{what}: {lost:?}");
            let unreadable = (0..KEYS).filter(|number| before.binary_search(number).is_err());
            assert!(unreadable.eq(lost.iter().copied()) || what == "flipped", "{what}: {lost:?}");
            drop((db, space));
            assert!(home.text(&["repair", "data"]).contains("nothing to repair"));
            fs::remove_dir_all(&path).unwrap();
        }
    }
}

#[test]
fn a_manifest_that_cannot_be_read_is_named_and_made_anew() {
    let _alone = alone();
    const HARMS: [Harm; 4] =
        [("missing", remove), ("truncated", truncate), ("flipped", flip), ("foreign", swap)];
    for durable in [Durable::Pool, Durable::Log] {
        let home = Home::new();
        create(&home.path("theirs"), durable);
        for (what, harm) in HARMS {
            for kind in ["CURRENT", "MANIFEST"] {
                let path = home.path("data");
                create(&path, durable);
                let manifest = &files(&path, kind)[0];
                harm(manifest, &files(&home.path("theirs"), kind)[0]);
                let file = name(manifest);

                let ended = home.run(&["get", "data", &key(7)]);
                assert_eq!(ended.code, Some(4), "{}", ended.err);
                assert!(ended.err.starts_with(&format!("halite: data: damaged: {file}: ")));
                finds(&home.run(&["check", "data"]), &file);
                if (what, kind) == ("foreign", "CURRENT") {
                    // All of the folder may be another database's.
                    let ended = home.run(&["repair", "data"]);
                    assert_eq!(ended.code, Some(4));
                    assert!(ended.err.contains("move it away"), "{}", ended.err);
                    remove(manifest, manifest);
                }
                finds(&home.run(&["repair", "data", "--dry-run"]), &format!("lost: {file}: "));
                finds(&home.run(&["check", "data"]), &file);
                let ended = home.run(&["repair", "data", "--dry-run", "--json"]);
                let to_be: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
                let report = home.json(&["repair", "data", "--json"]);
                for part in ["tables", "entries", "set_aside"] {
                    assert_eq!(report[part], to_be[part], "{what} {kind}: {part}");
                }
                assert_eq!(parts(&report, "lost"), [&*file], "{what}: {report}");
                assert_eq!((&report["repaired"], &report["rebuilt"]), (&true.into(), &true.into()));
                let aside = files(&path, ".damaged");
                let is_set_aside = matches!(what, "truncated" | "flipped");
                assert_eq!(aside.len(), usize::from(is_set_aside), "{what} {kind}: {aside:?}");

                home.ok(&["check", "data"]);
                assert_eq!(readable(&path, durable, "").len(), KEYS as usize);
                let db = open(&path, durable).unwrap();
                let space = db.key_space("db0").unwrap();
                // A scan and a snapshot filter by sequence; a get sees all of it at once.
                assert_eq!(space.len().unwrap(), u64::from(KEYS), "{what} {kind}");
                space.put(key(7), "new").unwrap();
                assert_eq!(space.iter().unwrap().nth(7).unwrap().unwrap().1, b"new");
                drop((db, space));
                assert_eq!(home.ok(&["get", "data", &key(7)]), b"new");
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }
}

#[test]
fn a_repair_is_refused_where_it_could_do_harm() {
    let _alone = alone();
    let home = Home::new();
    home.run(&["repair", "data"]).failed(1, "data: there is no database here");
    home.ok(&["put", "pool only", "key", "value", "--engine", "indexlog"]);
    home.run(&["repair", "pool only"]).failed(1, "pool only: the engine `indexlog` keeps");
    let path = home.path("data");
    create(&path, Durable::Pool);
    let db = open(&path, Durable::Pool).unwrap();
    home.run(&["repair", "data"]).failed(1, "data/pool.halite: ");
    drop(db);
    // The disk that the levels are on is not there, or another one is.
    fs::rename(path.join("levels"), home.path("levels")).unwrap();
    home.run(&["repair", "data"]).failed(1, "data/levels: there is no such file or folder");
    fs::create_dir(path.join("levels")).unwrap();
    home.run(&["repair", "data"]).failed(4, "data: damaged: the levels: nothing");
    assert_eq!(files(&path, "").len(), 0);
    fs::remove_dir(path.join("levels")).unwrap();
    fs::rename(home.path("levels"), path.join("levels")).unwrap();
    home.ok(&["check", "data"]);
    // A file of a later version is no damage.
    let manifest = &files(&path, "MANIFEST")[0];
    let whole = fs::read(manifest).unwrap();
    fs::copy(manifest, home.path("whole")).unwrap();
    fs::write(manifest, [&whole[..9], &whole[10..]].concat()).unwrap();
    finds(&home.run(&["repair", "data", "--dry-run"]), "MANIFEST");
}
