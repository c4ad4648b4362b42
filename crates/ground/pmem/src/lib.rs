//! Memory that persists.
//!
//! A [`Pool`] is one mapped file: on persistent memory (DAX), on tmpfs or on an ordinary file; or memory
//! without a file, of which no byte survives the process. The guarantee of a fence on it is its [`Domain`],
//! detected when the pool is opened. Offsets are stable, addresses are not.
//!
//! **One interface.** The bytes of a pool change only through the methods of this crate, except for
//! volatile memory ([`Scratch`]). These methods choose the instructions, count the [`Traffic`], and hand a
//! range to the kernel where instructions do not suffice.
//!
//! **A life for space.** A range of a pool has one owner at a time, checked when it is claimed, so
//! that the safe interface is sound without trusting its callers:
//!
//! ```text
//!   Pool::claim ──► Fresh ──────────► Published ──► (all pins gone) ──► reclaimed: claim again
//!                   one owner writes   immutable, read in place
//!                     │
//!                     ├─► Appender        one owner appends, readers see the prefix it published
//!                     ├─► SharedAppender  many threads append, readers see what each has finished
//!                     ├─► Words           8-byte atomics that many threads change
//!                     ├─► Frames          pages updated in place, each behind a latch; read without it, too
//!                     └─► Scratch         volatile memory, by its address
//! ```
//!
//! **Proofs.** [`Fresh::flush`] and its kin return a [`Flushed`]: the write-back has begun. [`Pool::fence`]
//! turns it into a [`Fenced`]: it is durable. Publishing takes such a proof: of the very bytes, as they are
//! now, for [`Fresh::publish`], [`Appender::publish`] and [`Grant::publish`]; of a fence, for
//! [`Words::publish`], which stores a word that leads readers to other bytes. So a caller that forgets to
//! persist bytes cannot publish them: the call does not compile.
//!
//! **The model.** A [`Medium`] in a pool's options takes the place of its file. The interface is the same,
//! and the trace of a [`Machine`](halite_sim::Machine) records every operation (`halite-lab` crashes stores
//! with it).
//!
//! **Emulation.** A [`Profile`] in a pool's options makes the pool as slow as another medium: its
//! operations then wait (`emulate.rs`). It never makes a pool faster than its own medium, except on
//! [`Domain::Process`], whose flushes protect no bytes and are left out.
//!
//! A request walks `Fresh::write` → `writeback` or `stream` (the instructions) → `Pool::fence`
//! (`sfence`, or the kernel's sync for [`Domain::PageCache`]).

mod appender;
mod claims;
mod clock;
mod domain;
mod emulate;
mod entry;
mod error;
mod fence;
mod file;
mod finished;
#[cfg(halite_planted)]
mod forged;
mod frames;
mod fresh;
mod frontier;
mod map;
mod medium;
mod memory;
mod options;
mod parcels;
mod pool;
mod prefetch;
pub mod probe;
mod processor;
mod profile;
mod region;
mod scratch;
mod shared_appender;
mod stream;
mod streaming;
mod syncs;
mod traffic;
mod words;
mod writeback;

pub use appender::{Appender, Pinned, Published};
pub use domain::Domain;
pub use error::{Error, Result};
pub use fence::{Fenced, Flushed};
#[cfg(halite_planted)]
#[doc(hidden)]
pub use forged::forged;
pub use frames::{FrameMut, FrameRef, FrameWords, Frames, Version};
pub use fresh::Fresh;
pub use medium::{Medium, ModelFile};
pub use options::PoolOptions;
pub use parcels::{GRAIN, InFlight, Parcel, Parcels, WINDOW};
pub use pool::Pool;
pub use profile::Profile;
pub use scratch::Scratch;
pub use shared_appender::{Grant, SharedAppender};
pub use streaming::Streaming;
pub use traffic::{MediumTraffic, Traffic};
pub use words::Words;

/// The unit of transfer between cache and memory, in bytes.
pub const LINE: u64 = 64;

/// The unit in which the medium reads and writes, in bytes (van Renen §2.3).
pub const MEDIA_BLOCK: u64 = 256;

/// Pools grow and are mapped in multiples of this, in bytes: the size of a large page.
pub const UNIT: u64 = 2 << 20;
