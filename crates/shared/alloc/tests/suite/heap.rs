//! The guarantees of heaps.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::heap::{
    AnyPtr, DEAD_OWNERS_MAX, HEAP_ROOTS_MAX, Heap, NvPtr, Owner, Publication, SLOT_LEN_MAX,
    SlotState, Tag, Tagged,
};
use halite_alloc::{Error, SEGMENT, Segments};
use halite_pmem::PoolOptions;
use tempfile::TempDir;

/// The device of heaps here.
pub(crate) const DEVICE: u16 = 5;

/// The contents of most slots here.
#[derive(Debug)]
pub(crate) enum Row {}

impl Tagged for Row {
    const TAG: Tag = Tag::new(7);
}

/// Other contents.
#[derive(Debug)]
enum Node {}

impl Tagged for Node {
    const TAG: Tag = Tag::new(8);
}

/// A pool in a file that is removed with it.
pub(crate) struct Place {
    folder: TempDir,
    copies: u32,
    path: PathBuf,
    segments_max: u64,
}

impl Place {
    pub(crate) fn new(segments_max: u64) -> (Self, Arc<Segments>) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let place = Self { folder, copies: 0, path, segments_max };
        let segments = Segments::create(&place.path, &place.options()).unwrap();
        segments.install().unwrap();
        (place, segments)
    }

    fn options(&self) -> PoolOptions {
        let mut options = PoolOptions::default();
        options.size_max = self.segments_max * SEGMENT;
        options
    }

    pub(crate) fn open(&self) -> Arc<Segments> {
        Segments::open(&self.path, &self.options()).unwrap()
    }

    /// Takes the bytes as a process that is killed now would leave them.
    pub(crate) fn kill(&mut self) {
        self.copies += 1;
        let copy = self.folder.path().join(format!("copy {}", self.copies));
        fs::copy(&self.path, &copy).unwrap();
        self.path = copy;
    }
}

pub(crate) fn heap(segments: &Arc<Segments>) -> Heap {
    Heap::open(&segments.device(DEVICE)).unwrap()
}

pub(crate) fn owner(number: u32) -> Owner {
    Owner::new(number).unwrap()
}

/// Reserves a slot, writes bytes to it and publishes it.
pub(crate) fn put(heap: &mut Heap, number: u32, bytes: &[u8]) -> NvPtr<Row> {
    let pointer = heap.reserve::<Row>(owner(number), bytes.len() as u64).unwrap();
    heap.write(pointer, 0, bytes).unwrap();
    let mut publication = Publication::new();
    publication.activate(pointer);
    heap.publish(&mut publication).unwrap();
    pointer
}

pub(crate) fn is_damaged<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Damaged { what, why, .. }) => format!("{what}: {why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is not found"),
    }
}

#[test]
fn a_publication_is_one_fence_and_few_lines() {
    let (_place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let head = put(&mut heap, 1, &[0; 64]);
    let mut publication = Publication::new();
    put(&mut heap, 1, &[1; 100]);
    let before = segments.pool().traffic();
    for number in 0..200_u64 {
        let pointer = heap.reserve::<Row>(owner(1), 100).unwrap();
        heap.write(pointer, 0, &[number as u8; 100]).unwrap();
        publication.activate(pointer);
        heap.publish(&mut publication).unwrap();
    }
    let cost = segments.pool().traffic() - before;
    assert_eq!(cost.fences, 200);
    // 2.6 lines of data, one of the record, one with the state of the slot before.
    assert!((4 * 200..=47 * 20).contains(&cost.lines), "{} lines", cost.lines);

    let before = segments.pool().traffic();
    for number in 0..200_u64 {
        let pointer = heap.reserve::<Row>(owner(1), 100).unwrap();
        heap.write(pointer, 0, &[number as u8; 100]).unwrap();
        publication.activate(pointer);
        publication.store(head, 8, pointer.word());
        heap.publish(&mut publication).unwrap();
    }
    let cost = segments.pool().traffic() - before;
    assert_eq!(cost.fences, 200);
    assert!(cost.lines <= 57 * 20, "{} lines: and the word that leads to it", cost.lines);
}

#[test]
fn changes_without_a_publication_cost_the_fences_of_their_method() {
    let (_place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let row = put(&mut heap, 1, &[0; 100]);
    heap.fence().unwrap();
    let other = put(&mut heap, 1, &[0; 100]);
    let pointers: Vec<_> = (0..10).map(|_| heap.reserve::<Row>(owner(1), 100).unwrap()).collect();
    // The first change at a place of the newest publications settles them.
    heap.store_word(other, 0, 1).unwrap();
    let before = segments.pool().traffic();
    for &pointer in &pointers {
        heap.write(pointer, 0, &[1; 100]).unwrap();
        heap.flush(pointer).unwrap();
    }
    heap.fence().unwrap();
    pointers.iter().for_each(|&pointer| heap.activate(pointer).unwrap());
    heap.store_word(row, 8, 3).unwrap();
    heap.fence().unwrap();
    let cost = segments.pool().traffic() - before;
    assert_eq!(cost.fences, 2);
    // The ten slots follow each other; so do their states.
    assert!(cost.lines <= 18 + 2 + 2, "{} lines", cost.lines);
    assert_eq!(heap.word(row, 8).unwrap(), 3);
    heap.free(row).unwrap();
    let next = heap.reserve::<Row>(owner(1), 100).unwrap();
    assert_eq!(heap.state(row).unwrap(), SlotState::Free);
    heap.fence().unwrap();
    assert_eq!(heap.state(next).unwrap(), SlotState::Reserved);
}

#[test]
fn slots_of_all_lengths_are_there_after_reopening() {
    let (place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let mut model = Vec::new();
    let lens = [0, 1, 16, 17, 100, 4096, 8192, 32704, 32705, 65536, 65537, 600_000, SLOT_LEN_MAX];
    for (number, len) in (1..).zip(lens) {
        let bytes = vec![number; len as usize];
        model.push((put(&mut heap, 3, &bytes), bytes));
    }
    let too_long = heap.reserve::<Row>(owner(3), SLOT_LEN_MAX + 1);
    assert!(matches!(too_long, Err(Error::TooLong { .. })));
    let forgotten = heap.reserve::<Row>(owner(3), 100).unwrap();
    heap.write(forgotten, 10, b"gap").unwrap();
    assert_eq!(heap.read_at(forgotten, 0, 13).unwrap(), b"\0\0\0\0\0\0\0\0\0\0gap");
    drop((heap, segments));
    let segments = place.open();
    let heap = Heap::open(&segments.device(DEVICE)).unwrap();
    for (pointer, bytes) in &model {
        assert!(heap.len_of(*pointer).unwrap() >= bytes.len() as u64);
        assert_eq!(heap.read_at(*pointer, 0, bytes.len() as u64).unwrap(), bytes);
    }
    assert_eq!(heap.state(forgotten).unwrap(), SlotState::Free);
    is_damaged(heap.read(forgotten));
    let accounting = heap.check(model.iter().map(|(pointer, _)| pointer.any())).unwrap();
    let segments = segments.device(DEVICE).logical_segments().len() as u64;
    assert_eq!(accounting.total(), segments * SEGMENT);
    assert_eq!((accounting.reserved, accounting.dropped), (0, 0));
    let usage = heap.usage().unwrap();
    assert_eq!(usage.owners[&owner(3)].persisted, accounting.reachable);
    assert_eq!(usage.owners[&owner(3)].slots, model.len() as u64);
    let owned: u64 = usage.owners.values().map(|usage| usage.total()).sum();
    assert_eq!(usage.metadata + usage.free + usage.roots.total() + owned, usage.total);
}

#[test]
fn pointers_are_checked_at_each_use() {
    let (_place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let row = put(&mut heap, 1, &[1; 100]);
    let span = put(&mut heap, 1, &[2; 100_000]);
    let says = |heap: &Heap, word: u64| is_damaged(heap.read(NvPtr::<Row>::from_word(word)));
    assert!(says(&heap, 0).contains("null"));
    for word in [row.word() + 1, row.word() - 1, span.word() + 8192, 1 | 7 << 40] {
        assert!(says(&heap, word).contains("no slot begins there"), "{word:#x}");
    }
    for word in [row.word() | 1 << 39, row.word() | 1 << 63] {
        assert!(says(&heap, word).contains("out of the heap"), "{word:#x}");
    }
    let says = is_damaged(heap.read(NvPtr::<Node>::from_word(row.word())));
    assert!(says.contains("tag 8"), "{says}");
    let says = is_damaged(heap.read(NvPtr::<Node>::from_word(row.word() ^ 0xf << 40)));
    assert!(says.contains("another life"), "of another type: {says}");
    for generation in 1..4096 {
        let word = row.word() ^ generation << 46;
        assert!(is_damaged(heap.read(NvPtr::<Row>::from_word(word))).contains("another life"));
    }
    is_damaged(heap.read_at(row, 100, 5));
    is_damaged(heap.read_at(row, u64::MAX, 5));
    is_damaged(heap.cancel(row));
    is_damaged(heap.activate(row));
    // The next life of a slot is not the one before.
    for pointer in [row, span] {
        let len = heap.len_of(pointer).unwrap();
        let mut publication = Publication::new();
        publication.free(pointer);
        heap.publish(&mut publication).unwrap();
        is_damaged(heap.read(pointer));
        is_damaged(heap.free(pointer));
        let lives: Vec<_> = (0..700)
            .map(|_| heap.reserve::<Row>(owner(1), len).unwrap())
            .take_while(|next| (next.word() ^ pointer.word()) << 24 != 0)
            .collect();
        is_damaged(heap.read(pointer));
        lives.into_iter().for_each(|pointer| heap.cancel(pointer).unwrap());
    }
}

#[test]
fn a_publication_that_cannot_be_changes_nothing() {
    let (_place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let row = put(&mut heap, 1, &[1; 100]);
    let reserved = heap.reserve::<Row>(owner(1), 100).unwrap();
    let check = |heap: &mut Heap, build: &dyn Fn(&mut Publication)| {
        let mut publication = Publication::new();
        publication.set_root("a", 1);
        publication.store(row, 0, 5);
        build(&mut publication);
        let error = heap.publish(&mut publication).unwrap_err();
        let is_named = matches!(error, Error::Publication { .. } | Error::Damaged { .. });
        assert!(is_named && !publication.is_empty(), "{error}");
        assert_eq!(heap.root("a"), None);
        assert_eq!(heap.word(row, 0).unwrap(), 0x0101_0101_0101_0101);
        assert_eq!(heap.state(reserved).unwrap(), SlotState::Reserved);
        let accounting = heap.check([row.any()]).unwrap();
        assert_eq!(accounting.reserved, 104, "no slot of a root is lost");
        error.to_string()
    };
    assert!(check(&mut heap, &|publication| publication.store(row, 0, 6)).contains("twice"));
    assert!(check(&mut heap, &|publication| publication.free(row)).contains("frees"));
    assert!(check(&mut heap, &|publication| publication.cover(row, 0..4)).contains("covers"));
    let freed = check(&mut heap, &|publication| {
        publication.cover(row, 8..16);
        publication.free(row);
    });
    assert!(freed.contains("that it frees"), "{freed}");
    check(&mut heap, &|publication| publication.cover(row, 0..105));
    check(&mut heap, &|publication| publication.store(row, 4, 0));
    check(&mut heap, &|publication| publication.store(row, 104, 0));
    check(&mut heap, &|publication| publication.store(reserved, 0, 0));
    check(&mut heap, &|publication| publication.free(reserved));
    check(&mut heap, &|publication| publication.activate(row));
    check(&mut heap, &|publication| {
        publication.activate(reserved);
        publication.activate(reserved);
    });
    check(&mut heap, &|publication| publication.activate(NvPtr::<Row>::NULL));
    check(&mut heap, &|publication| publication.set_root("", 1));
    check(&mut heap, &|publication| publication.set_root(&"n".repeat(256), 1));
    check(&mut heap, &|publication| {
        (0..HEAP_ROOTS_MAX).for_each(|number| publication.set_root(&number.to_string(), 1));
    });
    let dropped = DEAD_OWNERS_MAX as u32 + 1;
    check(&mut heap, &|publication| {
        (0..dropped).for_each(|number| publication.drop_owner(owner(number)));
    });
}

#[test]
fn as_many_roots_as_there_may_be_come_back() {
    let (mut place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let name = |number: usize| format!("{number}{}", "n".repeat(number % 250));
    let mut publication = Publication::new();
    for number in 0..HEAP_ROOTS_MAX {
        publication.set_root(&name(number), number as u64);
    }
    publication.set_root("first", 1);
    publication.remove_root(&name(0));
    assert!(heap.publish(&mut publication).is_ok(), "{HEAP_ROOTS_MAX} roots");
    publication.set_root("one more", 1);
    assert!(matches!(heap.publish(&mut publication), Err(Error::Publication { .. })));
    publication.clear();
    for number in (1..HEAP_ROOTS_MAX).step_by(3) {
        publication.set_root(&name(number), 7);
    }
    publication.remove_root("first");
    heap.publish(&mut publication).unwrap();
    place.kill();
    let segments = place.open();
    let heap = Heap::open(&segments.device(DEVICE)).unwrap();
    for number in 1..HEAP_ROOTS_MAX {
        let value = if number % 3 == 1 { 7 } else { number as u64 };
        assert_eq!(heap.root(&name(number)), Some(value));
    }
    assert_eq!(heap.roots().count(), HEAP_ROOTS_MAX - 1);
    assert_eq!(heap.root("first"), None);
    heap.check([]).unwrap();
}

#[test]
fn a_full_heap_frees_and_loses_nothing() {
    let (place, segments) = Place::new(6);
    let mut heap = heap(&segments);
    let mut pointers = Vec::new();
    let full = loop {
        match heap.reserve::<Row>(owner(1), 10_000) {
            Ok(pointer) => pointers.push(pointer),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert!(matches!(heap.reserve::<Row>(owner(2), 16), Err(Error::Full { .. })));
    assert!(matches!(heap.reserve::<Row>(owner(2), 100_000), Err(Error::Full { .. })));
    let mut publication = Publication::new();
    publication.set_root("needs a slot", 1);
    assert!(matches!(heap.publish(&mut publication), Err(Error::Full { .. })));
    publication.clear();
    pointers.iter().for_each(|&pointer| publication.activate(pointer));
    heap.publish(&mut publication).unwrap();
    heap.check(pointers.iter().map(|pointer| pointer.any())).unwrap();
    // Freeing needs no space; a slot for the same owner is there at once, and a chunk for another when a slab is empty.
    let kept = pointers.split_off(pointers.len() - 3);
    publication.free(pointers[0]);
    heap.publish(&mut publication).unwrap();
    let again = heap.reserve::<Row>(owner(1), 10_000).unwrap();
    heap.cancel(again).unwrap();
    pointers[1..].iter().for_each(|&pointer| publication.free(pointer));
    heap.publish(&mut publication).unwrap();
    let span = put(&mut heap, 2, &[9; 1_000_000]);
    let all = [span.any()].into_iter().chain(kept.iter().map(|pointer| pointer.any()));
    heap.check(all.clone()).unwrap();
    drop((heap, segments));
    let segments = place.open();
    let mut heap = Heap::open(&segments.device(DEVICE)).unwrap();
    heap.check(all).unwrap();
    put(&mut heap, 3, &[1; 1_000_000]);
}

#[test]
fn what_was_stored_is_durable_before_the_chunk_of_an_empty_slab_is_freed() {
    let (_place, segments) = Place::new(6);
    let mut heap = heap(&segments);
    let mut pointers = Vec::new();
    while let Ok(pointer) = heap.reserve::<Row>(owner(1), 10_000) {
        pointers.push(pointer);
    }
    let mut publication = Publication::new();
    pointers.iter().for_each(|&pointer| publication.activate(pointer));
    heap.publish(&mut publication).unwrap();
    let log = pointers.pop().unwrap();
    pointers.iter().for_each(|&pointer| heap.free(pointer).unwrap());
    heap.fence().unwrap();
    // A log that names the free slots is emptied. Were it found after their slab is no more, they could not be told from
    // damage.
    heap.store_word(log, 0, 0).unwrap();
    for (owner_of_slot, fences) in [(2, 4), (3, 3)] {
        let before = segments.pool().traffic();
        heap.reserve::<Row>(owner(owner_of_slot), 16).unwrap();
        let cost = segments.pool().traffic() - before;
        // The word of the slab's chunk, the states of the new slab, its word; and at first what was stored.
        assert_eq!(cost.fences, fences);
    }
    heap.check([log.any()]).unwrap();
}

#[test]
fn opening_looks_at_no_more_than_the_roots_and_the_newest_publications() {
    let mut looked = Vec::new();
    for rows in [1_000, 40_000] {
        let (mut place, segments) = Place::new(64);
        let mut heap = heap(&segments);
        let mut publication = Publication::new();
        for number in 0..rows {
            let pointer = heap.reserve::<Row>(owner(number % 3), 500).unwrap();
            heap.write(pointer, 0, &number.to_le_bytes()).unwrap();
            publication.activate(pointer);
            if number % 1000 == 999 {
                publication.set_root("newest", pointer.word());
                heap.publish(&mut publication).unwrap();
            }
        }
        let last = put(&mut heap, 1, &[1; 500]);
        publication.set_root("newest", last.word());
        heap.publish(&mut publication).unwrap();
        place.kill();
        let segments = place.open();
        let heap = Heap::open(&segments.device(DEVICE)).unwrap();
        looked.push(heap.looked_at());
        let newest = NvPtr::<Row>::from_word(heap.root("newest").unwrap());
        assert_eq!(heap.read_at(newest, 0, 500).unwrap(), [1; 500]);
    }
    assert_eq!(looked[0].slots, looked[1].slots);
    assert!(looked.iter().all(|looked| looked.chunks <= 4), "{looked:?}");
}

#[test]
fn a_dropped_owner_is_reclaimed_step_by_step_also_after_a_crash() {
    let (mut place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let mut kept = Vec::new();
    let mut publication = Publication::new();
    for number in 0..600_u32 {
        let len = if number % 50 == 0 { 200_000 } else { 5_000 };
        let pointer = heap.reserve::<Row>(owner(number % 3), len).unwrap();
        publication.activate(pointer);
        if number % 3 != 1 {
            kept.push(pointer.any());
        }
    }
    heap.publish(&mut publication).unwrap();
    let reserved = heap.reserve::<Row>(owner(1), 5_000).unwrap();
    publication.drop_owner(owner(1));
    heap.publish(&mut publication).unwrap();
    assert!(matches!(heap.reserve::<Row>(owner(1), 8), Err(Error::OwnerDropped { .. })));
    publication.activate(reserved);
    assert!(matches!(heap.publish(&mut publication), Err(Error::OwnerDropped { .. })));
    let before = heap.check(kept.iter().copied()).unwrap();
    assert!(before.dropped > 0);
    assert!(!heap.reclaim(1).unwrap());
    place.kill();
    let segments = place.open();
    let mut heap = Heap::open(&segments.device(DEVICE)).unwrap();
    assert_eq!(heap.dropped_owners().collect::<Vec<_>>(), [owner(1)]);
    let during = heap.check(kept.iter().copied()).unwrap();
    assert!(during.dropped > 0 && during.dropped < before.dropped, "{during:?}");
    // Space that is free already serves others meanwhile.
    kept.push(put(&mut heap, 2, &[5; 5_000]).any());
    while !heap.reclaim(1).unwrap() {
        heap.check(kept.iter().copied()).unwrap();
    }
    let after = heap.check(kept.iter().copied()).unwrap();
    assert_eq!(after.dropped, 0);
    assert!(after.free > during.free);
    assert!(!heap.usage().unwrap().owners.contains_key(&owner(1)));
    heap.reserve::<Row>(owner(1), 8).unwrap();
}

#[test]
fn what_changes_behind_a_publication_is_not_undone_by_a_crash() {
    type Change = fn(&mut Heap, [NvPtr<Row>; 2]);
    let changes: [Change; 6] = [
        |heap, [row, _]| heap.store_word(row, 0, 9).unwrap(),
        |heap, [row, _]| heap.write(row, 3, b"changed").unwrap(),
        |heap, [_, other]| heap.store_word(other, 8, 9).unwrap(),
        |heap, [_, other]| heap.write(other, 0, &[6; 100]).unwrap(),
        |heap, [row, _]| {
            heap.free(row).unwrap();
            heap.fence().unwrap();
        },
        |heap, [_, other]| {
            // The slot lives its next life, and a word that was stored in it is not stored again.
            heap.free(other).unwrap();
            heap.fence().unwrap();
            let next = loop {
                let next = heap.reserve::<Row>(owner(1), 100).unwrap();
                if (next.word() ^ other.word()) << 24 == 0 {
                    break next;
                }
            };
            heap.write(next, 0, &[7; 100]).unwrap();
            heap.flush(next).unwrap();
            heap.fence().unwrap();
            heap.activate(next).unwrap();
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        let (mut place, segments) = Place::new(64);
        let mut heap = heap(&segments);
        let other = put(&mut heap, 1, &[3; 100]);
        let row = heap.reserve::<Row>(owner(1), 100).unwrap();
        heap.write(row, 0, &[1; 100]).unwrap();
        let mut publication = Publication::new();
        publication.activate(row);
        publication.store(other, 8, row.word());
        heap.publish(&mut publication).unwrap();
        change(&mut heap, [row, other]);
        let bytes = |heap: &Heap, segments: &Arc<Segments>| {
            let device = segments.device(DEVICE);
            drop(device);
            let usage = heap.usage().unwrap();
            let read =
                |pointer| heap.read(pointer).map(<[u8]>::to_vec).map_err(|error| error.to_string());
            let read = [read(row), read(other)].map(Result::ok);
            (read, usage.owners[&owner(1)].slots)
        };
        let expected = bytes(&heap, &segments);
        place.kill();
        let segments = place.open();
        let heap = Heap::open(&segments.device(DEVICE)).unwrap();
        assert_eq!(bytes(&heap, &segments), expected, "change {number}");
    }
}

#[test]
fn space_wears_alike() {
    let (_place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let mut publication = Publication::new();
    let mut rows: Vec<_> = (0..3000).map(|_| put(&mut heap, 1, &[1; 2000])).collect();
    for number in 0..20_000 {
        let at = number * 7919 % rows.len();
        publication.free(rows[at]);
        rows[at] = heap.reserve::<Row>(owner(1), 2000).unwrap();
        heap.write(rows[at], 0, &[2; 2000]).unwrap();
        publication.activate(rows[at]);
        heap.publish(&mut publication).unwrap();
    }
    let usage = heap.usage().unwrap();
    assert!((usage.lines_max as f64) < usage.lines_mean * 2.0, "{usage:?}");
}

/// Where the heap's segment is in the file.
fn segment_at(segments: &Arc<Segments>) -> u64 {
    let device = segments.device(DEVICE);
    let fresh = device.claim(0, 0, 64).unwrap();
    fresh.offset()
}

fn flip(path: &Path, at: u64, len: usize) -> Vec<u8> {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).unwrap();
    let flipped: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x41).collect();
    file.write_all_at(&flipped, at).unwrap();
    bytes
}

#[test]
fn damaged_words_are_named() {
    let (place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let row = put(&mut heap, 1, &[1; 100]);
    let span = put(&mut heap, 1, &[1; 100_000]);
    let mut publication = Publication::new();
    publication.set_root("root", row.word());
    publication.drop_owner(owner(9));
    heap.publish(&mut publication).unwrap();
    // Nothing but the roots lies in chunks 3 and up that is not of the owner.
    let chunk = |pointer: AnyPtr| (pointer.word() & 0xff_ffff_ffff) * 8 / (64 << 10);
    let (row_chunk, span_chunk) = (chunk(row.any()), chunk(span.any()));
    drop(heap);
    let at = segment_at(&segments);
    drop(segments);
    let file = OpenOptions::new().read(true).write(true).open(&place.path).unwrap();
    let attempt = || -> Result<(), Error> {
        let segments = place.open();
        let heap = Heap::open(&segments.device(DEVICE))?;
        assert_eq!(heap.root("root"), Some(row.word()));
        assert_eq!(heap.read(row)?[..100], [1; 100]);
        assert_eq!(heap.read(span)?[..100_000], [1; 100_000]);
        assert_eq!(heap.dropped_owners().count(), 1);
        heap.check([row.any(), span.any()])?;
        Ok(())
    };
    attempt().unwrap();
    let words = [
        ("segment 0", 0),
        ("segment 0", 40 - 8),
        ("chunk", 64 + row_chunk * 8),
        ("chunk", 64 + row_chunk * 8 + 5),
        ("chunk", 64 + span_chunk * 8 + 3),
        ("chunk", 64 + (span_chunk + 1) * 8),
        ("chunk", 64 + 31 * 8),
        ("root 0", 4096),
        ("root 5", 4096 + 5 * 8 + 2),
        ("dropped owner 0", 12288 + 3),
        ("dropped owner 7", 12288 + 7 * 8),
        ("slot 0", row_chunk * 65536),
        ("slot 9", row_chunk * 65536 + 4 * 9 + 3),
    ];
    for (what, offset) in words {
        let before = flip(&place.path, at + offset, 1);
        let error = attempt().unwrap_err();
        let is_named = matches!(error, Error::Damaged { .. } | Error::NotObjects { .. });
        assert!(is_named && error.to_string().contains(what), "{what}: {error}");
        file.write_all_at(&before, at + offset).unwrap();
        let zeros = before.iter().all(|&byte| byte == 0);
        if !zeros && offset >= 64 {
            let whole = offset / 4 * 4;
            let mut word = [0; 4];
            file.read_exact_at(&mut word, at + whole).unwrap();
            file.write_all_at(&[0; 4], at + whole).unwrap();
            assert!(attempt().is_err(), "zeros at {offset}");
            file.write_all_at(&word, at + whole).unwrap();
        }
        attempt().unwrap();
    }
}

#[test]
fn damaged_records_and_roots_are_named() {
    let (mut place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let row = put(&mut heap, 1, &[1; 100]);
    let mut publication = Publication::new();
    publication.set_root("root", row.word());
    heap.publish(&mut publication).unwrap();
    let root_at = (3..32).map(|chunk| chunk << 16);
    place.kill();
    drop(heap);
    let at = segment_at(&segments);
    drop(segments);
    // Both records: one alone is an interrupted publication.
    let first = flip(&place.path, at + (1 << 16), 20);
    let second = flip(&place.path, at + (2 << 16), 20);
    let open = || Heap::open(&place.open().device(DEVICE)).map(|heap| heap.root("root"));
    assert!(is_damaged(open()).contains("publication records"));
    let file = OpenOptions::new().read(true).write(true).open(&place.path).unwrap();
    file.write_all_at(&first, at + (1 << 16)).unwrap();
    file.write_all_at(&second, at + (2 << 16)).unwrap();
    assert_eq!(open().unwrap(), Some(row.word()));
    // The root's slot, in whichever chunk it is: a byte of the value, of the check, of the length and of the name.
    let mut found = 0;
    for chunk in root_at {
        let mut bytes = vec![0; 65536];
        file.read_exact_at(&mut bytes, at + chunk).unwrap();
        let Some(name) = bytes.windows(5).position(|window| window == b"\x04root") else {
            continue;
        };
        found += 1;
        for offset in [16, 9, 0, 4] {
            let place_of = at + chunk + name as u64 - 16 + if offset == 4 { 20 } else { offset };
            let before = flip(&place.path, place_of, 1);
            assert!(is_damaged(open()).contains("root 0"));
            file.write_all_at(&before, place_of).unwrap();
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn a_device_with_other_contents_is_refused() {
    let (_place, segments) = Place::new(64);
    let pool = halite_alloc::ObjectPool::open(&segments.device(DEVICE), 65536).unwrap();
    drop(pool.get().unwrap());
    drop(pool);
    let error = Heap::open(&segments.device(DEVICE)).err().unwrap();
    assert!(matches!(error, Error::NotObjects { .. }), "{error}");
    segments.device(4).get(1).unwrap().commit().unwrap();
    assert!(is_damaged(Heap::open(&segments.device(4)).map(drop)).contains("segment 0"));
}
