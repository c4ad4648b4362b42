//! Rows: images in bytes, of which each column is read by itself.
//!
//! ```text
//! image = fixed part (see `schema/layout.rs`), in which the cell of a long column is  offset u32 | len u32
//!       | tail: the bytes of the long columns that are not NULL, in the order of the columns, without gaps
//! ```
//!
//! Offsets count from the image's beginning. A NULL column has zeros in the fixed part, and nothing in the tail. So a
//! row has one image: equal rows have equal bytes, and each byte of an image is checked by [`RowRef::check`].
//!
//! A slot of a table has the same fixed part, in which the cell of a long column has a word of the method's own, such
//! as a pointer: [`FixedRef`] and [`FixedMut`] read and change it, and [`Row::assemble`] makes an image of it.
//!
//! Reading a column costs a look at the null bitmap and at its place, and allocates nothing; text is checked to be
//! UTF-8, which takes time by its length. Making an image is one allocation. All bytes may be a stranger's: a column
//! that cannot be read is [`Error::Damaged`](crate::Error::Damaged).

mod change;
mod fixed;
mod image;
mod row_ref;

pub use change::Change;
pub use fixed::{Field, FixedMut, FixedRef};
pub use image::Row;
pub use row_ref::RowRef;
