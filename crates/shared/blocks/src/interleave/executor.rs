//! The executor: the operations of a group, in turn.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Group;

/// Passes after which the operations that wait for a fence get it, even if others are not ready: among many
/// lookups an insert must not wait for the last of them.
const PASSES_MAX: u32 = 16;

/// Runs operations, as many at a time as the group has: `run` makes the future of one, which is polled in
/// turn with the others; `done` takes their outcomes, in the order in which they end.
///
/// When all active operations wait for the group's fence, or some have waited long enough, it is issued
/// once for all of them. A future that is pending for another reason is polled in every pass. The
/// executor's waker does nothing: a future that relies on its waker is polled all the same, but a
/// combinator that polls only woken futures makes no progress.
///
/// The slots of the futures are allocated once at the start; no operation allocates. If `run`, `done` or an
/// operation panics, the active operations are dropped in their current state.
///
/// # Panics
/// If an operation of the group calls it on the same group.
pub fn interleave<O, F: Future>(
    group: &Group,
    operations: impl IntoIterator<Item = O>,
    mut run: impl FnMut(O) -> F,
    mut done: impl FnMut(F::Output),
) {
    let _running = group.begin();
    let mut operations = operations.into_iter().fuse();
    let mut slots: Vec<Slot<F>> = (0..group.size()).map(|_| Slot::new()).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut passes = 0;
    loop {
        let next_fence = group.fence_number();
        let (mut active, mut waiting, mut any_turn) = (0, 0, false);
        for slot in &mut slots {
            if slot.waits_for != Some(next_fence) {
                any_turn |= slot.turn(group, &mut context, &mut operations, &mut run, &mut done);
            }
            active += u32::from(slot.is_active());
            waiting += u32::from(slot.waits_for == Some(next_fence));
        }
        if active == 0 && !any_turn {
            return;
        }
        passes = if waiting == 0 { 0 } else { passes + 1 };
        if waiting > 0 && (waiting == active || passes == PASSES_MAX) {
            group.fence_now();
            passes = 0;
        }
    }
}

/// Room for one operation, and for the next one when it has ended.
struct Slot<F> {
    future: Pin<Box<Option<F>>>,
    /// The number of the fence that it waits for.
    waits_for: Option<u64>,
}

impl<F: Future> Slot<F> {
    fn new() -> Self {
        Self { future: Box::pin(None), waits_for: None }
    }

    fn is_active(&self) -> bool {
        self.future.is_some()
    }

    /// Polls the operation. If it ends, the next one begins in the same turn, so that the group stays full.
    /// Returns whether there was an operation to poll.
    #[inline]
    fn turn<O>(
        &mut self,
        group: &Group,
        context: &mut Context<'_>,
        operations: &mut impl Iterator<Item = O>,
        run: &mut impl FnMut(O) -> F,
        done: &mut impl FnMut(F::Output),
    ) -> bool {
        let was_active = self.is_active();
        if was_active && !self.poll(group, context, done) {
            return true;
        }
        let Some(operation) = operations.next() else { return was_active };
        self.future.set(Some(run(operation)));
        self.poll(group, context, done);
        true
    }

    /// Whether the operation has ended.
    #[inline]
    fn poll(
        &mut self,
        group: &Group,
        context: &mut Context<'_>,
        done: &mut impl FnMut(F::Output),
    ) -> bool {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return true };
        let polled = future.poll(context);
        self.waits_for = group.take_waits().then(|| group.fence_number());
        match polled {
            Poll::Pending => false,
            Poll::Ready(output) => {
                self.waits_for = None;
                self.future.set(None);
                done(output);
                true
            }
        }
    }
}
