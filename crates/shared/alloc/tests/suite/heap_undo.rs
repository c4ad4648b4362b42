//! Heaps of methods with an undo log of their own.

use halite_alloc::heap::{Heap, NvPtr, Publication, SlotState};
use halite_alloc::{Error, SEGMENT, Segments};
use halite_pmem::{Domain, Medium, PoolOptions};

use crate::heap::{DEVICE, Place, Row, heap, is_damaged, owner, put};

/// Lengths of slots in slabs, and of a span.
const LENS: [u64; 3] = [100, 20_000, 200_000];

#[test]
fn an_undo_log_brings_freed_slots_back() {
    let (mut place, segments) = Place::new(64);
    let mut heap = heap(&segments);
    let rows = LENS.map(|len| put(&mut heap, 1, &vec![4; len as usize]));
    for (row, len) in rows.into_iter().zip(LENS) {
        heap.restore(row, owner(1), len).unwrap();
        heap.free(row).unwrap();
        // The slot stays untouched until the fence.
        let other = heap.reserve::<Row>(owner(1), len).unwrap();
        heap.write(other, 0, &vec![5; len as usize]).unwrap();
        heap.restore(row, owner(1), len).unwrap();
        assert_eq!(heap.read_at(row, 0, len).unwrap(), vec![4; len as usize]);
        heap.cancel(other).unwrap();
        heap.free(row).unwrap();
    }
    heap.fence().unwrap();
    heap.check([]).unwrap();
    place.kill();
    let segments = place.open();
    let mut heap = Heap::open(&segments.device(DEVICE)).unwrap();
    for (row, len) in rows.into_iter().zip(LENS) {
        if len < 32_000 {
            is_damaged(heap.restore(row, owner(2), 100));
            is_damaged(heap.restore(row, owner(1), 32_000));
        }
        heap.restore(row, owner(1), len).unwrap();
        assert_eq!(heap.read_at(row, 0, len).unwrap(), vec![4; len as usize]);
    }
    heap.fence().unwrap();
    heap.check(rows.map(|row| row.any())).unwrap();
    let mut publication = Publication::new();
    rows.iter().for_each(|&row| publication.free(row));
    heap.publish(&mut publication).unwrap();
    for (row, len) in rows.into_iter().zip(LENS) {
        let next: Vec<_> = (0..700)
            .map(|_| heap.reserve::<Row>(owner(1), len).unwrap())
            .take_while(|next| (next.word() ^ row.word()) << 24 != 0)
            .collect();
        is_damaged(heap.restore(row, owner(1), len));
        next.into_iter().for_each(|pointer| heap.cancel(pointer).unwrap());
    }
}

#[test]
fn an_undo_log_takes_activated_slots_back() {
    let (mut place, segments) = Place::new(64);
    let mut open = heap(&segments);
    let mut rows = Vec::new();
    for len in LENS {
        let row = open.reserve::<Row>(owner(1), len).unwrap();
        open.write(row, 0, &vec![4; len as usize]).unwrap();
        open.flush(row).unwrap();
        rows.push(row);
    }
    open.fence().unwrap();
    rows.iter().for_each(|&row| open.activate(row).unwrap());
    open.fence().unwrap();
    drop(open);
    // Each opening finds what the one before has taken back, durably or not.
    for _ in 0..3 {
        place.kill();
        let mut heap = heap(&place.open());
        for &row in &rows {
            heap.revoke(row).unwrap();
            assert!(heap.state(row).is_err() || heap.state(row).unwrap() == SlotState::Free);
            heap.revoke(row).unwrap();
        }
        heap.fence().unwrap();
        heap.check([]).unwrap();
    }
    // A slot of the next life is none of the log's.
    let mut heap = heap(&place.open());
    let next = LENS.map(|len| put(&mut heap, 1, &vec![5; len as usize]));
    rows.iter().for_each(|&row| heap.revoke(row).unwrap());
    heap.fence().unwrap();
    heap.check(next.map(|row| row.any())).unwrap();
    is_damaged(heap.revoke(NvPtr::<Row>::from_word(rows[0].word() + 1)));
    is_damaged(heap.revoke(NvPtr::<Row>::from_word(0)));
}

#[test]
fn nothing_persisted_changes_after_a_failed_sync() {
    let medium = Medium::new(Domain::PageCache, 16 * SEGMENT).unwrap();
    let mut options = PoolOptions::default();
    options.size_max = 16 * SEGMENT;
    options.medium = Some(medium.clone());
    let segments = Segments::create("pool".as_ref(), &options).unwrap();
    segments.install().unwrap();
    let mut heap = Heap::open(&segments.device(DEVICE)).unwrap();
    let row = put(&mut heap, 1, &[3; 100]);
    heap.store_word(row, 0, 9).unwrap();
    medium.machine().fail_sync_after(Some(0));
    assert!(heap.fence().is_err());
    medium.machine().fail_sync_after(None);
    // An undo log written over the one that is still needed would be worse than none.
    let mut publication = Publication::new();
    publication.free(row);
    let refused: [Result<(), Error>; 6] = [
        heap.write(row, 8, &[1; 8]),
        heap.store_word(row, 8, 1),
        heap.free(row),
        heap.restore(row, owner(1), 100),
        heap.revoke(row),
        heap.publish(&mut publication),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(Error::Pool(_))), "{number}: {refused:?}");
    }
    assert_eq!(heap.word(row, 8).unwrap(), u64::from_le_bytes([3; 8]));
}
