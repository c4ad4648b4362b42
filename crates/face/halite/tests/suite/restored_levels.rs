//! Restored databases whose engine keeps levels beside the pool, or that replace one: the names of pool and levels
//! change together, also where that is interrupted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use halite::{
    BackupError, BackupReader, Builder, Database, Durability, Durable, EngineError, Error,
    LsmOptions, RestoreReport,
};
use tempfile::TempDir;

const KEYS: u32 = 1_500;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// The engine of a database, and the place of its levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Indexlog,
    Lsm,
    /// With its levels in a folder of their own.
    Linked,
}

impl Engine {
    const ALL: [Self; 3] = [Self::Indexlog, Self::Lsm, Self::Linked];

    fn builder(self, levels: &Path) -> Builder {
        let builder = Database::builder().max_size(64 << 20);
        let options = LsmOptions {
            levels: (self == Self::Linked).then(|| levels.to_owned()),
            // Small memtables, so that there are tables.
            memtable_bytes: Some(256 << 10),
            global_index_bytes: Some(256 << 10),
            table_bytes: Some(128 << 10),
            ..LsmOptions::default()
        };
        match self {
            Self::Indexlog => builder.engine("indexlog"),
            Self::Lsm | Self::Linked => builder.engine("lsm").lsm(options),
        }
    }

    fn has_levels(self) -> bool {
        self != Self::Indexlog
    }
}

fn pairs(tag: u8) -> Pairs {
    let value = |key: u32| {
        let mut word = u64::from(key) + u64::from(tag) * 7_919 + 1;
        let mut next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            (word >> 32) as u8
        };
        (0..900).map(|_| next()).collect()
    };
    let pair = |key: u32| ([&[tag][..], &key.to_be_bytes()].concat(), value(key));
    (0..KEYS).map(pair).collect()
}

fn fill(db: &Database, tag: u8) {
    let space = db.key_space("one").unwrap();
    for (key, value) in pairs(tag) {
        space.put_with(key, value, Durability::Deferred).unwrap();
    }
    db.sync().unwrap();
}

fn make(builder: Builder, path: &Path, tag: u8) {
    let db = builder.open(path).unwrap();
    fill(&db, tag);
    while db.engine_name() == "lsm"
        && db.stats().figure("level_bytes").is_none_or(|bytes| bytes == 0)
    {
        sleep(Duration::from_millis(1));
    }
}

fn contents(db: &Database) -> Pairs {
    let space = db.find_key_space("one").unwrap().unwrap();
    space.iter().unwrap().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

fn check(path: &Path, engine: Engine, tag: u8) {
    let db = Database::builder().create(false).open(path).unwrap();
    assert_eq!(db.engine_name() == "lsm", engine.has_levels());
    assert!(contents(&db) == pairs(tag), "the pairs of another database");
    assert_eq!(db.stats().recovery.foreign_files, [""; 0]);
    assert!(db.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap().damage.is_empty());
    drop(db);
    assert_eq!(names(path), expected_names(engine), "{engine:?}");
    assert_eq!(path.join("levels").is_symlink(), engine == Engine::Linked);
}

fn names(path: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

fn expected_names(engine: Engine) -> Vec<&'static str> {
    if engine.has_levels() { vec!["levels", "pool.halite"] } else { vec!["pool.halite"] }
}

fn backup(tag: u8) -> Vec<u8> {
    let folder = folder();
    let db = Database::builder().max_size(64 << 20).open(folder.path()).unwrap();
    fill(&db, tag);
    let mut out = Vec::new();
    db.backup(&db.take_snapshot().unwrap(), &mut out).unwrap();
    out
}

fn restore(
    builder: Builder,
    path: &Path,
    backup: &[u8],
    replace: bool,
) -> Result<RestoreReport, BackupError> {
    builder.restore(path, vec![BackupReader::new(backup)?], replace)
}

#[test]
fn a_database_with_levels_is_restored_and_replaced_by_any() {
    let (first, second) = (backup(1), backup(2));
    for old in Engine::ALL {
        for new in Engine::ALL {
            let folder = folder();
            let at = |name: &str| folder.path().join(name);
            let path = at("data");
            let report = restore(old.builder(&at("ssd/old")), &path, &first, false).unwrap();
            assert_eq!(report.pairs, u64::from(KEYS));
            check(&path, old, 1);
            let again = restore(new.builder(&at("ssd/new")), &path, &second, false);
            assert!(matches!(again, Err(BackupError::Exists { .. })), "{again:?}");
            check(&path, old, 1);
            restore(new.builder(&at("ssd/new")), &path, &second, true).unwrap();
            check(&path, new, 2);
            // Files in a folder that was named stay there.
            assert_eq!(at("ssd/old/CURRENT").exists(), old == Engine::Linked);
        }
    }
}

#[test]
fn a_log_beside_the_levels_is_restored_with_them() {
    let folder = folder();
    let path = folder.path().join("data");
    let lsm = LsmOptions { durable: Durable::Log, ..LsmOptions::default() };
    let builder = || Database::builder().engine("lsm").max_size(64 << 20).lsm(lsm.clone());
    restore(builder(), &path, &backup(1), false).unwrap();
    check(&path, Engine::Lsm, 1);
    assert!(names(&path.join("levels")).iter().any(|name| name.starts_with("LOG-")));
    restore(builder(), &path, &backup(2), true).unwrap();
    check(&path, Engine::Lsm, 2);
}

/// A database whose naming can be interrupted.
struct Half {
    folder: TempDir,
    old: Option<Engine>,
    new: Engine,
}

impl Half {
    /// Creates a folder with a new database that is complete, in the workshop, and no marker.
    fn new(old: Option<Engine>, new: Engine) -> Self {
        let half = Self { folder: folder(), old, new };
        if let Some(old) = old {
            make(old.builder(&half.folder.path().join("ssd/old")), &half.path(), 1);
        }
        make(half.builder(), &half.workshop(), 2);
        half
    }

    fn builder(&self) -> Builder {
        self.new.builder(&self.folder.path().join("ssd/new"))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn workshop(&self) -> PathBuf {
        self.path().join(".restoring")
    }

    fn mark(&self) {
        let beside = if self.new.has_levels() { "beside levels\n" } else { "" };
        let text = format!("{beside}replaces {}\n", self.old.is_some());
        fs::write(self.workshop().join("complete"), text).unwrap();
    }

    /// Takes the first steps of naming.
    fn name(&self, steps: usize) {
        let (here, workshop) = (self.path(), self.workshop());
        let old_has_levels = self.old.is_some_and(Engine::has_levels);
        let pool = "pool.halite";
        let taken: [&dyn Fn(); 5] = [
            &|| match self.old {
                Some(_) => fs::rename(workshop.join(pool), here.join(pool)).unwrap(),
                None => fs::hard_link(workshop.join(pool), here.join(pool)).unwrap(),
            },
            &|| {
                if old_has_levels {
                    fs::rename(here.join("levels"), workshop.join("replaced-levels")).unwrap();
                }
            },
            &|| {
                if self.new.has_levels() {
                    fs::rename(workshop.join("levels"), here.join("levels")).unwrap();
                }
            },
            &|| fs::remove_file(workshop.join("complete")).unwrap(),
            &|| {
                let replaced = workshop.join("replaced-levels");
                if replaced.is_symlink() {
                    fs::remove_file(replaced).unwrap();
                } else if old_has_levels {
                    fs::remove_dir_all(replaced).unwrap();
                }
            },
        ];
        taken[..steps].iter().for_each(|take| take());
    }

    /// All pairs of an old and a new database whose naming takes a marker.
    fn all() -> impl Iterator<Item = (Option<Engine>, Engine)> {
        let old = Engine::ALL.into_iter().map(Some).chain([None]);
        let both = old.flat_map(|old| Engine::ALL.map(|new| (old, new)));
        both.filter(|(old, new)| old.is_some_and(Engine::has_levels) || new.has_levels())
    }
}

#[test]
fn an_interrupted_naming_is_finished_by_whoever_opens_the_database() {
    let third = backup(3);
    for (old, new) in Half::all() {
        for steps in 0..=5 {
            let half = Half::new(old, new);
            half.mark();
            half.name(steps);
            let path = half.path();
            assert!(Database::exists(&path));
            let db = half.builder().create(steps % 2 == 0).open(&path).unwrap();
            assert!(contents(&db) == pairs(2), "{old:?} {new:?} {steps}");
            drop(db);
            if steps > 3 {
                // Without the marker, the next restoring removes the rest, even one that fails.
                let failed = restore(Engine::Lsm.builder(&path), &path, &third[..9_999], true);
                assert!(matches!(failed, Err(BackupError::InBackup { .. })), "{failed:?}");
            }
            check(&path, new, 2);
        }
    }
}

#[test]
fn so_it_is_by_who_repairs_or_restores() {
    for steps in 0..=3 {
        let half = Half::new(Some(Engine::Lsm), Engine::Lsm);
        half.mark();
        half.name(steps);
        assert!(Database::builder().examine(half.path()).unwrap().is_whole());
        check(&half.path(), Engine::Lsm, 2);

        let half = Half::new(Some(Engine::Linked), Engine::Lsm);
        half.mark();
        half.name(steps);
        assert!(Database::builder().repair(half.path()).unwrap().is_whole());
        check(&half.path(), Engine::Lsm, 2);

        let half = Half::new(None, Engine::Linked);
        half.mark();
        half.name(steps);
        let third = backup(3);
        let refused = restore(Engine::Lsm.builder(&half.path()), &half.path(), &third, false);
        assert!(matches!(refused, Err(BackupError::Exists { .. })), "{refused:?}");
        check(&half.path(), Engine::Linked, 2);
        restore(Engine::Indexlog.builder(&half.path()), &half.path(), &third, true).unwrap();
        check(&half.path(), Engine::Indexlog, 3);
    }
}

#[test]
fn without_the_marker_the_old_database_stays() {
    for (old, new) in Half::all() {
        let half = Half::new(old, new);
        let path = half.path();
        fs::write(half.workshop().join("complete.tmp"), "beside le").unwrap();
        assert_eq!(Database::exists(&path), old.is_some());
        match old {
            Some(_) => {
                let db = Database::builder().create(false).open(&path).unwrap();
                assert!(contents(&db) == pairs(1), "{old:?} {new:?}");
            }
            None => assert!(Database::builder().create(false).open(&path).is_err()),
        }
        // Files that the crash left, in a folder that was named too, do not block the next restoring.
        restore(half.builder(), &path, &backup(3), true).unwrap();
        check(&path, new, 3);
    }
}

#[test]
fn a_marker_whose_place_another_database_has_taken_goes() {
    let half = Half::new(None, Engine::Linked);
    half.mark();
    // By a version that knows no markers, for example.
    let elsewhere = half.folder.path().join("other");
    make(Engine::Indexlog.builder(&elsewhere), &elsewhere, 1);
    fs::rename(elsewhere.join("pool.halite"), half.path().join("pool.halite")).unwrap();
    check(&half.path(), Engine::Indexlog, 1);
    assert_eq!(names(&half.folder.path().join("ssd/new")), [""; 0], "nothing is left");
}

#[test]
fn a_marker_that_is_not_known_changes_nothing() {
    let half = Half::new(Some(Engine::Lsm), Engine::Lsm);
    fs::write(half.workshop().join("complete"), "beside what/is\nreplaces true\n").unwrap();
    let refused = Database::open(half.path()).unwrap_err();
    assert!(refused.to_string().contains("complete: cannot understand"), "{refused}");
    assert!(restore(half.builder(), &half.path(), &backup(3), true).is_err());
    fs::remove_dir_all(half.workshop()).unwrap();
    check(&half.path(), Engine::Lsm, 1);
}

#[test]
fn who_names_or_opens_a_database_has_it_alone() {
    let half = Half::new(Some(Engine::Lsm), Engine::Lsm);
    half.mark();
    let workshop = File::open(half.workshop()).unwrap();
    workshop.lock().unwrap();
    let held = Database::open(half.path());
    assert!(matches!(held, Err(Error::Restoring)), "{held:?}");
    assert!(matches!(Database::builder().repair(half.path()), Err(Error::Restoring)));
    let held = restore(half.builder(), &half.path(), &backup(3), true);
    assert!(matches!(held, Err(BackupError::Restoring { .. })), "{held:?}");
    drop(workshop);
    for pool in [half.path(), half.workshop()] {
        let pool = File::open(pool.join("pool.halite")).unwrap();
        pool.lock().unwrap();
        let held = Database::open(half.path());
        assert!(matches!(held, Err(Error::Engine(EngineError::Pool(_)))), "{held:?}");
        let held = restore(half.builder(), &half.path(), &backup(3), true);
        assert!(matches!(held, Err(BackupError::InUse { .. })), "{held:?}");
    }
    check(&half.path(), Engine::Lsm, 2);
}

#[test]
fn what_fails_leaves_nothing_in_a_folder_that_was_named() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let (path, ssd) = (at("data"), at("ssd"));
    fs::create_dir(&ssd).unwrap();
    fs::write(ssd.join("notes.txt"), "stays").unwrap();
    let whole = backup(1);
    let cut = &whole[..whole.len() - 10];
    let failed = restore(Engine::Linked.builder(&ssd), &path, cut, false);
    assert!(matches!(failed, Err(BackupError::InBackup { .. })), "{failed:?}");
    assert_eq!(names(&ssd), ["notes.txt"]);
    assert!(!path.exists());
    restore(Engine::Linked.builder(&ssd), &path, &whole, false).unwrap();
    check(&path, Engine::Linked, 1);

    // The levels of another database are not touched.
    let failed = restore(Engine::Linked.builder(&ssd), &at("other"), &whole, false);
    assert!(matches!(failed, Err(BackupError::Database(_))), "{failed:?}");
    assert!(!at("other").exists());
    check(&path, Engine::Linked, 1);
}

#[test]
fn new_levels_are_not_put_into_those_that_go() {
    let second = backup(2);
    let refused = |half: &Half, levels: &Path| {
        let builder = Engine::Linked.builder(levels);
        let refused = restore(builder, &half.path(), &second, true);
        assert!(matches!(refused, Err(BackupError::SameLevels { .. })), "{refused:?}");
    };
    let linked = Half::new(Some(Engine::Linked), Engine::Lsm);
    refused(&linked, &linked.folder.path().join("ssd/old"));
    refused(&linked, &linked.folder.path().join("ssd/old/below/it"));
    check_old(&linked, Engine::Linked);
    let plain = Half::new(Some(Engine::Lsm), Engine::Lsm);
    refused(&plain, &plain.path().join("levels/below"));
    check_old(&plain, Engine::Lsm);
    // The default folder of the levels may be named: it is no other folder.
    for half in [linked, plain] {
        for levels in [half.path().join("levels"), half.path().join("../data/levels/")] {
            restore(Engine::Linked.builder(&levels), &half.path(), &second, true).unwrap();
            check(&half.path(), Engine::Lsm, 2);
        }
    }
}

fn check_old(half: &Half, engine: Engine) {
    assert_eq!(names(&half.path()), expected_names(engine), "nothing else is left");
    check(&half.path(), engine, 1);
}

#[test]
fn levels_without_a_pool_are_replaced_only_when_that_is_asked_for() {
    let first = backup(1);
    for is_link in [false, true] {
        let folder = folder();
        let path = folder.path().join("data");
        fs::create_dir_all(folder.path().join("lost")).unwrap();
        fs::create_dir(&path).unwrap();
        match is_link {
            true => symlink(folder.path().join("lost"), path.join("levels")).unwrap(),
            false => fs::rename(folder.path().join("lost"), path.join("levels")).unwrap(),
        }
        fs::write(path.join("levels/000007.sst"), "a table").unwrap();
        for engine in Engine::ALL {
            let refused = restore(engine.builder(&folder.path().join("ssd")), &path, &first, false);
            assert!(matches!(refused, Err(BackupError::LevelsExist { .. })), "{refused:?}");
        }
        assert_eq!(names(&path), ["levels"]);
        restore(Engine::Lsm.builder(&path), &path, &first, true).unwrap();
        check(&path, Engine::Lsm, 1);
        assert_eq!(folder.path().join("lost/000007.sst").exists(), is_link);
    }
}
