//! Copy-on-write B+trees in one file: the store of the CoW method (Arulraj, "Copy-on-Write Updates Engine").
//!
//! ```text
//!  master A, 4 KiB | master B, 4 KiB | maps of group 0: A, B | page | page | ... | maps of group 1: A, B | page | ...
//!
//!  page:     checksum u64 | kind u8 | node, or part of a chain, or map       seeded with the store's id and the number
//!  master:   two equal records of master.rs, 2 KiB apart: the root of the directory
//!  map:      sequence u64 | a bit a page of the group: whether the directory leads to it
//! ```
//!
//! Any number of trees share a file. A *directory* is a tree, too: of the trees' roots by the trees' ids. There are two
//! of them, which share all pages that are equal in both: the *current* one, to which the master record leads, and the
//! *dirty* one of the batch that is being changed. A change copies the pages from the root to the leaf, and edits
//! copies in place. `commit` makes the dirty directory the current one:
//!
//! 1. all dirty pages and the maps of their groups are written, adjacent ones at once;
//! 2. sync;
//! 3. the master record is written, over the older of the two;
//! 4. sync.
//!
//! Steps 1 and 2 write pages only to which the current directory does not lead, and of maps the copies that it does not
//! need: a crash before 3 leaves it as it was, and there is nothing to recover. There is no log.
//!
//! **Pages that a batch no longer needs** stay as they are until the next master record is durable, as a crash may lead
//! back to it, and then as long as a snapshot of the former directory is there. After that they are free. The maps of a
//! directory say exactly which pages it leads to: pages that wait are free in them, as no snapshot survives a crash.
//! So no crash leaks a page, and none is both free and reachable. A map has two fixed places, and the
//! newer one of those that are not newer than the master record counts; no two batches have the same sequence, tried
//! ones included. Opening reads the master records and all maps: two pages of 32,632, with pages of 4 KiB.
//!
//! **Without room on the device** a batch that takes more pages than it frees is refused as long as the file has less than
//! some pages in reserve; batches that remove entries go on in these, and what they free is used again.
//!
//! **Long keys and values** that a page does not have room for (`node.rs`: two entries a page at least) are in chains
//! of pages of their own, each with the number of the next one.
//!
//! **Costs** in pages of B bytes, for a tree with h levels, T the bytes of a tuple (brief of the testbed, D1.7: an
//! insertion or an update costs B+T if the leaf is not yet copied in its batch, and T if it is):
//!
//! | | pages written |
//! |---|---|
//! | first change below a leaf in a batch | h, less those of the path that the batch has already: memory B a page |
//! | later change there | none: memory T, or F+V of an update |
//! | value of more than about half a page | T/B pages more |
//! | commit | the directory's (1 for some hundred trees), a map a group that changed, the master record (4 KiB) |
//!
//! A commit costs 2 syncs, whatever the batch has. So a batch of n updates of n leaves writes about
//! n·(1 + 1/fan-out) + 3 pages. Removing a long value reads its chain.

mod batch;
mod cache;
mod chain;
mod create;
mod master;
mod page;
mod read;
mod shared;
mod snapshot;
mod space;
mod verify;
mod walk;
mod writer;

pub use self::batch::CowFile;
pub use self::page::VALUE_LEN_MAX;
pub use self::read::{CowScan, Lent};
pub use self::snapshot::Snapshot;
pub use self::verify::Verified;

/// How a file is made and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The size of a page in bytes, when a file is made: a power of two from 256 to 16,384.
    pub page_len: usize,
    /// The bytes of pages that are kept in DRAM, those of a batch left out.
    pub cache_bytes: usize,
}

impl Default for Options {
    /// Pages of 4 KiB, of which 64 MiB are kept.
    fn default() -> Self {
        Self { page_len: 4096, cache_bytes: 64 << 20 }
    }
}
