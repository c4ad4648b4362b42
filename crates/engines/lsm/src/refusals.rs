//! Refusals that cost nothing, and what a full store still takes.
//!
//! A batch that finds no room has had threads flush, merge and extend the log in vain: milliseconds, each of which its
//! own thread waits. So the refusal is remembered, for puts and for bookkeeping: batches that are as large are refused
//! with the same error, without a look at anything. A smaller one is tried, and waits for nothing. Room is looked for
//! again, by one batch at a time, when something was given back ([`Refusals::look_again`]), and otherwise after so long
//! that all looks together take a small part of the time. Removals are always tried, as they make the room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use halite_contract::{Error, Op, Result};
use parking_lot::Mutex;

/// What a batch is for: what is left of the reserves to those behind it. Of batches that are committed together, the
/// first in this order.
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
    /// What operations are for, of which those that put something are `puts`.
    pub(crate) fn of(ops: &[Op<'_>], puts: Self) -> Self {
        let is_put = |op: &Op<'_>| matches!(op, Op::Put { .. });
        if ops.iter().any(is_put) { puts } else { Self::Removal }
    }
}

/// What becomes of a batch before it is tried.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// It is tried, and waits for room.
    Open,
    /// It is tried, and does not wait.
    NoWaiting,
    /// It looks whether there is room again, since so long after the origin.
    Looking(Duration),
    Refused(Error),
}

/// What was refused, and when room is looked for again.
pub(crate) struct Refusals {
    origin: Instant,
    puts: Gate,
    bookkeeping: Gate,
    /// Of large values, which take their room elsewhere: on the levels' disk, whatever memory and the log have.
    values: Gate,
    /// Until when the last large value that was refused has removals make room for it, in nanoseconds from the origin.
    values_wanted_until: AtomicU64,
    /// Whether the levels or the log took nothing, the last time that they were to: of the pool, more is left to what
    /// gives room back.
    is_stuck: AtomicBool,
    /// Whether something was removed since the levels were last to take what they did not.
    has_removed: AtomicBool,
    /// Whether what was removed goes just now.
    is_emptying: AtomicBool,
    /// When what was removed may go next, in nanoseconds from the origin.
    next_emptying: AtomicU64,
    /// How often room was looked for in vain.
    looks: AtomicU64,
    /// Whether time says when room is looked for: not where the order of everything is to be known.
    is_timed: bool,
}

struct Gate {
    /// Bytes of the smallest batch that is refused; `u64::MAX`: none is.
    from: AtomicU64,
    /// When the next batch looks, in nanoseconds from the origin.
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

/// Looks in vain take so small a part of the time together.
const PART: u32 = 20;

/// The shortest time between two of them, and the longest.
const LOOKS_APART_MIN: Duration = Duration::from_millis(100);
const LOOKS_APART_MAX: Duration = Duration::from_secs(2);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// So long a large value that was refused has removals make room for it: it may never be tried again.
const VALUE_WANTED: Duration = Duration::from_secs(10);

/// What was removed goes so often that this takes such a part of the time.
const EMPTYING_PART: u32 = 4;

/// The time from a look in vain that took so long to the next.
fn apart(took: Duration) -> Duration {
    (took * PART).clamp(LOOKS_APART_MIN, LOOKS_APART_MAX)
}

/// The same error once more, if it is one of those that say that there is no room.
fn again(error: &Error) -> Option<Error> {
    Some(match error {
        &Error::Full { used, limit, held, holder } => Error::Full { used, limit, held, holder },
        Error::NoRoomBelow { reason } => Error::NoRoomBelow { reason: Arc::clone(reason) },
        Error::LogFull { reason } => Error::LogFull { reason: Arc::clone(reason) },
        Error::ValuesFull { reason } => Error::ValuesFull { reason: Arc::clone(reason) },
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
            // What was removed before the store was opened is not known.
            has_removed: AtomicBool::new(true),
            is_emptying: AtomicBool::new(false),
            next_emptying: AtomicU64::new(0),
            is_timed,
            looks: AtomicU64::new(0),
        }
    }

    /// How long ago the origin is.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// What batches for a purpose have to pass, unless they are always tried.
    #[inline]
    fn gate(&self, purpose: Purpose) -> Option<&Gate> {
        match purpose {
            Purpose::Put => Some(&self.puts),
            Purpose::Bookkeeping => Some(&self.bookkeeping),
            Purpose::Removal => None,
        }
    }

    /// What becomes of a batch of so many bytes.
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

    /// Why a large value of so many bytes is refused, unless it is to look for room.
    pub(crate) fn refusal_of_value(&self, bytes: u64) -> Option<Error> {
        let gate = &self.values;
        let is_closed = gate.from.load(Relaxed) <= bytes && self.is_timed;
        let is_early = nanos(self.now()) < gate.next.load(Relaxed);
        if is_closed && is_early { gate.error.lock().as_ref().and_then(again) } else { None }
    }

    /// A large value of so many bytes found no room, when it looked for it since `began`.
    pub(crate) fn note_value(&self, bytes: u64, error: &Error, began: Duration) {
        self.note_at(&self.values, bytes, error, Some(began));
        self.values_wanted_until.store(nanos(self.now() + VALUE_WANTED), Relaxed);
    }

    /// A large value of so many bytes found room.
    pub(crate) fn open_to_value(&self, bytes: u64) {
        if self.values.from.load(Relaxed) <= bytes {
            self.values.open();
        }
    }

    /// A batch found no room; if it looked for it, since when.
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

    /// A batch that looked for room found it.
    pub(crate) fn open(&self, purpose: Purpose) {
        if let Some(gate) = self.gate(purpose) {
            gate.open();
        }
    }

    /// Something was given back: the next batch at each gate looks for room.
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

    /// Whether there is no room for something.
    fn is_full(&self) -> bool {
        self.are_puts_refused() || self.are_values_refused() || self.is_stuck()
    }

    /// Something was removed; `all_at_once`, by few records that concern many keys. Returns whether the levels are to
    /// look whether that gives room back.
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

    /// Some of what was removed could not go yet.
    pub(crate) fn try_removals_again(&self) {
        self.has_removed.store(true, Relaxed);
    }

    /// Whether something was removed that a full store is to let go of.
    pub(crate) fn are_removals_due(&self) -> bool {
        self.is_full() && self.has_removed.load(Relaxed)
    }

    /// Whether memory goes to the levels only with the next emptying: where puts find no room. Where large values alone
    /// find none, memory goes on to the levels between two of these.
    pub(crate) fn is_emptying_due(&self) -> bool {
        let is_for_puts = self.are_puts_refused() || self.is_stuck();
        self.are_removals_due() && (is_for_puts || self.is_time_to_empty())
    }

    /// Whether the last emptying was long enough ago.
    fn is_time_to_empty(&self) -> bool {
        !self.is_timed || nanos(self.now()) >= self.next_emptying.load(Relaxed)
    }

    /// A removal waits for what was removed before: that goes as soon as it can.
    pub(crate) fn hurry(&self) {
        self.next_emptying.store(0, Relaxed);
    }

    /// Whether what was removed goes just now, or may go next.
    pub(crate) fn may_give_back(&self) -> bool {
        self.is_emptying.load(Relaxed) || self.are_removals_due()
    }

    /// Does that, unless it was done lately.
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
        // Unless a range was removed meanwhile.
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
    use super::*;

    fn full() -> Error {
        Error::Full { used: 1, limit: 2, held: 0, holder: None }
    }

    #[test]
    fn what_is_as_large_as_a_batch_that_was_refused_is_refused_without_a_look() {
        let refusals = Refusals::new(true);
        assert!(matches!(refusals.enter(Purpose::Put, 100), Entrance::Open));
        // One that took all of the time: the next look is as far away as it gets.
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
        let error = Error::ValuesFull { reason: Arc::new(reason) };
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
        let error = Error::ValuesFull { reason: Arc::new(reason) };
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
