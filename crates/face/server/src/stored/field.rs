//! The elements of maps: of larger hashes, sets and sorted sets.
//!
//! ```text
//! element                                      value
//! hash of the field u32 │ 0 │ field            the field's                          in the order of the hashes
//! hash of the field u32 │ 1 │ digest u128      length u32, field, the field's       of a field that is no short key
//! ffffffff              │ 2 │ ..               the order of a sorted set, behind all fields, where it is stored (`order`)
//! ```

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Longer fields are not keys of the engine.
pub(crate) const FIELD_IN_KEY_MAX: usize = 1 << 10;

/// In the place behind the hash: the field follows.
const WHOLE: u8 = 0;

/// In the place behind the hash: a digest of the field follows, and the value has the field.
const DIGEST: u8 = 1;

/// The elements that begin so are an order of the fields.
pub(super) const ORDER: [u8; 5] = [u8::MAX, u8::MAX, u8::MAX, u8::MAX, 2];

/// Whether an element is of the order, and not of a field.
pub(crate) fn is_of_order(element: &[u8]) -> bool {
    element.starts_with(&ORDER)
}

/// The element of a field.
pub(crate) fn element_of(field: &[u8]) -> Vec<u8> {
    let hash = (xxh3_64(field) as u32).to_be_bytes();
    match field.len() <= FIELD_IN_KEY_MAX {
        true => [&hash[..], &[WHOLE], field].concat(),
        false => [&hash[..], &[DIGEST], &xxh3_128(field).to_be_bytes()].concat(),
    }
}

/// The value of the element of a field that is no short key.
pub(crate) fn long_value(field: &[u8], value: &[u8]) -> Vec<u8> {
    [&(field.len() as u32).to_be_bytes()[..], field, value].concat()
}

/// The field that is in the value of a long field's element.
pub(crate) fn long_field(value: &[u8]) -> Option<&[u8]> {
    let (len, rest) = value.split_first_chunk()?;
    rest.get(..u32::from_be_bytes(*len) as usize)
}

/// The hash, the field and the value of an element.
pub(crate) fn read_element<'a>(
    element: &'a [u8],
    value: &'a [u8],
) -> Option<(u32, &'a [u8], &'a [u8])> {
    let (hash, rest) = element.split_first_chunk()?;
    let (field, value) = match rest.split_first()? {
        (&WHOLE, field) => (field, value),
        (&DIGEST, _) => {
            let field = long_field(value)?;
            (field, &value[4 + field.len()..])
        }
        _ => return None,
    };
    Some((u32::from_be_bytes(*hash), field, value))
}
