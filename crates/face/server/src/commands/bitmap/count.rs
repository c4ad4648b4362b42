//! BITCOUNT: how many bits are set.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};

use super::range::{self, Unit};
use super::words;

pub(in super::super) fn bitcount(call: &mut Call<'_>) -> Outcome {
    let range = match call.args.len() {
        2 => None,
        4 | 5 => {
            let ends = (call.integer(2)?, call.integer(3)?);
            Some((ends, Unit::parse(call.args.get(4))?))
        }
        _ => return Err(SYNTAX.into()),
    };
    let value = call.read(call.arg(1))?;
    let value = value.as_deref().unwrap_or_default();
    let bits = match range {
        None => Some((0, value.len() as u64 * 8)),
        // Both ends lie before the value, and in the wrong order: clipped they would be its first bits.
        Some(((start, end), _)) if start < 0 && end < 0 && start > end => None,
        Some(((start, end), unit)) => range::bits(value.len(), start, end, unit),
    };
    let count = bits.map_or(0, |(start, end)| words::count_ones(value, start, end));
    call.reply().integer(count as i64);
    Ok(())
}
