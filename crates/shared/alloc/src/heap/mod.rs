//! A persistent heap: the space of tables and indexes that live in persistent memory, with non-volatile pointers
//! (Arulraj, "NVM-aware Memory Allocator").
//!
//! A heap has segments of a [`Device`](crate::Device), divided into chunks of 64 KiB (`layout`). A chunk belongs to one
//! [`Owner`]: it is a slab of slots of one size class (`class`), or several of them are a span, one long slot. A word a
//! chunk (`chunk_word`) and 4 bytes a slot (`slot`) say what they are used for; each has a check with the pool's salt.
//!
//! ```text
//!             reserve                  publish                 publish
//!     free ────────────► reserved ───────────────► persisted ───────────► free
//!       ▲                    │    write: volatile
//!       └────────────────────┘
//!        cancel, or a crash
//! ```
//!
//! An [`NvPtr`] leads to a slot, also after a restart. Each use of it checks that a slot begins there, and its state,
//! type and generation.
//!
//! **Publication** ([`Heap::publish`]): slots are activated, others freed, and the words that lead to them stored, as one
//! failure-atomic step of one fence, by a redo record (`record`). So no crash leaves a slot that is persisted and not
//! reached, or reached and not persisted. A publication covers the bytes of the slots that it activates: their check is in
//! the record, so they need no fence before it. Methods with a log of their own change slots without it (`door`).
//!
//! **Opening** looks at no more than the newest two records and the named roots; chunks are looked at when an allocation
//! finds no space in those that are known, and the slots of a slab when one of them is used (`reserve`, `table`). Dropped
//! owners are reclaimed step by step (`reclaim`).
//!
//! Costs are those of `publish`, `reserve` and `door`. In DRAM a heap takes 8 bytes for each slot of the slabs in use.
//! On the medium: 64 KiB of 2 MiB, and 128 KiB for the records; 4 bytes a slot; and the padding to size classes.

mod access;
mod audit;
mod base;
mod chunk_word;
mod class;
mod dead;
mod door;
mod ground;
mod layout;
mod log;
mod owner;
mod pointer;
mod publication;
mod publish;
mod ranges;
mod reclaim;
mod record;
mod recovery;
mod reserve;
mod restore;
mod roots;
mod slab;
mod slot;
mod space;
mod table;
mod usage;

pub use audit::Accounting;
pub use base::Heap;
pub use layout::{DEAD_OWNERS_MAX, HEAP_ROOTS_MAX};
pub use owner::Owner;
pub use pointer::{Any, AnyPtr, NvPtr, Tag, Tagged};
pub use publication::{HEAP_ROOT_NAME_LEN_MAX, Publication};
pub use reserve::SLOT_LEN_MAX;
pub use slot::SlotState;
pub use table::LookedAt;
pub use usage::{OwnerUsage, Usage};
