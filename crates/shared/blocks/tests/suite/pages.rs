//! Page stores against a model, against damage, and the costs of a flush.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use halite_blocks::Error;
use halite_blocks::page::{
    ChecksummedPages, CopyOnWrite, CostModel, DirtyLines, Hybrid, MicroLog, PageBuffer, PageSize,
    PageStore, SealedMicroLog, Shape,
};
use halite_pmem::{Domain, Fresh, Medium, Pool, PoolOptions, Traffic, UNIT};
use proptest::prelude::*;
use tempfile::TempDir;

/// A pool whose space is claimed anew each time.
struct Place {
    pool: Pool,
    _folder: TempDir,
}

impl Place {
    fn new(len: u64) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let mut options = PoolOptions::default();
        (options.size_initial, options.size_max) = (len, len.max(UNIT));
        let pool = Pool::create(&folder.path().join("pool"), &options).expect("a pool");
        Self { pool, _folder: folder }
    }

    fn space(&self) -> Fresh {
        self.pool.claim(0, self.pool.len()).expect("nobody else has it")
    }
}

fn shape(bytes: u64, pages: u32) -> Shape {
    Shape { page_size: PageSize::new(bytes).expect("a page size"), pages }
}

/// A change of a page, or the end of a store and its opening.
#[derive(Debug, Clone)]
enum Step {
    Flush { page: u32, changes: Vec<(u32, u8)>, is_partial: bool },
    Reopen,
}

const PAGES: u32 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let changes = prop_oneof![
        4 => prop::collection::vec((0..64_u32, any::<u8>()), 0..6),
        1 => prop::collection::vec((0..64_u32, any::<u8>()), 40..90),
    ];
    let flush = (0..PAGES, changes, any::<bool>())
        .prop_map(|(page, changes, is_partial)| Step::Flush { page, changes, is_partial });
    prop::collection::vec(prop_oneof![8 => flush, 1 => Just(Step::Reopen)], 1..40)
}

/// A store has the flushed pages, with any earlier contents of its space.
fn obeys_the_model<S: PageStore>(steps: &[Step]) {
    let shape = shape(4096, PAGES);
    let place = Place::new(UNIT);
    let mut space = place.space();
    space.write(0, &[0x5a; 300_000]);
    let mut store = Some(S::create(space, shape).expect("room for a store"));
    let mut model = vec![vec![0; 4096]; PAGES as usize];
    for step in steps {
        match step {
            Step::Flush { page, changes, is_partial } => {
                let store = store.as_mut().expect("it is open");
                let model = &mut model[*page as usize];
                let mut buffer = PageBuffer::partial(shape.page_size);
                if !is_partial {
                    store.read(*page, &mut buffer).expect("it is there");
                }
                for (line, fill) in changes {
                    let at = *line as usize * 64;
                    buffer.write(at as u64, &[*fill; 64]);
                    model[at..at + 64].fill(*fill);
                }
                store.flush(*page, &mut buffer).expect("it is flushed");
                assert!(buffer.dirty().is_empty());
            }
            Step::Reopen => {
                drop(store.take());
                store = Some(S::open(place.space()).expect("it opens"));
            }
        }
        let store = store.as_ref().expect("it is open");
        for (page, expected) in (0..).zip(&model) {
            let mut buffer = PageBuffer::new(shape.page_size);
            store.read(page, &mut buffer).expect("it is there");
            assert!(buffer.bytes() == expected, "page {page} after {step:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn copy_on_write_obeys_the_model(steps in steps()) {
        obeys_the_model::<CopyOnWrite>(&steps);
    }

    #[test]
    fn the_micro_log_obeys_the_model(steps in steps()) {
        obeys_the_model::<MicroLog>(&steps);
    }

    #[test]
    fn the_sealed_micro_log_obeys_the_model(steps in steps()) {
        obeys_the_model::<SealedMicroLog>(&steps);
    }

    #[test]
    fn the_hybrid_obeys_the_model(steps in steps()) {
        obeys_the_model::<Hybrid>(&steps);
    }

    #[test]
    fn checksummed_pages_obey_the_model(steps in steps()) {
        obeys_the_model::<ChecksummedPages>(&steps);
    }

    #[test]
    fn any_bytes_are_a_store_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..9000),
        damage in prop::collection::vec((0..40_000_usize, any::<u8>()), 0..40),
        whole in any::<bool>(),
    ) {
        survives_bytes::<CopyOnWrite>(&bytes, &damage, whole);
        survives_bytes::<MicroLog>(&bytes, &damage, whole);
        survives_bytes::<SealedMicroLog>(&bytes, &damage, whole);
        survives_bytes::<Hybrid>(&bytes, &damage, whole);
        survives_bytes::<ChecksummedPages>(&bytes, &damage, whole);
    }
}

/// Opens the remains of a store after some of its bytes were replaced; it answers, with pages or an error.
fn survives_bytes<S: PageStore>(bytes: &[u8], damage: &[(usize, u8)], whole: bool) {
    let place = Place::new(UNIT);
    if whole {
        drop(used::<S>(&place, shape(4096, PAGES)));
    }
    let mut space = place.space();
    if !whole {
        space.write(0, bytes);
    }
    for (at, byte) in damage {
        space.write(*at as u64, &[*byte]);
    }
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let Ok(mut store) = S::open(space) else { return };
        for page in 0..store.shape().pages {
            let mut buffer = PageBuffer::new(store.shape().page_size);
            if store.read(page, &mut buffer).is_ok() {
                buffer.write(5, &[1]);
                store.flush(page, &mut buffer).expect("it is whole");
            }
        }
    }));
    assert!(opened.is_ok(), "it panics");
}

/// A store of which every page was flushed a few times.
fn used<S: PageStore>(place: &Place, shape: Shape) -> S {
    let mut store = S::create(place.space(), shape).expect("room for a store");
    for round in 0..3 {
        for page in 0..shape.pages {
            let mut buffer = PageBuffer::new(shape.page_size);
            store.read(page, &mut buffer).expect("it is there");
            buffer.write(u64::from(page) * 64 + round, &[page as u8 + 1; 70]);
            store.flush(page, &mut buffer).expect("it is flushed");
        }
    }
    store
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let place = Place::new(UNIT);
    assert!(matches!(Hybrid::open(place.space()), Err(Error::Foreign { .. })));
    drop(used::<CopyOnWrite>(&place, shape(4096, PAGES)));
    assert!(
        matches!(Hybrid::open(place.space()), Err(Error::Foreign { found, .. }) if found.ends_with("number 1"))
    );
    let mut space = place.space();
    space.write(8, &[9]);
    let opened = CopyOnWrite::open(space);
    assert!(matches!(opened, Err(Error::Foreign { found, .. }) if found.contains("format 9")));
    let mut space = place.space();
    space.write(8, &[1]);
    space.write(20, &[9]);
    assert!(matches!(CopyOnWrite::open(space), Err(Error::Damaged { .. })));
}

#[test]
fn a_space_that_does_not_fit_is_refused_by_name() {
    let place = Place::new(UNIT);
    let needed = CopyOnWrite::space_len(shape(65_536, 100));
    let created = CopyOnWrite::create(place.space(), shape(65_536, 100));
    assert!(matches!(created, Err(Error::DoesNotFit { len: UNIT, needed: n, .. }) if n == needed));
    assert!(matches!(CopyOnWrite::create(place.space(), shape(4096, 0)), Err(Error::NoPages)));
    let askew = place.pool.claim(8, UNIT - 8).expect("nobody else has it");
    let created = CopyOnWrite::create(askew, shape(4096, 1));
    assert!(matches!(created, Err(Error::PageSpaceMisaligned { offset: 8 })));
    drop(used::<CopyOnWrite>(&place, shape(4096, PAGES)));
    let cut = place.pool.claim(0, 8192).expect("nobody else has it");
    assert!(matches!(CopyOnWrite::open(cut), Err(Error::DoesNotFit { len: 8192, .. })));
}

#[test]
fn a_page_or_a_buffer_that_is_not_the_stores_is_refused_by_name() {
    let place = Place::new(UNIT);
    let mut store = used::<Hybrid>(&place, shape(4096, PAGES));
    let mut buffer = PageBuffer::new(PageSize::new(4096).unwrap());
    let read = store.read(PAGES, &mut buffer);
    assert!(matches!(read, Err(Error::NoSuchPage { page: PAGES, pages: PAGES })));
    assert!(matches!(store.flush(u32::MAX, &mut buffer), Err(Error::NoSuchPage { .. })));
    let mut larger = PageBuffer::new(PageSize::new(8192).unwrap());
    let flushed = store.flush(0, &mut larger);
    assert!(matches!(flushed, Err(Error::OtherPageSize { bytes: 8192, expected: 4096 })));
}

/// The lines of slots begin there.
const LINES_AT: u64 = 4096;

#[test]
fn a_damaged_header_of_a_slot_is_named() {
    let place = Place::new(UNIT);
    drop(used::<CopyOnWrite>(&place, shape(4096, PAGES)));
    for byte in 0..16 {
        let mut space = place.space();
        let old = space.read(LINES_AT + byte, 1)[0];
        space.write(LINES_AT + byte, &[old ^ 4]);
        let opened = CopyOnWrite::open(space);
        assert!(matches!(opened, Err(Error::Damaged { .. })), "byte {byte}");
        place.space().write(LINES_AT + byte, &[old]);
    }
    assert!(CopyOnWrite::open(place.space()).is_ok());
}

#[test]
fn a_log_whose_numbers_are_used_up_is_named() {
    let place = Place::new(UNIT);
    let shape = shape(4096, PAGES);
    drop(used::<SealedMicroLog>(&place, shape));
    let mut space = place.space();
    let salt = u64::from_le_bytes(space.read(24, 8).try_into().expect("8 bytes"));
    let mut entry = [0; 64];
    entry[8..16].fill(0xff);
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&entry[8..], salt);
    entry[..8].copy_from_slice(&sum.to_le_bytes());
    let log_at = LINES_AT + 4096;
    let (even, odd) = (log_at, log_at + 64 + 4096);
    space.write(even, &[0; 64]);
    space.write(odd, &entry);
    let mut store = SealedMicroLog::open(space).expect("it opens");
    let mut buffer = PageBuffer::new(shape.page_size);
    buffer.write(0, &[1]);
    let flushed = store.flush(0, &mut buffer);
    assert!(matches!(flushed, Err(Error::FlushesExhausted { .. })), "{flushed:?}");
}

#[test]
fn a_torn_page_is_never_returned_and_can_be_flushed_whole() {
    let place = Place::new(UNIT);
    let shape = shape(4096, PAGES);
    drop(used::<ChecksummedPages>(&place, shape));
    let mut space = place.space();
    let slots_at = ChecksummedPages::space_len(shape) - u64::from(PAGES) * 4096;
    space.write(slots_at + 4096 + 100, &[77]);
    let mut store = ChecksummedPages::open(space).expect("it opens");
    assert_eq!(store.torn().collect::<Vec<_>>(), vec![1]);
    let mut buffer = PageBuffer::new(shape.page_size);
    assert!(matches!(store.read(1, &mut buffer), Err(Error::TornPage { page: 1 })));
    assert!(store.read(0, &mut buffer).is_ok());
    let mut part = PageBuffer::partial(shape.page_size);
    part.write(64, &[1; 64]);
    assert!(matches!(store.flush(1, &mut part), Err(Error::TornPage { page: 1 })));
    let mut whole = PageBuffer::new(shape.page_size);
    whole.write(0, &[3; 4096]);
    store.flush(1, &mut whole).expect("it is whole");
    drop(store);
    let store = ChecksummedPages::open(place.space()).expect("it opens");
    assert_eq!(store.torn().count(), 0);
    store.read(1, &mut buffer).expect("it is whole");
    assert!(buffer.bytes().iter().all(|&byte| byte == 3));
}

/// The traffic of flushing a page with so many dirty lines, no two neighbours.
fn traffic<S: PageStore>(bytes: u64, dirty: u32, is_partial: bool) -> Traffic {
    let place = Place::new(4 * UNIT);
    let shape = shape(bytes, 4);
    let mut store: S = used(&place, shape);
    let flush = |store: &mut S, page| {
        let mut buffer = PageBuffer::partial(shape.page_size);
        if !is_partial {
            store.read(page, &mut buffer).expect("it is there");
        }
        (0..dirty).for_each(|line| buffer.write(u64::from(line) * 128, &[7; 64]));
        let before = place.pool.traffic();
        store.flush(page, &mut buffer).expect("it is flushed");
        place.pool.traffic() - before
    };
    // The work that a flush leaves to the next one is counted with that.
    flush(&mut store, 0);
    flush(&mut store, 1)
}

#[test]
fn a_flush_costs_what_the_documentation_says() {
    for (bytes, dirty) in [(4096, 1), (4096, 9), (16_384, 1), (16_384, 28), (65_536, 100)] {
        let (lines, dirty_lines) = (bytes / 64, u64::from(dirty));
        let costs = |traffic: Traffic| (traffic.fences, traffic.lines);
        for is_partial in [false, true] {
            let copy = traffic::<CopyOnWrite>(bytes, dirty, is_partial);
            assert_eq!(costs(copy), (2, lines + 1));
            let parts = if is_partial { bytes / 4096 } else { 1 };
            assert_eq!(copy.flushes, parts + 1);
            // A partial page is loaded 4 KiB at a time.
            assert_eq!(copy.loads, if is_partial { parts } else { 0 });
            let log = traffic::<MicroLog>(bytes, dirty, is_partial);
            let bits = (lines / 8).div_ceil(64);
            assert_eq!(costs(log), (4, 2 * dirty_lines + bits + 2));
            assert_eq!((log.flushes, log.loads), (3 + dirty_lines, 0));
            let sealed = traffic::<SealedMicroLog>(bytes, dirty, is_partial);
            let header = (32 + lines / 8).div_ceil(64);
            assert_eq!(costs(sealed), (1, 2 * dirty_lines + header));
            assert_eq!((sealed.flushes, sealed.loads), (1 + dirty_lines, 0));
            assert_eq!(traffic::<Hybrid>(bytes, dirty, is_partial), sealed);
            let summed = traffic::<ChecksummedPages>(bytes, dirty, is_partial);
            assert_eq!(costs(summed), (1, dirty_lines + 1));
            assert_eq!(summed.loads, u64::from(is_partial));
        }
    }
}

#[test]
fn space_is_what_the_documentation_says() {
    let shape = shape(16_384, 1000);
    let pages = 1000 * 16_384;
    let rounded = |bytes: u64| bytes.next_multiple_of(4096);
    let lines = |slots: u64| rounded(slots * 64);
    assert_eq!(CopyOnWrite::space_len(shape), 4096 + lines(1008) + pages + 8 * 16_384);
    assert_eq!(MicroLog::space_len(shape), 4096 + lines(1000) + rounded(16_384 + 128) + pages);
    let entries = rounded(2 * (16_384 + 64));
    assert_eq!(SealedMicroLog::space_len(shape), 4096 + lines(1000) + entries + pages);
    assert_eq!(Hybrid::space_len(shape), CopyOnWrite::space_len(shape) + entries);
    assert_eq!(ChecksummedPages::space_len(shape), 4096 + lines(1000) + pages);
}

#[test]
fn the_hybrid_takes_lines_that_are_only_in_the_log_along() {
    let place = Place::new(UNIT);
    let shape = shape(4096, PAGES);
    let mut store: Hybrid = used(&place, shape);
    let mut expected = PageBuffer::new(shape.page_size);
    let all = DirtyLines::all(shape.page_size);
    expected.mark(&all);
    store.flush(1, &mut expected).expect("it is flushed");
    let mut part = PageBuffer::partial(shape.page_size);
    part.write(128, &[1; 64]);
    store.flush(1, &mut part).expect("it is logged");
    let before = place.pool.traffic().fences;
    let mut rest = PageBuffer::partial(shape.page_size);
    (3..64).for_each(|line| rest.write(line * 64, &[2; 64]));
    store.flush(1, &mut rest).expect("it is copied");
    assert_eq!(place.pool.traffic().fences - before, 2, "a copy takes two fences");
    expected.write(128, &[1; 64]);
    expected.write(192, &[2; 61 * 64]);
    for reopen in [false, true] {
        if reopen {
            drop(store);
            store = Hybrid::open(place.space()).expect("it opens");
        }
        let mut found = PageBuffer::new(shape.page_size);
        store.read(1, &mut found).expect("it is there");
        assert!(found.bytes() == expected.bytes());
    }
}

#[test]
fn a_model_is_measured_for_several_threads() {
    let place = Place::new(4 * UNIT);
    for threads in [1, 2] {
        let spaces = (0..threads).map(|n| place.pool.claim(n * 2 * UNIT, 2 * UNIT).unwrap());
        let page_size = PageSize::new(16_384).unwrap();
        let model = CostModel::measure(spaces.collect(), page_size).expect("it is measured");
        let costs = model.log_ns.iter().chain([&model.copy_ns, &model.partial_copy_ns]);
        assert!(costs.into_iter().all(|ns| ns.is_finite() && *ns > 0.0), "{model:?}");
        let mut store = Hybrid::create(place.space(), shape(16_384, 4)).expect("room for a store");
        store.set_model(model);
        assert_eq!(store.model(), model);
    }
    let small = place.pool.claim(0, UNIT / 16).expect("nobody else has it");
    let measured = CostModel::measure(vec![small], PageSize::new(16_384).unwrap());
    assert!(matches!(measured, Err(Error::DoesNotFit { .. })));
}

#[test]
fn threads_with_stores_of_their_own_share_nothing() {
    let place = Place::new(2 * UNIT);
    let shape = shape(4096, 16);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let space = place.pool.claim(thread * UNIT, UNIT).expect("nobody else has it");
            scope.spawn(move || {
                let mut store = Hybrid::create(space, shape).expect("room for a store");
                let mut model = BTreeMap::new();
                for round in 0..2000_u32 {
                    let (page, line) = (round * 7 % 16, round * 13 % 64);
                    let mut buffer = PageBuffer::partial(shape.page_size);
                    let fill = [(thread as u8).wrapping_add(round as u8); 64];
                    buffer.write(u64::from(line) * 64, &fill);
                    store.flush(page, &mut buffer).expect("it is flushed");
                    model.insert((page, line), fill);
                }
                for ((page, line), fill) in model {
                    let mut buffer = PageBuffer::new(shape.page_size);
                    store.read(page, &mut buffer).expect("it is there");
                    assert_eq!(buffer.bytes()[line as usize * 64..][..64], fill);
                }
            });
        }
    });
}

fn refuses_flushes_after_one_that_failed<S: PageStore>() {
    let medium = Medium::new(Domain::Memory, UNIT).unwrap();
    let mut options = PoolOptions::default();
    options.medium = Some(medium.clone());
    let pool = Pool::create(Path::new("pages"), &options).unwrap();
    let mut store = S::create(pool.claim(0, UNIT).unwrap(), shape(4096, PAGES)).unwrap();
    let mut buffer = PageBuffer::new(shape(4096, PAGES).page_size);
    for lines in [1, 64] {
        buffer.write(0, &vec![1; lines * 64]);
        store.flush(0, &mut buffer).unwrap();
    }
    medium.machine().cut_power();
    for lines in [1, 64] {
        buffer.write(0, &vec![2; lines * 64]);
        let failed = store.flush(0, &mut buffer);
        if lines == 1 {
            assert!(matches!(failed, Err(Error::Pool(_))), "{failed:?}");
        } else {
            assert!(matches!(failed, Err(Error::PagesFailed { .. })), "{failed:?}");
        }
        assert!(!buffer.dirty().is_empty(), "what is not flushed stays dirty");
    }
}

#[test]
fn a_flush_after_one_that_failed_is_refused() {
    refuses_flushes_after_one_that_failed::<CopyOnWrite>();
    refuses_flushes_after_one_that_failed::<MicroLog>();
    refuses_flushes_after_one_that_failed::<SealedMicroLog>();
    refuses_flushes_after_one_that_failed::<Hybrid>();
    refuses_flushes_after_one_that_failed::<ChecksummedPages>();
}
