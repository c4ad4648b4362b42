//! Sizes as users write them.

use super::TopologyError;
use crate::BLOCK;

const UNITS: [(char, u64); 4] = [('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// Reads a size in bytes: a number, and perhaps a unit.
pub(super) fn read(text: &str) -> Result<u64, TopologyError> {
    let unit =
        UNITS.into_iter().find(|(unit, _)| text.ends_with([*unit, unit.to_ascii_lowercase()]));
    let (digits, unit) = match unit {
        // A unit has one byte.
        Some((_, bytes)) => (&text[..text.len() - 1], bytes),
        None => (text, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| digits.parse::<u64>().ok()).flatten();
    number
        .and_then(|number| number.checked_mul(unit))
        .filter(|&size| is_size(size))
        .ok_or_else(|| TopologyError::Size { size: text.to_owned() })
}

/// Whether so many bytes are some whole blocks.
pub(super) fn is_size(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(BLOCK as u64)
}

/// Writes a size in the largest unit of which it is a multiple.
pub(super) fn write(bytes: u64) -> String {
    let unit = UNITS.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}
