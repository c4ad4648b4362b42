//! The index+log engine (Lersch ch. 5), in its single-partition form.
//!
//! Records are appended to a log in persistent memory and found through an ordered index in DRAM.
//!
//! ```text
//!             DRAM                                persistent memory
//!   ┌────────────────────────┐        data device: segments of 16 blocks of 128 KiB
//!   │ B+tree of a key space  │        ┌──────────┬──────────┬──────────┬────
//!   │ key → block, offset    │───────►│ records  │ records  │ value    │ ...
//!   └────────────────────────┘        └──────────┴──────────┴──────────┴────
//!   │ live bytes of a block  │        map device: one 8-byte word a block
//!   └────────────────────────┘        free / open / sealed, how much is used, how often reused
//! ```
//!
//! **A put** walks `engine` → `write`: it encodes a record (`record`) behind the log's tail, streams
//! it to the pool, waits for **one fence**, and points the index to it. An update is a newer record,
//! a delete a tombstone (`tombstones`), a batch a run of records of which the last says that it is
//! the last. Values over 32 KiB go to blocks of their own first (`overflow`).
//!
//! **A get** walks `read`: the index names block, offset and length; the record is pinned where it
//! lies, its checksum and key are compared, and the value is handed out without a copy.
//!
//! **Opening** (`recovery`, `log_end`) reads the map and every record, cuts what an interrupted write
//! left at the log's end, sorts what it found and builds the index from it.
//!
//! **Space** (`blocks`) comes back by collection (`collect`): live records move out of the block that
//! has the fewest, which is free once no scan can see it.
//!
//! | operation | fences | lines written |
//! |---|---|---|
//! | put, delete, batch within a block | 1 | what the records take, rounded up to lines |
//! | the same, deferred | 0; one a sync | the same |
//! | put of a value over 32 KiB | 2 | value and record |
//! | a block that fills up | 0 more | 2 map words |
//! | opening, closing | besides the above, 2 each | both copies of the superblock |
//! | collection of a block | 2 | its live records, 2 map words |
#![forbid(unsafe_code)]

mod block_map;
mod blocks;
mod collect;
mod engine;
mod entry;
mod log;
mod log_end;
mod overflow;
mod read;
mod record;
mod recovery;
mod scan;
mod tombstones;
mod verify;
mod write;

pub use engine::IndexLog;

/// The unit of space accounting and collection, in bytes. A segment has [`BLOCKS_PER_SEGMENT`].
///
/// Lersch has records in blocks of 64 KiB; twice that lets a key of 64 KiB stand in one record.
const BLOCK: u64 = 128 << 10;

/// Blocks in a segment.
const BLOCKS_PER_SEGMENT: u32 = (halite_alloc::SEGMENT / BLOCK) as u32;

/// The logical device of the block map.
const MAP_DEVICE: u8 = 0;

/// The root that holds the digest of the block map of a store that was closed; zero while it is open.
const MAP_DIGEST: &str = "indexlog:map";

/// The root that holds a record number not far from the newest, so that the map need not hold all bits
/// of the numbers in it.
const NEAR: &str = "indexlog:near";

/// The logical device of records and values. (Partitions will have one each.)
const DATA_DEVICE: u8 = 1;
