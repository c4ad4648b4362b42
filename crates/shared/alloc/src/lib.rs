//! Space in a pool.
//!
//! A pool is divided into [`SEGMENT`]s of 2 MiB, the unit of physical allocation (Lersch §5.6.1).
//! [`Segments`] is the one manager of them. Its users see logical [`Device`]s: sparse arrays of
//! segments, each mapped to a physical one by the allocation table.
//!
//! ```text
//! segment 0                                        1 .. n
//! ┌─────────────┬─────────────┬──────────────────┐┌───────────────┐
//! │ superblock  │ superblock  │ allocation table ││ owned or free │ ...
//! │ at 0        │ at 32 KiB   │ at 64 KiB        ││               │
//! └─────────────┴─────────────┴──────────────────┘└───────────────┘
//! ```
//!
//! The table has one 8-byte word a segment, so that every change of it is failure-atomic: zero for a free
//! segment, else its device and its logical number, with a check (`table`). A table segment describes the
//! [`GROUP`] of segments that it begins; larger pools have more of them.
//!
//! Allocation walks [`Device::get`] (volatile: a crash forgets it) → the caller fills the segment →
//! [`Grant::commit`] (one word, one flush, one fence: Get and Commit of Yan §3.4). On open, the owner finds
//! segments that were committed but never reached it with [`Device::retain`]. [`Halloc`] allocates within
//! segments, as Yan's Halloc does: objects of one size in an [`ObjectPool`], by the same Get and Commit;
//! data that is appended and released together in a [`CommittedZone`]; and volatile memory in a [`ScratchPool`].
//! [`heap`] has slots of all sizes with pointers to them that stay valid, for tables and indexes in place.
//! The superblock (`superblock`) names the pool and holds named roots; it is changed copy by copy. One
//! root tells whether the platform failed while the pool was in use (`shutdown`).
#![forbid(unsafe_code)]

mod check;
mod committed_zone;
mod device;
mod error;
mod halloc;
pub mod heap;
mod object_pool;
mod scratch_pool;
mod segment_header;
mod segments;
mod shutdown;
mod superblock;
mod table;

pub use committed_zone::{COMMITTED_ZONE_LEN, CommittedZone, CommittedZonePool};
pub use device::{Device, Grant};
pub use error::{Error, Result};
pub use halloc::{
    Address, Allocation, CLASSES as HALLOC_CLASSES, HALLOC_DEVICES, Halloc,
    LEN_MAX as HALLOC_LEN_MAX,
};
pub use object_pool::{OBJECT_LEN_MAX, Object, ObjectPool};
pub use scratch_pool::{ScratchPool, ScratchZone};
pub use segments::Segments;
pub use superblock::{
    COPIES as SUPERBLOCK_COPIES, COPY_LEN as SUPERBLOCK_LEN, FORMAT_VERSION, ROOT_NAME_LEN_MAX,
    ROOTS_MAX,
};
pub use table::{DEVICES_MAX, GROUP};

/// The unit of physical allocation, in bytes.
pub const SEGMENT: u64 = 2 << 20;
