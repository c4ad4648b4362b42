//! Block devices of a storage pool: files, memory and persistent memory, alone, mirrored or with parity.
//!
//! A [`Vdev`] is an address space of blocks of 4 KiB that holds [`Extent`]s: ranges that are written whole, once,
//! before any durable pointer leads to them, read in parts, and freed whole. It neither allocates nor keeps checksums:
//! the layer above does, and gives every read a check of its own. So a vdev finds stale, misplaced and damaged bytes
//! without knowing them, gets them in another way if its redundancy allows, and repairs them.
//!
//! | module | what lives there |
//! |---|---|
//! | `extent` | the unit of space |
//! | `leaf` | devices: a file, memory, segments of a pool of persistent memory |
//! | `stats`, `member` | a leaf's place in a vdev: its state, and counts of what it did |
//! | `members` | requests to all leaves, of which some may fail |
//! | `mirror` | whole copies: a mirror, or a leaf alone |
//! | `parity` | columns with one, two or three of parity, as RAID-Z |
//! | `vdev`, `administration` | the interface to both: extents; the leaves and their labels |
//! | `queue` | requests that go on while their callers do other work |
//! | `label` | superblocks in a ring on every leaf, and which leaves have the newest |
//! | `topology` | the description of a pool, as text and as JSON |
//!
//! **A write** walks [`Vdev::write`] (is the extent one?) → `mirror` (all leaves) or `parity` (columns and their parity)
//! → `members` (enough leaves have to take it; the others are stale, and faulted) → [`Leaf::write`]. Nothing is durable
//! before [`Vdev::sync`].
//!
//! **A read** walks [`Vdev::read`] → `mirror`: the leaf with the fewest requests under way, or `parity`: the leaves of
//! the data. If the check fails, `mirror` asks the other leaves, and `parity` reconstructs under each assumption of
//! which leaves are wrong, until bytes pass. These are written over the wrong ones, and nothing else is: bytes beside
//! them were not checked.
//!
//! **Many at once** go by [`Queue::submit`], each with a [`Ticket`] that tells its result.
//!
//! **Opening** reads the labels of all leaves ([`read_labels`]) and compares them ([`choose`]): a leaf may be stale,
//! may have gone its own way, or be another pool's. The remains of a label that a crash
//! cut off are removed ([`Vdev::clear_torn_labels`]). **A checkpoint** is the caller's: write, sync, write labels
//! ([`Vdev::write_labels`]), sync.
//!
//! **Leaves that fail** are faulted by the first write or sync that others can do without, and are read only where no
//! other leaf has the bytes. A leaf that missed writes is *stale* until every extent was resilvered
//! ([`Vdev::resilver`]); the layer above keeps that in its labels ([`Vdev::leaves`], [`Vdev::set_stale`]).
#![forbid(unsafe_code)]

mod administration;
mod arrangement;
mod error;
mod extent;
#[cfg(test)]
mod faulty;
mod label;
mod leaf;
mod member;
mod members;
mod mirror;
mod parity;
mod queue;
#[cfg(test)]
mod redundancy_tests;
mod scrub;
mod stats;
mod topology;
mod vdev;

pub use arrangement::{Arrangement, LEAVES_MAX};
pub use error::{Error, Result};
pub use extent::{BLOCK, EXTENT_BLOCKS_MAX, Extent, SEGMENT_BLOCKS};
pub use label::{
    Chosen, EPOCHS_MAX, Epoch, InvalidSlot, LABEL_PAYLOAD_MAX, LABEL_SLOTS, Label, LeafLabels,
    Position, Verdict, choose, read_labels,
};
pub use leaf::{FileLeaf, LABEL_AREA, Leaf, MemoryLeaf, PmemLeaf};
pub use member::{LeafState, LeafStatus};
pub use queue::{QUEUE_DEPTH, Queue, Ticket};
pub use scrub::{ScrubMemory, ScrubResult};
pub use stats::{LeafStats, Requests};
pub use topology::{
    CLASSES_MAX, Class, LeafPlace, PreferredAccess, Topology, TopologyError, VDEVS_MAX,
    VdevTopology,
};
pub use vdev::{RawPart, Vdev};
