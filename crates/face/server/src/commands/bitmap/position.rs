//! BITPOS: where the first bit is that is set, or is not.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};

use super::range::{self, Unit};
use super::words;

pub(in super::super) fn bitpos(call: &mut Call<'_>) -> Outcome {
    let wanted = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let (mut start, mut end, mut unit) = (0, None, Unit::Byte);
    match call.args.len() {
        3 => {}
        4..=6 => {
            start = call.integer(3)?;
            unit = Unit::parse(call.args.get(5))?;
            end = if call.args.len() > 4 { Some(call.integer(4)?) } else { None };
        }
        _ => return Err(SYNTAX.into()),
    }
    let value = call.read(call.arg(1))?;
    let position = match value.as_deref() {
        // Zeros without an end.
        None => (!wanted).then_some(0),
        Some(value) => {
            let bits = range::bits(value.len(), start, end.unwrap_or(-1), unit);
            bits.and_then(|(start, behind)| {
                // Behind a value are zeros, unless the range ends before them.
                let zeros = (!wanted && end.is_none()).then_some(behind);
                words::find(value, wanted, start, behind).or(zeros)
            })
        }
    };
    call.reply().integer(position.map_or(-1, |position| position as i64));
    Ok(())
}
