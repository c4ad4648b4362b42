//! Pages that change in DRAM and persist whole or not at all (van Renen §3.2).
//!
//! A caller changes a page in a [`PageBuffer`], which marks the lines ([`DirtyLines`]), and has a
//! [`PageStore`] flush it. When that has returned, the page is durable; a crash before leaves the page in
//! its old or its new state.
//!
//! | technique | fences | lines of a page of *n*, *d* dirty | failure-atomic |
//! |---|---|---|---|
//! | [`CopyOnWrite`] | 2 | *n* + 1 | yes |
//! | [`MicroLog`] | 4 | 2*d* + 3 | yes |
//! | [`SealedMicroLog`] | 1 | 2*d* + 1 | yes |
//! | [`Hybrid`] | 1 or 2 | the cheaper of `SealedMicroLog` and `CopyOnWrite` | yes |
//! | [`ChecksummedPages`] | 1 | *d* + 1 | no: it says which page is torn |
//!
//! A flush walks `hybrid.rs` (which technique) → `copy.rs` (the page to a spare slot) → `slots.rs` (its
//! header), or → `sealed_log.rs` (the entry, and the lines of the entry before). `ground.rs` has the
//! format on the medium. Opening goes through the same files: the header, the slots' headers, the log.
//!
//! All bytes are streamed past the cache but the words whose order matters. A store has one owner; several
//! threads have a store each, in a space each, and share nothing.

mod buffer;
mod checksum;
mod copy;
mod cost_model;
mod cow;
mod dirty_lines;
mod ground;
mod hybrid;
mod micro_log;
mod sealed_log;
mod sealed_micro_log;
mod shape;
mod slots;

use halite_pmem::Fresh;

pub use buffer::PageBuffer;
pub use checksum::ChecksummedPages;
pub use cost_model::CostModel;
pub use cow::CopyOnWrite;
pub use dirty_lines::DirtyLines;
pub use ground::SPARE_SLOTS;
pub use hybrid::Hybrid;
pub use micro_log::MicroLog;
pub use sealed_micro_log::SealedMicroLog;
pub use shape::{PageSize, Shape};

use crate::Result;

/// Pages on the medium, by one technique.
pub trait PageStore: Sized {
    /// The bytes that a store needs.
    fn space_len(shape: Shape) -> u64;

    /// Makes a store in which all pages are zero. If this is interrupted, the contents of the space are
    /// undefined: the owner of the space records that it has a store once this has returned.
    ///
    /// # Errors
    /// [`Error::NoPages`](crate::Error::NoPages),
    /// [`Error::DoesNotFit`](crate::Error::DoesNotFit),
    /// [`Error::PageSpaceMisaligned`](crate::Error::PageSpaceMisaligned), and the pool's errors.
    fn create(space: Fresh, shape: Shape) -> Result<Self>;

    /// Opens the store in a space, and recovers it after a crash.
    ///
    /// # Errors
    /// [`Error::Foreign`](crate::Error::Foreign), [`Error::Damaged`](crate::Error::Damaged); as [`PageStore::create`] for a space that
    /// does not hold it; and the pool's errors.
    fn open(space: Fresh) -> Result<Self>;

    /// The pages.
    fn shape(&self) -> Shape;

    /// Makes a page on the medium equal to the buffer, which is clean afterwards. A page without a dirty
    /// line is on the medium already.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`](crate::Error::NoSuchPage),
    /// [`Error::OtherPageSize`](crate::Error::OtherPageSize),
    /// [`Error::FlushesExhausted`](crate::Error::FlushesExhausted), and the pool's errors: the next open
    /// then tells whether the page was flushed, and until then each flush is
    /// [`Error::PagesFailed`](crate::Error::PagesFailed).
    fn flush(&mut self, page: u32, buffer: &mut PageBuffer) -> Result<()>;

    /// Loads a page, which makes the buffer whole and clean; a page that was never flushed is all zeros.
    ///
    /// # Errors
    /// [`Error::NoSuchPage`](crate::Error::NoSuchPage),
    /// [`Error::OtherPageSize`](crate::Error::OtherPageSize).
    fn read(&self, page: u32, buffer: &mut PageBuffer) -> Result<()>;
}
