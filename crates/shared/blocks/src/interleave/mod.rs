//! Operations that wait for the medium together (van Renen §3.5, Fig. 11 and 12).
//!
//! A processor that waits for a line to arrive, or for a fence, is idle meanwhile. Here a thread runs a
//! [`Group`] of operations in turn, each a future: an operation asks for a line and lets the others go on
//! ([`Group::fetch`]), and it waits for one fence together with all others ([`Group::fence`]).
//! [`interleave`] is the executor. Engines commit groups with it: operations flush their writes, and the
//! group pays for one fence.
//!
//! An operation walks [`interleave`] (a slot is free: the operation's future moves into it) →
//! `Group::fetch` (prefetch, and the next slot's turn) → the leaf's steps (`leaf`) → `Group::fence`
//! (waits) → when every slot waits, one [`halite_pmem::Pool::fence_into`] → the slots go on in turn.
//!
//! [`Leaves`] are the example and the measure, as in the paper: the leaves of an FPTree, with lookups
//! and inserts one at a time ([`Leaves::look_up_alone`], [`Leaves::insert_alone`]), as coroutines
//! ([`Leaves::look_up`], [`Leaves::insert`]), and by hand-written state machines ([`look_up_all`],
//! [`insert_all`]), all of the same steps.
//!
//! The costs of an operation, in a group of n:
//!
//! | | flushes | fences | lines written | reads on its path | paper, PMem | paper, DRAM |
//! |---|---|---|---|---|---|---|
//! | lookup, alone | 0 | 0 | 0 | 2 lines, waited for | 1 | 1 |
//! | lookup, group of n | 0 | 0 | 0 | 2 lines, n at a time | 5x | 2.6x |
//! | insert, alone | 2 | 2 | 2 | 2 lines, waited for | 1 | |
//! | insert, only reads interleaved | 2 | 2 | 2 | 2 lines, n at a time | about 1 | |
//! | insert, only writes interleaved | 2 | 2/n | 2 | 2 lines, waited for | less than both | |
//! | insert, both interleaved | 2 | 2/n | 2 | 2 lines, n at a time | 6.2x | |
//!
//! The paper's factors are against one at a time; they stop growing at groups of about 20; ours are in
//! `docs/RESULTS.md`. The lines of an insert are the pair's and the leaf's first. The paper has the
//! fingerprint flushed with the pair, as a third line; here it is stored just before the bit in the same
//! line, whose stores persist in order. A group holds its operations' futures (some 200 bytes each) and a
//! list of their flushes, and allocates both once; the leaves take 576 bytes for 32 pairs of 16.
//!
//! **No locked instruction.** A compare-exchange waits, as a fence does, for the write-backs before it (x86
//! orders CLWB with both), so one in each operation would undo the sharing of the fence. Groups, and the
//! state that their operations share, therefore belong to one thread and change words by plain loads and
//! stores.

mod executor;
mod group;
mod leaf;
mod machine;
mod slots;

pub use executor::interleave;
pub use group::{Group, Overlap, yield_now};
pub use leaf::{LEAF_LEN, Leaves};
pub use machine::{insert_all, look_up_all};
pub use slots::SLOTS;
