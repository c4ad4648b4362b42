//! Append-only files of real servers.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use halite_rdb::aof::{Files, FilesError, LogEvent, Replay, ReplayError};
use halite_rdb::{Event, Limits, Value, Why};

use crate::common::path;

/// The contents of an append-only file: keys of RDB files as SET, and commands, without times.
fn commands(from: &Path) -> Result<Vec<String>, ReplayError> {
    let files = Files::find(from).unwrap();
    let mut replay = Replay::new(files, Limits::default(), |path: &Path| File::open(path));
    let mut commands = Vec::new();
    while let Some(event) = replay.next_event()? {
        match event {
            LogEvent::Rdb(Event::Key(key)) => {
                let Value::String(value) = key.value else { panic!("{key:?}") };
                commands.push(text(&[b"rdb:set".to_vec(), key.name, value]));
            }
            LogEvent::Command(words) => commands.push(text(&words)),
            LogEvent::Timestamp(seconds) => assert!(seconds > 1_700_000_000),
            _ => {}
        }
    }
    Ok(commands)
}

fn text(words: &[Vec<u8>]) -> String {
    words.join(&b' ').escape_ascii().to_string()
}

const SEVERAL: [&str; 8] = [
    "rdb:set a 1",
    "SELECT 0",
    "SET b 2 PXAT 2795811257973",
    "MULTI",
    "incr a",
    "rpush list x y",
    "EXEC",
    "SELECT 2",
];

#[test]
fn a_log_in_several_files_is_read_in_order() {
    let folder = path("append-only-7.0");
    for from in [folder.clone(), folder.join("some.aof.manifest")] {
        let read = commands(&from).unwrap();
        assert_eq!(read[..8], SEVERAL);
        assert_eq!(read[8..], ["set c two words"]);
    }
}

#[test]
fn a_log_in_one_file_is_read_with_and_without_an_rdb_file() {
    let read = commands(&path("preamble-yes-6.2.aof")).unwrap();
    assert_eq!(read, ["rdb:set a 1", "SELECT 0", "incr a", "set b 2"]);
    let read = commands(&path("preamble-no-6.2.aof")).unwrap();
    assert_eq!(read, ["SELECT 0", "SET a 1", "SELECT 0", "incr a", "set b 2"]);
}

#[test]
fn the_last_file_may_be_cut_off_and_no_other() {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(path("append-only-7.0")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let last = copy.path().join("some.aof.2.incr.aof");
    let whole = fs::read(&last).unwrap();
    let transaction = whole.windows(5).position(|bytes| bytes == b"MULTI").unwrap() as u64;
    let exec = whole.windows(4).position(|bytes| bytes == b"EXEC").unwrap();
    for (len, good_max) in [(whole.len() - 1, whole.len() as u64), (exec, transaction)] {
        fs::write(&last, &whole[..len]).unwrap();
        let error = commands(copy.path()).unwrap_err();
        assert!(error.is_cut_off);
        assert_eq!(error.path, last);
        let Why::Truncated { good } = error.source.why else { panic!("{error}") };
        assert!(good < good_max);
        fs::write(&last, &whole[..good as usize]).unwrap();
        assert!(commands(copy.path()).is_ok(), "it is whole up to there");
    }
    let base = copy.path().join("some.aof.2.base.rdb");
    let whole = fs::read(&base).unwrap();
    fs::write(&base, &whole[..whole.len() - 1]).unwrap();
    let error = commands(copy.path()).unwrap_err();
    assert!(!error.is_cut_off);
    assert_eq!(error.path, base);
    fs::remove_file(&base).unwrap();
    let error = commands(copy.path()).unwrap_err();
    assert!(matches!(&error.source.why, Why::Io(error) if error.kind() == io::ErrorKind::NotFound));
}

#[test]
fn a_folder_has_to_have_one_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let found = |found| {
        let error = Files::find(folder.path()).unwrap_err();
        assert!(
            matches!(error, FilesError::NotOneManifest { found: number, .. } if number == found)
        );
    };
    found(0);
    fs::write(folder.path().join("a.manifest"), "file a seq 1 type x\n").unwrap();
    let error = Files::find(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("a.manifest: line 1: its `type` is none of b, i and h"), "{error}");
    fs::write(folder.path().join("b.manifest"), "").unwrap();
    found(2);
}
