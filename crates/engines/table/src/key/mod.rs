//! Keys: byte strings whose order is the order of the rows.
//!
//! The values of a key's columns stand one behind the other, each so encoded that comparing two keys byte by byte
//! compares them value by value, and that a reader knows where each ends:
//!
//! ```text
//! key    = part, part, ..
//! part   = value                          of a column that is never NULL
//!        | 0x00                           NULL: before all values
//!        | 0x01, value                    a value of a column that may be NULL
//! value  = big-endian bytes               integers (as wide as their type), timestamps, decimals (8 or 16 bytes of
//!                                         mantissa), with the sign bit turned if they have a sign
//!        | 8 bytes                        FLOAT64: the sign bit turned, or all bits, if it is negative
//!        | bytes, 0x00                    text and bytes, where a byte 0x00 is 0x01 0x01, and 0x01 is 0x01 0x02
//! ```
//!
//! So text without control characters takes one byte more than it has, and any bytes at most twice as many and one.
//! The beginning of a key, of whole parts, is a prefix of all keys that begin with these values, and of no others: a
//! scan over a prefix is a range of keys ([`KeyRange`]).
//!
//! [`KeySchema`] has the columns of a key, and makes keys of values. The entries of secondary indexes are made by
//! [`IndexSchema`](crate::IndexSchema).

mod key_schema;
mod part;
mod range;

pub use key_schema::KeySchema;
pub use range::{KeyRange, successor};

/// Bytes that an encoded key has at most, with the primary key that an index's entry may have at its end.
pub const KEY_LEN_MAX: usize = 3072;
