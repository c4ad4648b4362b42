//! The ring in every order of its threads' steps: commits are in the order of grants, each once, no thread waits for
//! ever (loom fails a model in which all threads wait), writes before a handle was finished are visible when it is
//! committed, and the writes of a commit when the handle is known to be committed.

use crate::experiments::WaitStrategy;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::spawn;

use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::weakness::Weakness;

/// A ring, and the words that its threads write. All accesses are relaxed: their order comes from the ring alone.
struct Model {
    ring: Ring<usize>,
    /// The next number, changed in turns alone.
    next: AtomicU64,
    /// The word that each thread writes beside the others.
    written: [AtomicU64; 3],
    /// The number of commits, changed by commits alone.
    committed: AtomicU64,
}

impl Model {
    fn new(capacity: usize, strategy: WaitStrategy) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self {
            ring: Ring::new(capacity, strategy),
            next: zero(),
            written: [zero(), zero(), zero()],
            committed: zero(),
        })
    }

    fn commit(&self, number: usize) {
        assert_eq!(self.committed.load(Ordering::Relaxed), number as u64, "in order, and once");
        self.committed.store(number as u64 + 1, Ordering::Relaxed);
        assert_eq!(self.written[number].load(Ordering::Relaxed), 1, "it was written before");
    }

    /// A thread that is granted a number, writes, and waits until that is committed.
    fn write(&self) {
        let turn = self.ring.enter(|_, number| self.commit(number));
        let number = self.next.load(Ordering::Relaxed) as usize;
        self.next.store(number as u64 + 1, Ordering::Relaxed);
        let granted = turn.grant(number);
        self.written[number].store(1, Ordering::Relaxed);
        let bid = granted.finish();
        self.ring.wait_committed(bid);
        assert!(self.committed.load(Ordering::Relaxed) > number as u64);
    }

    /// Runs a thread that is granted nothing, and sees in its turn, alone, every committed batch.
    fn pass(&self) {
        let turn = self.ring.enter(|_, number| self.commit(number));
        turn.wait_alone();
        assert_eq!(self.committed.load(Ordering::Relaxed), self.next.load(Ordering::Relaxed));
        turn.pass();
    }
}

/// Runs threads in every order in which they are interrupted at most so often.
fn check(
    interruptions: usize,
    capacity: usize,
    strategy: WaitStrategy,
    others: &'static [fn(&Model)],
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(move || {
        let model = Model::new(capacity, strategy);
        let threads: Vec<_> = others
            .iter()
            .map(|other| {
                let model = Arc::clone(&model);
                spawn(move || other(&model))
            })
            .collect();
        model.write();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(model.committed.load(Ordering::Relaxed), model.next.load(Ordering::Relaxed));
    });
}

#[test]
fn loom_two_commit_in_order() {
    check(3, 2, WaitStrategy::Yield, &[Model::write]);
}

#[test]
fn loom_two_share_one_slot() {
    check(3, 1, WaitStrategy::Yield, &[Model::write]);
}

#[test]
fn loom_three_commit_in_order() {
    check(1, 2, WaitStrategy::Yield, &[Model::write, Model::write]);
}

#[test]
fn loom_one_waits_in_its_turn() {
    check(3, 2, WaitStrategy::Yield, &[Model::pass]);
}

#[test]
fn loom_who_sleeps_is_woken() {
    check(2, 2, WaitStrategy::Park, &[Model::write]);
    check(2, 1, WaitStrategy::Park, &[Model::write]);
}

/// Tests each of which has a weakness, that its model must find.
macro_rules! found {
    ($($test:ident: $weakness:ident;)*) => {
        $(
            #[test]
            #[should_panic]
            fn $test() {
                Weakness::$weakness.choose();
                check(3, 2, WaitStrategy::Yield, &[Model::write]);
            }
        )*
    };
}

found! {
    loom_finds_a_relaxed_finish: FinishedRelaxed;
    loom_finds_who_stops_unseen: StopsUnseen;
    loom_finds_who_leaves_unseen: LeavesUnseen;
    loom_finds_a_relaxed_grant: GrantedRelaxed;
    loom_finds_a_relaxed_commit: CommittedRelaxed;
}
