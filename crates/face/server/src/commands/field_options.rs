//! The words of commands on the deadlines of fields.

use crate::call::{Call, is};
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome};
use crate::number::parse_i64;
use crate::resp::Args;

use super::hashes::wrong_number;
use super::options::Clock;

/// Later deadlines are refused, as by Redis: milliseconds since 1970.
const DEADLINE_MAX: i64 = (1 << 46) - 1;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NOT_ALL: &str = "ERR The `numfields` parameter must match the number of arguments";
pub(super) const NO_COUNT: &str = "ERR Number of fields must be a positive integer";
pub(super) const COUNT_TOO_SMALL: &str = "ERR Parameter `numFields` should be greater than 0";

/// The fields behind the word FIELDS and their number, which end the request. `no_count` refuses a number that is none.
pub(super) fn fields<'a>(call: &Call<'a>, at: usize, no_count: &'static str) -> Outcome<Args<'a>> {
    if !call.args.get(at).is_some_and(|word| is(word, "FIELDS")) {
        return Err(NO_FIELDS.into());
    }
    let count = call.args.get(at + 1).and_then(parse_i64).filter(|count| *count > 0);
    let count = count.ok_or(no_count)?;
    let fields = call.args.from(at + 2);
    match usize::try_from(count) {
        Ok(count) if count == fields.len() => Ok(fields),
        _ => Err(NOT_ALL.into()),
    }
}

/// A word as a deadline, which may be past: milliseconds since 1970.
pub(super) fn deadline(call: &Call<'_>, clock: Clock, word: &[u8], command: &str) -> Outcome<u64> {
    let time = parse_i64(word).ok_or(NOT_AN_INTEGER)?;
    if time < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let deadline = clock.deadline(time, call.service.store.now_ms);
    let deadline = deadline.filter(|deadline| *deadline <= DEADLINE_MAX);
    let invalid = || Failure::from(format!("ERR invalid expire time in '{command}' command"));
    deadline.and_then(|deadline| u64::try_from(deadline).ok()).ok_or_else(invalid)
}

/// On which condition a field gets a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        match () {
            () if is(word, "NX") => Some(Self::IfNone),
            () if is(word, "XX") => Some(Self::IfSome),
            () if is(word, "GT") => Some(Self::IfLater),
            () if is(word, "LT") => Some(Self::IfEarlier),
            () => None,
        }
    }

    /// Whether `new` may follow `old`; no deadline is later than all others.
    pub(super) fn allows(self, old: Option<u64>, new: u64) -> bool {
        match self {
            Self::Always => true,
            Self::IfNone => old.is_none(),
            Self::IfSome => old.is_some(),
            Self::IfLater => old.is_some_and(|old| new > old),
            Self::IfEarlier => old.is_none_or(|old| new < old),
        }
    }
}

/// The deadline that fields get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldDeadline {
    /// The one that they have.
    Kept,
    /// None.
    Cleared,
    /// This one: milliseconds since 1970.
    At(u64),
}

/// Which of the fields must be there to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Any,
    All,
    None,
}

/// The options of HSETEX.
#[derive(Debug)]
pub(super) struct SetFields<'a> {
    pub(super) presence: Presence,
    pub(super) deadline: FieldDeadline,
    /// Fields and values, in turn.
    pub(super) pairs: Args<'a>,
}

impl<'a> SetFields<'a> {
    pub(super) fn parse(call: &Call<'a>) -> Outcome<Self> {
        let (mut presence, mut deadline) = (None, None);
        let mut at = 2;
        while let Some(word) = call.args.get(at) {
            at += 1;
            match Clock::option(word) {
                _ if is(word, "FIELDS") => {
                    let pairs = Self::pairs(call, at)?;
                    let presence = presence.unwrap_or(Presence::Any);
                    let deadline = deadline.unwrap_or(FieldDeadline::Cleared);
                    return Ok(Self { presence, deadline, pairs });
                }
                Some(_) if deadline.is_some() => return Err(ONE_DEADLINE.into()),
                None if is(word, "KEEPTTL") && deadline.is_some() => {
                    return Err(ONE_DEADLINE.into());
                }
                None if is(word, "KEEPTTL") => deadline = Some(FieldDeadline::Kept),
                Some(clock) => {
                    let time = call.args.get(at).ok_or("ERR missing expire time")?;
                    at += 1;
                    deadline =
                        Some(FieldDeadline::At(self::deadline(call, clock, time, "hsetex")?));
                }
                None if is(word, "FXX") || is(word, "FNX") => {
                    if presence.is_some() {
                        return Err("ERR Only one of FXX or FNX arguments can be specified".into());
                    }
                    let all = is(word, "FXX");
                    presence = Some(if all { Presence::All } else { Presence::None });
                }
                None => return Err(Failure::quoting("ERR unknown argument: ", word, "")),
            }
        }
        Err("ERR missing FIELDS argument".into())
    }

    fn pairs(call: &Call<'a>, at: usize) -> Outcome<Args<'a>> {
        if call.args.len() < at + 3 {
            return Err(wrong_number("hsetex"));
        }
        let count =
            parse_i64(&call.args[at]).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
        let count = count.ok_or("ERR invalid number of fields")?;
        let pairs = call.args.from(at + 1);
        match pairs.len() as i64 == 2 * count {
            true => Ok(pairs),
            false => Err(wrong_number("hsetex")),
        }
    }
}

const ONE_DEADLINE: &str =
    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
