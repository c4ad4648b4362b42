//! Copy-on-write B+trees in a heap: the store of the NVM-CoW method (Arulraj, "NVM-Aware Copy-on-Write Engine").
//!
//! ```text
//!  root "master" ─► directory ─► catalog
//!                      │    └──► garbage ─► garbage
//!                      ├─► node ─► node ─► tuple
//!                      └─► node of another tree
//! ```
//!
//! Any number of trees share a heap: a slot each node, and one each key that is too long for nodes. Their keys lead to
//! words, which for the method are pointers to tuples. The *directory* has the roots, and one word of the heap, the
//! *master*, leads to it. Beside that *current* directory there is the *dirty* one, of the commits since the last sync:
//!
//! 1. A change copies the nodes from the root to the leaf, each once in a group of commits, and edits the copies in DRAM.
//!    Their slots, and those of new tuples, are reserved only: a crash forgets them.
//! 2. `sync` writes the copies to their slots, and one publication of the heap activates all new slots, frees those that
//!    are replaced, and swings the master to the new directory. There is no log, and nothing to recover.
//!
//! So no slot is used again before the directory that leads to it is replaced, and a crash leaks none.
//!
//! **Transactions.** One that fails is undone: the group's copies are as they were before it (`batch.rs`). Commits of the
//! group before it stay.
//!
//! **Snapshots** read a directory that was synced, from any thread. While one is there, slots that a sync replaces are not
//! freed, but named in *garbage*: a queue of slots to which the directory leads, too, so that a crash does not leak what
//! waits (`garbage.rs`). When no snapshot needs the oldest of them any more, the next sync or reclamation frees it.
//!
//! **Groups that no record takes.** A group with about as many changes as a record of the heap takes is synced before the
//! next commit is added. A transaction may be larger by itself: then its slots are activated in several steps,
//! and are named as garbage until the last one, which swings the master (`swap.rs`).
//!
//! **Costs**, for a tree with h levels and nodes of B bytes:
//!
//! | | |
//! |---|---|
//! | first change below a leaf in a group | h copies of B bytes, less those that the group has already |
//! | later change there | none |
//! | sync | 1 fence, whatever the group has; another one for garbage of snapshots that have ended, and one for each 1,200 slots beyond the first 1,200 |
//! | opening | the directory; no node is read |
//! | lookup | h nodes, of which each is checked when it is first read |

mod batch;
mod checked;
mod directory;
mod garbage;
mod node;
mod read;
mod scan;
mod shared;
mod snapshot;
mod store;
mod swap;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub(crate) use scan::CowHeapScan;
pub(crate) use shared::Shared;
pub(crate) use snapshot::HeapSnapshot;
pub(crate) use store::{Alteration, CowHeap, HOUSE, is_full};
pub(crate) use swap::Reclaimed;

/// The length in bytes of a node by default, as in the source. With 20,000 keys and nodes of 256, 512, 1,024 and 4,096 bytes,
/// an update by itself writes 34, 45, 59 and 138 lines, one of a group of 100 writes 12, 14, 18 and 36, and a lookup reads
/// 5, 4, 3 and 2 nodes.
pub(crate) const NODE_LEN: usize = 512;
