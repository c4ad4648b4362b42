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

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use halite_sim::locks::{self, Mutex};
use rustix::thread::futex;

/// The threads that wait for a medium. An end counts what they appended, in any unit.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
    /// Where the threads of a group wait: that which is synced, and the next one.
    sides: [Side; 2],
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
                self.side(number).wait(state);
                if self.is_synced(end) {
                    return Ok(());
                }
                state = self.state.lock();
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

    /// Where the group of that number waits.
    fn side(&self, number: u64) -> &Side {
        &self.sides[number as usize % 2]
    }
}

/// A place at which threads wait until a leader is done. They are woken by one call of the kernel, and need no lock
/// then: with a lock, each would wait for the one before it, and wake the next.
#[derive(Debug, Default)]
struct Side {
    /// Changed under the lock by each leader that is done.
    done: AtomicU32,
}

impl Side {
    /// Waits until a leader is done, or for no reason.
    fn wait(&self, state: locks::MutexGuard<'_, State>) {
        let seen = self.done.load(Ordering::Relaxed);
        drop(state);
        if locks::is_scheduled() {
            locks::point();
            return;
        }
        // Signals, and a leader that is done by now, end the call at once: the caller looks again.
        let _ = futex::wait(&self.done, futex::Flags::PRIVATE, seen, None);
    }

    /// Wakes up to so many threads.
    fn wake(&self, count: u32) {
        let _ = futex::wake(&self.done, futex::Flags::PRIVATE, count);
    }
}

/// The leader of a group. It wakes the others when it is done, also by a panic.
struct Leading<'a> {
    group: &'a Group,
    number: u64,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let sides = [self.number + 1, self.number].map(|number| self.group.side(number));
        let mut state = self.group.state.lock();
        state.is_led = false;
        for side in sides {
            side.done.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        // The next leader is woken first: the medium is idle until it writes.
        let [next, done] = sides;
        next.wake(1);
        done.wake(i32::MAX as u32);
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
