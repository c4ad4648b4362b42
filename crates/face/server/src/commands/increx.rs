//! INCREX: adds to a number, within bounds, and sets when its key expires, in one step: the counter of a rate limiter.

use crate::call::{Call, is};
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::long_double::LongDouble;
use crate::notifications::EventClass;
use crate::number::{Decimal, parse_i64};
use crate::store::{Encoding, NewDeadline};

use super::counters::parse_float;
use super::object::EMBEDDED_LEN_MAX;
use super::options::SetOptions;

const OVERFLOW: &str = "ERR increment or decrement would overflow";
const INFINITE: &str = "ERR value or increment would produce Infinity";

#[derive(Default)]
struct Options<'a> {
    /// The amount to add, and whether it is a floating-point number.
    by: Option<(&'a [u8], bool)>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    /// A sum beyond a bound becomes the bound; otherwise nothing is added.
    saturates: bool,
    deadline: SetOptions<'a>,
    /// A deadline is set only if the key has none.
    if_no_deadline: bool,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = call.args.from(2).iter();
        while let Some(word) = words.next() {
            if options.deadline.read_deadline(word, &mut words, true)? {
                continue;
            }
            let mut next = || words.next().ok_or(SYNTAX);
            match () {
                () if is(word, "BYINT") && options.by.is_none() => {
                    options.by = Some((next()?, false));
                }
                () if is(word, "BYFLOAT") && options.by.is_none() => {
                    options.by = Some((next()?, true));
                }
                () if is(word, "LBOUND") => options.lower = Some(next()?),
                () if is(word, "UBOUND") => options.upper = Some(next()?),
                () if is(word, "SATURATE") => options.saturates = true,
                () if is(word, "ENX") => options.if_no_deadline = true,
                () => return Err(SYNTAX.into()),
            }
        }
        if options.if_no_deadline && options.deadline.persist {
            return Err(SYNTAX.into());
        }
        if options.if_no_deadline && options.deadline.expires.is_none() {
            return Err("ERR ENX flag requires an expiration (EX, PX, EXAT or PXAT)".into());
        }
        Ok(options)
    }
}

/// A number of either kind, as INCREX calculates with it.
trait Number: Copy + PartialOrd {
    fn parse(text: &[u8]) -> Outcome<Self>;

    /// The number of a key that does not exist.
    fn zero() -> Self;

    /// The sum if the kind has it, and otherwise its bound in the direction of the sum.
    fn sum(self, other: Self) -> Result<Self, Self>;

    fn difference(self, other: Self) -> Option<Self>;

    fn text(self) -> String;
}

impl Number for i64 {
    fn parse(text: &[u8]) -> Outcome<Self> {
        parse_i64(text).ok_or_else(|| NOT_AN_INTEGER.into())
    }

    fn zero() -> Self {
        0
    }

    fn sum(self, other: Self) -> Result<Self, Self> {
        self.checked_add(other).ok_or(if other < 0 { i64::MIN } else { i64::MAX })
    }

    fn difference(self, other: Self) -> Option<Self> {
        self.checked_sub(other)
    }

    fn text(self) -> String {
        String::from_utf8_lossy(Decimal::new(self).as_bytes()).into_owned()
    }
}

impl Number for LongDouble {
    fn parse(text: &[u8]) -> Outcome<Self> {
        parse_float(text)?.ok_or_else(|| INFINITE.into())
    }

    fn zero() -> Self {
        Self::ZERO
    }

    fn sum(self, other: Self) -> Result<Self, Self> {
        let bound = || if other < Self::ZERO { Self::max().negated() } else { Self::max() };
        self.add(other).ok_or_else(bound)
    }

    fn difference(self, other: Self) -> Option<Self> {
        self.add(other.negated())
    }

    fn text(self) -> String {
        self.to_text()
    }
}

pub(super) fn increx(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call)?;
    match options.by {
        Some((by, true)) => {
            let sums = add::<LongDouble>(call, &options, by, INFINITE)?;
            let mut reply = call.reply();
            reply.array(2);
            sums.iter().for_each(|number| reply.decimal(&number.text()));
        }
        by => {
            let by = by.map_or(&b"1"[..], |(by, _)| by);
            let sums = add::<i64>(call, &options, by, OVERFLOW)?;
            let mut reply = call.reply();
            reply.array(2);
            sums.iter().for_each(|number| reply.integer(*number));
        }
    }
    Ok(())
}

/// Adds to the number at the key; returns the new number, and the amount by which it differs. `overflow` is the refusal
/// of an amount that the kind of number does not have.
fn add<N: Number>(
    call: &mut Call<'_>,
    options: &Options<'_>,
    by: &[u8],
    overflow: &'static str,
) -> Outcome<[N; 2]> {
    let amount = N::parse(by)?;
    let lower = options.lower.map(N::parse).transpose()?;
    let upper = options.upper.map(N::parse).transpose()?;
    if lower.zip(upper).is_some_and(|(lower, upper)| lower > upper) {
        return Err("ERR LBOUND can't be greater than UBOUND".into());
    }
    let at = options.deadline.deadline(call, "increx")?;
    let (db, key) = (call.client.db, call.arg(1));
    let old = match call.get(key)? {
        Some(value) => N::parse(&value)?,
        None => N::zero(),
    };
    let (new, is_beyond) = match old.sum(amount) {
        Ok(sum) => (sum, false),
        Err(bound) => (bound, true),
    };
    let bound = match (lower, upper) {
        (_, Some(upper)) if new > upper => Some(upper),
        (Some(lower), _) if new < lower => Some(lower),
        _ => None,
    };
    if (is_beyond || bound.is_some()) && !options.saturates {
        return Ok([old, N::zero()]);
    }
    let new = bound.unwrap_or(new);
    let added = new.difference(old).ok_or_else(|| Failure::from(overflow))?;
    let has_deadline = call.service.store.deadline(db, key)?.is_some();
    let deadline = match at {
        Some(_) if options.if_no_deadline && has_deadline => NewDeadline::Keep,
        Some(at) => NewDeadline::At(at),
        None if options.deadline.persist => NewDeadline::Clear,
        None => NewDeadline::Keep,
    };
    let text = new.text();
    call.service.store.put(db, key, text.as_bytes(), deadline)?;
    let is_float = options.by.is_some_and(|(_, is_float)| is_float);
    if is_float && text.len() <= EMBEDDED_LEN_MAX {
        call.service.store.note_encoding(db, key, Encoding::Embedded);
    }
    call.notify(EventClass::String, if is_float { "incrbyfloat" } else { "incrby" }, key);
    match deadline {
        NewDeadline::At(_) => call.notify(EventClass::Generic, "expire", key),
        NewDeadline::Clear if has_deadline => call.notify(EventClass::Generic, "persist", key),
        NewDeadline::Clear | NewDeadline::Keep => {}
    }
    Ok([new, added])
}
