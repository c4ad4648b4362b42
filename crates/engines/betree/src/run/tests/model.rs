//! Runs as maps, and how they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::{Compression, Seed};
use proptest::prelude::*;

use super::super::test_storage::MemoryExtents;
use super::super::{
    DeletedRange, DeletedRanges, Directories, Run, RunOptions, RunPlace, RunPointer, RunStore,
    RunWriter,
};
use crate::message::{Kind, LargeValue, Message, MessageAction, Piece, UpsertBuilder};
use crate::shares::Shares;
use crate::storage::{Address, Extent, Extents};

pub(super) type Key = Vec<u8>;
pub(super) type Owned = (Kind, Vec<u8>);

/// A run's content.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) messages: BTreeMap<Key, Owned>,
    pub(super) ranges: Vec<(Key, Option<Key>)>,
}

/// How a run is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) part_bytes: usize,
    pub(super) blocks: usize,
    pub(super) compression: Compression,
    pub(super) has_filter: bool,
}

pub(super) fn view((kind, payload): &Owned) -> Message<'_> {
    Message { kind: *kind, payload }
}

pub(super) fn keys() -> impl Strategy<Value = Key> {
    prop::collection::vec(b'a'..b'd', 0..5)
}

pub(super) fn messages() -> impl Strategy<Value = Owned> {
    let long = || (0..3000_usize).prop_map(|len| vec![9; len]);
    let bytes = || prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..12), 1 => long()];
    prop_oneof![
        1 => Just((Kind::Delete, Vec::new())),
        4 => bytes().prop_map(|value| (Kind::Insert, value)),
        2 => (0_usize..9, bytes()).prop_map(|(offset, bytes)| {
            let mut builder = UpsertBuilder::default();
            builder.overwrite(offset, &bytes);
            (Kind::Upsert, builder.finish())
        }),
        1 => any::<u64>().prop_map(|birth| {
            let extent = Extent { address: Address::from_bits(birth), blocks: 1 };
            let mut payload = Vec::new();
            LargeValue { entered: birth, len: birth % 4097, birth, pieces: vec![Piece { extent, checksum: 3 }] }
                .encode(&mut payload);
            (Kind::InsertLarge, payload)
        }),
    ]
}

pub(super) fn models() -> impl Strategy<Value = Model> {
    let bounds = prop::collection::btree_set(keys(), 0..7);
    (prop::collection::btree_map(keys(), messages(), 0..40), bounds, any::<bool>()).prop_map(
        |(messages, bounds, is_open)| {
            let bounds: Vec<Key> = bounds.into_iter().collect();
            let range = |two: &[Key]| (two[0].clone(), two.get(1).cloned());
            let mut ranges: Vec<_> = bounds.chunks(2).map(range).collect();
            if !is_open {
                ranges.retain(|(_, end)| end.is_some());
            }
            Model { messages, ranges }
        },
    )
}

pub(super) fn shapes() -> impl Strategy<Value = Shape> {
    let compression = prop_oneof![Just(Compression::None), Just(Compression::Lz4)];
    (1_usize..600, 1_usize..4, compression, any::<bool>()).prop_map(
        |(part_bytes, blocks, compression, has_filter)| Shape {
            part_bytes,
            blocks,
            compression,
            has_filter,
        },
    )
}

pub(super) const SEED: Seed = Seed::new(77);

pub(super) fn store(extents: Arc<MemoryExtents>) -> Arc<RunStore> {
    store_of(extents)
}

pub(super) fn store_of(extents: Arc<dyn Extents>) -> Arc<RunStore> {
    let cache = Arc::new(BlockCache::new(8 << 20, 4096));
    let shares = Arc::new(Shares::new(Arc::clone(&cache), 8 << 20));
    let directories = Directories::new(shares);
    Arc::new(RunStore { extents, cache, directories, seed: SEED, heat: None })
}

pub(super) fn writer<'a>(
    extents: &'a MemoryExtents,
    written: &'a mut Vec<Extent>,
    shape: Shape,
    birth: u64,
) -> RunWriter<'a> {
    placed_writer(extents, written, shape, birth, RunPlace::Whole)
}

fn placed_writer<'a>(
    extents: &'a dyn Extents,
    written: &'a mut Vec<Extent>,
    shape: Shape,
    birth: u64,
    placement: RunPlace,
) -> RunWriter<'a> {
    let Shape { part_bytes, blocks, compression, has_filter } = shape;
    let options = RunOptions {
        class: 1,
        small: (0, 1),
        part_bytes,
        compression,
        has_filter,
        seed: SEED,
        birth,
    };
    let scratch = Box::leak(Box::default());
    RunWriter::new(extents, written, &options, placement, scratch).with_extents_of(blocks)
}

impl Model {
    /// Writes the run, and passes its pointer through its encoding.
    pub(super) fn write(
        &self,
        extents: &MemoryExtents,
        shape: Shape,
        birth: u64,
    ) -> Option<RunPointer> {
        self.place(extents, shape, birth, RunPlace::Whole)
    }

    /// Writes the run to a place, and passes its pointer through its encoding.
    pub(super) fn place(
        &self,
        extents: &MemoryExtents,
        shape: Shape,
        birth: u64,
        placement: RunPlace,
    ) -> Option<RunPointer> {
        self.place_in(extents, shape, birth, placement)
    }

    /// Writes the run to a place of any storage, and passes its pointer through its encoding.
    pub(super) fn place_in(
        &self,
        extents: &dyn Extents,
        shape: Shape,
        birth: u64,
        placement: RunPlace,
    ) -> Option<RunPointer> {
        let mut written = Vec::new();
        let mut writer = placed_writer(extents, &mut written, shape, birth, placement);
        self.ranges.iter().for_each(|(start, end)| writer.delete_range(start, end.as_deref()));
        self.messages.iter().for_each(|(key, message)| writer.add(key, view(message)).unwrap());
        let bytes = self
            .messages
            .iter()
            .map(|(key, (_, payload))| key.len() + payload.len())
            .sum::<usize>();
        assert_eq!(writer.bytes(), bytes as u64);
        let pointer = writer.finish().unwrap();
        assert_eq!(pointer.is_none(), self.messages.is_empty() && self.ranges.is_empty());
        let pointer = pointer?;
        assert_eq!(written, pointer.own_extents().to_vec());
        assert_eq!((pointer.birth, pointer.bytes), (birth, bytes as u64));
        let larges: Vec<LargeValue> =
            self.messages.values().filter_map(|message| view(message).large().unwrap()).collect();
        assert_eq!(pointer.large_bytes, larges.iter().map(|large| large.len).sum::<u64>());
        let mut bytes = Vec::new();
        pointer.encode(&mut bytes);
        let decoded = RunPointer::decode(&mut halite_codec::Reader(&bytes)).unwrap();
        assert_eq!(decoded, pointer);
        Some(pointer)
    }

    /// Writes and opens the run; an empty one as none.
    pub(super) fn open(
        &self,
        extents: &Arc<MemoryExtents>,
        shape: Shape,
        birth: u64,
    ) -> Option<Arc<Run>> {
        let pointer = self.write(extents, shape, birth)?;
        Some(Run::open(store(Arc::clone(extents)), pointer))
    }

    pub(super) fn covers(&self, key: &[u8]) -> bool {
        let covers = |(start, end): &(Key, Option<Key>)| {
            **start <= *key && end.as_ref().is_none_or(|end| *key < **end)
        };
        self.ranges.iter().any(covers)
    }

    /// The deleted ranges within bounds.
    pub(super) fn clipped(&self, lo: &[u8], hi: Option<&[u8]>) -> DeletedRanges {
        let range = |(start, end): &(Key, Option<Key>)| DeletedRange {
            start: start[..].into(),
            end: end.as_deref().map(Into::into),
        };
        DeletedRanges::new(self.ranges.iter().map(range).collect()).clip(lo, hi)
    }

    /// The messages within bounds.
    pub(super) fn within(&self, lo: &[u8], hi: Option<&[u8]>) -> Vec<(Key, Owned)> {
        let is_within = |key: &Key| *lo <= **key && hi.is_none_or(|hi| **key < *hi);
        self.messages
            .iter()
            .filter(|(key, _)| is_within(key))
            .map(|(key, message)| (key.clone(), message.clone()))
            .collect()
    }
}

/// Messages that are appended.
pub(super) struct Append;

impl MessageAction for Append {
    fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
        value.get_or_insert_default().extend_from_slice(message);
    }

    fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
        [older, newer].concat()
    }
}
