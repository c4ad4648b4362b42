//! The key-value workload on a store that is a file of records, on that store with faults, and on
//! Halite.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use halite_bench::{
    Error, HaliteStore, Hooks, KvOptions, Phase, Store, StoreResult, kv, load_and_wait,
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--child") {
        let folder = arguments.next().unwrap();
        load_and_wait(&options(), &mut FileStore::named("file"), folder.as_ref()).unwrap();
        return;
    }
    let tests: [(&str, fn()); 5] = [
        ("every_phase_of_every_store_is_reported", every_phase_of_every_store_is_reported),
        ("a_store_that_answers_wrongly_has_no_speed", a_store_that_answers_wrongly_has_no_speed),
        ("a_child_that_fails_is_an_error", a_child_that_fails_is_an_error),
        ("options_that_make_no_sense_are_refused", options_that_make_no_sense_are_refused),
        ("halite_takes_puts_gets_and_scans", halite_takes_puts_gets_and_scans),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn options() -> KvOptions {
    KvOptions {
        records: 2_000,
        overwrite: true,
        gets: 500,
        scans: 50,
        repeats: 3,
        ..KvOptions::default()
    }
}

fn every_phase_of_every_store_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut stores: Vec<Box<dyn Store>> =
        vec![Box::new(FileStore::named("one")), Box::new(FileStore::named("other"))];
    let child = |_: &str, folder: &Path| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child").arg(folder);
        Ok(command)
    };
    let hooks = Hooks { child: Some(&child), progress: None };
    let report = kv(&options(), folder.path(), &mut stores, &hooks).unwrap();

    let phases = [
        Phase::Load,
        Phase::Overwrite,
        Phase::Get,
        Phase::Scan,
        Phase::Reopen,
        Phase::ReopenAfterKill,
    ];
    for phase in phases {
        for store in ["one", "other"] {
            let row = report.row(store, phase).unwrap();
            assert_eq!(row.rates.len(), 3);
            assert!(row.rates.iter().all(|rate| *rate > 0.0) && !row.durability.is_empty());
        }
        let forth = report.ratio("one", &["other"], phase).unwrap();
        let back = report.ratio("other", &["one"], phase).unwrap();
        assert_eq!((forth.best.as_str(), back.best.as_str()), ("other", "one"));
        assert!((forth.ratio * back.ratio - 1.0).abs() < 1e-9);
    }
    assert_eq!(report.rows().len(), 12);

    let json = report.to_json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 12);
    assert_eq!(json["rows"][0]["repeats"].as_array().unwrap().len(), 3);
    let table = report.to_string();
    assert_eq!(table.lines().filter(|line| line.ends_with("nothing: a test")).count(), 12);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "folders are left");
}

fn a_store_that_answers_wrongly_has_no_speed() {
    for fault in [Fault::LosesRecords, Fault::KeepsOldValues, Fault::SkipsTheFirst, Fault::Forgets]
    {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore { fault: Some(fault), ..FileStore::named("faulty") };
        let mut stores: Vec<Box<dyn Store>> = vec![Box::new(store)];
        let outcome = kv(&options(), folder.path(), &mut stores, &Hooks::default());
        assert!(matches!(outcome, Err(Error::WrongAnswer { .. })), "{fault:?}: {outcome:?}");
    }
}

fn a_child_that_fails_is_an_error() {
    for (program, arguments) in [("/bin/false", vec![]), ("/nowhere", vec![]), ("echo", vec!["hm"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut stores: Vec<Box<dyn Store>> = vec![Box::new(FileStore::named("file"))];
        let child = |_: &str, _: &Path| {
            let mut command = Command::new(program);
            command.args(&arguments);
            Ok(command)
        };
        let hooks = Hooks { child: Some(&child), progress: None };
        let outcome = kv(&options(), folder.path(), &mut stores, &hooks);
        assert!(matches!(outcome, Err(Error::Child { .. })), "{program}: {outcome:?}");
    }
}

fn options_that_make_no_sense_are_refused() {
    let faults: [fn(&mut KvOptions); 4] = [
        |options| options.records = 0,
        |options| options.key_len = 7,
        |options| options.repeats = 0,
        |options| options.scan_len = 0,
    ];
    for fault in faults {
        let mut options = options();
        fault(&mut options);
        let outcome = kv(&options, Path::new("/nowhere"), &mut [], &Hooks::default());
        assert!(matches!(outcome, Err(Error::Option { .. })), "{outcome:?}");
    }
}

fn halite_takes_puts_gets_and_scans() {
    let folder = tempfile::tempdir().unwrap();
    let mut halite = HaliteStore::new();
    halite.open(folder.path()).unwrap();
    for key in [b"a", b"b", b"c"] {
        halite.put(key, b"value").unwrap();
    }
    let mut found = Vec::new();
    halite.get(b"b", &mut |value| found.push(value.to_vec())).unwrap();
    halite.get(b"d", &mut |value| found.push(value.to_vec())).unwrap();
    assert_eq!(found, [b"value"]);
    let mut keys = Vec::new();
    halite.scan(b"b", 1, &mut |key, _| keys.push(key.to_vec())).unwrap();
    halite.scan(b"b", 9, &mut |key, _| keys.push(key.to_vec())).unwrap();
    assert_eq!(keys, [b"b", b"b", b"c"]);
    assert_eq!(halite.counters().unwrap().records, 3);
    halite.close().unwrap();
    assert!(halite.put(b"a", b"1").is_err());
}

/// A file of records, one after the other, and a map of them in memory.
struct FileStore {
    name: &'static str,
    fault: Option<Fault>,
    file: Option<File>,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    LosesRecords,
    KeepsOldValues,
    SkipsTheFirst,
    Forgets,
}

const KEY_LEN: usize = 16;
const RECORD_LEN: usize = KEY_LEN + 100;

impl FileStore {
    fn named(name: &'static str) -> Self {
        Self { name, fault: None, file: None, map: BTreeMap::new() }
    }
}

impl Store for FileStore {
    fn name(&self) -> &str {
        self.name
    }

    fn durability(&self) -> String {
        "nothing: a test".to_owned()
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        fs::create_dir_all(folder)?;
        let path = folder.join("records");
        self.file = Some(OpenOptions::new().append(true).create(true).open(&path)?);
        let records = fs::read(path)?;
        let records = records.chunks(RECORD_LEN).map(|record| record.split_at(KEY_LEN));
        self.map = records.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.map.clear();
        self.file = None;
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        if self.fault == Some(Fault::LosesRecords) && key[0] == 7
            || self.fault == Some(Fault::KeepsOldValues) && self.map.contains_key(key)
        {
            return Ok(());
        }
        if self.fault != Some(Fault::Forgets) {
            self.file.as_mut().ok_or("closed")?.write_all(&[key, value].concat())?;
        }
        self.map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.map.get(key) {
            read(value);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let lost = usize::from(self.fault == Some(Fault::SkipsTheFirst));
        let pairs = self.map.range(start.to_vec()..).skip(lost).take(limit as usize);
        pairs.for_each(|(key, value)| read(key, value));
        Ok(())
    }
}
