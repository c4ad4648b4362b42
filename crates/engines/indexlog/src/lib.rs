//! The index+log engine (Lersch ch. 5).
//!
//! A store has partitions (`partition`), by hash or by ranges of keys (`layout`), which share nothing but
//! the pool that they take segments from. In each, records are appended to a log in persistent memory and
//! found through an index in DRAM (`index`): ordered, which keeps a few bytes of each key
//! (`halite-index`) and reads the others from the records, or by hash.
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
//! **A put** walks `engine` → `partition` → `write`: it finds room (`collection/room.rs`), encodes a record
//! (`record`) behind the log's tail, streams it to the pool, waits for **one fence** (`log/append.rs`), and points
//! the index to it (`storage/apply.rs`). An update is a newer record, a delete a tombstone (`tombstones`), a batch a
//! run of records whose last one is marked as the last. Values over 2 KiB go to blocks of their own, and wait for
//! the same fence (`log/overflow.rs`). On an ordinary file, threads that wait share that fence (`group_commit`). A
//! batch on several partitions is made atomic by one fence for all of them (`batch`). A transaction's write is
//! validated under the same locks: the keys and ranges that it read must be unchanged since its snapshot
//! (`validation`).
//!
//! **A get** walks `partition` → `read/view.rs`: the index names block, offset and length; the record is pinned where
//! it lies, its checksum and key are compared, and the value is handed out without a copy.
//!
//! **Opening** (`recovery`) reads the map, cuts off the remains of an interrupted write at the log's end,
//! and builds the index: from a snapshot of it (`index_snapshot`) and the records that were written after that, or
//! else from every record; all partitions at once. If another partitioning is asked for, live records
//! are copied into new partitions (`repartition`).
//!
//! **A change log** (`change_log`), where the store was made with one, takes the fence: records are then written
//! through the cache only, and recovery replays those that a crash has lost (`change_log/replay.rs`).
//!
//! **Space** (`space`) comes back by collection (`collection`): live records move out of the block with the best
//! benefit for its cost (`space/victims.rs`), in steps that writes pay for by the bytes they append; the block is free
//! once no scan can read it (`space/limbo.rs`). Large values lie in runs of units of 256 bytes of a block, or in whole
//! blocks of a segment (`space/split.rs`); they move only out of sparse blocks (`collection/compact.rs`).
//!
//! **Floors.** Modules import those of lower floors only, from the lowest on: the stored forms (`record`, `entry`,
//! `space/block_map.rs`, `space/split.rs`, `batch/commit_record.rs`), their readers (`read`, `index`, `tombstones`),
//! and the account of durable records (`durability`); `space`, the blocks; `log`, over it; `storage`, the two with the
//! tombstones; `collection`, which moves records; `write`; `recovery`, which makes a writer of the stored bytes;
//! `partition` and `batch`; `engine`. Some folders reach over several floors: `read/scan.rs`, `read/snapshot.rs`,
//! `read/verify.rs` and `change_log/reader.rs` read whole partitions, `change_log/replay.rs` is a part of recovery, and
//! `index_snapshot` has the part of a snapshot that `space` keeps as well as its capture by the writer.
//!
//! | operation | fences | lines written |
//! |---|---|---|
//! | put, delete, batch within a block | 1 | the records' bytes, rounded up to lines |
//! | the same, deferred | 0; one a sync | the same |
//! | put of a value over 2 KiB | 1 | value and record |
//! | batch on several partitions | 1 | the same, and one of 64 bytes a partition |
//! | a block that fills up | 0 more | 2 map words |
//! | opening, closing | besides the above, 2 each | both copies of the superblock |
//! | collection of a block | 1 for 4 KiB of it, and 2 | its live records, 2 map words |
#![forbid(unsafe_code)]

mod batch;
mod catalogue;
mod change_log;
mod closing;
mod collection;
mod durability;
mod engine;
mod entry;
mod error;
mod group_commit;
mod index;
mod index_snapshot;
mod key_spaces;
mod layout;
mod log;
mod on_demand;
mod options;
mod partition;
mod read;
mod record;
mod recovery;
mod registration;
mod repartition;
mod space;
mod storage;
mod tombstones;
mod validation;
mod write;

pub use engine::IndexLog;
pub use error::Error;
pub use options::{INDEX_SNAPSHOT, IndexKind, IndexLogOptions};
pub use registration::REGISTRATION;

/// The unit of space accounting and collection, in bytes. A segment has [`BLOCKS_PER_SEGMENT`].
///
/// Lersch has records in blocks of 64 KiB; twice that lets a key of 64 KiB fit one record, and 16 bits stand for the
/// 16 blocks of a segment. Since values over 2 KiB lie apart, a record is rarely longer than 3 KiB, so the unused end
/// of a block is a hundredth of it either way.
const BLOCK: u64 = 128 << 10;

/// Blocks in a segment.
const BLOCKS_PER_SEGMENT: u32 = (halite_alloc::SEGMENT / BLOCK) as u32;

/// Records start at multiples of this, in bytes.
const ALIGN: u64 = 16;

/// The most partitions that a store has: as many as a batch can name in one word.
pub const PARTITIONS_MAX: usize = 64;

/// The logical device of a partition's block map.
fn map_device(generation: u32, partition: usize) -> u16 {
    device(generation, partition, 0)
}

/// The logical device of a partition's records and values.
fn data_device(generation: u32, partition: usize) -> u16 {
    device(generation, partition, 1)
}

/// The logical device of a partition's change log.
fn change_device(generation: u32, partition: usize) -> u16 {
    device(generation, partition, 2)
}

/// The logical device of the snapshots of a partition's index.
fn snapshot_device(generation: u32, partition: usize) -> u16 {
    device(generation, partition, 3)
}

/// Devices of a partition.
const DEVICES: u16 = 4;

/// Partitions of odd generations have other devices than those of even ones, so that one can be made
/// beside the other.
fn device(generation: u32, partition: usize, number: u16) -> u16 {
    let partition = (generation % 2) as u16 * PARTITIONS_MAX as u16 + partition as u16;
    partition * DEVICES + number
}

/// All devices of some partitions.
fn device_numbers(
    generation: u32,
    partitions: std::ops::Range<usize>,
) -> impl Iterator<Item = u16> {
    partitions.flat_map(move |partition| {
        (0..DEVICES).map(move |number| device(generation, partition, number))
    })
}

const _: () = assert!(2 * PARTITIONS_MAX as u16 * DEVICES <= halite_alloc::DEVICES_MAX);
