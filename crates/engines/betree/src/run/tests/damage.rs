//! Damaged and forged bytes are errors, never other answers.

use std::sync::Arc;

use halite_codec::Compression;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::test_storage::MemoryExtents;
use super::super::{Found, Reads, Run, RunCursor, RunPointer, hash_key};
use super::model::{Model, Owned, Shape, models, store, writer};
use super::moves::all;
use crate::message::Message;
use crate::{Error, Result};

/// All answers of a run that is opened anew: by lookups, and both ways.
fn answers(
    extents: &Arc<MemoryExtents>,
    pointer: &RunPointer,
    model: &Model,
) -> [Result<Vec<Option<Owned>>>; 3] {
    let run = Run::open(store(Arc::clone(extents)), pointer.clone());
    let keys = model.messages.keys().chain(model.ranges.iter().map(|(start, _)| start));
    let finds = keys.map(|key| {
        Ok(match run.find(key, hash_key(key))? {
            Found::Message { message, .. } => Some((message.kind, message.payload.to_vec())),
            Found::Deleted => None,
            Found::Nothing => panic!("the key is not there"),
        })
    });
    let finds: Result<Vec<_>> = finds.collect();
    let walk = |is_forward, reads| {
        let run = Run::open(store(Arc::clone(extents)), pointer.clone());
        let mut cursor = RunCursor::new(run, b"", None, reads)?;
        Ok(all(&mut cursor, is_forward)?.into_iter().map(|(_, message)| Some(message)).collect())
    };
    [finds, walk(true, Reads::Once), walk(false, Reads::Cached)]
}

fn model() -> Model {
    let mut runner = TestRunner::deterministic();
    loop {
        let model = models().new_tree(&mut runner).unwrap().current();
        let bytes: usize = model.messages.values().map(|(_, payload)| payload.len()).sum();
        if model.messages.len() > 15 && model.ranges.len() > 2 && bytes < 600 {
            return model;
        }
    }
}

#[test]
fn every_flipped_byte_is_an_error_or_changes_nothing() {
    let model = model();
    for (compression, is_in_place) in
        [(Compression::None, false), (Compression::None, true), (Compression::Lz4, false)]
    {
        let extents = Arc::new(if is_in_place {
            MemoryExtents::in_place()
        } else {
            MemoryExtents::default()
        });
        let shape = Shape { part_bytes: 100, blocks: 1, compression, has_filter: true };
        let pointer = model.write(&extents, shape, 7).unwrap();
        let whole = answers(&extents, &pointer, &model).map(Result::unwrap);
        let mut found = 0;
        for &extent in &pointer.extents {
            for at in 0..crate::message::byte_len(extent) {
                extents.flip(extent, at, 1 << (at % 8));
                let after = answers(&extents, &pointer, &model);
                let is_found = after.iter().any(Result::is_err);
                for (after, whole) in after.into_iter().zip(&whole) {
                    match after {
                        Ok(after) => assert_eq!(after, *whole),
                        Err(error) => assert!(
                            matches!(error, Error::Damaged { address, .. } if address == extent.address)
                        ),
                    }
                }
                found += usize::from(is_found);
                extents.flip(extent, at, 1 << (at % 8));
            }
        }
        assert!(found as u64 > pointer.directory_len, "all bytes but the zeros behind them");
    }
}

#[test]
fn a_run_of_another_pool_another_birth_or_another_place_is_damaged() {
    let (extents, model) = (Arc::new(MemoryExtents::default()), model());
    let shape =
        Shape { part_bytes: 100, blocks: 1, compression: Compression::None, has_filter: true };
    let pointer = model.write(&extents, shape, 7).unwrap();
    let other = model.write(&extents, shape, 8).unwrap();
    let is_damaged =
        |pointer: RunPointer| answers(&extents, &pointer, &model).iter().all(Result::is_err);
    assert!(!is_damaged(pointer.clone()));
    assert!(is_damaged(RunPointer { birth: 8, entered: 8, ..pointer.clone() }));
    assert!(is_damaged(RunPointer { extents: other.extents.clone(), ..pointer.clone() }));
    assert!(is_damaged(RunPointer { messages: pointer.messages + 1, ..pointer.clone() }));
}

#[test]
fn parts_that_are_damaged_in_place_come_from_another_replica() {
    let (extents, model) = (Arc::new(MemoryExtents::in_place()), model());
    let shape =
        Shape { part_bytes: 100, blocks: 1, compression: Compression::None, has_filter: true };
    let pointer = model.write(&extents, shape, 7).unwrap();
    let whole = answers(&extents, &pointer, &model).map(Result::unwrap);
    let before = extents.reads();
    let count = |before: u64| extents.reads() - before;
    assert!(answers(&extents, &pointer, &model).iter().all(Result::is_ok));
    let directories = count(before);
    extents.flip_in_place(pointer.extents[0], 3);
    let before = extents.reads();
    assert_eq!(answers(&extents, &pointer, &model).map(Result::unwrap), whole);
    assert!(count(before) > directories);
}

/// The checksums are those of the bytes: only a forgery, or a defect of a writer, has keys in such an order.
#[test]
fn keys_that_do_not_ascend_are_damage_to_cursors() {
    let (extents, mut written) = (Arc::new(MemoryExtents::default()), Vec::new());
    let shape =
        Shape { part_bytes: 100, blocks: 1, compression: Compression::None, has_filter: true };
    let mut writer = writer(&extents, &mut written, shape, 7);
    for key in [b"b", b"d", b"c", b"e"] {
        writer.add_in_any_order(key, Message::DELETE).unwrap();
    }
    let pointer = writer.finish().unwrap().unwrap();
    let run = Run::open(store(extents), pointer);
    for is_forward in [true, false] {
        let mut cursor = RunCursor::new(Arc::clone(&run), b"", None, Reads::Cached).unwrap();
        let found = all(&mut cursor, is_forward);
        assert!(matches!(found, Err(Error::Damaged { what: "part of a run", .. })));
    }
}

proptest! {
    /// Checksums are right only by forgery here: a directory that a pointer vouches for may have any bytes.
    #[test]
    fn forged_pointers_lead_to_errors_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
    ) {
        let (extents, model) = (Arc::new(MemoryExtents::default()), model());
        let shape = Shape { part_bytes: 100, blocks: 1, compression: Compression::None, has_filter: true };
        let mut encoded = Vec::new();
        model.write(&extents, shape, 7).unwrap().encode(&mut encoded);
        for (at, byte) in flips {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        for bytes in [bytes, encoded] {
            if let Ok(pointer) = RunPointer::decode(&mut halite_codec::Reader(&bytes)) {
                let _ = Run::open(store(Arc::clone(&extents)), pointer).find(b"abc", hash_key(b"abc"));
            }
        }
    }
}
