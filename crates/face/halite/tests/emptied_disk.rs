//! A full disk, below the engine lsm, is emptied again: removals and bookkeeping are accepted while puts are refused,
//! room comes back, and puts are accepted again; again and again, and whenever the store is opened.
//!
//! The disks are file systems of their own: in memory, mounted in a private mount namespace, and ext4 in a file. Where
//! mounting is not allowed, the tests print that they did not run, and pass.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use halite::{
    Database, Durability, Durable, EngineError, Error, KeyRange, KeySpace, LsmError, LsmOptions,
    Partitioning,
};

/// The folder of the file system, for the test that is run again in it.
const FOLDER: &str = "HALITE_SMALL_DISK";

/// How often disks are filled, if not four times.
const ROUNDS: &str = "HALITE_DISK_ROUNDS";

/// How long room may take to come back: a machine may stall.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test again, with a disk that a script mounts at the folder: as root, or as root of a user namespace, which
/// may mount less.
fn on_disk(test: &str, mount: &str, run: impl FnOnce(&Path)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return run(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let run_mounted = |namespaces: &str, args: &[&str]| {
        let script = format!("{mount} && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args([namespaces, "sh", "-c", &script, "sh"]).args(args);
        let command = command.env(FOLDER, &mounted).env("IMAGE", &image);
        command.status().is_ok_and(|status| status.success())
    };
    let Some(namespaces) = ["-m", "-Urm"].into_iter().find(|them| run_mounted(them, &["true"]))
    else {
        // Written past the test harness, which shows a test's output only if the test fails.
        let _ = writeln!(std::io::stderr(), "{test} DID NOT RUN: `{mount}` is not allowed here");
        return;
    };
    let program = env::current_exe().unwrap();
    let args = [program.to_str().unwrap(), "--exact", test, "--nocapture"];
    assert!(run_mounted(namespaces, &args), "{test} failed");
}

const TMPFS: &str = "mount -t tmpfs -o size=48m none \"$HALITE_SMALL_DISK\"";

const EXT4: &str = "truncate -s 48M \"$IMAGE\" && mkfs.ext4 -q -F \"$IMAGE\" && \
                    mount -o loop \"$IMAGE\" \"$HALITE_SMALL_DISK\"";

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Bytes that cannot be compressed.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut word = number + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn options(durable: Durable) -> LsmOptions {
    LsmOptions { durable, ..LsmOptions::default() }
}

/// A store, and its acknowledged writes.
struct Store<'a> {
    pool: PathBuf,
    levels: &'a Path,
    lsm: LsmOptions,
    value_len: usize,
    open: Option<(Database, KeySpace, KeySpace)>,
    /// Numbers of keys, and of their values.
    model: BTreeMap<u64, u64>,
    deadlines: BTreeMap<u64, u64>,
    next: u64,
}

impl<'a> Store<'a> {
    fn new(pool: &Path, levels: &'a Path, lsm: LsmOptions, value_len: usize) -> Self {
        let (open, model, deadlines) = Default::default();
        let pool = pool.join("db");
        let mut store = Self { pool, levels, lsm, value_len, open, model, deadlines, next: 0 };
        store.reopen();
        store
    }

    fn reopen(&mut self) {
        self.open = None;
        let levels = Some(self.levels.join("levels"));
        let lsm = LsmOptions { levels, ..self.lsm.clone() };
        let builder = Database::builder().engine("lsm").max_size(48 << 20).lsm(lsm);
        let db = builder.partitioning(Partitioning::Hash(2)).open(&self.pool).unwrap();
        let spaces = ["values", "deadlines"].map(|name| db.key_space(name).unwrap());
        let [values, deadlines] = spaces;
        self.open = Some((db, values, deadlines));
    }

    fn db(&self) -> &Database {
        &self.open.as_ref().unwrap().0
    }

    fn values(&self) -> &KeySpace {
        &self.open.as_ref().unwrap().1
    }

    fn deadlines(&self) -> &KeySpace {
        &self.open.as_ref().unwrap().2
    }

    fn put(&mut self) -> Result<(), Error> {
        let value = value(self.next, self.value_len);
        self.values().put_with(key(self.next), value, Durability::Deferred)?;
        self.model.insert(self.next, self.next);
        self.next += 1;
        Ok(())
    }

    /// Whether there was no room for a put.
    fn is_full(error: &Error) -> bool {
        matches!(error, Error::Engine(EngineError::Full { .. }))
            || matches!(error.own(), Some(LsmError::NoRoomBelow { .. } | LsmError::LogFull { .. }))
    }

    /// Puts new keys until they are refused for want of room, and go on to be while threads may give some back: how
    /// many were taken.
    fn fill(&mut self, refusals: u32) -> u64 {
        let (mut taken, mut refused) = (0, 0);
        while refused < refusals {
            match self.put() {
                Ok(()) => (taken, refused) = (taken + 1, 0),
                Err(error) if Self::is_full(&error) => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => panic!("{error}"),
            }
        }
        taken
    }

    fn delete(&mut self, number: u64) {
        self.values().delete_with(key(number), Durability::Deferred).unwrap();
        self.model.remove(&number);
    }

    /// The write of EXPIRE.
    fn set_deadline(&mut self, number: u64, at: u64) {
        let mut batch = self.db().batch();
        batch.put(self.deadlines(), key(number), at.to_be_bytes());
        batch.commit_bookkeeping_and_clear(Durability::Deferred).unwrap();
        self.deadlines.insert(number, at);
    }

    /// The write of PERSIST.
    fn clear_deadline(&mut self, number: u64) {
        self.deadlines().delete_with(key(number), Durability::Deferred).unwrap();
        self.deadlines.remove(&number);
    }

    /// Removes everything.
    fn clear(&mut self) {
        let mut batch = self.db().batch();
        batch.delete_range(self.values(), &KeyRange::all());
        batch.delete_range(self.deadlines(), &KeyRange::all());
        batch.commit().unwrap();
        self.model.clear();
        self.deadlines.clear();
    }

    /// Waits until `count` puts were taken.
    fn refill(&mut self, count: u64, after: &str) {
        let (until, mut taken) = (Instant::now() + PATIENCE, 0);
        while taken < count {
            match self.put() {
                Ok(()) => taken += 1,
                Err(error) if Instant::now() > until => {
                    panic!("{taken} of {count} after {after}: {error}")
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn compare(&self, when: &str) {
        let mut found = self.values().iter().unwrap().map(Result::unwrap);
        for (&number, &of) in &self.model {
            let (found_key, found_value) =
                found.next().unwrap_or_else(|| panic!("{when}: {number} is missing"));
            assert_eq!(&*found_key, key(number), "{when}");
            assert!(*found_value == *value(of, self.value_len), "{when}: the value of {number}");
        }
        assert!(found.next().is_none(), "{when}: there is more");
        let deadlines = self.deadlines().iter().unwrap().map(Result::unwrap);
        let expected =
            self.deadlines.iter().map(|(&number, at)| (key(number), at.to_be_bytes().to_vec()));
        assert!(deadlines.map(|(key, at)| (key.to_vec(), at.to_vec())).eq(expected), "{when}");
    }
}

/// Rounds of fill and empty.
///
/// If pool or log take their room from the levels' device, `is_shared`, the rest of a half may not fit, and only the
/// removal of all keys is sure to free room.
fn fill_and_empty(pool: &Path, levels: &Path, durable: Durable, is_shared: bool) {
    let mut store = Store::new(pool, levels, options(durable), 2_000);
    let mut least = u64::MAX;
    let rounds = if halite_contract::lab::is_deep("lsm") { 4 } else { 2 };
    for round in 0..env::var(ROUNDS).map_or(rounds, |rounds| rounds.parse().unwrap()) {
        let taken = store.fill(20);
        eprintln!("round {round}: full with {} keys, {taken} of them new", store.model.len());
        store.compare("full");
        if round % 3 == 1 {
            store.reopen();
            store.compare("opened full");
            store.fill(20);
        }
        // Deadlines of some keys, some of which are then cleared.
        let keys: Vec<u64> = store.model.keys().copied().collect();
        for &number in keys.iter().take(200) {
            store.set_deadline(number, number + 7);
        }
        for &number in keys.iter().take(200).step_by(3) {
            store.clear_deadline(number);
        }
        if round % 2 == 0 {
            for &number in keys.iter().step_by(2) {
                store.delete(number);
            }
            store.compare("every second key removed");
            if round % 4 == 2 && !is_shared {
                store.reopen();
                store.compare("opened with every second key removed");
            }
            if !is_shared {
                store.refill(keys.len() as u64 / 8, "every second key was removed");
            }
        }
        store.compare("before everything is removed");
        store.clear();
        store.compare("everything removed");
        if round % 3 == 2 {
            store.reopen();
            store.compare("opened empty");
        }
        store.refill(100, "everything was removed");
        store.compare("after everything was removed");
        if round > 0 {
            least = least.min(taken);
        }
    }
    assert!(least > 1_000, "a round took no more than {least} keys");
    store.reopen();
    store.compare("opened in the end");
    let report = store.db().verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(report.complete && report.damage.is_empty());
}

/// Values that take less room than their removals do until these give it back: all of them are removed, one by one.
fn fill_and_remove_each(pool: &Path, levels: &Path, durable: Durable) {
    let mut store = Store::new(pool, levels, options(durable), 20);
    for round in 0..if halite_contract::lab::is_deep("lsm") { 2 } else { 1 } {
        let taken = store.fill(1);
        eprintln!("round {round}: full with {} keys, {taken} of them new", store.model.len());
        let keys: Vec<u64> = store.model.keys().copied().collect();
        for number in keys {
            store.delete(number);
        }
        store.compare("all removed");
        store.refill(100, "all were removed");
        store.compare("after all were removed");
        store.reopen();
        store.compare("opened in the end");
    }
}

/// Values in files of their own fill the disk; those that the levels have give their room back when they are removed,
/// few or many.
fn fill_with_large_values(pool: &Path, levels: &Path, durable: Durable) {
    const LARGE: usize = 400_000;
    let (memtable_bytes, global_index_bytes) = (Some(2 << 20), Some(2 << 20));
    let large_value_bytes = Some(LARGE as u64);
    let lsm =
        LsmOptions { memtable_bytes, global_index_bytes, large_value_bytes, ..options(durable) };
    let mut store = Store::new(pool, levels, lsm, 2_000);
    let key = |number: u64| format!("large:{number:04}");
    let put = |store: &Store<'_>, number| {
        store.values().put_with(key(number), value(number, LARGE), Durability::Deferred)
    };
    let put_in_time = |store: &Store<'_>, number| {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = put(store, number) {
            assert!(Instant::now() < until, "value {number}: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    (0..30).for_each(|number| put(&store, number).unwrap());
    // The records of those go to the levels.
    (0..4_000).for_each(|_| store.put().unwrap());
    let error = (30..).find_map(|number| Some((number, put(&store, number).err()?)));
    let (end, error) = error.unwrap();
    assert!(matches!(error.own(), Some(LsmError::ValuesFull { .. })), "{error}");
    if durable == Durable::Pool {
        // That takes no room of the disk.
        store.put().unwrap();
    }
    let mut there: BTreeSet<u64> = (0..end).collect();
    for (removed, put) in [(0..3, end..end + 1), (3..30, end + 1..end + 21)] {
        for number in removed {
            store.values().delete_with(key(number), Durability::Deferred).unwrap();
            there.remove(&number);
        }
        for number in put {
            put_in_time(&store, number);
            there.insert(number);
        }
    }
    for _ in 0..2 {
        for number in 0..end + 21 {
            let found = store.values().get(key(number)).unwrap();
            assert_eq!(found.is_some(), there.contains(&number), "{number}");
            assert!(found.is_none_or(|found| *found == *value(number, LARGE)), "{number}");
        }
        store.reopen();
    }
    store.clear();
    put_in_time(&store, 0);
}

#[test]
fn large_values_on_a_full_disk_are_removed() {
    on_disk("large_values_on_a_full_disk_are_removed", TMPFS, |folder| {
        let pool = tempfile::tempdir_in("/dev/shm").unwrap();
        fill_with_large_values(pool.path(), folder, Durable::Pool);
    });
}

#[test]
fn large_values_with_a_log_on_a_full_disk_are_removed() {
    on_disk("large_values_with_a_log_on_a_full_disk_are_removed", TMPFS, |folder| {
        fill_with_large_values(folder, folder, Durable::Log);
    });
}

#[test]
fn small_values_in_the_levels_of_a_full_disk_are_removed_one_by_one() {
    on_disk("small_values_in_the_levels_of_a_full_disk_are_removed_one_by_one", TMPFS, |folder| {
        let pool = tempfile::tempdir_in("/dev/shm").unwrap();
        fill_and_remove_each(pool.path(), folder, Durable::Pool);
    });
}

#[test]
fn small_values_with_a_log_on_a_full_disk_are_removed_one_by_one() {
    on_disk("small_values_with_a_log_on_a_full_disk_are_removed_one_by_one", TMPFS, |folder| {
        fill_and_remove_each(folder, folder, Durable::Log);
    });
}

#[test]
fn levels_on_a_full_disk_are_emptied() {
    on_disk("levels_on_a_full_disk_are_emptied", TMPFS, |folder| {
        let pool = tempfile::tempdir_in("/dev/shm").unwrap();
        fill_and_empty(pool.path(), folder, Durable::Pool, false);
    });
}

#[test]
fn pool_and_levels_on_a_full_disk_are_emptied() {
    on_disk("pool_and_levels_on_a_full_disk_are_emptied", TMPFS, |folder| {
        fill_and_empty(folder, folder, Durable::Pool, true);
    });
}

#[test]
fn a_log_and_levels_on_a_full_disk_are_emptied() {
    on_disk("a_log_and_levels_on_a_full_disk_are_emptied", TMPFS, |folder| {
        fill_and_empty(folder, folder, Durable::Log, true);
    });
}

#[test]
fn a_log_and_levels_on_a_full_ext4_are_emptied() {
    on_disk("a_log_and_levels_on_a_full_ext4_are_emptied", EXT4, |folder| {
        fill_and_empty(folder, folder, Durable::Log, true);
    });
}
