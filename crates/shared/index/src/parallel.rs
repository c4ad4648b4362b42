//! Jobs that do not depend on each other, done by several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The results of `work` for each job, in the order of the jobs; on so many threads called `name`, the calling one
/// included, each of which has a `T`. Threads take jobs in order. A thread that cannot be started is done without.
pub fn map_with<T: Default, J: Send, R: Send>(
    name: &str,
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(&mut T, J) -> R + Sync,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let threads = threads.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().zip(&mut results));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one = || {
        let mut own = T::default();
        while let Some((job, result)) = next() {
            *result = Some(work(&mut own, job));
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, one);
        let others: Vec<_> = (1..threads).map(start).collect();
        one();
        for other in others.into_iter().flatten() {
            other.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    drop(queue);
    results.into_iter().flatten().collect()
}

/// As [`map_with`], for work that can fail; no job is begun after one has failed.
///
/// # Errors
/// The first error in the order of the jobs.
pub fn try_map<J: Send, R: Send, E: Send>(
    name: &str,
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let has_failed = AtomicBool::new(false);
    let results = map_with(name, threads, jobs, |&mut (), job| {
        if has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let result = work(job);
        has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
        Some(result)
    });
    // Jobs are begun in order, so those before the first error have results.
    results.into_iter().flatten().collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            let squares =
                map_with("test", threads, (0..100).collect(), |done: &mut u64, job: u64| {
                    *done += 1;
                    (job * job, *done)
                });
            assert!(squares.iter().map(|(square, _)| *square).eq((0..100).map(|job| job * job)));
            let most = squares.iter().map(|(_, done)| *done).max();
            assert!(most >= Some(100 / threads.max(1) as u64), "{threads} threads: {most:?}");
        }
        assert!(map_with("test", 3, Vec::new(), |&mut (), job: u64| job).is_empty());
    }

    #[test]
    fn the_first_error_in_order_ends_the_work() {
        for threads in [1, 4] {
            let done = Mutex::new(Vec::new());
            let failed = try_map("test", threads, (0..10_000).collect(), |job: u64| {
                done.lock().unwrap().push(job);
                if job >= 50 { Err(job) } else { Ok(job) }
            });
            assert_eq!(failed, Err(50));
            assert!(done.into_inner().unwrap().len() < 1_000);
            let whole = try_map("test", threads, (0..100).collect(), |job: u64| Ok::<_, u64>(job));
            assert_eq!(whole, Ok((0..100).collect()));
        }
    }

    #[test]
    fn a_panic_of_a_job_is_the_callers() {
        for threads in [1, 4] {
            let panicked = catch_unwind(|| {
                map_with("test", threads, (0..100).collect(), |&mut (), job: u64| {
                    assert!(job != 70, "job 70");
                })
            });
            let panic = panicked.unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"job 70"));
        }
    }
}
