//! A write-ahead log on a pool of persistent memory: a batch is durable by one fence before it is acknowledged.
//!
//! The log lies in segments of a [`Device`](halite_alloc::Device), numbered ascending without a gap. Each begins with
//! its header; batches follow as frames, one behind the other at multiples of a line (`frame`), up to the segment's
//! end. A batch that is longer than a segment continues over several of them, and is whole if all its frames are.
//!
//! ```text
//!  segment 7                                     segment 8                       segment 9, 10
//! ┌────────┬───────┬───────┬─────────────┬─────┐┌────────┬─────────────┬──────┐ ┌────────┬─────┐
//! │ header │ batch │ batch │ resumption  │ ... ││ header │ batch, the  │ ...  │ │ header │     │
//! │ salt   │       │       │ of the log  │ end ││ salt   │ rest of it  │      │ │        │     │
//! └────────┴───────┴───────┴─────────────┴─────┘└────────┴─────────────┴──────┘ └────────┴─────┘
//!                                                         the log goes on here ▲   made ready
//! ```
//!
//! **Appending** ([`PoolLog::append`]): the caller's batches come in turns, and an internal lock is held for each,
//! with its fence. A batch that is to be durable is streamed past the cache, and one fence waits for it and for all
//! that were deferred before it. A deferred batch is stored through the cache; [`PoolLog::sync`] writes the lines of
//! all of them back, and waits for one fence. Either way its bytes can be read in place ([`Place`], [`PoolLog::pin`])
//! as soon as it is appended.
//!
//! **What a power cut leaves.** Lines that were written since the last fence persist in any order, each in any of its
//! states in program order. So each of the frames behind the last fence may be whole, torn or absent, whichever those
//! before and behind it are; those before the fence are whole. Recovery replays the frames up to the first that is not
//! whole: that gives a prefix with everything that was acknowledged. The frames behind are not replayed, whole or
//! not. They do not show damage by themselves; so each frame states a sequence below which everything was durable when
//! it was written (its *lag*). A whole frame behind the torn one that states more than recovery found is a proof that
//! the medium lost something: that is an error. The frames of the last fence alone are never proven: damaged, they
//! cannot be told from torn ones, unless the store knows a later end from a checkpoint, from opening
//! or from closing the log ([`PoolKnown::end`]).
//!
//! **No frame comes back.** The bytes behind the end may be parts of frames, and whole ones. New frames written over
//! them could complete such a part, or lead up to an old whole frame of the right sequence. So recovery writes a
//! *resumption* at the end, durably, before it lets anything be appended: from there on checks are seeded with another
//! salt, and no byte written before is a part of a valid frame any more. It makes the batches that it found durable
//! before that, so a resumption is a proof of them, too. Until the resumption is durable no batch of
//! the new life exists, so an old frame that comes back is still one that the crash left open. Segments behind the
//! end get a new salt when they are used. A segment that is used again has another salt, too; so no segment is
//! zeroed.
//!
//! The header of a segment is durable with the first frame in it. The end of the segment before has its salt, too:
//! without its header the frames of a segment still prove that it is missing.
//!
//! **Room**: an append never fails for lack of space. A caller asks whether there is room ([`PoolLog::lacks`]) and has
//! segments made ready ([`PoolLog::grow`]), before its turn or ahead of time. A few of those are for bookkeeping and
//! removals alone ([`PoolShape::spare`]): others leave them.
//!
//! **Trimming** ([`PoolLog::release`]): when a checkpoint is durable, segments before its first one serve again under
//! the next number, or are given back. A segment with bytes that are still pinned waits for a later call.
//!
//! | operation | stores | lines written | fences |
//! |---|---|---|---|
//! | append of n bytes, durable | 1 streamed | ⌈(32 + n) / 64⌉, and those of deferred batches | 1 |
//! | append of n bytes, deferred | 1 | none | none |
//! | sync | none | those of the deferred batches | 1, if there are any |
//! | first append in the next segment | 1 more: the end of the last one | 2 more: that, and the header | none more |
//! | each further segment of a long batch | 1 more | 1 more, the header | none more |
//! | segment made ready | 2: header, word of the allocation table | 1 | 1 |
//! | segment released | 1, the word; 2 where it serves again | 1 | 1 |
//! | open | 1 streamed, the resumption; the headers of ready segments | 1, and all lines of the batches that were found | 2 |

mod cut;
mod found;
mod frame;
mod log;
mod place;
mod ready;
mod tail;

pub use found::{PoolFound, PoolKnown, Replayed};
pub use log::{BATCH_MAX, PoolLog, PoolShape};
pub use place::{Piece, Place};
