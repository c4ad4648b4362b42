//! The word of a chunk: what it is used for.
//!
//! ```text
//! bits 63..52        51..32   31..26   25..19             18..17   16   15..0
//!      generation    owner    tag      class or length    use      1    check
//! ```
//!
//! A chunk is free, a slab with slots of one class for one owner, the head of a span of whole chunks, which is one slot,
//! or the heap's own. The other chunks of a span keep the word of a free chunk: one word makes a span there or not. The
//! tag is a span's. The check is over the other bits, the place, the device and the pool's salt.

use super::class::Class;
use super::ground::Ground;
use super::layout::{ChunkId, chunk_word_at};
use super::owner::Owner;
use super::pointer::Tag;
use crate::Result;

const USED_FOR_SHIFT: u32 = 17;
const SIZE_SHIFT: u32 = 19;
const TAG_SHIFT: u32 = 26;
const OWNER_SHIFT: u32 = 32;
const GENERATION_SHIFT: u32 = OWNER_SHIFT + Owner::BITS;

/// Tells a word from zeros.
const WRITTEN: u64 = 1 << 16;

/// The purpose of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Free,
    Slab {
        class: Class,
        owner: Owner,
    },
    /// The first of so many chunks.
    Span {
        chunks: u32,
        owner: Owner,
        tag: Tag,
    },
    /// Of the heap itself.
    Meta,
}

/// The word of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkWord {
    pub(super) purpose: Purpose,
    /// How often it was taken; of a free chunk, so far.
    pub(super) generation: u16,
}

impl ChunkWord {
    pub(super) fn encode(self, ground: &Ground, id: ChunkId) -> u64 {
        let (used_for, size, tag, owner) = match self.purpose {
            Purpose::Free => (0, 0, 0, 0),
            Purpose::Slab { class, owner } => (1, class.number(), 0, owner.number()),
            Purpose::Span { chunks, owner, tag } => {
                (2, u64::from(chunks), u64::from(tag.number()), owner.number())
            }
            Purpose::Meta => (3, 0, 0, 0),
        };
        let word = u64::from(self.generation) << GENERATION_SHIFT
            | u64::from(owner) << OWNER_SHIFT
            | tag << TAG_SHIFT
            | size << SIZE_SHIFT
            | used_for << USED_FOR_SHIFT
            | WRITTEN;
        word | ground.check(chunk_word_at(id), word)
    }

    /// Reads the word of a chunk of a segment that is there.
    pub(super) fn read(ground: &Ground, id: ChunkId) -> Result<Self> {
        let word = ground.word(chunk_word_at(id));
        let owner = Owner::stored(word >> OWNER_SHIFT);
        let size = word >> SIZE_SHIFT & 0x7f;
        let purpose = match (word >> USED_FOR_SHIFT & 3, Tag::stored(word >> TAG_SHIFT)) {
            (0, None) => Some(Purpose::Free),
            (1, None) => Class::numbered(size).map(|class| Purpose::Slab { class, owner }),
            (2, Some(tag)) => Some(Purpose::Span { chunks: size as u32, owner, tag }),
            (3, None) => Some(Purpose::Meta),
            _ => None,
        };
        let generation = (word >> GENERATION_SHIFT) as u16;
        let read = purpose.map(|purpose| Self { purpose, generation });
        read.filter(|read| read.encode(ground, id) == word).ok_or_else(|| {
            let why = format!("the word {word:#018x} does not have its check");
            ground.damaged(Ground::chunk_name(id), why)
        })
    }
}
