//! Pools without room.

use std::ops::ControlFlow;

use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Durability, Engine, Error, ErrorClass, Op};

use super::bench::{BLOCK, Bench, space};

#[test]
fn a_full_pool_refuses_puts_by_name_and_has_all_that_it_accepted() {
    for topology in ["file:leaf-0@64M", "mirror file:leaf-0@64M file:leaf-1@64M"] {
        let bench = Bench::new(topology);
        let engine = bench.open();
        let space = space(&engine);
        let mut count = 0_u32;
        let error = loop {
            let value = vec![count as u8; 3000];
            let put = Op::Put { space, key: &count.to_be_bytes(), value: &value };
            match engine.write(&[put], Durability::Deferred) {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 100_000, "64 MiB are less");
        };
        assert!(matches!(&error, Error::Own(own) if own.class() == ErrorClass::NoSpace), "{error}");
        for number in 0..count {
            let found = engine.get(space, &number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&vec![number as u8; 3000][..]));
        }
    }
}

#[test]
fn a_full_pool_takes_removals_and_then_puts_again() {
    let bench = Bench::new("file:leaf-0@64M");
    let engine = bench.open();
    let space = space(&engine);
    let (mut first, mut last) = (0_u32, 0_u32);
    let put = |number: u32| {
        let value = vec![number as u8; 3000];
        engine.write(
            &[Op::Put { space, key: &number.to_be_bytes(), value: &value }],
            Durability::Deferred,
        )
    };
    for round in 0..4 {
        let before = last;
        // A thread of the engine that is about to end a flush may still hold what was removed: the first put is tried again.
        let mut tries = 0;
        while put(last).is_err() && tries < 200 {
            tries += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        while put(last).is_ok() {
            last += 1;
            assert!(last < 400_000, "64 MiB are less");
        }
        assert!(last - before > 1000, "round {round}: {} puts", last - before);
        // Half of the keys by themselves, and most of the others by their range.
        let middle = first + (last - first) / 2;
        for number in first..middle {
            engine
                .write(&[Op::Delete { space, key: &number.to_be_bytes() }], Durability::Deferred)
                .unwrap();
        }
        first = last - 100;
        let (start, end) = (middle.to_be_bytes(), first.to_be_bytes());
        engine
            .write(
                &[Op::DeleteRange { space, start: &start, end: Some(&end) }],
                Durability::Immediate,
            )
            .unwrap();
        assert_eq!(engine.len(space).unwrap(), u64::from(last - first));
        let report = engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }
}

/// A thread that flushed as long as there was something never came to a checkpoint.
#[test]
fn writers_that_never_pause_leave_a_log_of_a_few_checkpoints() {
    let bench = Bench::new("file:leaf-0@256M");
    let options = bench.options();
    let engine = Betree::open(&options).unwrap();
    let space = space(&engine);
    let (value, mut longest) = ([7; 3000], 0);
    for number in 0..20_000_u32 {
        let put = Op::Put { space, key: &number.to_be_bytes(), value: &value };
        engine.write(&[put], Durability::Deferred).unwrap();
        longest = longest.max(engine.stats().figure("log_bytes").expect("betree has a log"));
    }
    let checkpoint = BetreeOptions::of(&options).checkpoint_bytes.unwrap();
    assert!(longest <= 8 * checkpoint, "the log grew to {longest} bytes");
}

/// Nodes, bitmaps and runs have more blocks than the holes that removed values leave.
#[test]
fn a_pool_whose_free_blocks_are_all_in_holes_takes_removals_and_puts() {
    let two = "file:leaf-0@40M file:leaf-1@40M";
    for (topology, blocks) in [("file:leaf-0@64M", 1_u32), ("file:leaf-0@64M", 8), (two, 8)] {
        let bench = Bench::new(topology);
        let mut options = bench.options();
        let len = blocks as usize * BLOCK;
        let large_value_bytes = Some(len as u64);
        let own = BetreeOptions { large_value_bytes, ..BetreeOptions::of(&options) };
        options.own = own.into();
        let engine = Betree::open(&options).unwrap();
        let space = space(&engine);
        let mut random = fastrand::Rng::with_seed(blocks.into());
        let mut kept = Vec::new();
        let mut next = 0_u32;
        for round in 0..3 {
            let before = next;
            let put = |number: u32| {
                let value = vec![number as u8; len];
                let put = Op::Put { space, key: &number.to_be_bytes(), value: &value };
                engine.write(&[put], Durability::Deferred)
            };
            let error = loop {
                match put(next) {
                    Ok(()) => kept.push(next),
                    Err(error) => break error,
                }
                next += 1;
            };
            assert!(error.lacks_space(), "{error}");
            assert!((next - before) * blocks > 2000, "round {round}: {} puts", next - before);
            random.shuffle(&mut kept);
            for number in kept.split_off(kept.len() / 2) {
                let delete = Op::Delete { space, key: &number.to_be_bytes() };
                engine.write(&[delete], Durability::Deferred).unwrap();
            }
            assert_eq!(engine.len(space).unwrap(), kept.len() as u64);
        }
        for number in kept {
            let found = engine.get(space, &number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&vec![number as u8; len][..]));
        }
        let report = engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }
}
