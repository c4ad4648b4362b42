//! Merged runs are what their messages and ranges say, the newest last.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::test_storage::MemoryExtents;
use super::super::{
    DeletedRange, DeletedRanges, Found, MergeCursor, Reads, Run, RunCursor, Source, hash_key,
};
use super::model::{Append, Key, Model, Owned, Shape, keys, models, shapes, view};
use super::moves::{all, moves, walk};
use crate::message::{Action, HeldMessage, Kind, LargeValue, merge, of_message};

/// The merged messages of runs, the newest first.
fn merged(models: &[Model], lo: &[u8], hi: Option<&[u8]>) -> Vec<(Key, Owned)> {
    let mut keys: BTreeMap<Key, Owned> = BTreeMap::new();
    for key in models.iter().flat_map(|model| model.within(lo, hi)).map(|(key, _)| key) {
        let mut found: Option<Owned> = None;
        for model in models {
            if let Some(older) = model.messages.get(&key) {
                found = Some(match &found {
                    None => older.clone(),
                    Some(newer) => {
                        let merged =
                            merge(&key, view(newer), view(older), action().as_deref(), &mut |_| {})
                                .unwrap();
                        (merged.message().kind, merged.message().payload.to_vec())
                    }
                });
            }
            if model.covers(&key) {
                break;
            }
        }
        if let Some(message) = found {
            keys.insert(key, message);
        }
    }
    keys.into_iter().collect()
}

fn larges<'a>(messages: impl Iterator<Item = &'a Owned>) -> Vec<LargeValue> {
    messages.filter_map(|message| view(message).large().unwrap()).collect()
}

fn action() -> Option<Arc<Action>> {
    Some(Arc::new(Action::new("append".into(), Some(Arc::new(Append)))))
}

/// The value of a key, by a lookup from the newest run on.
fn looked_up(runs: &[Arc<Run>], key: &[u8]) -> (Option<HeldMessage>, bool) {
    let mut message: Option<HeldMessage> = None;
    for run in runs {
        match run.find(key, hash_key(key)).unwrap() {
            Found::Message { message: older, was_deleted } => {
                let merged = match message {
                    Some(newer) => {
                        newer.after(key, older.message(), action().as_deref(), &mut |_| {}).unwrap()
                    }
                    None => older,
                };
                if merged.kind.is_complete() || was_deleted {
                    return (Some(merged), was_deleted);
                }
                message = Some(merged);
            }
            Found::Deleted => return (message, true),
            Found::Nothing => {}
        }
    }
    (message, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn merged_runs_are_what_their_messages_and_ranges_say(
        models in prop::collection::vec(models(), 0..6),
        shapes in prop::collection::vec(shapes(), 6),
        is_custom in any::<bool>(),
        (lo, hi) in (keys(), prop::option::of(keys())),
        moves in moves(),
    ) {
        let mut models = models;
        if is_custom {
            // Datasets have upserts or messages of their own.
            for (kind, payload) in models.iter_mut().flat_map(|model| model.messages.values_mut()) {
                if *kind == Kind::Upsert {
                    (*kind, *payload) = (Kind::Custom, of_message(payload));
                }
            }
        }
        models.retain(|model| !model.messages.is_empty() || !model.ranges.is_empty());
        let extents = Arc::new(MemoryExtents::default());
        let open = |(n, model): (usize, &Model)| model.open(&extents, shapes[n], 100 - n as u64).unwrap();
        let runs: Vec<_> = models.iter().enumerate().map(open).collect();
        let hi = hi.as_deref();
        let sources = |reads| -> Vec<Box<dyn Source>> {
            let cursor = |run| RunCursor::new(Arc::clone(run), &lo, hi, reads).unwrap();
            runs.iter().map(|run| Box::new(cursor(run)) as Box<dyn Source>).collect()
        };
        let list = merged(&models, &lo, hi);
        let union = models.iter().fold(DeletedRanges::default(), |all, model| all.union(&model.clipped(&lo, hi)));
        let mut reader = MergeCursor::reader(sources(Reads::Cached), action());
        prop_assert_eq!(reader.deleted_ranges(), &union);
        walk(&mut reader, &list, &moves);
        let mut back = all(&mut reader, false).unwrap();
        back.reverse();
        prop_assert_eq!(&back, &list);
        prop_assert_eq!(&all(&mut reader, true).unwrap(), &list);
        prop_assert!(reader.take_dropped().is_empty());

        // A merger finds the same, and each large value is in the result or was dropped.
        let mut merger = MergeCursor::merger(sources(Reads::Once), action());
        prop_assert_eq!(&all(&mut merger, true).unwrap(), &list);
        let mut after = larges(list.iter().map(|(_, message)| message));
        after.extend(merger.take_dropped());
        let of_model = |model: &Model| larges(model.within(&lo, hi).iter().map(|(_, message)| message));
        let mut before: Vec<_> = models.iter().flat_map(of_model).collect();
        after.sort_by_key(|large| large.birth);
        before.sort_by_key(|large| large.birth);
        prop_assert_eq!(after, before);

        // The merged run answers as the runs do.
        let range = |range: &DeletedRange| (range.start.to_vec(), range.end.as_ref().map(|end| end.to_vec()));
        let model = Model { messages: list.into_iter().collect(), ranges: union.iter().map(range).collect() };
        let shape = Shape { blocks: 8, ..shapes[0] };
        let run: Vec<_> = model.open(&extents, shape, 101).into_iter().collect();
        for key in models.iter().flat_map(|model| model.within(&lo, hi)).map(|(key, _)| key) {
            let (one, was_deleted) = looked_up(&run, &key);
            let (many, were_deleted) = looked_up(&runs, &key);
            let message = |held: &Option<HeldMessage>| held.as_ref().map(|held| (held.kind, held.payload.to_vec()));
            prop_assert_eq!(message(&one), message(&many));
            if !one.is_some_and(|held| held.kind.is_complete()) {
                prop_assert_eq!(was_deleted, were_deleted);
            }
        }
    }
}

#[test]
fn a_reader_jumps_over_keys_that_a_range_hides() {
    let extents = Arc::new(MemoryExtents::default());
    let message = |n: u32| (Kind::Insert, n.to_le_bytes().repeat(50));
    let older = Model {
        messages: (0..20_000_u32).map(|n| (n.to_be_bytes().to_vec(), message(n))).collect(),
        ranges: Vec::new(),
    };
    let newer = Model {
        messages: BTreeMap::new(),
        ranges: vec![(vec![0, 0, 0, 9], Some(19_990_u32.to_be_bytes().to_vec()))],
    };
    let shape = Shape {
        part_bytes: 4096,
        blocks: 256,
        compression: halite_codec::Compression::None,
        has_filter: true,
    };
    let runs: Vec<_> = [newer, older]
        .iter()
        .enumerate()
        .map(|(n, model)| model.open(&extents, shape, 9 - n as u64).unwrap())
        .collect();
    let cursors = || {
        runs.iter()
            .map(|run| RunCursor::new(Arc::clone(run), b"", None, Reads::Cached).unwrap())
            .collect()
    };
    for is_forward in [true, false] {
        let mut reader = MergeCursor::reader(cursors(), None);
        let before = extents.reads();
        assert_eq!(all(&mut reader, is_forward).unwrap().len(), 9 + 10);
        assert!(extents.reads() - before <= 3, "{} reads", extents.reads() - before);
    }
}
