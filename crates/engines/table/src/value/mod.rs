//! Values of columns and their types.
//!
//! A value exists in two forms: [`ValueRef`] borrows text and bytes from a row, a key or a caller and is `Copy`;
//! [`Value`] owns them. Reading a column of a row allocates nothing.
//!
//! All values have one total order ([`ValueRef`]'s `Ord`): NULL first, then numbers by what they are worth (integers
//! and decimals of any scale mixed), then FLOAT64, then text, bytes and timestamps. Keys have the same order
//! ([`crate::key`]).

mod decimal;
mod float;
mod owned;
mod text;
mod timestamp;
mod types;
mod value_ref;

pub use decimal::{DIGITS_MAX, Decimal};
pub(crate) use float::{canonical, ordered_bits, unordered_bits};
pub use owned::Value;
pub use timestamp::Timestamp;
pub use types::{FIELD_LEN_MAX, Type};
pub use value_ref::ValueRef;
