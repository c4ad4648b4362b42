//! A pool of the Bε-tree engine has what its model has after any steps: writes of keys and objects, snapshots, clones,
//! leaves that go and come back, closes and kills.
#![no_main]

#[path = "../../crates/tools/lab/tests/betree_pools/mod.rs"]
#[allow(dead_code, reason = "the lab's own tests use the rest")]
mod betree_pools;

use betree_pools::POOLS;
use betree_pools::steps::{Change, Step};
use halite_lab::{Rules, Subject, World};
use halite_pmem::{Medium, ModelFile};
use libfuzzer_sys::fuzz_target;

/// Steps of a history, at most.
const STEPS_MAX: usize = 60;

/// A step, its numbers, and a byte to fill a value with.
type Input = (u8, u8, u16, u8);

fn step((code, a, b, fill): Input) -> Step {
    let (space, key, number) = (a >> 7, a % 7, a % 3);
    let write = |change| Step::Write { changes: vec![change], deferred: fill % 4 == 0 };
    let offset = |b: u16| u32::from(b % 96) + if b >> 15 == 1 { (128 << 10) - 40 } else { 0 };
    match code % 20 {
        0..6 => write(Change::Put { space, key, len: b % 600, fill }),
        6 => write(Change::Delete { space, key }),
        7 => write(Change::DeleteRange { space, from: key, to: key + 1 + (b % 4) as u8 }),
        8 => Step::Work,
        9 => Step::Sync,
        10 => Step::Snapshot(number),
        11 => Step::DeleteSnapshot(number),
        12 => Step::Rollback(number),
        13 if fill % 3 == 0 => Step::DropClone,
        13 => Step::Clone(number),
        14 | 15 => {
            Step::WriteObject { name: number, offset: offset(b), len: 1 + u32::from(fill), fill }
        }
        16 => Step::Truncate { name: number, size: offset(b) },
        17 if fill % 3 == 0 => Step::DeleteObject(number),
        17 => Step::RenameObject(number, fill % 3),
        18 => Step::Away(u16::from(number % 2)),
        _ => [Step::Back, Step::Resilver, Step::Scrub][usize::from(fill % 3)].clone(),
    }
}

fuzz_target!(|input: (u8, Vec<Input>)| {
    let (pools, steps) = input;
    let pools = &POOLS[usize::from(pools) % POOLS.len()];
    let medium = Medium::new(Rules::Memory.domain(), pools.capacity()).expect("room for a medium");
    medium.restore(ModelFile::default(), []);
    let mut open = pools.open(&medium).expect("it opens");
    let mut world = World::new();
    let steps = steps.into_iter().take(STEPS_MAX);
    pools.apply(&mut open, &Step::Create).expect("a dataset");
    pools.model(&mut world, &Step::Create);
    for input in steps {
        if input.0 > 235 {
            // A kill keeps everything that was stored.
            let is_killed = input.0 > 245;
            if is_killed {
                pools.apply(&mut open, &Step::Sync).expect("it syncs");
                medium.machine().cut_power();
            }
            drop(open);
            medium.restore_power();
            open = pools.open(&medium).expect("it opens again");
        } else {
            let step = step(input);
            pools.apply(&mut open, &step).unwrap_or_else(|why| panic!("{step:?}: {why}"));
            pools.model(&mut world, &step);
        }
        assert!(pools.world(&mut open).expect("it is read") == world, "{input:?}");
    }
    pools.verify(&mut open).expect("it is whole");
});
