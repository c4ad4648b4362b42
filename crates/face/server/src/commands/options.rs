//! Options that several commands share.

use crate::call::{Call, is};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::number::parse_i64;

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

/// The options of SET and GETEX about the value's deadline, and of SET about its condition.
#[derive(Debug, Default)]
pub(super) struct SetOptions<'a> {
    /// A time, and how it is given.
    pub(super) expires: Option<(Clock, &'a [u8])>,
    pub(super) keep_ttl: bool,
    pub(super) persist: bool,
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    pub(super) get: bool,
}

impl<'a> SetOptions<'a> {
    /// Reads the options of SET, from the third argument on.
    pub(super) fn of_set(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(3).iter();
        while let Some(word) = words.next() {
            let one_deadline = options.expires.is_none() && !options.keep_ttl;
            match Clock::option(word) {
                Some(clock) if one_deadline => {
                    options.expires = Some((clock, words.next().ok_or(SYNTAX)?));
                }
                None if is(word, "NX") && !options.if_present => options.if_absent = true,
                None if is(word, "XX") && !options.if_absent => options.if_present = true,
                None if is(word, "GET") => options.get = true,
                None if is(word, "KEEPTTL") && options.expires.is_none() => options.keep_ttl = true,
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }

    /// Reads the options of GETEX, from the second argument on.
    pub(super) fn of_getex(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(2).iter();
        while let Some(word) = words.next() {
            match Clock::option(word) {
                Some(clock) if options.expires.is_none() && !options.persist => {
                    options.expires = Some((clock, words.next().ok_or(SYNTAX)?));
                }
                None if is(word, "PERSIST") && options.expires.is_none() => options.persist = true,
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
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
