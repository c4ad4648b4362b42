//! Where the parts of a heap lie.
//!
//! A place is a byte of the heap: the logical segment's number times [`SEGMENT`], and the offset in the segment.
//!
//! ```text
//! a segment                      0        64                   320
//! ┌─────────┬─────────┬───  ┌────┬────────┬────────────────────┬───
//! │ chunk 0 │ chunk 1 │     │ =  │ header │ words of 32 chunks │
//! └─────────┴─────────┴───  └────┴────────┴────────────────────┴───
//!
//! in segment 0, also:            4 KiB          12 KiB        16 KiB
//!           ┌────────────────────┬──────────────┬─────────────┬───
//!   chunk 0 │ header, words      │ root words   │ dead owners │
//!           └────────────────────┴──────────────┴─────────────┴───
//!   chunks 1 and 2: an area of publication records each
//! ```

use crate::SEGMENT;
use crate::segment_header::HEADER_LEN;

/// The unit in which a heap gives space to owners, in bytes.
pub(super) const CHUNK: u64 = 64 << 10;

/// Chunks of a segment.
pub(super) const CHUNKS: u32 = (SEGMENT / CHUNK) as u32;

/// Chunks of segment 0 that hold no slots.
pub(super) const META_CHUNKS: u32 = 3;

/// The named roots that a heap may have.
pub const HEAP_ROOTS_MAX: usize = 1024;

/// The dropped owners whose chunks are not reclaimed yet, at most.
pub const DEAD_OWNERS_MAX: usize = 512;

const ROOTS_AT: u64 = 4 << 10;
const DEAD_AT: u64 = ROOTS_AT + HEAP_ROOTS_MAX as u64 * 8;

/// The number of a chunk in the heap: 32 times its segment's, and its own there.
pub(super) type ChunkId = u32;

/// The place where a chunk begins.
pub(super) fn chunk_at(id: ChunkId) -> u64 {
    u64::from(id) * CHUNK
}

/// The chunk that a place is in.
pub(super) fn chunk_of(place: u64) -> ChunkId {
    (place / CHUNK) as ChunkId
}

/// The segment that a chunk is in.
pub(super) fn segment_of(id: ChunkId) -> u32 {
    id / CHUNKS
}

/// The place of the word of a chunk.
pub(super) fn chunk_word_at(id: ChunkId) -> u64 {
    u64::from(segment_of(id)) * SEGMENT + HEADER_LEN + u64::from(id % CHUNKS) * 8
}

/// Whether a place is that of a chunk's word.
pub(super) fn is_chunk_word(place: u64) -> bool {
    let words = HEADER_LEN..HEADER_LEN + u64::from(CHUNKS) * 8;
    place.is_multiple_of(8) && words.contains(&(place % SEGMENT))
}

/// The chunks of a segment that may have slots, by their numbers in it.
pub(super) fn chunks_of(segment: u32) -> std::ops::Range<ChunkId> {
    let first = if segment == 0 { META_CHUNKS } else { 1 };
    segment * CHUNKS + first..(segment + 1) * CHUNKS
}

/// The place of the word of a root.
pub(super) fn root_word_at(index: usize) -> u64 {
    ROOTS_AT + index as u64 * 8
}

/// The place of the word of a dead owner.
pub(super) fn dead_word_at(index: usize) -> u64 {
    DEAD_AT + index as u64 * 8
}

/// The place of the area that the record with a sequence number is written to.
pub(super) fn record_at(sequence: u64) -> u64 {
    CHUNK * (1 + sequence % 2)
}
