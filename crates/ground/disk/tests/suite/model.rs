//! A modelled disk records the events of its files, in one order with those of the pool beside it, and
//! shares its power.

use std::path::Path;

use halite_disk::{Disk, DiskModel, Error, FileEvent};
use halite_pmem::{Domain, Medium, Pool, PoolOptions, UNIT};
use halite_sim::{Site, Trace, What};

fn medium() -> Medium {
    Medium::new(Domain::Memory, UNIT).unwrap()
}

fn pool(medium: &Medium) -> Pool {
    let mut options = PoolOptions::default();
    options.size_max = UNIT;
    options.medium = Some(medium.clone());
    let pool = Pool::create(Path::new("pool"), &options).unwrap();
    pool.install().unwrap();
    pool
}

fn read(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// The events of the files, with the written bytes.
fn happened(model: &DiskModel, trace: &Trace) -> Vec<(FileEvent, Vec<u8>)> {
    let events = trace.events.iter().filter_map(|event| match event.what {
        What::Disk { number, bytes, len, .. } => {
            Some((model.event(number).unwrap(), trace.stored(bytes, len).to_vec()))
        }
        _ => None,
    });
    events.collect()
}

#[test]
fn what_happens_to_files_is_recorded_with_its_bytes() {
    let medium = medium();
    let model = DiskModel::of(medium.machine());
    let disk = Disk::model(&model);
    let mut writer = disk.create("new").unwrap();
    writer.write(b"two").unwrap();
    writer.write(b"parts").unwrap();
    writer.sync().unwrap();
    disk.rename("new", "current").unwrap();
    disk.sync().unwrap();
    drop(disk.append("current", 3).unwrap());
    disk.remove("current").unwrap();
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let name = |name: &str| name.into();
    let expected = [
        (FileEvent::Create { file: 0, name: name("new") }, &b""[..]),
        (FileEvent::Write { file: 0, at: 0 }, b"twoparts"),
        (FileEvent::Sync { file: 0 }, b""),
        (FileEvent::Rename { file: 0, from: name("new"), to: name("current") }, b""),
        (FileEvent::SyncFolder { folder: "".into() }, b""),
        (FileEvent::Cut { file: 0, len: 3 }, &[0; 5]),
        (FileEvent::Write { file: 0, at: 0 }, b"two"),
        (FileEvent::Remove { name: name("current") }, b""),
    ];
    assert_eq!(happened(&model, &trace), expected.map(|(event, bytes)| (event, bytes.to_vec())));
    let here = |site: Site| site.file() == file!();
    assert!(trace.events.iter().all(|event| here(event.site)), "{:?}", trace.events);
    model.forget_events();
    assert_eq!(model.event(0), None);
}

#[test]
fn files_and_pool_have_one_order() {
    let medium = medium();
    let pool = pool(&medium);
    let disk = Disk::model(&DiskModel::of(medium.machine()));
    medium.machine().take_trace(&mut Trace::default());
    let mut word = pool.claim(0, 8).unwrap();
    word.write(0, &[1; 8]);
    drop(disk.create("file").unwrap());
    pool.fence([word.flush(0..8)]).unwrap();
    disk.sync().unwrap();
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let kinds: Vec<_> = trace.events.iter().map(|event| event.what).collect();
    assert!(
        matches!(
            kinds[..],
            [
                What::Store { .. },
                What::Disk { is_sync: false, .. },
                What::Flush { .. },
                What::Fence { .. },
                What::Disk { is_sync: true, .. }
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn without_power_nothing_happens_and_what_had_happened_is_there_afterwards() {
    let medium = medium();
    let disk = Disk::model(&DiskModel::of(medium.machine()));
    // A file is made, written and synced, and no more.
    medium.machine().cut_power_after(3);
    let mut writer = disk.create("file").unwrap();
    writer.write(b"there").unwrap();
    writer.sync().unwrap();
    assert!(matches!(disk.sync(), Err(Error::PowerCut { .. })));
    writer.write(b"not there").unwrap();
    assert!(matches!(writer.sync(), Err(Error::PowerCut { .. })));
    for refused in [disk.create("b").map(drop), disk.remove("file"), disk.rename("file", "b")] {
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
    }
    let disk = Disk::model(&DiskModel::of(medium.machine()));
    for refused in [disk.create("b").map(drop), disk.remove("file"), disk.rename("file", "b")] {
        assert!(matches!(refused, Err(Error::PowerCut { .. })), "{refused:?}");
    }
    medium.restore_power();
    assert_eq!(disk.list().unwrap(), [("file".to_owned(), 5)]);
    assert_eq!(read(&disk, "file"), b"there");
}

#[test]
fn after_a_sync_that_fails_a_writer_refuses_everything() {
    let medium = medium();
    let model = DiskModel::of(medium.machine());
    let disk = Disk::model(&model);
    let mut writer = disk.create("file").unwrap();
    writer.write(b"lost").unwrap();
    medium.machine().fail_sync_after(Some(0));
    let error = writer.sync().unwrap_err();
    assert!(error.to_string().starts_with("model/file: cannot sync the file: "), "{error}");
    assert!(medium.machine().has_failed_to_sync());
    medium.machine().fail_sync_after(None);
    assert!(matches!(writer.sync(), Err(Error::Failed { .. })));
    assert!(matches!(writer.write(b"more"), Err(Error::Failed { .. })));
    assert!(matches!(writer.finish(), Err(Error::Failed { .. })));
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let failed = happened(&model, &trace).pop().unwrap();
    assert_eq!(failed, (FileEvent::SyncFailed { file: 0 }, Vec::new()));
    assert!(trace.events.iter().all(|event| event.what.request().is_none()));
    // Other files are unaffected, and so is the file, once it is opened again.
    disk.sync().unwrap();
    disk.append("file", 4).unwrap().sync().unwrap();
    medium.machine().take_trace(&mut trace);
    let again = happened(&model, &trace);
    assert_eq!(again[1], (FileEvent::Write { file: 0, at: 0 }, b"lost".to_vec()));
    assert_eq!(again[2].0, FileEvent::Sync { file: 0 });
}

#[test]
fn after_a_sync_of_names_that_fails_none_is_changed() {
    let medium = medium();
    let model = DiskModel::of(medium.machine());
    let disk = Disk::model(&model);
    let mut writer = disk.create("file").unwrap();
    medium.machine().fail_sync_after(Some(0));
    let error = disk.sync().unwrap_err();
    assert!(error.to_string().starts_with("model: cannot sync the folder: "), "{error}");
    medium.machine().fail_sync_after(None);
    let changes = [
        disk.sync(),
        disk.create("other").map(drop),
        disk.append("file", 0).map(drop),
        disk.rename("file", "other"),
        disk.remove("file"),
    ];
    for refused in changes {
        assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
    }
    // Operations that change no name go on.
    writer.write(b"bytes").unwrap();
    writer.sync().unwrap();
    assert_eq!(disk.list().unwrap(), [("file".to_owned(), 5)]);
}

#[test]
fn a_disregarded_sync_seems_to_be_done_and_is_not_recorded() {
    let medium = medium();
    let disk = Disk::model(&DiskModel::of(medium.machine()));
    let mut writer = disk.create("file").unwrap();
    let mut trace = Trace::default();
    for round in 0..2 {
        medium.machine().take_trace(&mut trace);
        writer.sync().unwrap();
        medium.machine().take_trace(&mut trace);
        let asked = trace.events.first().map(|event| (event.site, event.what.request().unwrap()));
        match round {
            0 => medium.machine().disregard(asked),
            _ => assert!(trace.events.is_empty(), "{:?}", trace.events),
        }
    }
    // Another place is heeded.
    writer.sync().unwrap();
    medium.machine().take_trace(&mut trace);
    assert_eq!(trace.events.len(), 1);
}

#[test]
fn other_files_are_put_in_the_place_of_those_that_are_there() {
    let medium = medium();
    let model = DiskModel::of(medium.machine());
    let disk = Disk::model(&model);
    drop(disk.create("old").unwrap());
    model.restore([(4, "a".into(), b"bytes".to_vec()), (2, "b".into(), Vec::new())]);
    assert_eq!(disk.list().unwrap(), [("a".to_owned(), 5), ("b".to_owned(), 0)]);
    assert_eq!(read(&disk, "a"), b"bytes");
    medium.machine().take_trace(&mut Trace::default());
    model.forget_events();
    drop(disk.create("c").unwrap());
    assert_eq!(model.event(0), Some(FileEvent::Create { file: 5, name: "c".into() }));
    // All handles of a medium's model refer to the same files.
    assert_eq!(Disk::model(&DiskModel::of(medium.machine())).list().unwrap().len(), 3);
}
