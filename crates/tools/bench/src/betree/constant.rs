//! Calls that are to take the same time at any size of a dataset: a snapshot, a clone, and the removal of a range of a million
//! keys; beside the removal of as many keys one by one, a thousand a commit, each commit durable.
//!
//! A snapshot is durable when its record is in the log, and is made when the memtable before it is flushed. So there are
//! two clones: `clone-at-once`, behind the snapshot, which waits for that flush and those before it, and `clone`, of a
//! snapshot that is made.
//!
//! Records have keys of 8 and values of 16 bytes. Each repeat makes a snapshot of the dataset and clones that, and the
//! removals are of the clone, so that the dataset stays. The removal one by one is measured at the smallest size alone.

use std::time::Instant;

use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Durability, Engine, KeySpaceId, Op};
use serde_json::json;

use super::engine::{failed, open};
use super::setting::{BETREE, Setting};
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "betree.constant";

/// The subject that removes keys one by one.
const LOOP: &str = "one-by-one";

const VALUE: [u8; 16] = [7; 16];

/// Records of a commit, while loading and removing.
const BATCH: u64 = 1000;

/// Records of the datasets.
const SIZES: [u64; 3] = [2_000_000, 4_000_000, 8_000_000];
const SIZES_QUICK: [u64; 3] = [4_000, 8_000, 16_000];

fn sizes(setting: &Setting<'_>) -> &'static [u64; 3] {
    setting.sized(&SIZES, &SIZES_QUICK)
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * 4 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    let removed = sizes(setting)[0] / 2;
    for medium in setting.media() {
        for &records in sizes(setting) {
            let home = Home::new(&setting.folder(medium, &options))?;
            let store = open(home.path(), BetreeOptions::default(), &options)?;
            let space = store.key_space("bench").map_err(failed("make a key space"))?;
            run.step(&format!("{NAME} {records} records are loaded"))?;
            for first in (0..records).step_by(BATCH as usize) {
                run.go_on()?;
                let keys: Vec<_> = (first..first + BATCH).map(u64::to_be_bytes).collect();
                let put = |key| Op::Put { space, key, value: &VALUE };
                let ops: Vec<_> = keys.iter().map(|key| put(&key[..])).collect();
                store.write(&ops, Durability::Immediate).map_err(failed("load"))?;
            }
            let params =
                setting.params(medium, [("records", json!(records)), ("removed", json!(removed))]);
            let store = &store;
            let mut contenders = vec![Contender::new(BETREE, || {
                changed(store, space, |clone| {
                    let (start, end) = (0_u64.to_be_bytes(), removed.to_be_bytes());
                    let op = Op::DeleteRange { space: clone, start: &start, end: Some(&end) };
                    store.write(&[op], Durability::Immediate)
                })
            })];
            if records == sizes(setting)[0] {
                contenders.push(Contender::new(LOOP, || {
                    changed(store, space, |clone| {
                        for first in (0..removed).step_by(BATCH as usize) {
                            let keys: Vec<_> =
                                (first..first + BATCH).map(u64::to_be_bytes).collect();
                            let delete = |key| Op::Delete { space: clone, key };
                            let ops: Vec<_> = keys.iter().map(|key| delete(&key[..])).collect();
                            store.write(&ops, Durability::Immediate)?;
                        }
                        Ok(())
                    })
                }));
            }
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// Makes a snapshot and a clone, removes keys of the clone, and makes sure that they are gone there and nowhere else.
fn changed(
    store: &Betree,
    space: KeySpaceId,
    remove: impl Fn(KeySpaceId) -> halite_contract::Result<()>,
) -> Result<Vec<Sample>> {
    const SNAPSHOT: &str = "snapshot";
    const FIRST_CLONE: &str = "clone at once";
    const CLONE: &str = "clone";
    let mut samples = Vec::new();
    let mut timed = |metric: &str, from: Instant| {
        samples.push(Sample::new(metric, "ns", from.elapsed().as_nanos() as f64));
    };
    let start = Instant::now();
    store.create_snapshot(space, SNAPSHOT).map_err(failed("make a snapshot"))?;
    timed("snapshot", start);
    let cloned = |name| store.clone_snapshot(space, SNAPSHOT, name).map_err(failed("clone"));
    let start = Instant::now();
    let first = cloned(FIRST_CLONE)?;
    timed("clone-at-once", start);
    let start = Instant::now();
    let clone = cloned(CLONE)?;
    timed("clone", start);
    let start = Instant::now();
    remove(clone).map_err(failed("remove"))?;
    timed("removal", start);
    let key = 1_u64.to_be_bytes();
    let get = |space| store.get(space, &key).map_err(failed("get"));
    if get(clone)?.is_some() || get(space)?.is_none() {
        let why = "a removal from a clone did not happen, or happened elsewhere, too".to_owned();
        return Err(Error::WrongAnswer { store: BETREE.to_owned(), why });
    }
    let start = Instant::now();
    for clone in [first, clone] {
        store.destroy_key_space(clone).map_err(failed("destroy a clone"))?;
    }
    store.delete_snapshot(space, SNAPSHOT).map_err(failed("delete a snapshot"))?;
    timed("destruction", start);
    Ok(samples)
}
