//! BITFIELD: integers of any width among the bits of a value.
//!
//! A request is a list of operations, which are parsed first, and then done in order on one copy of the value: each
//! sees what those before it wrote. A field that lies behind the end of the value is read as zeros.

use crate::call::{Call, is};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX, TOO_LONG, shown};
use crate::notifications::EventClass;
use crate::number::parse_i64;
use crate::store::Encoding;
use crate::stored::STRING_LEN_MAX;

use super::super::strings::{note_raw, put_computed};
use super::check_offset;

const NO_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";

/// The type of an integer: its sign and its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    is_signed: bool,
    /// 1 to 64; at most 63 without a sign.
    bits: u32,
}

impl Field {
    fn parse(word: &[u8]) -> Outcome<Self> {
        let (is_signed, width) = match shown(word) {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => return Err(NO_TYPE.into()),
        };
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = parse_i64(width).filter(|bits| (1..=bits_max).contains(bits));
        Ok(Self { is_signed, bits: bits.ok_or(NO_TYPE)? as u32 })
    }

    /// The numbers that it can hold.
    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number that some bits are, the lowest of which are the field's.
    fn number(self, bits: u64) -> i64 {
        let above = 64 - self.bits;
        match self.is_signed {
            true => (bits << above) as i64 >> above,
            false => (bits << above >> above) as i64,
        }
    }

    /// The first bit of the field that a word places: an offset in bits, or behind `#` in fields.
    fn offset(self, call: &Call<'_>, word: &[u8]) -> Outcome<u64> {
        let offset = match word {
            [b'#', count @ ..] => {
                parse_i64(count).and_then(|count| count.checked_mul(i64::from(self.bits)))
            }
            word => parse_i64(word),
        };
        check_offset(call, offset)
    }
}

/// The effect of a number that its field cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// The highest bits are dropped.
    Wrap,
    /// The field gets the nearest number.
    Saturate,
    /// The field stays.
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// An operation on a field.
#[derive(Debug)]
struct Operation {
    field: Field,
    offset: u64,
    action: Action,
    overflow: Overflow,
}

impl Operation {
    /// The number that the field holds.
    fn number(&self, value: &[u8]) -> i64 {
        self.field.number(read(value, self.offset, self.field.bits))
    }

    /// Does it on a value that has the field, or is read only. Returns the number of the reply, if there is one.
    fn apply(&self, value: &mut [u8]) -> Option<i64> {
        let Self { field, offset, .. } = *self;
        let old = self.number(value);
        let (wanted, is_sum) = match self.action {
            Action::Get => return Some(old),
            Action::Set(number) => (i128::from(number), false),
            Action::Add(amount) => (i128::from(old) + i128::from(amount), true),
        };
        let (min, max) = field.range();
        let new = match self.overflow {
            _ if (min..=max).contains(&wanted) => wanted as i64,
            Overflow::Wrap => field.number(wanted as u64),
            // A negative number for a field without a sign is a large one, as its bits say.
            Overflow::Saturate if !is_sum && !field.is_signed => max as i64,
            Overflow::Saturate => wanted.clamp(min, max) as i64,
            Overflow::Fail => return None,
        };
        write(value, offset, field.bits, new as u64);
        Some(if is_sum { new } else { old })
    }
}

/// The bits of a value from `offset` on, as a number; those behind its end are zeros.
fn read(value: &[u8], offset: u64, bits: u32) -> u64 {
    let mut window = [0; 16];
    let start = value.len().min((offset >> 3) as usize);
    let len = (value.len() - start).min(window.len());
    window[..len].copy_from_slice(&value[start..start + len]);
    let window = u128::from_be_bytes(window) << (offset & 7);
    (window >> (128 - bits)) as u64
}

/// Writes the lowest bits of a number to the bits from `offset` on, which the value has.
fn write(value: &mut [u8], offset: u64, bits: u32, number: u64) {
    let start = (offset >> 3) as usize;
    let end = value.len().min(start + 16);
    let mut window = [0; 16];
    window[..end - start].copy_from_slice(&value[start..end]);
    let shift = 128 - bits - (offset & 7) as u32;
    let mask = (u128::MAX >> (128 - bits)) << shift;
    let new = u128::from_be_bytes(window) & !mask | u128::from(number) << shift & mask;
    value[start..end].copy_from_slice(&new.to_be_bytes()[..end - start]);
}

/// Reads the operations of a request.
fn parse(call: &Call<'_>) -> Outcome<Vec<Operation>> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut words = call.args.from(2).iter();
    while let Some(word) = words.next() {
        let left = words.len();
        let mut next = || words.next().unwrap_or_default();
        if is(word, "OVERFLOW") && left >= 1 {
            overflow = match next() {
                name if is(name, "WRAP") => Overflow::Wrap,
                name if is(name, "SAT") => Overflow::Saturate,
                name if is(name, "FAIL") => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            continue;
        }
        let action: fn(i64) -> Action = match () {
            () if is(word, "GET") && left >= 2 => |_| Action::Get,
            () if is(word, "SET") && left >= 3 => Action::Set,
            () if is(word, "INCRBY") && left >= 3 => Action::Add,
            () => return Err(SYNTAX.into()),
        };
        let field = Field::parse(next())?;
        let offset = field.offset(call, next())?;
        let number = match action(0) {
            Action::Get => 0,
            _ => parse_i64(next()).ok_or(NOT_AN_INTEGER)?,
        };
        operations.push(Operation { field, offset, action: action(number), overflow });
    }
    Ok(operations)
}

pub(in super::super) fn bitfield(call: &mut Call<'_>) -> Outcome {
    let operations = parse(call)?;
    let writes = operations.iter().filter(|operation| operation.action != Action::Get);
    // The byte behind the last one that is written.
    let end = writes
        .map(|operation| (operation.offset + u64::from(operation.field.bits)).div_ceil(8) as usize);
    match end.max() {
        None => get_fields(call, &operations),
        Some(end) => change_fields(call, &operations, end),
    }
}

pub(in super::super) fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    let operations = parse(call)?;
    if operations.iter().any(|operation| operation.action != Action::Get) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    get_fields(call, &operations)
}

fn get_fields(call: &mut Call<'_>, operations: &[Operation]) -> Outcome {
    let value = call.read(call.arg(1))?;
    let value = value.as_deref().unwrap_or_default();
    let mut reply = call.reply();
    reply.array(operations.len());
    for Operation { field, offset, .. } in operations {
        reply.integer(field.number(read(value, *offset, field.bits)));
    }
    Ok(())
}

/// Does operations of which some write, up to before byte `end`.
fn change_fields(call: &mut Call<'_>, operations: &[Operation], end: usize) -> Outcome {
    let key = call.arg(1);
    let old = call.get(key)?;
    let old = old.as_deref().unwrap_or_default();
    // The offset of each field lies in the longest value that is allowed; only its end may lie behind it.
    let len = old.len().max(end);
    if len > STRING_LEN_MAX {
        return Err(TOO_LONG.into());
    }
    let mut value = Vec::with_capacity(len);
    value.extend_from_slice(old);
    value.resize(len, 0);
    let (mut numbers, mut is_changed) = (Vec::new(), false);
    for operation in operations {
        let before = operation.number(&value);
        let number = operation.apply(&mut value);
        let writes = operation.action != Action::Get && number.is_some();
        is_changed |= writes && (len > old.len() || operation.number(&value) != before);
        numbers.push(number);
    }
    if value == old {
        note_raw(call, key, len);
    } else {
        put_computed(call, key, (len, Some(Encoding::Raw)), |stored| {
            stored.extend_from_slice(&value);
        })?;
    }
    // Operations that undo each other are a change, too, as in Redis.
    if is_changed {
        call.notify(EventClass::String, "setbit", key);
    }
    let mut reply = call.reply();
    reply.array(numbers.len());
    for number in numbers {
        match number {
            Some(number) => reply.integer(number),
            None => reply.null(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_have_a_sign_and_a_width() {
        let parse = |word: &str| Field::parse(word.as_bytes()).ok();
        assert_eq!(parse("u8"), Some(Field { is_signed: false, bits: 8 }));
        assert_eq!(parse("i64"), Some(Field { is_signed: true, bits: 64 }));
        assert_eq!(parse("i1\0junk"), Some(Field { is_signed: true, bits: 1 }));
        for word in ["", "u", "u0", "u64", "i0", "i65", "I8", "U8", "8", "u-1", "u08", "i 8"] {
            assert_eq!(parse(word), None, "{word:?}");
        }
    }

    #[test]
    fn what_does_not_fit_wraps_saturates_or_fails() {
        use Overflow::{Fail, Saturate, Wrap};
        for (is_signed, old, action, wrapped, saturated) in [
            (false, 250, Action::Add(10), 4, 255),
            (false, 5, Action::Add(-10), 251, 0),
            (false, 0, Action::Set(-1), 255, 255),
            (false, 0, Action::Set(256), 0, 255),
            (true, 120, Action::Add(10), -126, 127),
            (true, -120, Action::Add(-10), 126, -128),
            (true, 0, Action::Set(-129), 127, -128),
            (true, 0, Action::Set(i64::MAX), -1, 127),
        ] {
            let field = Field { is_signed, bits: 8 };
            let after = |overflow| {
                let mut value = [0, old as u8, 0];
                let operation = Operation { field, offset: 8, action, overflow };
                let reply = operation.apply(&mut value);
                assert_eq!((value[0], value[2]), (0, 0));
                (reply, field.number(value[1].into()))
            };
            let reply = |new| if matches!(action, Action::Set(_)) { old } else { new };
            assert_eq!(after(Wrap), (Some(reply(wrapped)), wrapped), "{action:?}");
            assert_eq!(after(Saturate), (Some(reply(saturated)), saturated), "{action:?}");
            assert_eq!(after(Fail), (None, old), "{action:?}");
        }
    }

    proptest! {
        #[test]
        fn a_field_holds_its_number_and_changes_no_other_bit(
            mut value in prop::collection::vec(any::<u8>(), 9..40),
            offset in 0u64..80,
            bits in 1u32..=64,
            number: u64,
        ) {
            let offset = offset % (value.len() as u64 * 8 - u64::from(bits) + 1);
            let before = value.clone();
            write(&mut value, offset, bits, number);
            prop_assert_eq!(read(&value, offset, bits), number & (u64::MAX >> (64 - bits)));
            for at in 0..value.len() as u64 * 8 {
                if !(offset..offset + u64::from(bits)).contains(&at) {
                    prop_assert_eq!(
                        super::super::is_set(&value, at),
                        super::super::is_set(&before, at)
                    );
                }
            }
        }
    }

    #[test]
    fn bits_behind_the_end_are_zeros() {
        assert_eq!(read(&[0xff], 4, 8), 0xf0);
        assert_eq!(read(&[0xff], 8, 64), 0);
        assert_eq!(read(&[], 1 << 31, 64), 0);
    }
}
