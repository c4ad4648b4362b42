//! Transactions on threads that a deterministic scheduler runs: in many orders of their steps, which real
//! threads rarely take.

use std::sync::Arc;

use halite::{Database, Durability, Engine, Partitioning};
use halite_contract::EngineOptions;
use halite_indexlog::IndexLog;
use halite_lab::Random;
use halite_lab::isolation::Recorder;
use halite_pmem::{Medium, PoolOptions};
use halite_sim::locks;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use crate::lists::Lists;
use crate::{WAYS, is_clean, options};

/// A database in memory, without threads that the scheduler does not know.
fn database(partitions: usize) -> Database {
    let medium = Medium::new(halite::Domain::Memory, 16 << 20).expect("room for a medium");
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = 16 << 20;
    pool_options.medium = Some(medium);
    let partitioning = Some(Partitioning::Hash(partitions));
    let options = EngineOptions { pool_options, partitioning, ..EngineOptions::new("pool") };
    let engine: Arc<dyn Engine> = Arc::new(IndexLog::open(&options).expect("an engine"));
    Database::with_engine(engine, "scheduled")
}

/// One execution: three threads, each with two or three drawn transactions.
fn execute(seed: u64, way: usize) {
    let (isolation, locking, level) = WAYS[way];
    let lists = Lists::new(database(1 + seed as usize % 2), 3);
    let recorder = Arc::new(Recorder::default());
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            let (lists, recorder) = (lists.clone(), Arc::clone(&recorder));
            thread::spawn(move || {
                let mut random = Random::of(&[seed, thread]);
                for number in 0..2 + random.below(2) {
                    let steps = lists.draw(&mut random);
                    let first = ((thread * 8 + number) << 8) + 1;
                    let hooks = (locks::point, |_: &_| ());
                    let way = options(isolation, locking);
                    lists.run(&way, Durability::Deferred, &steps, first.., &recorder, hooks);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    lists.read_all(&recorder);
    is_clean(&recorder.history(), level);
}

fn run(scheduler: impl Scheduler + 'static, seed: u64, way: usize) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.silence_warnings = true;
    locks::scheduled(thread::yield_now, || {
        Runner::new(scheduler, config).run(move || execute(seed, way));
    });
}

#[test]
fn histories_in_every_order_of_steps_are_as_their_isolation_promises() {
    const SCHEDULES: usize = 40;
    for way in 0..WAYS.len() {
        for seed in 0..6 {
            run(RandomScheduler::new_from_seed(seed, SCHEDULES), seed, way);
            run(PctScheduler::new_from_seed(seed, 3, SCHEDULES), seed, way);
        }
    }
}
