//! The reorder ring (Yan §3.2.3, algorithms 1 to 3): many threads write at once, and commit in order.
//!
//! ```text
//!               pid                          bid
//!                │                            │
//!   ──┬────────┬─▼──────┬────────┬────────┬────▼───
//!     │committed│ writes │finished│ writes │in turn
//!   ──┴────────┴────────┴────────┴────────┴────────
//! ```
//!
//! A walk: [`Ring::enter`] waits until no thread has the turn, and takes the next handle (`bid`). In its turn, alone,
//! the thread gets its sequence and space, which must be in order, and leaves them in the handle's slot
//! ([`Turn::grant`]). Then it writes, beside all others. [`Granted::finish`] says that it is done: a thread that
//! finds the oldest handle that is not committed (`pid`) finished commits it, and all finished ones behind it, unless
//! another thread is at it, which then does so. So no thread waits to leave its work to another; a thread that has to
//! know when its handle is committed waits ([`Ring::wait_committed`]).
//!
//! In the paper a thread takes its handle first, and waits until it is that handle's turn; and several threads commit,
//! each when the one before has (by a second counter, `hid`). With more threads than processors, each would wait for a
//! thread that does not run; here turns go to one that does, and one thread commits for all. Unlike the paper's, whose
//! threads spin, waiting is by a [`WaitStrategy`], and a thread that commits wakes those that wait for it, once.
//!
//! A handle that is dropped counts as finished, with the content of its slot: a thread that fails stops no other.

use std::cell::Cell;

use crate::experiments::WaitStrategy;
use halite_sim::locks::Mutex;

use crate::sync::{AtomicBool, AtomicU64, Ordering, unless_weakened};
use crate::wait::{Place, Waiting};

/// The ring. A turn leaves a `T` in its slot for the commit.
pub(crate) struct Ring<T> {
    /// The next handle, twice; one more while a thread has the turn.
    bid: Line,
    /// Where the turn is waited for.
    turn: Place,
    /// The first handle that is not committed.
    pid: Line,
    /// Whether a thread commits.
    committing: AtomicBool,
    /// Where commits are waited for.
    committed: Place,
    slots: Box<[Slot<T>]>,
    waiting: Waiting,
}

/// A counter in lines of its own.
#[repr(align(128))]
struct Line(AtomicU64);

struct Slot<T> {
    /// One more than the handle that finished here last. It is not just a mark: a thread may look at the slot of a
    /// handle that was committed a round ago.
    finished: AtomicU64,
    entry: Mutex<Option<T>>,
}

impl<T> Ring<T> {
    /// A ring of so many slots: how many batches may be on their way at once.
    pub(crate) fn new(capacity: usize, strategy: WaitStrategy) -> Self {
        assert!(capacity > 0, "a ring has a slot");
        let slot = || Slot { finished: AtomicU64::new(0), entry: Mutex::new(None) };
        let line = || Line(AtomicU64::new(0));
        Self {
            bid: line(),
            turn: Place::new(),
            committed: Place::new(),
            pid: line(),
            committing: AtomicBool::new(false),
            slots: (0..capacity).map(|_| slot()).collect(),
            waiting: Waiting::new(strategy),
        }
    }

    /// Waits for the turn and takes a handle (stages 1 and 2). `commit` is how entries are committed, one at a time
    /// and in order, by any thread.
    pub(crate) fn enter<C: Fn(u64, T)>(&self, commit: C) -> Turn<'_, T, C> {
        let taken = Cell::new(0);
        self.waiting.wait(&self.turn, || {
            let bid = self.bid.0.load(Ordering::Relaxed);
            taken.set(bid / 2);
            bid.is_multiple_of(2)
                && self
                    .bid
                    .0
                    .compare_exchange(bid, bid + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        let bid = taken.get();
        let turn = Turn { granted: Granted { ring: self, bid, commit, finished: false } };
        // A slot is free when the handle that had it is committed.
        if let Some(before) = bid.checked_sub(self.slots.len() as u64) {
            self.wait_committed(before);
        }
        turn
    }

    /// Waits until the handle is committed.
    pub(crate) fn wait_committed(&self, bid: u64) {
        self.waiting.wait(&self.committed, || self.is_committed(bid));
    }

    /// Waits until all handles before this one are committed.
    fn wait_first(&self, bid: u64) {
        if let Some(before) = bid.checked_sub(1) {
            self.wait_committed(before);
        }
    }

    /// Ends the turn of a handle.
    fn end_turn(&self, bid: u64) {
        let ordering = unless_weakened!(GrantedRelaxed, Ordering::Relaxed, Ordering::Release);
        self.bid.0.store((bid + 1) * 2, ordering);
        self.waiting.wake_one(&self.turn);
    }

    /// Whether the handle is committed.
    pub(crate) fn is_committed(&self, bid: u64) -> bool {
        self.pid.0.load(Ordering::Acquire) > bid
    }

    fn slot(&self, bid: u64) -> &Slot<T> {
        &self.slots[(bid % self.slots.len() as u64) as usize]
    }

    /// Whether the first handle that is not committed is finished. The thread that finishes it later sees, if it is not,
    /// what this one did before.
    fn is_next_finished(&self) -> bool {
        let bid = self.pid.0.load(Ordering::Acquire);
        // A thread that stops at a mark has changed it, and so has the one that sets it. The changes of one word have
        // an order: either this thread sees that the mark is set, or the one that sets it sees that `pid` has come to
        // be `bid`, and goes on.
        let finished = &self.slot(bid).finished;
        let is_it = |mark: u64| mark == bid + 1;
        is_it(finished.load(Ordering::Acquire))
            || unless_weakened!(StopsUnseen, false, is_it(finished.fetch_add(0, Ordering::AcqRel)))
    }

    /// Commits the finished handles from `pid` on (algorithm 2), unless another thread is at it.
    fn commit_finished(&self, commit: &impl Fn(u64, T)) {
        let mut committed = 0;
        while self.is_next_finished() && !self.committing.swap(true, Ordering::AcqRel) {
            while self.is_next_finished() {
                self.commit_one(commit);
                committed += 1;
                // Others may go on to finish handles: those that wait are woken now and then.
                if committed % self.slots.len() == 0 {
                    self.waiting.wake_all(&self.committed);
                }
            }
            // A thread that found this one at it has changed the word before, so that what it finished is seen now; or
            // it changes the word later, and commits.
            unless_weakened!(
                LeavesUnseen,
                self.committing.store(false, Ordering::Release),
                _ = self.committing.swap(false, Ordering::AcqRel)
            );
        }
        // All at once: to wake a thread takes longer than a commit.
        if committed > 0 {
            self.waiting.wake_all(&self.committed);
        }
    }

    /// Stage 4 (algorithm 3), of the first handle that is not committed.
    fn commit_one(&self, commit: &impl Fn(u64, T)) {
        let bid = self.pid.0.load(Ordering::Relaxed);
        let entry = self.slot(bid).entry.lock().take();
        if let Some(entry) = entry {
            commit(bid, entry);
        }
        let ordering = unless_weakened!(CommittedRelaxed, Ordering::Relaxed, Ordering::Release);
        self.pid.0.store(bid + 1, ordering);
    }
}

/// The thread whose turn it is to be granted sequences and space.
pub(crate) struct Turn<'a, T, C: Fn(u64, T)> {
    granted: Granted<'a, T, C>,
}

impl<'a, T, C: Fn(u64, T)> Turn<'a, T, C> {
    /// The handle.
    pub(crate) fn bid(&self) -> u64 {
        self.granted.bid
    }

    /// Waits until everything before is committed. Nothing else is granted meanwhile.
    pub(crate) fn wait_alone(&self) {
        self.granted.ring.wait_first(self.granted.bid);
    }

    /// Leaves the entry that is to be committed, and ends the turn.
    pub(crate) fn grant(self, entry: T) -> Granted<'a, T, C> {
        *self.granted.ring.slot(self.granted.bid).entry.lock() = Some(entry);
        self.end()
    }

    /// Ends the turn with nothing to be committed.
    pub(crate) fn pass(self) {
        drop(self.end());
    }

    fn end(self) -> Granted<'a, T, C> {
        // `Turn` has no `Drop` of its own: one that is dropped in its turn ends it in `Granted`'s.
        self.granted.ring.end_turn(self.granted.bid);
        self.granted
    }
}

/// A thread that writes in the space that it was granted.
pub(crate) struct Granted<'a, T, C: Fn(u64, T)> {
    ring: &'a Ring<T>,
    bid: u64,
    commit: C,
    finished: bool,
}

impl<T, C: Fn(u64, T)> Granted<'_, T, C> {
    /// Says that it is written (stage 3); it is committed now or by a thread that finishes a handle before it.
    pub(crate) fn finish(mut self) -> u64 {
        self.end();
        self.bid
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let ring = self.ring;
        // Dropped in its turn: nothing was granted.
        if ring.bid.0.load(Ordering::Relaxed) == self.bid * 2 + 1 {
            ring.end_turn(self.bid);
        }
        let ordering = unless_weakened!(FinishedRelaxed, Ordering::Relaxed, Ordering::AcqRel);
        ring.slot(self.bid).finished.swap(self.bid + 1, ordering);
        ring.commit_finished(&self.commit);
    }
}

impl<T, C: Fn(u64, T)> Drop for Granted<'_, T, C> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex as StdMutex;

    use super::*;

    fn run(capacity: usize, threads: u64, strategy: WaitStrategy) {
        const EACH: u64 = 300;
        let ring = Ring::new(capacity, strategy);
        let next = AtomicU64::new(0);
        let committed = StdMutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (ring, next, committed) = (&ring, &next, &committed);
                scope.spawn(move || {
                    for round in 0..EACH {
                        let turn = ring.enter(|_, number: u64| {
                            committed.lock().unwrap().push(number);
                        });
                        if (thread + round) % 7 == 0 {
                            turn.pass();
                            continue;
                        }
                        // Threads are here in turn: a load and a store suffice.
                        let number = next.load(Ordering::Relaxed);
                        next.store(number + 1, Ordering::Relaxed);
                        if round % 50 == 0 {
                            turn.wait_alone();
                            assert_eq!(committed.lock().unwrap().len() as u64, number);
                        }
                        let granted = turn.grant(number);
                        if round % 3 == 0 {
                            std::thread::yield_now();
                        }
                        let bid = granted.finish();
                        ring.wait_committed(bid);
                        assert!(committed.lock().unwrap().contains(&number));
                    }
                });
            }
        });
        let committed = committed.into_inner().unwrap();
        assert_eq!(committed.len() as u64, next.into_inner());
        assert!(committed.is_sorted(), "commits are in the order of grants");
    }

    #[test]
    fn commits_are_in_the_order_of_grants() {
        for strategy in [WaitStrategy::Yield, WaitStrategy::Park] {
            run(1, 2, strategy);
            run(2, 4, strategy);
            run(64, 4, strategy);
        }
    }

    #[test]
    fn a_handle_that_is_dropped_stops_nobody() {
        let ring = Ring::new(4, WaitStrategy::Park);
        let committed = StdMutex::new(Vec::new());
        let commit = |_, number: u64| committed.lock().unwrap().push(number);
        drop(ring.enter(commit));
        drop(ring.enter(commit).grant(1));
        for number in 2..20 {
            ring.enter(commit).grant(number).finish();
        }
        drop(ring.enter(commit));
        assert_eq!(committed.into_inner().unwrap(), (1..20).collect::<Vec<_>>());
    }
}
