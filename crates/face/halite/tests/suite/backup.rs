//! Backups, and databases that are restored from them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use halite::{
    BackupError, BackupInfo, BackupReader, Builder, Database, Durability, EngineError, Error,
    KeyRange, Partitioning, RestoreReport,
};
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn builder() -> Builder {
    Database::builder().max_size(64 << 20)
}

fn contents(db: &Database) -> Model {
    let pairs = |space: &halite::KeySpace| {
        space.iter().unwrap().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
    };
    db.key_spaces()
        .unwrap()
        .iter()
        .map(|space| (space.name().to_owned(), pairs(space).collect()))
        .collect()
}

fn full(db: &Database) -> (Vec<u8>, BackupInfo) {
    let mut out = Vec::new();
    let report = db.backup(&db.take_snapshot().unwrap(), &mut out).unwrap();
    assert_eq!(report.bytes, out.len() as u64);
    (out, report.info)
}

fn since(db: &Database, previous: &BackupInfo) -> Result<(Vec<u8>, BackupInfo), BackupError> {
    let mut out = Vec::new();
    let report = db.backup_since(previous, &db.take_snapshot().unwrap(), &mut out)?;
    Ok((out, report.info))
}

fn restore(
    builder: Builder,
    path: &Path,
    chain: &[Vec<u8>],
    replace: bool,
) -> Result<RestoreReport, BackupError> {
    let readers: Result<Vec<_>, _> =
        chain.iter().map(|bytes| BackupReader::new(&bytes[..])).collect();
    builder.restore(path, readers?, replace)
}

/// A database with records.
fn filled(path: &Path) -> Database {
    let db = builder().change_log(16 << 20).partitioning(Partitioning::Hash(2)).open(path).unwrap();
    let space = db.key_space("one").unwrap();
    for number in 0..400_u32 {
        let value = vec![number as u8; 7 * number as usize];
        space.put_with(number.to_be_bytes(), value, Durability::Deferred).unwrap();
    }
    db.key_space("empty").unwrap();
    db
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8, u32),
    Delete(u8, u8),
    DeleteRange(u8, u8, u8),
    Batch(Vec<(u8, u8, u32)>),
    Drop(u8),
    Reopen,
    /// A backup, with so many steps between its snapshot and its writing.
    Backup(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![6 => 0..200_u32, 1 => 30_000..200_000_u32];
    let put = (0..2_u8, 0..12_u8, len);
    prop_oneof![
        20 => put.clone().prop_map(|(space, key, len)| Step::Put(space, key, len)),
        4 => (0..2_u8, 0..12_u8).prop_map(|(space, key)| Step::Delete(space, key)),
        3 => (0..2_u8, 0..12_u8, 0..9_u8).prop_map(|(space, key, n)| Step::DeleteRange(space, key, n)),
        3 => prop::collection::vec(put, 1..6).prop_map(Step::Batch),
        1 => (0..2_u8).prop_map(Step::Drop),
        1 => Just(Step::Reopen),
        2 => (0..6_usize).prop_map(Step::Backup),
    ]
}

/// A database and the model of its contents.
struct Pair {
    builder: Builder,
    folder: TempDir,
    db: Option<Database>,
    model: Model,
    writes: u8,
}

impl Pair {
    fn new(builder: Builder) -> Self {
        let folder = folder();
        let db = builder.clone().open(folder.path().join("data")).unwrap();
        Self { builder, folder, db: Some(db), model: Model::new(), writes: 0 }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    fn put(&mut self, puts: &[(u8, u8, u32)]) {
        let mut batch = self.db().batch();
        for (space, key, len) in puts {
            self.writes = self.writes.wrapping_add(1);
            let (name, value) = (format!("space {space}"), vec![self.writes; *len as usize]);
            batch.put(&self.db().key_space(&name).unwrap(), [*key], &value);
            self.model.entry(name).or_default().insert(vec![*key], value);
        }
        batch.commit_with(Durability::Deferred).unwrap();
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Put(space, key, len) => self.put(&[(*space, *key, *len)]),
            Step::Batch(puts) => self.put(puts),
            Step::Delete(space, key) => self.delete(*space, *key, 1),
            Step::DeleteRange(space, key, count) => self.delete(*space, *key, *count),
            Step::Drop(space) => {
                let name = format!("space {space}");
                if let Some(space) = self.db().find_key_space(&name).unwrap() {
                    self.db().drop_key_space(&space).unwrap();
                    self.model.remove(&name);
                }
            }
            Step::Reopen => {
                self.db = None;
                self.db = Some(self.builder.clone().open(self.folder.path().join("data")).unwrap());
            }
            Step::Backup(_) => {}
        }
    }

    fn delete(&mut self, space: u8, key: u8, count: u8) {
        let name = format!("space {space}");
        let Some(space) = self.db().find_key_space(&name).unwrap() else { return };
        if count == 1 {
            space.delete([key]).unwrap();
        } else {
            space.delete_range(&KeyRange::new([key], Some(vec![key + count]))).unwrap();
        }
        let pairs = self.model.get_mut(&name).unwrap();
        pairs.retain(|held, _| !(key..key + count).contains(&held[0]));
    }
}

fn check_history(steps: &[Step], from: &Partitioning, to: &Partitioning) {
    let mut pair = Pair::new(builder().change_log(16 << 20).partitioning(from.clone()));
    let mut chain: Vec<Vec<u8>> = Vec::new();
    let mut previous: Option<BackupInfo> = None;
    let steps = [steps, &[Step::Backup(0)]].concat();
    let mut at = 0;
    while at < steps.len() {
        let step = &steps[at];
        at += 1;
        let Step::Backup(later) = step else {
            pair.apply(step);
            continue;
        };
        let (snapshot, model) = (pair.db().take_snapshot().unwrap(), pair.model.clone());
        // The snapshot belongs to the open database.
        let later = steps[at..].iter().take(*later);
        let later =
            later.take_while(|step| !matches!(step, Step::Reopen | Step::Backup(_))).count();
        steps[at..at + later].iter().for_each(|step| pair.apply(step));
        at += later;
        let mut out = Vec::new();
        let report = match &previous {
            None => pair.db().backup(&snapshot, &mut out),
            Some(previous) => pair.db().backup_since(previous, &snapshot, &mut out),
        };
        previous = Some(report.unwrap().info);
        chain.push(out);
        let copy = folder();
        restore(builder().partitioning(to.clone()), copy.path(), &chain, false).unwrap();
        let restored = builder().create(false).open(copy.path()).unwrap();
        assert_eq!(contents(&restored), model);
        assert_eq!(restored.partitions(), to.count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_is_restored_is_what_the_snapshot_had(
        steps in prop::collection::vec(step(), 1..80),
        from in 1..4_usize,
        to in 1..4_usize,
    ) {
        check_history(&steps, &Partitioning::Hash(from), &Partitioning::Hash(to));
    }

    #[test]
    fn so_it_is_with_ranges(steps in prop::collection::vec(step(), 1..40)) {
        let ranges = Partitioning::Ranges(vec![vec![4], vec![8]]);
        check_history(&steps, &ranges, &Partitioning::Hash(2));
        check_history(&steps, &Partitioning::Hash(3), &ranges);
    }

    #[test]
    fn no_changed_byte_goes_unseen(at in any::<Index>(), bit in 0..8_u32, cut in any::<Index>()) {
        let folder = folder();
        let (mut bytes, _) = full(&filled(folder.path()));
        let at = at.index(bytes.len());
        let cut = cut.index(bytes.len());
        let truncated = BackupReader::new(&bytes[..cut]).and_then(BackupReader::verify);
        let is_named =
            matches!(truncated, Err(BackupError::Truncated { .. } | BackupError::Empty));
        prop_assert!(is_named, "cut at {}", cut);
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(BackupReader::new(&bytes[..]).and_then(BackupReader::verify).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(BackupReader::new(&bytes[..]).is_err());
        bytes.splice(..0, *b"HALITEBK\x01\0\0\0");
        prop_assert!(BackupReader::new(&bytes[..]).and_then(BackupReader::verify).is_err());
    }
}

#[test]
fn a_restored_database_has_the_partitions_and_the_change_log_of_its_original() {
    let folder = folder();
    let db = filled(&folder.path().join("data"));
    let (bytes, info) = full(&db);
    assert!(info.is_full() && info.can_be_followed());
    let copy = folder.path().join("some/copy");
    let report = restore(builder(), &copy, &[bytes], false).unwrap();
    assert_eq!((report.info, report.pairs), (info, 400));
    let restored = Database::builder().create(false).open(&copy).unwrap();
    assert_eq!(contents(&restored), contents(&db));
    assert_eq!(restored.partitions(), 2);
    assert!(restored.change_positions(1).is_ok());
    assert!(restored.stats().recovery.clean);
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn backups_that_do_not_follow_each_other_are_named() {
    let folder = folder();
    let db = filled(&folder.path().join("data"));
    let space = db.key_space("one").unwrap();
    let (first, first_info) = full(&db);
    space.put("a", "1").unwrap();
    let (second, second_info) = since(&db, &first_info).unwrap();
    space.put("a", "2").unwrap();
    let (third, third_info) = since(&db, &second_info).unwrap();
    assert_eq!(third_info.parent(), Some(second_info.id()));
    let copy = folder.path().join("new/folders/copy");
    let wrong = |chain: &[&Vec<u8>]| {
        let chain: Vec<_> = chain.iter().map(|bytes| (*bytes).clone()).collect();
        let error = restore(builder(), &copy, &chain, false).unwrap_err();
        assert!(!folder.path().join("new").exists(), "nothing is left");
        match error {
            BackupError::InBackup { nth, source, .. } => (nth, *source),
            other => (9, other),
        }
    };
    assert!(matches!(wrong(&[&second]), (0, BackupError::NotFull { .. })));
    assert!(matches!(wrong(&[&first, &third]), (1, BackupError::Gap { .. })));
    assert!(matches!(wrong(&[&first, &second, &second]), (2, BackupError::Gap { .. })));
    assert!(matches!(wrong(&[&first, &first]), (1, BackupError::FullAgain)));
    assert!(matches!(wrong(&[]), (_, BackupError::NoBackup)));
    let cut = second[..second.len() - 1].to_vec();
    assert!(matches!(wrong(&[&first, &cut, &third]), (1, BackupError::Truncated { .. })));
    restore(builder(), &copy, &[first, second, third], false).unwrap();
    assert_eq!(contents(&Database::open(&copy).unwrap()), contents(&db));
}

#[test]
fn what_cannot_be_followed_says_so() {
    let folder = folder();
    let plain = builder().open(folder.path().join("plain")).unwrap();
    let (_, plain_info) = full(&plain);
    assert!(!plain_info.can_be_followed());
    let no_log = since(&plain, &plain_info).unwrap_err();
    assert!(matches!(no_log, BackupError::Database(Error::Engine(EngineError::NoChangeLog))));

    let path = folder.path().join("data");
    let db = filled(&path);
    assert!(matches!(since(&db, &plain_info), Err(BackupError::NoPositions)));
    let (_, info) = full(&db);
    let other = filled(&folder.path().join("other"));
    assert!(matches!(since(&other, &info), Err(BackupError::OtherHistory)));
    let foreign = db.backup(&other.take_snapshot().unwrap(), io::sink());
    assert!(matches!(foreign, Err(BackupError::OtherDatabase)));
    let old = db.take_snapshot().unwrap();
    db.key_space("one").unwrap().put("a", "1").unwrap();
    let (_, newer) = full(&db);
    let backwards = db.backup_since(&newer, &old, io::sink());
    assert!(matches!(backwards, Err(BackupError::PreviousIsNewer)));

    drop((db, old));
    let db = builder().partitioning(Partitioning::Hash(3)).open(&path).unwrap();
    assert!(matches!(since(&db, &newer), Err(BackupError::OtherHistory)));
    let (_, info) = full(&db);
    drop(db);
    let db = builder().change_log(0).open(&path).unwrap();
    let space = db.key_space("one").unwrap();
    (0..12_000_u32).for_each(|nth| space.put(nth.to_be_bytes(), [1; 2_000]).unwrap());
    let released = since(&db, &info);
    assert!(matches!(
        released,
        Err(BackupError::Database(Error::Engine(EngineError::ChangesReleased { .. })))
    ));
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let read = |bytes: &[u8]| BackupReader::new(bytes).and_then(BackupReader::verify).unwrap_err();
    assert!(matches!(read(b""), BackupError::Empty));
    assert!(matches!(read(b"key\tvalue\n"), BackupError::Foreign));
    assert!(matches!(read(b"k"), BackupError::Foreign));
    assert!(matches!(read(b"HALI"), BackupError::Truncated { chunk: 0 }));
    let newer = read(b"HALITEBK\x02\0\0\0");
    assert!(matches!(newer, BackupError::Version { found: 2, known: 1 }));
    let folder = folder();
    let (mut bytes, _) = full(&filled(folder.path()));
    bytes.push(0);
    assert!(matches!(read(&bytes), BackupError::Damaged { .. }));
    struct Unreadable;
    impl io::Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    assert!(matches!(BackupReader::new(Unreadable), Err(BackupError::Read(_))));
}

#[test]
fn a_database_is_replaced_only_when_that_is_asked_for_and_when_it_is_closed() {
    let folder = folder();
    let db = filled(&folder.path().join("data"));
    let (bytes, _) = full(&db);
    let path = folder.path().join("old");
    let old = builder().open(&path).unwrap();
    old.key_space("old").unwrap().put("a", "1").unwrap();
    let chain = [bytes.clone()];
    assert!(matches!(restore(builder(), &path, &chain, false), Err(BackupError::Exists { .. })));
    assert!(matches!(restore(builder(), &path, &chain, true), Err(BackupError::InUse { .. })));
    drop(old);
    assert!(matches!(restore(builder(), &path, &chain, false), Err(BackupError::Exists { .. })));
    // The old database stays until the backup has been read to its end.
    let cut = [bytes[..bytes.len() / 2].to_vec()];
    assert!(matches!(restore(builder(), &path, &cut, true), Err(BackupError::InBackup { .. })));
    let small =
        restore(Database::builder().engine("indexlog").max_size(12 << 20), &path, &[large()], true);
    assert!(matches!(small, Err(BackupError::InBackup { .. })), "{small:?}");
    let old = builder().open(&path).unwrap();
    assert_eq!(old.key_spaces().unwrap().len(), 1);
    drop(old);
    restore(builder(), &path, &chain, true).unwrap();
    assert_eq!(contents(&Database::open(&path).unwrap()), contents(&db));
}

/// A backup of more than fits a small pool.
fn large() -> Vec<u8> {
    let folder = folder();
    let db = builder().open(folder.path()).unwrap();
    let space = db.key_space("one").unwrap();
    (0..200_u32).for_each(|nth| space.put(nth.to_be_bytes(), vec![1; 100_000]).unwrap());
    full(&db).0
}

#[test]
fn what_a_crash_left_of_restoring_is_removed_and_others_who_restore_are_waited_for() {
    let folder = folder();
    let (bytes, _) = full(&filled(&folder.path().join("data")));
    let copy = folder.path().join("copy");
    let workshop = copy.join(".restoring");
    fs::create_dir_all(&workshop).unwrap();
    fs::write(workshop.join(Database::POOL_FILE), "half a pool").unwrap();
    let other = File::open(&workshop).unwrap();
    other.try_lock().unwrap();
    let chain = [bytes];
    assert!(matches!(restore(builder(), &copy, &chain, false), Err(BackupError::Restoring { .. })));
    drop(other);
    restore(builder(), &copy, &chain, false).unwrap();
    assert!(!workshop.exists());
}

#[test]
fn a_full_device_is_a_clear_error() {
    struct Device(usize);
    impl Write for Device {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = folder();
    let db = filled(folder.path());
    let snapshot = db.take_snapshot().unwrap();
    let error = db.backup(&snapshot, Device(100_000)).unwrap_err();
    assert!(
        matches!(&error, BackupError::Write(error) if error.kind() == io::ErrorKind::StorageFull)
    );
    assert!(error.to_string().contains("make room"), "{error}");
}

#[test]
fn a_damaged_database_is_not_backed_up_as_if_it_were_whole() {
    let folder = folder();
    let db = builder().open(folder.path()).unwrap();
    let space = db.key_space("one").unwrap();
    space.put("a", "a value that can be found").unwrap();
    let pool = folder.path().join(Database::POOL_FILE);
    let bytes = fs::read(&pool).unwrap();
    let at = bytes.windows(7).position(|bytes| bytes == b"a value").unwrap();
    let file = File::options().write(true).open(&pool).unwrap();
    file.write_all_at(b"A", at as u64).unwrap();
    let mut out = Vec::new();
    let damaged = db.backup(&db.take_snapshot().unwrap(), &mut out);
    assert!(matches!(
        damaged,
        Err(BackupError::Database(Error::Engine(EngineError::Damaged { .. })))
    ));
    let read = BackupReader::new(&out[..]).and_then(BackupReader::verify);
    assert!(read.is_err(), "what was written does not pass for a backup");
}
