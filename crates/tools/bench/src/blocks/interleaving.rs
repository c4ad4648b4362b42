//! Interleaved lookups and inserts on the leaves of an FPTree (van Renen §3.5, Fig. 12).
//!
//! Leaves in a space much larger than the caches, random ones of them. `blocks.insert` and `blocks.lookup` have one
//! comparison for each size of the group; `sequential` is plain code, one operation at a time with any group. The
//! limit is the same lines of as much space beside the leaves, known beforehand: all of a group prefetched, then
//! loaded, or written and fenced as the inserts do. Before inserts, both spaces were just streamed, so that no cache
//! holds them. `speedup` is the throughput against `sequential` in the same comparison. `blocks.switch` is a loop that
//! only yields.

use std::time::Instant;

use fastrand::Rng;
use halite_blocks::interleave::{
    Group, LEAF_LEN, Leaves, Overlap, insert_all, interleave, look_up_all, yield_now,
};
use halite_pmem::{Fresh, LINE, Pool, Words};
use serde_json::json;

use crate::{Contender, Error, LIMIT, Params, Result, Row, Run, RunOptions, Sample, Scratch};

/// How much is measured.
struct Scale {
    /// Bytes that the leaves may take.
    space: u64,
    groups: &'static [usize],
    inserts: u64,
    lookups: u64,
    switches: u64,
}

impl Scale {
    fn of(options: &RunOptions) -> Self {
        if options.quick {
            let (space, groups) = (16 << 20, &[1, 8, 20][..]);
            return Self { space, groups, inserts: 20_000, lookups: 50_000, switches: 1_000_000 };
        }
        Self {
            space: 1 << 30,
            groups: &[1, 2, 4, 8, 12, 16, 20, 24, 32],
            inserts: 300_000,
            lookups: 1_000_000,
            switches: 20_000_000,
        }
    }

    fn leaves(&self) -> u64 {
        (self.space - LINE) / LEAF_LEN
    }
}

/// Pairs in each leaf when it is looked up in: a quarter of its slots.
const PAIRS: u64 = 8;

/// Contenders of an insert, of a lookup and of a switch.
const CONTENDERS: [u64; 3] = [6, 4, 1];

/// How much faster than one at a time: the factors that the paper reports for groups in which its
/// curves are flat.
const PAPER_INSERT: f64 = 6.2;
const PAPER_LOOKUP: f64 = 5.0;
const PAPER_GROUPS: std::ops::RangeInclusive<usize> = 20..=24;

/// Measurements that [`run`] makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    let groups = Scale::of(options).groups.len() as u64;
    let [insert, lookup, switch] = CONTENDERS;
    u64::from(options.repeats) * (groups * (insert + lookup) + switch)
}

/// Measures.
///
/// # Errors
/// The errors of the blocks and the pool; a lookup that returns another value than was inserted;
/// [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let scale = Scale::of(&run.options);
    // The leaves, and as much again for the limit.
    let scratch = Scratch::large(run, 2 * scale.space)?;
    let pool = scratch.pool();
    for &size in scale.groups {
        insert(run, pool, &scale, size)?;
    }
    run.step("blocks.lookup: filling the leaves")?;
    let leaves = filled(pool, &scale)?;
    let bare = blank(pool, &scale)?;
    for &size in scale.groups {
        look_up(run, &leaves, &bare, &scale, size)?;
    }
    switch(run, pool, &scale)
}

fn insert(run: &mut Run<'_>, pool: &Pool, scale: &Scale, size: usize) -> Result<()> {
    let seed = run.options.seed;
    let pairs = || inserts(seed, scale);
    let coroutines = |name: &'static str, overlap| {
        Contender::new(name, move || {
            let leaves = empty(pool, scale)?;
            measured(pool, scale.inserts, || {
                let group = Group::overlapping(pool, size, overlap);
                let mut outcome = Ok(());
                let run = |(leaf, key)| leaves.insert(&group, leaf, key, value(key));
                interleave(&group, inserts(seed, scale), run, |ended| keep(&mut outcome, ended));
                Ok(outcome?)
            })
        })
    };
    let mut contenders = [
        Contender::new("sequential", || {
            let mut leaves = empty(pool, scale)?;
            measured(pool, scale.inserts, || {
                for (leaf, key) in pairs() {
                    leaves.insert_alone(leaf, key, value(key))?;
                }
                Ok(())
            })
        }),
        coroutines("coroutines-reads", Overlap::Reads),
        coroutines("coroutines-writes", Overlap::Writes),
        coroutines("coroutines", Overlap::Both),
        Contender::new("state-machine", || {
            let mut leaves = empty(pool, scale)?;
            measured(pool, scale.inserts, || {
                let mut outcome = Ok(());
                let pairs = pairs().map(|(leaf, key)| (leaf, key, value(key)));
                insert_all(&mut leaves, size, pairs, |ended| keep(&mut outcome, ended))?;
                Ok(outcome?)
            })
        }),
        Contender::new(LIMIT, || {
            let bare = blank(pool, scale)?;
            // Nearly all of them take the first slot of their leaf.
            let places = pairs().map(|(leaf, _)| (leaf, 0));
            measured(pool, scale.inserts, || write_lines(&bare, size, places))
        }),
    ];
    compare(run, "blocks.insert", size, &mut contenders, PAPER_INSERT)
}

fn look_up(
    run: &mut Run<'_>,
    leaves: &Leaves,
    bare: &Words,
    scale: &Scale,
    size: usize,
) -> Result<()> {
    let (seed, pool) = (run.options.seed, leaves.pool());
    let keys = || lookups(seed, scale);
    let expected = keys().fold(0, |sum: u64, (_, key)| sum.wrapping_add(value(key)));
    // The values are not found in the order of the keys, but their sum is the same.
    let check = |name: &str, sum: u64| match sum == expected {
        true => Ok(()),
        false => {
            let why = "the values found are not those that were inserted".to_owned();
            Err(Error::WrongAnswer { store: name.to_owned(), why })
        }
    };
    let mut contenders = [
        Contender::new("sequential", || {
            measured(pool, scale.lookups, || {
                let mut sum = 0;
                for (leaf, key) in keys() {
                    add(&mut sum, leaves.look_up_alone(leaf, key)?);
                }
                check("sequential", sum)
            })
        }),
        Contender::new("coroutines", || {
            measured(pool, scale.lookups, || {
                let group = Group::new(pool, size);
                let (mut sum, mut outcome) = (0, Ok(()));
                let run = |(leaf, key)| leaves.look_up(&group, leaf, key);
                interleave(&group, keys(), run, |found| {
                    keep(&mut outcome, found.map(|value| add(&mut sum, value)));
                });
                outcome?;
                check("coroutines", sum)
            })
        }),
        Contender::new("state-machine", || {
            measured(pool, scale.lookups, || {
                let (mut sum, mut outcome) = (0, Ok(()));
                look_up_all(leaves, size, keys(), |found| {
                    keep(&mut outcome, found.map(|value| add(&mut sum, value)));
                });
                outcome?;
                check("state-machine", sum)
            })
        }),
        Contender::new(LIMIT, || {
            measured(pool, scale.lookups, || {
                read_lines(bare, size, places(seed, scale));
                Ok(())
            })
        }),
    ];
    compare(run, "blocks.lookup", size, &mut contenders, PAPER_LOOKUP)
}

fn switch(run: &mut Run<'_>, pool: &Pool, scale: &Scale) -> Result<()> {
    const SIZE: usize = 16;
    let yields = scale.switches / SIZE as u64;
    let mut contenders = [Contender::new("coroutines", || {
        let group = Group::new(pool, SIZE);
        let start = Instant::now();
        let run = |_| async move {
            for _ in 0..yields {
                yield_now().await;
            }
        };
        interleave(&group, 0..SIZE, run, |()| ());
        let ns = start.elapsed().as_nanos() as f64 / (yields * SIZE as u64) as f64;
        Ok(vec![Sample::new("latency", "ns", ns)])
    })];
    run.compare("blocks.switch", &params(SIZE), &mut contenders)
}

fn params(size: usize) -> Params {
    Params::from_iter([("group".to_owned(), json!(size))])
}

/// Runs the comparison, and adds the speedup of each contender over `sequential`.
fn compare(
    run: &mut Run<'_>,
    experiment: &str,
    size: usize,
    contenders: &mut [Contender<'_>],
    paper: f64,
) -> Result<()> {
    let params = params(size);
    let first = run.rows().len();
    run.compare(experiment, &params, contenders)?;
    let throughput = run.rows()[first..].iter().filter(|row| row.metric == "throughput");
    let rows: Vec<Row> = throughput.cloned().collect();
    let Some(base) = rows.iter().find(|row| row.subject == "sequential").cloned() else {
        return Ok(());
    };
    for row in rows.into_iter().filter(|row| row.subject != "sequential" && row.subject != LIMIT) {
        let is_papers = row.subject == "coroutines" && PAPER_GROUPS.contains(&size);
        run.push(Row {
            metric: "speedup".to_owned(),
            unit: "x".to_owned(),
            value: row.value / base.value,
            min: row.min / base.max,
            max: row.max / base.min,
            limit: row.limit.map(|limit| limit / base.value),
            source: is_papers.then_some(paper),
            ..row
        });
    }
    Ok(())
}

/// The throughput of `operations`, and the pool's counters per operation.
fn measured(
    pool: &Pool,
    operations: u64,
    work: impl FnOnce() -> Result<()>,
) -> Result<Vec<Sample>> {
    let (before, start) = (pool.traffic(), Instant::now());
    work()?;
    let (time, traffic) = (start.elapsed(), pool.traffic() - before);
    let each = |metric: &str, count: u64| {
        Sample::new(metric, "1/op", count as f64 / operations.max(1) as f64)
    };
    Ok(vec![
        Sample::throughput(operations, time),
        each("fences", traffic.fences),
        each("lines", traffic.lines),
    ])
}

fn claim(pool: &Pool, at: u64, len: u64) -> Result<Fresh> {
    Ok(pool.claim(at, len).map_err(halite_blocks::Error::from)?)
}

fn empty(pool: &Pool, scale: &Scale) -> Result<Leaves> {
    Ok(Leaves::format(claim(pool, 0, scale.space)?)?)
}

/// Space beside the leaves. It is touched beforehand, so that the first contender does not pay for page faults.
fn blank(pool: &Pool, scale: &Scale) -> Result<Words> {
    let mut space = claim(pool, scale.space, scale.space)?;
    let zeroed = space.zero(0..scale.space);
    pool.fence([zeroed]).map_err(halite_blocks::Error::from)?;
    Ok(space.into_words())
}

/// Leaves with pairs in each.
fn filled(pool: &Pool, scale: &Scale) -> Result<Leaves> {
    let leaves = empty(pool, scale)?;
    let group = Group::new(pool, 16);
    let mut outcome = Ok(());
    let all = (0..PAIRS)
        .flat_map(|number| (0..scale.leaves()).map(move |leaf| (leaf, key(leaf, number))));
    let run = |(leaf, key)| leaves.insert(&group, leaf, key, value(key));
    interleave(&group, all, run, |inserted| keep(&mut outcome, inserted));
    outcome?;
    Ok(leaves)
}

/// New keys for random leaves.
fn inserts(seed: u64, scale: &Scale) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (mut random, leaves) = (Rng::with_seed(seed), scale.leaves());
    (0..scale.inserts).map(move |_| (random.u64(..leaves), random.u64(..)))
}

/// Keys that random leaves have.
fn lookups(seed: u64, scale: &Scale) -> impl Iterator<Item = (u64, u64)> + use<> {
    places(seed, scale).map(|(leaf, number)| (leaf, key(leaf, number)))
}

/// Random leaves and slots of theirs: [`filled`] gives each leaf one pair after the other.
fn places(seed: u64, scale: &Scale) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (mut random, leaves) = (Rng::with_seed(seed), scale.leaves());
    (0..scale.lookups).map(move |_| (random.u64(..leaves), random.u64(..PAIRS)))
}

/// One of the keys of a leaf.
fn key(leaf: u64, number: u64) -> u64 {
    Rng::with_seed(leaf * PAIRS + number).u64(..)
}

/// The value of a key.
fn value(key: u64) -> u64 {
    !key
}

fn keep(outcome: &mut halite_blocks::Result<()>, ended: halite_blocks::Result<()>) {
    if outcome.is_ok() {
        *outcome = ended;
    }
}

/// Adds a value to a sum; no value makes it wrong.
fn add(sum: &mut u64, value: Option<u64>) {
    *sum = sum.wrapping_add(value.unwrap_or(1));
}

/// The two lines of an operation: the first of its leaf, and that of the pair in a slot.
fn lines(leaf: u64, slot: u64) -> [u64; 2] {
    const PAIR_LEN: u64 = 16;
    let first = LINE + leaf * LEAF_LEN;
    [first, first + LINE + slot * PAIR_LEN]
}

/// The least memory accesses of lookups: two lines each, those of a group prefetched before the first is loaded.
fn read_lines(words: &Words, size: usize, places: impl Iterator<Item = (u64, u64)>) {
    let mut sum = 0;
    in_groups(size, places, |group| {
        group.iter().flatten().for_each(|line| words.prefetch(*line));
        sum = group.iter().flatten().fold(sum, |sum: u64, line| sum ^ words.load(*line));
    });
    std::hint::black_box(sum);
}

/// The least memory accesses of inserts: of a group the pairs' lines written and fenced, then the leaves' first lines.
fn write_lines(words: &Words, size: usize, places: impl Iterator<Item = (u64, u64)>) -> Result<()> {
    let (mut flushed, mut fenced) = (Vec::with_capacity(size), Vec::with_capacity(size));
    let mut outcome = Ok(());
    in_groups(size, places, |group| {
        group.iter().flatten().for_each(|line| words.prefetch(*line));
        for phase in [1, 0] {
            for lines in group {
                words.store(lines[phase], lines[0]);
                flushed.push(words.flush(lines[phase]..lines[phase] + 8));
            }
            let fence = words.pool().fence_into(&mut flushed, &mut fenced);
            keep(&mut outcome, fence.map_err(halite_blocks::Error::from));
        }
    });
    Ok(outcome?)
}

/// Hands the lines of operations on, group by group.
fn in_groups(
    size: usize,
    mut places: impl Iterator<Item = (u64, u64)>,
    mut work: impl FnMut(&[[u64; 2]]),
) {
    let mut group = Vec::with_capacity(size);
    loop {
        group.clear();
        group.extend(places.by_ref().take(size).map(|(leaf, slot)| lines(leaf, slot)));
        if group.is_empty() {
            return;
        }
        work(&group);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Watch;

    struct Steps(Cell<u64>);

    impl Watch for Steps {
        fn step(&self, done: u64, all: u64, _: &str) {
            assert!(done < all);
            self.0.set(done + 1);
        }
    }

    #[test]
    fn a_quick_run_makes_the_measurements_that_it_planned() {
        // On an ordinary file each fence would sync it.
        let shared = Path::new("/dev/shm");
        let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::tempdir_in(place).unwrap();
        let options = RunOptions {
            folder: folder.path().to_owned(),
            quick: true,
            repeats: 1,
            seed: 1,
            profile: None,
        };
        let (steps, interrupted) = (Steps(Cell::new(0)), AtomicBool::new(false));
        let planned = plan(&options);
        let mut a_run = Run::new(options, &steps, &interrupted);
        a_run.plan(planned);
        run(&mut a_run).unwrap();
        assert_eq!(steps.0.get(), planned);
        let rows = a_run.into_rows();
        let of = |subject: &str, group: usize, metric: &str| {
            let row = rows.iter().find(|row| {
                row.experiment == "blocks.insert"
                    && row.subject == subject
                    && row.metric == metric
                    && row.params["group"] == group
            });
            row.unwrap().value
        };
        assert_eq!((of("sequential", 20, "fences"), of("sequential", 20, "lines")), (2.0, 2.0));
        assert_eq!((of("coroutines", 20, "fences"), of("state-machine", 20, "fences")), (0.1, 0.1));
        assert_eq!(
            (of("coroutines-reads", 8, "fences"), of("coroutines-writes", 8, "fences")),
            (2.0, 0.25)
        );
        assert!(rows.iter().any(|row| row.metric == "speedup" && row.source == Some(PAPER_INSERT)));
        assert!(rows.iter().all(|row| row.value > 0.0 || row.experiment == "blocks.lookup"));
    }
}
