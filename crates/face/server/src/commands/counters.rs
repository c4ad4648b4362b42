//! Values that are numbers.

use crate::call::Call;
use crate::failure::{NOT_A_FLOAT, NOT_AN_INTEGER, Outcome};
use crate::long_double::LongDouble;
use crate::notifications::EventClass;
use crate::number::{Decimal, parse_i64};
use crate::store::{Encoding, NewDeadline};

use super::object::EMBEDDED_LEN_MAX;

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    let amount = call.integer(2)?;
    add(call, amount)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    let amount = call.integer(2)?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, amount)
}

fn add(call: &mut Call<'_>, amount: i64) -> Outcome {
    let key = call.arg(1);
    let old = match call.get(key)? {
        Some(value) => parse_i64(&value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let new = old.checked_add(amount).ok_or("ERR increment or decrement would overflow")?;
    let text = Decimal::new(new);
    call.service.store.put(call.client.db, key, text.as_bytes(), NewDeadline::Keep)?;
    call.notify(EventClass::String, "incrby", key);
    call.reply().integer(new);
    Ok(())
}

pub(super) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (key, amount) = (call.arg(1), call.arg(2));
    let old = match call.get(key)? {
        Some(value) => parse_float(&value)?,
        None => Some(LongDouble::ZERO),
    };
    let sum = old.zip(parse_float(amount)?).and_then(|(old, amount)| old.add(amount));
    let text = sum.ok_or("ERR increment would produce NaN or Infinity")?.to_text();
    call.service.store.put(call.client.db, key, text.as_bytes(), NewDeadline::Keep)?;
    if text.len() <= EMBEDDED_LEN_MAX {
        call.service.store.note_encoding(call.client.db, key, Encoding::Embedded);
    }
    call.notify(EventClass::String, "incrbyfloat", key);
    call.reply().bulk(text.as_bytes());
    Ok(())
}

/// A floating-point number; `None` if it is infinite.
pub(super) fn parse_float(text: &[u8]) -> Outcome<Option<LongDouble>> {
    match LongDouble::parse(text) {
        None if !is_infinite(text) => Err(NOT_A_FLOAT.into()),
        number => Ok(number),
    }
}

pub(super) fn is_infinite(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity")
}
