//! Runs in extents that are written in steps are what they were written of, whatever is beside them.

use std::sync::Arc;

use halite_vdev::BLOCK;
use proptest::prelude::*;

use super::super::test_storage::MemoryExtents;
use super::super::{Reads, Run, RunCursor, RunPlace, RunPointer};
use super::model::{Model, Shape, models, shapes, store};
use super::moves::all;
use crate::message::byte_len;
use crate::storage::Extent;
use crate::{Error, Result};

/// Bytes that a last extent has at least.
const SPARE: usize = 12 << 10;

/// All messages of a run that is opened anew.
fn messages(
    extents: &Arc<MemoryExtents>,
    pointer: &RunPointer,
) -> Result<Vec<(super::model::Key, super::model::Owned)>> {
    let run = Run::open(store(Arc::clone(extents)), pointer.clone());
    let mut cursor = RunCursor::new(run, b"", None, Reads::Cached)?;
    all(&mut cursor, true)
}

/// Whether a scrub finds all that the runs have in an extent whole.
fn is_whole(extents: &Arc<MemoryExtents>, pointers: &[RunPointer], extent: Extent) -> bool {
    let bytes = extents.bytes(extent);
    pointers.iter().all(|pointer| {
        let run = Run::open(store(Arc::clone(extents)), pointer.clone());
        let number = pointer.extents.iter().position(|of_run| *of_run == extent);
        number.is_none_or(|number| run.is_extent_whole(number, &bytes))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn runs_behind_each_other_are_what_they_were_written_of_and_own_each_extent_once(
        runs in prop::collection::vec(models(), 1..6),
        shape in shapes(),
        flip in any::<(prop::sample::Index, prop::sample::Index)>(),
        // Free space may be in short runs.
        blocks in prop::option::of(1..3_usize),
    ) {
        let extent_bytes = blocks.map(|blocks| blocks * BLOCK);
        let mut extents = MemoryExtents::in_place();
        extents.extent_bytes = extent_bytes;
        let extents = Arc::new(extents);
        let (mut pointers, mut written): (Vec<RunPointer>, Vec<&Model>) = (Vec::new(), Vec::new());
        for (model, birth) in runs.iter().zip(5..) {
            let behind = pointers.last().and_then(RunPointer::tail);
            let placement = RunPlace::InSteps { behind, spare: SPARE };
            let pointer = model.place(&extents, shape, birth, placement);
            written.extend(pointer.is_some().then_some(model));
            pointers.extend(pointer);
        }
        let mut owned: Vec<Extent> =
            pointers.iter().flat_map(|pointer| pointer.own_extents().to_vec()).collect();
        owned.sort();
        prop_assert_eq!(&owned, &extents.stored());
        for (pointer, model) in pointers.iter().zip(&written) {
            prop_assert_eq!(messages(&extents, pointer).unwrap(), model.within(b"", None));
            // An older version of the buffer may end there: another run does not go there any more.
            let (extent, at) = pointer.tail().unwrap();
            let is_followed = pointers.iter().any(|other| {
                other.extents[0] == extent && other.base == Some(at as u32)
            });
            let is_tail = crate::storage::Extents::tail(&*extents, extent) == Some(at);
            prop_assert!(is_tail != is_followed);
        }
        let Some(&extent) = owned.get(flip.0.index(owned.len().max(1))) else { return Ok(()) };
        prop_assert!(is_whole(&extents, &pointers, extent));
        let at = flip.1.index(byte_len(extent));
        extents.flip(extent, at, 4);
        let mut is_found = false;
        for (pointer, model) in pointers.iter().zip(&written) {
            match messages(&extents, pointer) {
                Ok(messages) => prop_assert_eq!(messages, model.within(b"", None)),
                Err(Error::Damaged { address, .. }) => {
                    prop_assert_eq!(address, extent.address);
                    is_found = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        prop_assert!(!is_found || !is_whole(&extents, &pointers, extent));
        let is_first = pointers.iter().any(|pointer| pointer.own_extents().first() == Some(&extent));
        prop_assert!(at > 0 || !is_first || is_found, "the first byte is one of a run");
    }
}

#[test]
fn a_run_goes_to_an_extent_of_its_own_where_none_can_be_appended_to() {
    let shape = Shape { blocks: 4, ..super::runs::SHAPE };
    let model = super::runs::numbered(50, 20);
    let placement = |behind| RunPlace::InSteps { behind, spare: SPARE };
    // Extents that are written whole.
    let extents = MemoryExtents::default();
    let pointer = model.place(&extents, shape, 5, placement(None)).unwrap();
    assert_eq!((pointer.base, pointer.tail()), (None, None));
    let extents = MemoryExtents::in_place();
    let first = model.place(&extents, shape, 5, placement(None)).unwrap();
    let tail = first.tail().unwrap();
    assert_eq!((first.base, tail.0.blocks), (Some(0), 3));
    let second = model.place(&extents, shape, 6, placement(Some(tail))).unwrap();
    assert_eq!((&second.extents, second.base), (&first.extents, Some(tail.1 as u32)));
    assert!(second.own_extents().is_empty());
    // Another tree has appended there.
    let third = model.place(&extents, shape, 6, placement(Some(tail))).unwrap();
    assert_eq!((third.own_extents().len(), third.base), (1, Some(0)));
}
