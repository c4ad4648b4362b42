//! Commands on the bits of values.
//!
//! Bit 0 is the highest bit of the first byte, and the bits behind the last byte are zeros. A command reads its offsets
//! first ([`offset`]); [`words`] counts, searches and combines bits, eight bytes at a time; a changed value is written
//! as a whole, with its old deadline. Here are the commands on single bits, and beside this file those that count
//! ([`count`]), search ([`position`]), combine values ([`combine`]) and take bits for integers ([`field`]).

pub(super) mod combine;
pub(super) mod count;
pub(super) mod field;
pub(super) mod position;
mod range;
mod words;

use crate::call::Call;
use crate::failure::Outcome;
use crate::notifications::EventClass;
use crate::number::parse_i64;
use crate::store::Encoding;

use super::strings::{note_raw, put_computed};

const NO_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const NO_BIT: &str = "ERR bit is not an integer or out of range";

/// The offset of a bit that a value may have.
fn offset(call: &Call<'_>, word: &[u8]) -> Outcome<u64> {
    check_offset(call, parse_i64(word))
}

/// Refuses the offset of a bit that lies behind the longest value.
fn check_offset(call: &Call<'_>, offset: Option<i64>) -> Outcome<u64> {
    let bytes_max = call.service.settings.limits.bulk_len_max as u64;
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset >> 3 < bytes_max).ok_or_else(|| NO_OFFSET.into())
}

/// The byte that has a bit, and the bit in it.
fn place(offset: u64) -> (usize, u8) {
    ((offset >> 3) as usize, 0x80 >> (offset & 7))
}

/// Whether a bit is set.
fn is_set(value: &[u8], offset: u64) -> bool {
    let (byte, mask) = place(offset);
    value.get(byte).is_some_and(|byte| byte & mask != 0)
}

pub(super) fn getbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call, call.arg(2))?;
    let value = call.read(call.arg(1))?;
    call.reply().flag(is_set(value.as_deref().unwrap_or_default(), offset));
    Ok(())
}

pub(super) fn setbit(call: &mut Call<'_>) -> Outcome {
    let (key, offset) = (call.arg(1), offset(call, call.arg(2))?);
    let bit = match parse_i64(call.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(NO_BIT.into()),
    };
    let old = call.get(key)?;
    let old = old.as_deref().unwrap_or_default();
    let (was_set, (byte, mask)) = (is_set(old, offset), place(offset));
    if was_set == bit && byte < old.len() {
        note_raw(call, key, old.len());
    } else {
        let len = old.len().max(byte + 1);
        put_computed(call, key, (len, Some(Encoding::Raw)), |value| {
            let start = value.len();
            value.extend_from_slice(old);
            value.resize(start + len, 0);
            let changed = &mut value[start + byte];
            *changed = if bit { *changed | mask } else { *changed & !mask };
        })?;
        call.notify(EventClass::String, "setbit", key);
    }
    call.reply().flag(was_set);
    Ok(())
}
