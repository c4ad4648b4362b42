//! A kernel that refuses any of its calls for lack of descriptors, memory or time: the operation then fails with its
//! own error and has not happened, or succeeds all the same. No acknowledged write is lost, and the store goes on. Only
//! after a failed sync it does not, since it is then unknown which writes are durable.
//!
//! For one kind of store every call fails in turn, with an error drawn at random. For the others, the calls are drawn
//! as well, and a failing test prints them; `HALITE_FAILING_CALLS=1` lets every call fail, with every error.

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::thread::sleep;
use std::time::Duration;

use halite::{
    Builder, Database, Domain, Durable, EngineError, Error, KeyRange, KeySpace, LsmError,
    LsmOptions, Partitioning,
};
use halite_sim::{Call, Failures};
use tempfile::TempDir;

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ERRNOS: [i32; 5] = [EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE];

/// Calls that fail in a test that is not to take long, for each store and error.
const CALLS: u64 = 4;

/// A kind of store.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Indexlog,
    IndexlogWithChanges,
    Lsm,
    LsmWithLog,
}

impl Kind {
    /// A small store on a medium that is declared an ordinary file, so that the kernel is called to sync.
    fn builder(self, failures: &Failures) -> Builder {
        let builder = Database::builder()
            .max_size(64 << 20)
            .assume_domain(Domain::PageCache)
            .failures(failures.clone());
        let durable = match self {
            Self::Indexlog => {
                return builder.engine("indexlog").partitioning(Partitioning::Hash(2));
            }
            Self::IndexlogWithChanges => return builder.engine("indexlog").change_log(1 << 20),
            Self::Lsm => Durable::Pool,
            Self::LsmWithLog => Durable::Log,
        };
        builder.engine("lsm").lsm(LsmOptions {
            durable,
            memtable_bytes: Some(8 << 10),
            table_bytes: Some(16 << 10),
            global_index_bytes: Some(2 << 20),
            tables_open_max: Some(3),
            ..LsmOptions::default()
        })
    }
}

/// A folder in memory, if there is one, so that disk errors play no part.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store, the model of its contents, and the number of failures.
struct Store {
    kind: Kind,
    failures: Failures,
    folder: TempDir,
    db: Option<(Database, KeySpace)>,
    model: Model,
    failed: usize,
    /// The error of the kernel's calls that fail.
    errno: i32,
    /// For messages.
    what: String,
}

/// Whether an error reports the kernel's error.
fn is_told(error: &Error, errno: i32) -> bool {
    let text = error.to_string();
    text.contains(&format!("(os error {errno})"))
        || [EMFILE, ENFILE].contains(&errno) && text.contains("too many open files")
}

/// Whether an error says that a sync has failed before: where that was on another thread, this one was not told why.
fn is_of_earlier_sync(error: &Error) -> bool {
    let text = error.to_string();
    ["an earlier sync of the pool failed", "an earlier write or sync failed"]
        .iter()
        .any(|earlier| text.contains(earlier))
}

/// A change of a store.
#[derive(Debug, Clone)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeletePrefix(Vec<u8>),
    /// Several puts at once.
    Batch(Vec<(Vec<u8>, Vec<u8>)>),
    Sync,
}

impl Change {
    fn apply(&self, db: &Database, space: &KeySpace) -> Result<(), Error> {
        match self {
            Self::Put(key, value) => space.put(key, value),
            Self::Delete(key) => space.delete(key),
            Self::DeletePrefix(prefix) => space.delete_range(&KeyRange::prefix(prefix)),
            Self::Batch(puts) => {
                let mut batch = db.batch();
                puts.iter().for_each(|(key, value)| batch.put(space, key, value));
                batch.commit()
            }
            Self::Sync => db.sync(),
        }
    }

    fn apply_to(&self, model: &mut Model) {
        match self {
            Self::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
            Self::Delete(key) => drop(model.remove(key)),
            Self::DeletePrefix(prefix) => model.retain(|key, _| !key.starts_with(prefix)),
            Self::Batch(puts) => model.extend(puts.iter().cloned()),
            Self::Sync => {}
        }
    }
}

impl Store {
    fn new(kind: Kind) -> Self {
        let (failures, what) = (Failures::default(), String::new());
        let (folder, model) = (folder(), Model::new());
        Self { kind, failures, folder, db: None, model, failed: 0, errno: 0, what }
    }

    fn open(&self) -> Result<(Database, KeySpace), Error> {
        let db = self.kind.builder(&self.failures).open(self.folder.path().join("data"))?;
        let space = db.key_space("space")?;
        Ok((db, space))
    }

    /// Whether a sync failed, after which it is unknown which writes are durable.
    fn is_uncertain(&self) -> bool {
        self.failures.failed().contains(&Call::Sync)
    }

    /// Checks how a failure is reported.
    fn note(&mut self, error: &Error) {
        self.failed += 1;
        let what = format!("{}: {error}", self.what);
        let calls = self.failures.failed();
        assert!(!calls.is_empty(), "{what}");
        let may_be_later = self.is_uncertain() && is_of_earlier_sync(error);
        assert!(is_told(error, self.errno) || may_be_later, "{what} after {calls:?}");
        if !self.is_uncertain() {
            let is_full = matches!(error, Error::Engine(EngineError::Full { .. }))
                || matches!(error.own(), Some(LsmError::LogFull { .. }));
            // Only memory without a file is full where there is no memory for it.
            assert!(!is_full || calls == [Call::Map], "{what}");
            assert!(
                !matches!(error, Error::Engine(EngineError::Poisoned { .. })),
                "{what} after {calls:?}"
            );
            assert!(error.damage().is_none(), "{what}");
        }
    }

    /// Opens it, again if that fails.
    fn reopen(&mut self) {
        self.db = None;
        let opened = self.open().or_else(|error| {
            self.note(&error);
            self.failures.stop();
            self.open()
        });
        self.db = Some(opened.unwrap_or_else(|error| panic!("{}: {error}", self.what)));
        self.compare();
    }

    fn contents(&self) -> Result<Model, Error> {
        let (_, space) = self.db.as_ref().unwrap();
        let pairs =
            space.iter()?.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())));
        pairs.collect()
    }

    /// The store's contents; one call may fail while they are read.
    fn read(&mut self) -> Model {
        self.contents().unwrap_or_else(|error| {
            self.note(&error);
            self.contents().unwrap_or_else(|error| panic!("{}: {error}", self.what))
        })
    }

    fn compare(&mut self) {
        let found = self.read();
        assert!(found == self.model, "{}: {}", self.what, difference(&found, &self.model));
    }

    fn change(&mut self, change: &Change) {
        let (db, space) = self.db.as_ref().unwrap();
        let Err(error) = change.apply(db, space) else { return change.apply_to(&mut self.model) };
        self.note(&error);
        if self.is_uncertain() {
            // It may have happened, whole: the next opening tells.
            let mut changed = self.model.clone();
            change.apply_to(&mut changed);
            self.failures.stop();
            self.db = None;
            let opened = self.open().unwrap_or_else(|error| panic!("{}: {error}", self.what));
            self.db = Some(opened);
            let found = self.read();
            if found == changed {
                self.model = changed;
            }
            let difference = difference(&found, &self.model);
            assert!(found == self.model, "{}: {difference}", self.what);
        } else {
            self.compare();
        }
        let (db, space) = self.db.as_ref().unwrap();
        change.apply(db, space).unwrap_or_else(|error| panic!("{}: {error}", self.what));
        change.apply_to(&mut self.model);
    }

    /// A short life, in which a call may fail.
    fn live(&mut self) {
        self.reopen();
        for number in 0..90_usize {
            let key = |number: usize| format!("key {:02}", number * 7 % 40).into_bytes();
            let value = |len: usize| vec![number as u8; len];
            self.change(&match number % 15 {
                3 => Change::Delete(key(number + 1)),
                7 => Change::Batch((0..5).map(|at| (key(number + at), value(900 * at))).collect()),
                11 => Change::Put(key(number), value(150_000)),
                13 => Change::DeletePrefix(format!("key {}", number % 4).into_bytes()),
                14 => Change::Sync,
                _ => Change::Put(key(number), value(number * 37 % 3_000)),
            });
            match number {
                30 | 60 => {
                    let snapshot = self.db.as_ref().unwrap().0.take_snapshot();
                    if let Err(error) = snapshot {
                        self.note(&error);
                    }
                    self.compare();
                }
                45 | 75 => self.reopen(),
                _ => {}
            }
        }
        self.compare();
    }

    /// Checks the contents after the last failure.
    fn check(&mut self) {
        self.failures.stop();
        self.db = None;
        self.what.push_str(", at the end");
        self.reopen();
        self.change(&Change::Put(b"last".to_vec(), vec![1; 10_000]));
        self.reopen();
        let (db, _) = self.db.as_ref().unwrap();
        let report = db.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{}: {:?}", self.what, report.damage);
    }
}

fn difference(found: &Model, wanted: &Model) -> String {
    let key = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
    let missing = wanted.iter().filter(|(k, v)| found.get(*k) != Some(v)).map(|(k, _)| key(k));
    let more = found.keys().filter(|k| !wanted.contains_key(*k)).map(key);
    format!(
        "missing or other: {:?}; more: {:?}",
        missing.collect::<Vec<_>>(),
        more.collect::<Vec<_>>()
    )
}

fn any_call_may_fail(kind: Kind) {
    let mut store = Store::new(kind);
    store.live();
    let calls = store.failures.calls();
    assert!(calls > 100 && store.failed == 0, "{kind:?}: {calls} calls");
    store.check();
    let seed = RandomState::new().hash_one(0);
    // A signal is noticed least.
    let whole = ERRNOS[1 + (seed % 4) as usize];
    for errno in ERRNOS {
        let mut failed = 0;
        let is_all = env::var_os("HALITE_FAILING_CALLS").is_some()
            || matches!(kind, Kind::Indexlog) && errno == whole;
        let count = if is_all { calls } else { CALLS };
        for number in 0..count {
            // Opening has the most of those that differ.
            let spread = if number % 2 == 0 { 200.min(calls) } else { calls };
            let random = seed.rotate_left(number as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let after = if is_all { number } else { random % spread };
            let mut store = Store::new(kind);
            store.what = format!("{kind:?}, error {errno}, after {after} calls");
            store.failures.fail(after, 1, errno);
            store.errno = errno;
            store.live();
            failed += store.failed;
            store.check();
        }
        assert!(errno != EINTR || failed == 0, "{kind:?}: a signal was noticed");
    }
}

#[test]
fn any_call_of_indexlog_may_fail() {
    any_call_may_fail(Kind::Indexlog);
}

#[test]
fn any_call_of_indexlog_with_a_change_log_may_fail() {
    any_call_may_fail(Kind::IndexlogWithChanges);
}

#[test]
fn any_call_of_lsm_may_fail() {
    any_call_may_fail(Kind::Lsm);
}

#[test]
fn any_call_of_lsm_with_a_log_may_fail() {
    any_call_may_fail(Kind::LsmWithLog);
}

/// As long as there is no descriptor at all, batches that need a file are refused, by an error that says so.
#[test]
fn without_descriptors_batches_are_refused_and_the_store_goes_on_when_there_are_some() {
    for kind in [Kind::Lsm, Kind::LsmWithLog] {
        for errno in [EMFILE, ENFILE] {
            let mut store = Store::new(kind);
            store.what = format!("{kind:?}, error {errno}");
            store.reopen();
            store.errno = errno;
            let put = |number: usize| {
                let key = format!("key {:03}", number % 300).into_bytes();
                Change::Put(key, vec![number as u8; 3_000])
            };
            (0..200).for_each(|number| store.change(&put(number)));
            store.failures.fail_every(Call::Open, errno);
            let mut refused = 0;
            for number in 200..260 {
                let change = put(number);
                let (db, space) = store.db.as_ref().unwrap();
                match change.apply(db, space) {
                    Ok(()) => change.apply_to(&mut store.model),
                    Err(error) => {
                        refused += 1;
                        assert!(error.lacks_descriptors(), "{}: {error}", store.what);
                        assert!(error.to_string().contains("too many open files"), "{error}");
                    }
                }
            }
            // In persistent memory, the pool may have room for all batches.
            assert!(refused > 0 || matches!(kind, Kind::Lsm), "{}", store.what);
            store.failures.stop();
            store.compare();
            // A store that had no room looks for some now and then.
            let (db, space) = store.db.as_ref().unwrap();
            let goes_on = || {
                sleep(Duration::from_millis(10));
                put(260).apply(db, space).is_ok()
            };
            assert!((0..6_000).any(|_| goes_on()), "{}", store.what);
            (260..400).for_each(|number| store.change(&put(number)));
            store.compare();
            store.check();
        }
    }
}

/// A store of many tables has few of them open, and opens no more than reads and compactions make it.
#[test]
fn a_store_of_many_tables_is_read_through_few_descriptors() {
    const KEYS: usize = 400;
    let mut store = Store::new(Kind::LsmWithLog);
    store.reopen();
    for number in 0..KEYS {
        let key = format!("key {number:04}").into_bytes();
        let value = (0..1_000_u64).flat_map(|at| (at * at * (number as u64 + 3)).to_le_bytes());
        store.change(&Change::Put(key, value.take(3_000).collect()));
    }
    store.reopen();
    let (db, space) = store.db.as_ref().unwrap();
    let figure = |name| db.stats().figure(name).unwrap();
    let before = figure("file_opens");
    for number in 0..KEYS {
        let key = format!("key {:04}", number * 37 % KEYS);
        assert_eq!(
            space.get(&key).unwrap().as_deref(),
            store.model.get(key.as_bytes()).map(|v| &v[..])
        );
        let open = figure("tables_open");
        assert!(open <= 3, "{open}");
    }
    let bytes = figure("level_bytes");
    assert!(bytes > 20 * (16 << 10), "{bytes} bytes");
    // Each read may have to open a table of each level, and compactions read on.
    let opens = figure("file_opens") - before;
    assert!(opens > 20 && opens <= 8 * KEYS as u64, "{opens}");
}
