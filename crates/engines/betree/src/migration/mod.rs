//! Migration: runs and large values move between the storage classes, as they are asked to, or by themselves.
//!
//! ```text
//!  explicit (`explicit`): a range of keys                 automatic (`round`): all, a window of units after the other
//!        │                                                      │ heat.rs: decayed uses
//!        ▼ jobs: what lies in other classes                     ▼ policy/: what moves
//!  ┌──────────────────────────────────────────────────────────────────────┐
//!  │ slice (`slice`)                                                      │
//!  │  1. copies extents to the class, verified, beside reads and writes   │
//!  │  2. in the lock of flushes: replaces runs that are still there       │  tree/replace.rs
//!  │  3. publishes the tree, drops the old extents as a flush does        │  store/flush.rs
//!  └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A run that moves keeps its checksums, and so its parts in the cache; its pointer tells in which epoch it came to the
//! new extents, by which snapshots are told apart that have the old ones (`run/pointer.rs`). A large value gets new
//! checksums, as they depend on the place, and the run that refers to it is written anew.
//!
//! **Crashes.** The copies are in no bitmap until a tree that has them is part of a checkpoint; the old extents are not
//! used again until two further checkpoints are durable. So a crash leaves the old state or the new one, whole. Nothing of
//! a move is in the log: what the last checkpoint does not have is not moved.
//!
//! | | reads | writes | memory |
//! |---|---|---|---|
//! | run of `b` bytes | `b` | `b`, the nodes on its path | an extent |
//! | large value of `b` bytes | `b`, its run | `b`, its run, the nodes on the path | a piece |
//! | round | nodes of its window, runs that refer to values | what it moves, two checkpoints | 64 bytes a unit |

mod api;
mod explicit;
mod gather;
mod policy;
mod round;
mod slice;
mod thread;

pub use round::MigrationRound;
pub(crate) use round::Rounds;
pub(crate) use thread::Migrator;
