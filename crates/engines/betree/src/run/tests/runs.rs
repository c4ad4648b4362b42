//! A single run has what it was written of.

use std::sync::Arc;

use halite_codec::Compression;
use proptest::prelude::*;

use super::super::test_storage::MemoryExtents;
use super::super::{Found, Reads, Run, RunCursor, Source, hash_key};
use super::model::{Key, Model, Shape, keys, models, shapes, store, view, writer};
use super::moves::{all, moves, walk};
use crate::Error;
use crate::message::{Kind, Message};

fn check_find(run: &Run, model: &Model, key: &[u8]) {
    let expected = model.messages.get(key);
    match run.find(key, hash_key(key)).unwrap() {
        Found::Message { message, was_deleted } => {
            assert_eq!(Some(message.message()), expected.map(view));
            assert_eq!(was_deleted, model.covers(key) && !message.kind.is_complete());
        }
        Found::Deleted => assert!(expected.is_none() && model.covers(key)),
        Found::Nothing => assert!(expected.is_none() && !model.covers(key)),
    }
    let got = run.get(key, hash_key(key)).unwrap();
    assert_eq!(got.as_ref().map(|held| held.message()), expected.map(view));
    assert_eq!(run.covers(key).unwrap(), model.covers(key));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_run_has_what_it_was_written_of(
        model in models(),
        shape in shapes(),
        is_in_place in any::<bool>(),
        sought in prop::collection::vec(keys(), 0..30),
        (lo, hi) in (keys(), prop::option::of(keys())),
        moves in moves(),
    ) {
        let extents = Arc::new(if is_in_place { MemoryExtents::in_place() } else { MemoryExtents::default() });
        let Some(run) = model.open(&extents, shape, 5) else { return Ok(()) };
        let pointer = run.pointer().clone();
        prop_assert_eq!(pointer.messages, model.messages.len() as u64);
        for key in sought.iter().chain(model.messages.keys()) {
            check_find(&run, &model, key);
        }
        // Cursors of a run that is cached, and of one that is not.
        let fresh = Run::open(store(Arc::clone(&extents)), pointer);
        let list = model.within(&lo, hi.as_deref());
        for (run, reads) in [(&run, Reads::Cached), (&fresh, Reads::Once), (&fresh, Reads::Cached)] {
            let mut cursor = RunCursor::new(Arc::clone(run), &lo, hi.as_deref(), reads).unwrap();
            prop_assert_eq!(cursor.deleted_ranges(), &model.clipped(&lo, hi.as_deref()));
            walk(&mut cursor, &list, &moves);
            prop_assert_eq!(&all(&mut cursor, true).unwrap(), &list);
            let mut back = all(&mut cursor, false).unwrap();
            back.reverse();
            prop_assert_eq!(&back, &list);
        }
    }
}

pub(super) const SHAPE: Shape =
    Shape { part_bytes: 64, blocks: 1, compression: Compression::None, has_filter: true };

pub(super) fn numbered(count: u32, len: usize) -> Model {
    let message = |n: u32| (Kind::Insert, n.to_le_bytes().repeat(len / 4));
    Model {
        messages: (0..count).map(|n| (format!("key {n:08}").into_bytes(), message(n))).collect(),
        ranges: Vec::new(),
    }
}

#[test]
fn a_directory_may_be_longer_than_an_extent() {
    let (extents, model) = (Arc::new(MemoryExtents::default()), numbered(3000, 20));
    let run = model.open(&extents, SHAPE, 5).unwrap();
    let pointer = run.pointer();
    assert!(pointer.directory_checksums.len() > 5 && pointer.directory_at == 0);
    let mut cursor = RunCursor::new(Arc::clone(&run), b"", None, Reads::Cached).unwrap();
    assert_eq!(all(&mut cursor, true).unwrap(), model.within(b"", None));
    model.messages.keys().for_each(|key| check_find(&run, &model, key));
    // Ranges alone, and so many of them.
    let ranges = (0..3000_u32).map(|n| {
        ([&b"k"[..], &n.to_be_bytes()].concat(), Some([&b"k"[..], &n.to_be_bytes(), b"x"].concat()))
    });
    let model = Model { ranges: ranges.collect(), ..Model::default() };
    let run = model.open(&extents, SHAPE, 6).unwrap();
    assert!(run.pointer().extents.len() > 5 && run.pointer().deleted_ranges == 3000);
    check_find(&run, &model, b"k\0\0\0\x07");
    check_find(&run, &model, b"k\0\0\0\x07y");
}

#[test]
fn long_entries_are_parts_of_their_own_in_extents_of_the_usual_length() {
    let extents = Arc::new(MemoryExtents::in_place());
    let mut model = numbered(12, 200 << 10);
    model.messages.insert(vec![b'z'; 65_000], (Kind::Insert, Vec::new()));
    for compression in [Compression::None, Compression::Lz4] {
        let shape = Shape { part_bytes: 16 << 10, blocks: 256, compression, has_filter: true };
        let run = model.open(&extents, shape, 5).unwrap();
        assert_eq!(
            run.pointer().extents.len(),
            if compression == Compression::None { 3 } else { 1 }
        );
        model.messages.keys().for_each(|key| check_find(&run, &model, key));
    }
}

#[test]
fn ranges_that_touch_are_one() {
    let (extents, mut written) = (MemoryExtents::default(), Vec::new());
    let mut writer = writer(&extents, &mut written, SHAPE, 3);
    writer.delete_range(b"a", Some(b"b"));
    writer.delete_range(b"b", Some(b"c"));
    writer.add(b"bb", Message::DELETE).unwrap();
    writer.delete_range(b"c", None);
    let pointer = writer.finish().unwrap().unwrap();
    assert_eq!((pointer.deleted_ranges, pointer.messages), (1, 1));
}

/// Each of the writes is refused once, and the caller knows all extents that were written before it.
#[test]
fn a_writer_that_fails_leaves_its_extents_to_the_caller() {
    let model = numbered(500, 40);
    let needed = model.write(&MemoryExtents::default(), SHAPE, 4).unwrap().extents.len() as u64;
    assert!(needed > 5);
    for room in 0..=needed {
        let (extents, mut written) = (MemoryExtents::with_room(room), Vec::new());
        let mut writer = writer(&extents, &mut written, SHAPE, 4);
        let added = model
            .messages
            .iter()
            .try_for_each(|(key, message): (&Key, _)| writer.add(key, view(message)));
        let finished = added.and_then(|()| writer.finish());
        match finished {
            Ok(_) => assert_eq!(room, needed),
            Err(error) => assert!(room < needed && matches!(error, Error::NoSpace { blocks: 1 })),
        }
        assert_eq!(written, extents.stored());
    }
}
