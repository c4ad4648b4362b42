//! Options that several commands share.

use crate::call::{Call, is};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::resp::ArgsIter;
use crate::store::NewDeadline;

use super::condition::Condition;

/// How a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// In seconds instead of milliseconds.
    pub(super) seconds: bool,
    /// Counted from now instead of 1970.
    pub(super) relative: bool,
}

impl Clock {
    /// EX, PX, EXAT or PXAT.
    pub(super) fn option(word: &[u8]) -> Option<Self> {
        match () {
            () if is(word, "EX") => Some(Self { seconds: true, relative: true }),
            () if is(word, "PX") => Some(Self { seconds: false, relative: true }),
            () if is(word, "EXAT") => Some(Self { seconds: true, relative: false }),
            () if is(word, "PXAT") => Some(Self { seconds: false, relative: false }),
            () => None,
        }
    }

    /// `time` as milliseconds since 1970, negative ones included.
    pub(super) fn deadline(self, time: i64, now_ms: u64) -> Option<i64> {
        let ms = if self.seconds { time.checked_mul(1000)? } else { time };
        if self.relative { ms.checked_add_unsigned(now_ms) } else { Some(ms) }
    }
}

/// The options of SET, GETEX, MSETEX and INCREX about the value's deadline, and of SET about its condition.
#[derive(Debug, Default)]
pub(super) struct SetOptions<'a> {
    /// A time, and how it is given.
    pub(super) expires: Option<(Clock, &'a [u8])>,
    pub(super) keep_ttl: bool,
    pub(super) persist: bool,
    pub(super) condition: Option<Condition<'a>>,
    pub(super) get: bool,
}

impl<'a> SetOptions<'a> {
    /// Reads the options of SET, from the third argument on.
    pub(super) fn of_set(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(3).iter();
        while let Some(word) = words.next() {
            if options.read_deadline(word, &mut words, false)? {
                continue;
            }
            if is(word, "GET") {
                options.get = true;
                continue;
            }
            let condition = Condition::read(word, &mut words)?.ok_or(SYNTAX)?;
            match options.condition {
                Some(known) if known != condition || !condition.is_about_existence() => {
                    return Err(SYNTAX.into());
                }
                _ => options.condition = Some(condition),
            }
        }
        Ok(options)
    }

    /// Reads the options of GETEX, from the second argument on.
    pub(super) fn of_getex(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(2).iter();
        while let Some(word) = words.next() {
            if !options.read_deadline(word, &mut words, true)? {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// Reads an option about the deadline, with the words behind it; false: `word` is none. The options exclude each
    /// other, and of one that comes twice the second time counts. `persists` says whether the command has PERSIST
    /// instead of KEEPTTL.
    pub(super) fn read_deadline(
        &mut self,
        word: &'a [u8],
        words: &mut ArgsIter<'a>,
        persists: bool,
    ) -> Outcome<bool> {
        if let Some(clock) = Clock::option(word) {
            let is_other = self.expires.is_some_and(|(known, _)| known != clock);
            if is_other || self.keep_ttl || self.persist {
                return Err(SYNTAX.into());
            }
            self.expires = Some((clock, words.next().ok_or(SYNTAX)?));
            return Ok(true);
        }
        let field = match persists {
            true if is(word, "PERSIST") => &mut self.persist,
            false if is(word, "KEEPTTL") => &mut self.keep_ttl,
            _ => return Ok(false),
        };
        if self.expires.is_some() {
            return Err(SYNTAX.into());
        }
        *field = true;
        Ok(true)
    }

    /// The deadline that a write gives its key.
    pub(super) fn new_deadline(&self, call: &Call<'_>, command: &str) -> Outcome<NewDeadline> {
        Ok(match self.deadline(call, command)? {
            Some(at) => NewDeadline::At(at),
            None if self.keep_ttl => NewDeadline::Keep,
            None => NewDeadline::Clear,
        })
    }

    /// The deadline, in milliseconds since 1970.
    pub(super) fn deadline(&self, call: &Call<'_>, command: &str) -> Outcome<Option<u64>> {
        let Some((clock, time)) = self.expires else { return Ok(None) };
        deadline(call, clock, time, command).map(Some)
    }
}

/// A time that must be in the future or at least after 1970, as milliseconds since 1970.
pub(super) fn deadline(call: &Call<'_>, clock: Clock, time: &[u8], command: &str) -> Outcome<u64> {
    let time = parse_i64(time).ok_or(NOT_AN_INTEGER)?;
    let deadline = clock.deadline(time, call.service.store.now_ms).filter(|_| time > 0);
    let invalid = || format!("ERR invalid expire time in '{command}' command");
    Ok(deadline.and_then(|deadline| u64::try_from(deadline).ok()).ok_or_else(invalid)?)
}
