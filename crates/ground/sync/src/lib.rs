//! Group commit: one write and one sync for all threads that wait.
//!
//! A thread that needs an end durable leads if no other does: it takes everything that was appended by then, and makes
//! that durable. Threads that come meanwhile wait, on one of two sides: those whose batches the leader took, and the
//! next group, which forms while this one is synced. When the leader is done, all of its group go on, and one of the
//! next group leads. No thread waits for a time to pass, and none syncs for itself while another one does.
//!
//! ```
//! use halite_sync::Group;
//! use std::sync::Mutex;
//!
//! // Values that were appended to memory, and those that are on the medium.
//! let (appended, medium) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
//! let group = Group::default();
//! let commit = |value: u32| {
//!     let end = {
//!         let mut appended = appended.lock().unwrap();
//!         appended.push(value);
//!         appended.len() as u64
//!     };
//!     let take = || {
//!         let appended = appended.lock().unwrap();
//!         (appended.clone(), appended.len() as u64)
//!     };
//!     group.commit(end, take, |values| {
//!         *medium.lock().unwrap() = values;
//!         Ok::<_, std::io::Error>(())
//!     })
//! };
//! commit(7)?;
//! assert_eq!(*medium.lock().unwrap(), [7]);
//! # Ok::<_, std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use halite_sim::locks::{self, Mutex};
use parking_lot::Condvar;

/// The threads that wait for a medium. An end counts what they appended, in any unit.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
    /// Where the threads of a group wait: that which is synced, and the next one.
    sides: [Condvar; 2],
    /// The end up to which everything is durable.
    synced: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_led: bool,
    /// The number of the last group that was taken, and its end.
    number: u64,
    taken: u64,
}

impl Group {
    /// Whether everything up to an end is durable.
    #[must_use]
    pub fn is_synced(&self, end: u64) -> bool {
        self.synced.load(Ordering::Acquire) >= end
    }

    /// Returns when everything up to an end is durable. The leader takes the next group by `take`, which returns its
    /// end too, and makes it durable by `write`. Two locks, and no call of the kernel but those of `write`, where no
    /// other thread is here.
    ///
    /// # Errors
    /// The error of this thread's own `write`. Threads whose group another thread failed to write lead in their turn:
    /// a medium that must not be written any more refuses each of them.
    pub fn commit<T, E>(
        &self,
        end: u64,
        take: impl FnOnce() -> (T, u64),
        write: impl FnOnce(T) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_synced(end) {
            return Ok(());
        }
        let mut state = self.state.lock();
        while !self.is_synced(end) {
            if state.is_led {
                let number = if end <= state.taken { state.number } else { state.number + 1 };
                state = self.wait(state, number);
                continue;
            }
            let (group, taken) = take();
            (state.is_led, state.taken) = (true, taken);
            state.number += 1;
            let leading = Leading { group: self, number: state.number };
            drop(state);
            let written = write(group);
            if written.is_ok() {
                self.synced.store(taken, Ordering::Release);
            }
            drop(leading);
            return written;
        }
        Ok(())
    }

    /// Waits until the leader is done; with the group of that number.
    fn wait<'a>(
        &'a self,
        mut state: locks::MutexGuard<'a, State>,
        number: u64,
    ) -> locks::MutexGuard<'a, State> {
        if locks::is_scheduled() {
            drop(state);
            locks::point();
            return self.state.lock();
        }
        self.sides[number as usize % 2].wait(&mut state);
        state
    }
}

/// The leader of a group. It wakes the others when it is done, also by a panic.
struct Leading<'a> {
    group: &'a Group,
    number: u64,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.group.state.lock().is_led = false;
        self.group.sides[self.number as usize % 2].notify_all();
        self.group.sides[(self.number + 1) as usize % 2].notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    /// Threads that append and wait, on a medium that fails when it has had so many groups.
    fn run(threads: u64, each: u64, groups_max: u64) -> (u64, u64, u64) {
        let (appended, durable, groups) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (refused, is_writing) = (AtomicU64::new(0), AtomicBool::new(false));
        let group = Group::default();
        let turn = Mutex::new(());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..each {
                        let end = {
                            let _turn = turn.lock().unwrap();
                            appended.fetch_add(1, Ordering::SeqCst) + 1
                        };
                        let take = || {
                            let end = appended.load(Ordering::SeqCst);
                            (end, end)
                        };
                        let write = |end| {
                            assert!(
                                !is_writing.swap(true, Ordering::SeqCst),
                                "one leads at a time"
                            );
                            let is_refused = groups.fetch_add(1, Ordering::SeqCst) >= groups_max;
                            if !is_refused {
                                durable.store(end, Ordering::SeqCst);
                            }
                            thread::yield_now();
                            is_writing.store(false, Ordering::SeqCst);
                            if is_refused { Err(()) } else { Ok(()) }
                        };
                        match group.commit(end, take, write) {
                            Ok(()) => assert!(durable.load(Ordering::SeqCst) >= end),
                            Err(()) => {
                                refused.fetch_add(1, Ordering::SeqCst);
                                return;
                            }
                        }
                    }
                });
            }
        });
        (appended.into_inner(), groups.into_inner(), refused.into_inner())
    }

    #[test]
    fn all_that_was_appended_is_durable_and_groups_are_shared() {
        let (appended, groups, refused) = run(8, 2000, u64::MAX);
        assert!(appended == 16_000 && groups <= appended && refused == 0);
    }

    #[test]
    fn the_panic_of_a_leader_leaves_nobody_waiting() {
        let (group, has_led) = (Group::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let threads: Vec<_> = (1..=8)
                .map(|end| {
                    let write = |()| match has_led.swap(true, Ordering::SeqCst) {
                        false => panic!("the first leader's"),
                        true => Ok::<_, ()>(()),
                    };
                    scope.spawn({
                        let group = &group;
                        move || group.commit(end, || ((), 8), write)
                    })
                })
                .collect();
            let panicked = threads.into_iter().filter_map(|thread| thread.join().err());
            assert_eq!(panicked.count(), 1);
        });
        assert!(group.is_synced(8));
    }

    #[test]
    fn after_a_failure_every_thread_is_refused_and_none_waits_for_ever() {
        for groups_max in 0..40 {
            let (_, groups, refused) = run(8, 2000, groups_max);
            assert_eq!(refused, 8);
            assert!(groups > groups_max);
        }
    }
}
