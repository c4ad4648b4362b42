//! Indexes in volatile memory: from byte-string keys to 8-byte entries.
//!
//! | index | order | keeps of a key | B a record | reads full keys |
//! |---|---|---|---|---|
//! | [`PartialKeyTree`] | yes | 0, 2, 4 or 8 bytes | 10, 13, 16 or 21 | if those do not decide, and to be sure |
//! | [`HashIndex`] | no | 16 bits of its hash | 13 | to be sure |
//!
//! The bytes include all overhead, at random keys of 24 bytes; `cargo run --release -p halite-index
//! --example memory` measures them. Both are those of Lersch §5.6.2: entries of a fixed length, and a full
//! key is read through its entry, by the caller's [`FullKeys`], from the record in persistent memory. An
//! operation that asks for a *candidate* reads no full key: its caller compares the record, which it reads
//! anyway.
//!
//! A clone of an index is a snapshot, made in constant time: the two share all nodes, and a write
//! copies the nodes on its path that are shared. A write to an index without snapshots changes its
//! nodes in place.
//!
//! [`RadixTree`] is another kind: any number of threads read and write it at once, it has several versions
//! of a key, and it takes no snapshots. It is an index above records in persistent
//! memory (Yan et al., cited in the module `radix`), and takes 25 to 38 bytes a record.
//!
//! [`PersistentMap`] is a map of any keys whose clones are snapshots, and [`Removals`] the removals of key ranges that
//! are still in memory.
//!
//! Sorted sources, such as the scans of several indexes, become one by a [`KWayMerge`].
//!
//! Bulk loads and recoveries, whose jobs do not depend on each other, share [`parallel`].
//!
//! A lookup in a partial-key tree walks one node a level, where sorted keys lie as fixed-size heads behind
//! the prefix that they share: prefix truncation and poor man's normalized keys (Graefe and Larson, cited
//! by Lersch). The modules `partial`, `hash` and `radix` open with their algorithms and costs.
mod full_keys;
mod hash;
mod k_way_merge;
mod keys;
mod large_pages;
#[cfg(all(test, loom))]
mod loom_tests;
mod node_ref;
pub mod parallel;
mod partial;
mod persistent_map;
mod prefetch;
mod radix;
mod removals;
mod slabs;
mod sorted_key;
mod sync;

pub use full_keys::FullKeys;
pub use hash::{HashCursor, HashIndex};
pub use k_way_merge::{KWayMerge, LoserTree};
pub use partial::{
    Fate, Ghosts, LeafImages, PartialKeyCursor, PartialKeyTree, PartialLen, TreeReader,
};
pub use persistent_map::PersistentMap;
pub use radix::{BulkLoad, Direction, Loader, Pinned, RadixCursor, RadixTree, Records};
pub use removals::{Coverage, DELETES_MAX, RangeDelete, Removals};
pub use sorted_key::SortedKey;

/// Threads may share indexes, and walk in snapshots of others' indexes.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<PartialKeyTree>();
    shared::<PartialKeyCursor>();
    shared::<HashIndex>();
    shared::<HashCursor>();
    shared::<RadixTree>();
    shared::<RadixCursor>();
};
