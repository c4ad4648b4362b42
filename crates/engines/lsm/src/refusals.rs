//! Refusals that cost nothing, and the batches that a full store still takes.
//!
//! A batch that finds no room has made threads flush, merge and extend the log in vain: its own thread waits for
//! milliseconds. So the refusal is remembered, for puts and for bookkeeping: batches that are as large are refused
//! with the same error, without a look at anything. A smaller batch is tried, and does not wait. One batch at a time
//! looks for room again: when space was given back ([`Refusals::look_again`]), and otherwise after so long that all
//! looks together take a small part of the time. Removals are always tried, as they make the room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use halite_contract::{Error, Op, Result};
use parking_lot::Mutex;

use crate::error::Error as LsmError;

/// The purpose of a batch, which decides how much of the reserves it leaves to others. Batches that are committed
/// together have the first of their purposes, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// It takes room.
    #[default]
    Put,
    /// It takes a little room, and is to go on where puts are refused.
    Bookkeeping,
    /// It gives room back.
    Removal,
}

impl Purpose {
    /// The purpose of operations, where `puts` is the purpose of those that put something.
    pub(crate) fn of(ops: &[Op<'_>], puts: Self) -> Self {
        let is_put = |op: &Op<'_>| matches!(op, Op::Put { .. });
        if ops.iter().any(is_put) { puts } else { Self::Removal }
    }
}

/// How a batch is treated before it is tried.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// It is tried, and waits for room.
    Open,
    /// It is tried, and does not wait.
    NoWaiting,
    /// It looks whether there is room again; it began at this time from the origin.
    Looking(Duration),
    Refused(Error),
}

/// The refusals that are remembered, and when room is looked for again.
pub(crate) struct Refusals {
    origin: Instant,
    puts: Gate,
    bookkeeping: Gate,
    /// For large values, whose room is on the levels' disk: independent of the room in memory and in the log.
    values: Gate,
    /// Until when removals make room for the large value that was refused last, in nanoseconds from the origin.
    values_wanted_until: AtomicU64,
    /// Whether the levels or the log took nothing, the last time that they were to: then more of the pool is left to
    /// batches that give room back.
    is_stuck: AtomicBool,
    /// Whether anything was removed since the last emptying began.
    has_removed: AtomicBool,
    /// Whether an emptying is under way.
    is_emptying: AtomicBool,
    /// When the next emptying may begin, in nanoseconds from the origin.
    next_emptying: AtomicU64,
    /// How often room was looked for in vain.
    looks: AtomicU64,
    /// Whether time decides when room is looked for: not where the order of all events is to be known.
    is_timed: bool,
}

struct Gate {
    /// Bytes of the smallest batch that is refused; `u64::MAX`: none is.
    from: AtomicU64,
    /// When the next batch looks for room, in nanoseconds from the origin.
    next: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl Gate {
    fn new() -> Self {
        Self { from: AtomicU64::new(u64::MAX), next: AtomicU64::new(0), error: Mutex::new(None) }
    }

    fn is_closed(&self) -> bool {
        self.from.load(Relaxed) != u64::MAX
    }

    fn open(&self) {
        self.from.store(u64::MAX, Relaxed);
        *self.error.lock() = None;
    }
}

/// The time between two looks in vain, as a multiple of the time that the first of them took.
const PART: u32 = 20;

/// The shortest time between two looks in vain, and the longest.
const LOOKS_APART_MIN: Duration = Duration::from_millis(100);
const LOOKS_APART_MAX: Duration = Duration::from_secs(2);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// How long removals make room for a large value that was refused: it may never be tried again.
const VALUE_WANTED: Duration = Duration::from_secs(10);

/// The time between two emptyings, as a multiple of the time that the first of them took.
const EMPTYING_PART: u32 = 4;

/// The time from a look in vain that took so long to the next.
fn apart(took: Duration) -> Duration {
    (took * PART).clamp(LOOKS_APART_MIN, LOOKS_APART_MAX)
}

/// A copy of an error, if it says that there is no room.
fn again(error: &Error) -> Option<Error> {
    Some(match error {
        &Error::Full { used, limit, held, holder } => Error::Full { used, limit, held, holder },
        Error::Own(own) if own.downcast_ref().is_some_and(LsmError::lacks_room) => {
            Error::Own(own.clone())
        }
        _ => return None,
    })
}

impl Refusals {
    pub(crate) fn new(is_timed: bool) -> Self {
        Self {
            origin: Instant::now(),
            puts: Gate::new(),
            bookkeeping: Gate::new(),
            values: Gate::new(),
            values_wanted_until: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
            // Whether anything was removed before the store was opened is not known.
            has_removed: AtomicBool::new(true),
            is_emptying: AtomicBool::new(false),
            next_emptying: AtomicU64::new(0),
            is_timed,
            looks: AtomicU64::new(0),
        }
    }

    /// The time since the origin.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The gate that batches for a purpose have to pass; `None` if they are always tried.
    #[inline]
    fn gate(&self, purpose: Purpose) -> Option<&Gate> {
        match purpose {
            Purpose::Put => Some(&self.puts),
            Purpose::Bookkeeping => Some(&self.bookkeeping),
            Purpose::Removal => None,
        }
    }

    /// How a batch of so many bytes is treated.
    #[inline]
    pub(crate) fn enter(&self, purpose: Purpose, bytes: u64) -> Entrance {
        let Some(gate) = self.gate(purpose) else { return Entrance::Open };
        match gate.from.load(Relaxed) {
            u64::MAX => Entrance::Open,
            from => self.enter_closed(gate, from, bytes),
        }
    }

    fn enter_closed(&self, gate: &Gate, from: u64, bytes: u64) -> Entrance {
        let now = self.origin.elapsed();
        if !self.is_timed {
            return Entrance::Looking(now);
        }
        let next = gate.next.load(Relaxed);
        if nanos(now) >= next {
            let later = nanos(now + LOOKS_APART_MAX);
            if gate.next.compare_exchange(next, later, Relaxed, Relaxed).is_ok() {
                return Entrance::Looking(now);
            }
        }
        match gate.error.lock().as_ref().and_then(again) {
            Some(error) if bytes >= from => Entrance::Refused(error),
            _ => Entrance::NoWaiting,
        }
    }

    /// The error by which a large value of so many bytes is refused, unless it is to look for room.
    pub(crate) fn refusal_of_value(&self, bytes: u64) -> Option<Error> {
        let gate = &self.values;
        let is_closed = gate.from.load(Relaxed) <= bytes && self.is_timed;
        let is_early = nanos(self.now()) < gate.next.load(Relaxed);
        if is_closed && is_early { gate.error.lock().as_ref().and_then(again) } else { None }
    }

    /// Notes that a large value of so many bytes found no room, for which it looked since `began`.
    pub(crate) fn note_value(&self, bytes: u64, error: &Error, began: Duration) {
        self.note_at(&self.values, bytes, error, Some(began));
        self.values_wanted_until.store(nanos(self.now() + VALUE_WANTED), Relaxed);
    }

    /// Notes that a large value of so many bytes found room.
    pub(crate) fn open_to_value(&self, bytes: u64) {
        if self.values.from.load(Relaxed) <= bytes {
            self.values.open();
        }
    }

    /// Notes that a batch found no room, and since when it looked for it, if it did.
    pub(crate) fn note(
        &self,
        purpose: Purpose,
        bytes: u64,
        error: &Error,
        began: Option<Duration>,
    ) {
        if let Some(gate) = self.gate(purpose) {
            self.note_at(gate, bytes, error, began);
        }
    }

    fn note_at(&self, gate: &Gate, bytes: u64, error: &Error, began: Option<Duration>) {
        let Some(error) = again(error) else { return };
        *gate.error.lock() = Some(error);
        gate.from.fetch_min(bytes, Relaxed);
        if let Some(began) = began {
            self.looks.fetch_add(1, Relaxed);
            let now = self.origin.elapsed();
            gate.next.store(nanos(now + apart(now.saturating_sub(began))), Relaxed);
        }
    }

    /// Notes that a batch that looked for room found it.
    pub(crate) fn open(&self, purpose: Purpose) {
        if let Some(gate) = self.gate(purpose) {
            gate.open();
        }
    }

    /// Notes that space was given back: the next batch at each gate looks for room.
    pub(crate) fn look_again(&self) {
        let gates = [&self.puts, &self.bookkeeping, &self.values];
        gates.iter().for_each(|gate| gate.next.store(0, Relaxed));
    }

    /// Whether puts are refused.
    pub(crate) fn are_puts_refused(&self) -> bool {
        self.puts.is_closed()
    }

    /// Whether large values are refused, and one was lately.
    pub(crate) fn are_values_refused(&self) -> bool {
        let is_wanted = || nanos(self.now()) < self.values_wanted_until.load(Relaxed);
        self.values.is_closed() && (!self.is_timed || is_wanted())
    }

    /// Whether there is no room for puts or large values, or the levels or the log are stuck.
    fn is_full(&self) -> bool {
        self.are_puts_refused() || self.are_values_refused() || self.is_stuck()
    }

    /// Notes a removal; `all_at_once`, by few records that concern many keys. Returns whether the levels are to look
    /// whether that gives room back.
    pub(crate) fn note_removal(&self, all_at_once: bool) -> bool {
        let is_first = !self.has_removed.load(Relaxed) && !self.has_removed.swap(true, Relaxed);
        if all_at_once {
            self.next_emptying.store(0, Relaxed);
        }
        let is_full = self.is_full();
        if is_full && all_at_once {
            self.look_again();
        }
        is_full && (is_first || all_at_once)
    }

    /// Notes that some removed versions could not be dropped yet.
    pub(crate) fn try_removals_again(&self) {
        self.has_removed.store(true, Relaxed);
    }

    /// Whether a full store is to drop removed versions.
    pub(crate) fn are_removals_due(&self) -> bool {
        self.is_full() && self.has_removed.load(Relaxed)
    }

    /// Whether memory goes to the levels only with the next emptying: where puts find no room. Where large values
    /// alone find none, memory also goes to the levels between two emptyings.
    pub(crate) fn is_emptying_due(&self) -> bool {
        let is_for_puts = self.are_puts_refused() || self.is_stuck();
        self.are_removals_due() && (is_for_puts || self.is_time_to_empty())
    }

    /// Whether the last emptying was long enough ago.
    fn is_time_to_empty(&self) -> bool {
        !self.is_timed || nanos(self.now()) >= self.next_emptying.load(Relaxed)
    }

    /// Lets the next emptying begin as soon as it can, because a removal waits for it.
    pub(crate) fn hurry(&self) {
        self.next_emptying.store(0, Relaxed);
    }

    /// Whether an emptying is under way, or due.
    pub(crate) fn may_give_back(&self) -> bool {
        self.is_emptying.load(Relaxed) || self.are_removals_due()
    }

    /// Runs an emptying, unless the last one was too short a time ago.
    pub(crate) fn empty(&self, empty: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if !self.is_time_to_empty() {
            return Ok(false);
        }
        let began = self.origin.elapsed();
        self.is_emptying.store(true, Relaxed);
        self.has_removed.store(false, Relaxed);
        self.next_emptying.store(u64::MAX, Relaxed);
        let emptied = empty().inspect_err(|_| self.try_removals_again());
        self.is_emptying.store(false, Relaxed);
        let now = self.origin.elapsed();
        let next = nanos(now + ((now - began) * EMPTYING_PART).max(LOOKS_APART_MIN));
        // If a range was removed meanwhile, the next emptying may begin at once.
        let _ = self.next_emptying.compare_exchange(u64::MAX, next, Relaxed, Relaxed);
        emptied
    }

    /// Whether the levels or the log took nothing, the last time that they were to.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }

    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Relaxed);
    }

    /// How often room was looked for in vain since the store was opened.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn full() -> Error {
        Error::Full { used: 1, limit: 2, held: 0, holder: None }
    }

    #[test]
    fn what_is_as_large_as_a_batch_that_was_refused_is_refused_without_a_look() {
        let refusals = Refusals::new(true);
        assert!(matches!(refusals.enter(Purpose::Put, 100), Entrance::Open));
        // The look took all of the time: the next one is as far away as it gets.
        refusals.note(Purpose::Put, 100, &full(), Some(Duration::ZERO));
        let gate = &refusals.puts;
        gate.next.store(u64::MAX, Relaxed);
        for _ in 0..10_000 {
            assert!(matches!(refusals.enter(Purpose::Put, 100), Entrance::Refused(_)));
        }
        assert_eq!(refusals.looks(), 1);
        assert!(matches!(refusals.enter(Purpose::Put, 99), Entrance::NoWaiting));
        refusals.note(Purpose::Put, 99, &full(), None);
        assert!(matches!(refusals.enter(Purpose::Put, 99), Entrance::Refused(_)));
        refusals.note(Purpose::Removal, 100, &full(), Some(Duration::ZERO));
        for purpose in [Purpose::Bookkeeping, Purpose::Removal] {
            assert!(matches!(refusals.enter(purpose, 100), Entrance::Open));
        }
        refusals.look_again();
        assert!(matches!(refusals.enter(Purpose::Put, 500), Entrance::Looking(_)));
        assert!(matches!(refusals.enter(Purpose::Put, 500), Entrance::Refused(_)), "one looks");
        refusals.open(Purpose::Put);
        assert!(matches!(refusals.enter(Purpose::Put, 500), Entrance::Open));
        refusals.note(Purpose::Put, 1, &Error::NoTransactions, None);
        assert!(matches!(refusals.enter(Purpose::Put, 500), Entrance::Open), "of something else");
    }

    #[test]
    fn a_large_value_that_is_refused_keeps_no_put_from_waiting_for_room() {
        let refusals = Refusals::new(true);
        let reason = halite_disk::Error::NoSpace { path: "disk".into() };
        let error = LsmError::ValuesFull { reason: Arc::new(reason) }.into();
        refusals.note_value(1 << 30, &error, Duration::ZERO);
        refusals.values.next.store(u64::MAX, Relaxed);
        assert!(refusals.refusal_of_value(1 << 30).is_some() && refusals.are_values_refused());
        assert!(refusals.refusal_of_value((1 << 30) - 1).is_none());
        for bytes in [1, 1 << 40] {
            assert!(matches!(refusals.enter(Purpose::Put, bytes), Entrance::Open));
        }
        refusals.open_to_value(1 << 20);
        assert!(refusals.are_values_refused(), "a smaller one had room");
        refusals.look_again();
        assert!(refusals.refusal_of_value(1 << 30).is_none());
        refusals.open_to_value(1 << 30);
        assert!(!refusals.are_values_refused() && !refusals.are_removals_due());
    }

    #[test]
    fn a_large_value_that_is_refused_has_removals_make_room_for_a_while_and_keeps_nothing_in_memory()
     {
        let refusals = Refusals::new(true);
        let reason = halite_disk::Error::NoSpace { path: "disk".into() };
        let error = LsmError::ValuesFull { reason: Arc::new(reason) }.into();
        refusals.note_value(1 << 30, &error, Duration::ZERO);
        refusals.note_removal(false);
        assert!(refusals.are_removals_due() && refusals.is_emptying_due());
        refusals.next_emptying.store(u64::MAX, Relaxed);
        assert!(!refusals.is_emptying_due(), "memory goes to the levels meanwhile");
        refusals.note(Purpose::Put, 1, &full(), None);
        assert!(refusals.is_emptying_due(), "the levels take nothing but by that");
        refusals.open(Purpose::Put);
        refusals.values_wanted_until.store(0, Relaxed);
        assert!(!refusals.are_removals_due(), "the large value was not tried again");
        refusals.note_value(1 << 30, &error, Duration::ZERO);
        assert!(refusals.are_removals_due(), "it was");
    }

    #[test]
    fn a_batch_is_for_what_its_operations_are_for() {
        let space = halite_contract::KeySpaceId(1);
        let delete = Op::Delete { space, key: b"k" };
        let put = Op::Put { space, key: b"k", value: b"v" };
        assert_eq!(Purpose::of(&[delete], Purpose::Put), Purpose::Removal);
        assert_eq!(Purpose::of(&[delete, put], Purpose::Put), Purpose::Put);
        assert_eq!(Purpose::of(&[put], Purpose::Bookkeeping), Purpose::Bookkeeping);
    }
}
