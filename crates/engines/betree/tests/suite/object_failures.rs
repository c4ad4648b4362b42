//! Writes of objects whose disk fails at any of its requests.

use std::ops::ControlFlow;

use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Engine, EngineOptions};
use halite_sim::Failures;

/// Bytes of eight chunks and a part of a ninth.
const LEN: usize = (8 << 17) + 5000;

#[test]
fn a_write_of_several_chunks_happens_whole_or_not_at_all_whichever_request_of_the_disk_fails() {
    let mut outcomes = [0; 2];
    for after in 0..14 {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let failures = Failures::default();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.failures = Some(failures.clone());
        let topology = Some("file:a@64M".parse().unwrap());
        options.own = BetreeOptions { topology, ..BetreeOptions::default() }.into();
        let engine = Betree::open(&options).unwrap();
        let objects = engine.objects("bench").unwrap();
        let object = objects.create(b"one").unwrap();
        let (old, new) = (vec![1; LEN], vec![2; LEN]);
        object.write_at(0, &old).unwrap();
        failures.fail(after, 1, 5);
        let written = object.write_at(0, &new);
        failures.fail(0, 0, 5);
        outcomes[usize::from(written.is_ok())] += 1;
        let read = |object: &halite_betree::object::Object| {
            let mut bytes = vec![0; LEN + 1];
            assert_eq!(object.read_at(0, &mut bytes).unwrap(), LEN);
            bytes.truncate(LEN);
            bytes
        };
        let now = read(&object);
        assert!(now == if written.is_ok() { &new[..] } else { &old[..] }, "{after}: {written:?}");
        drop((object, objects, engine));
        let engine = Betree::open(&options).unwrap();
        let object = engine.objects("bench").unwrap().open(b"one").unwrap();
        let then = read(&object);
        assert!(then == now || then == new && written.is_err(), "{after}");
        object.write_at(1, &new[1..]).unwrap();
        assert!(read(&object)[1..] == new[1..]);
        drop(object);
        let report = engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{after}: {:?}", report.damage);
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}
