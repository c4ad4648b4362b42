//! Work on all partitions at once.

use std::sync::Mutex;
use std::thread;

use halite_contract::Result;

/// The result of `f` for each item, in their order; on as many threads as there are cores, or on this one.
///
/// # Errors
/// The first error in that order; the others have been worked on, too.
pub(crate) fn each<T: Send, R: Send>(
    items: Vec<T>,
    on_threads: bool,
    f: impl Fn(usize, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    if !on_threads || threads < 2 {
        let results: Vec<_> = items.into_iter().enumerate().map(|(at, item)| f(at, item)).collect();
        return results.into_iter().collect();
    }
    let count = items.len();
    let left = Mutex::new(items.into_iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let next = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((at, item)) = next else { return done };
            done.push((at, f(at, item)));
        }
    };
    let mut results: Vec<_> = (0..count).map(|_| None).collect();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done.into_iter().for_each(|(at, result)| results[at] = Some(result));
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use halite_contract::Error;

    use super::*;

    #[test]
    fn results_come_in_order_and_so_do_errors() {
        for on_threads in [false, true] {
            let squares = each((0..100).collect(), on_threads, |at, item: usize| {
                assert_eq!(at, item);
                Ok(item * item)
            });
            assert_eq!(squares.unwrap(), (0..100).map(|item| item * item).collect::<Vec<_>>());
            let failed = each(vec![0, 1, 2], on_threads, |_, item: usize| match item {
                0 => Ok(()),
                _ => Err(Error::KeyTooLong { len: item }),
            });
            assert!(matches!(failed, Err(Error::KeyTooLong { len: 1 })));
        }
    }
}
