//! Levels that are the root of a file system cannot be renamed, so a restoring does not begin to replace them.
//!
//! The file system is mounted in a private mount namespace; where that is not allowed, the test prints so, and passes.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use halite::{BackupReader, Database};

/// The folder of the database, for the test when it is run again where it may mount file systems.
const FOLDER: &str = "HALITE_MOUNTED_LEVELS";

#[test]
fn levels_on_a_file_system_of_their_own_are_refused_before_anything_is_done() {
    let Some(path) = env::var_os(FOLDER).map(PathBuf::from) else { return run_again() };
    fs::write(path.join("levels/notes.txt"), "stays").unwrap();
    let db = Database::builder().max_size(16 << 20).in_memory().unwrap();
    let mut backup = Vec::new();
    db.backup(&db.take_snapshot().unwrap(), &mut backup).unwrap();
    let readers = vec![BackupReader::new(&backup[..]).unwrap()];
    let refused = Database::builder().restore(&path, readers, true).unwrap_err();
    assert!(refused.to_string().contains("a file system is mounted there"), "{refused}");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing else is there");
    assert!(path.join("levels/notes.txt").exists());
}

fn run_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("levels")).unwrap();
    let mounted = |args: &[&str]| {
        let script = format!("mount -t tmpfs none \"${FOLDER}/levels\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", &script, "sh"]).args(args).env(FOLDER, folder.path());
        command.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["true"]) {
        eprintln!("skipped: `unshare -Urm` cannot mount a file system here");
        return;
    }
    let program = env::current_exe().unwrap();
    assert!(mounted(&[program.to_str().unwrap(), "--nocapture"]));
}
