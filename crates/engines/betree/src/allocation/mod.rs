//! Which blocks of a storage pool are allocated, and which may be: in memory, without I/O.
//!
//! A pool has up to four storage classes, the fastest first, and a class has vdevs ([`Classes`]). Each vdev's address
//! space is cut into segments of 2^18 blocks (1 GiB), and a segment has two sets of blocks:
//!
//! ```text
//!               stored (`Bits`)                 allocatable view (`Bitmap`: bits and a summary)
//!  set      reachable from the generation    reachable from it, or from one of the last two durable
//!           that is being built              generations: not to be overwritten
//!  goes to  the root tree, by checkpoints    nowhere: it is made again from the last two stored bitmaps
//! ```
//!
//! An allocation asks the preferred class, then the others in their order; in a class it asks the vdev whose turn it
//! is; in a vdev the search goes on where the last one ended (next-fit), from segment to segment, and in a segment from
//! group to group of 512 blocks. The longest free run of each segment and of each group is known, so a search reads the
//! bits of at most two groups in a segment. An extent never crosses a multiple of 512 blocks, so it lies in one group.
//!
//! A free clears the blocks in the stored bitmap at once, and in the allocatable view when the checkpoint after the
//! next is durable (`deferred`), as Haura's union of the current and the last synced bitmap does.
//!
//! Costs in memory: 1.6 KiB a segment that was never allocated from, 66 KiB another one: at most 64 KiB per GiB.
//! Files, from the ground up: `bits`, `stored`, `bitmap`, `segments`, `deferred`, `device`, `class`,
//! `classes`.

mod bitmap;
mod bits;
mod class;
mod classes;
mod deferred;
mod device;
mod segments;
mod stored;

pub(crate) use bits::{Bits, SEGMENT};
pub(crate) use class::{Growth, Purpose};
pub(crate) use classes::{Classes, Orders};
pub(crate) use device::{DeviceSpace, StoredSegment};
pub(crate) use stored::{STORED_MAX, decode, encode};
