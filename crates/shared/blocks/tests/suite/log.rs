//! The guarantees of every log, for each algorithm.

use halite_blocks::Error;
use halite_blocks::log::{Algorithm, Classic, Header, Layout, Log, PopLog, Rawl, Salted};
use halite_pmem::{Fresh, LINE, Pool, PoolOptions, UNIT};
use proptest::prelude::*;
use tempfile::TempDir;

const LAYOUTS: [Layout; 2] = [Layout::Packed, Layout::Lines];
const AT: u64 = 4096;

fn pool() -> (TempDir, Pool) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::create(&folder.path().join("pool"), &PoolOptions::default()).unwrap();
    (folder, pool)
}

/// Runs a test of one algorithm for all of them.
macro_rules! for_every_algorithm {
    ($($(#[$attribute:meta])* $test:ident;)*) => {
        $(
            mod $test {
                use super::*;
                $(#[$attribute])*
                #[test]
                fn classic() { super::$test::<Classic>(); }
                $(#[$attribute])*
                #[test]
                fn header() { super::$test::<Header<1>>(); }
                $(#[$attribute])*
                #[test]
                fn header_dancing() { super::$test::<Header<64>>(); }
                $(#[$attribute])*
                #[test]
                fn rawl() { super::$test::<Rawl>(); }
                $(#[$attribute])*
                #[test]
                fn poplog() { super::$test::<PopLog>(); }
                $(#[$attribute])*
                #[test]
                fn salted() { super::$test::<Salted>(); }
            }
        )*
    };
}

for_every_algorithm! {
    the_entries_are_those_of_a_vec;
    arbitrary_bytes_open_or_are_named;
    a_changed_log_yields_entries_or_is_named;
    what_looks_like_entries_is_none;
    errors_are_named;
    a_failed_format_is_no_log;
}

fn list<A: Algorithm>(log: &Log<A>) -> Vec<Vec<u8>> {
    log.entries().map(|entry| entry.into_owned()).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<u8>),
    Reset,
    Reopen,
    Format(Layout),
}

fn entry() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![6 => 0_usize..200, 2 => 480_usize..530, 1 => 3900_usize..4300, 1 => 4300_usize..9000];
    (len, prop_oneof![Just(None), any::<u8>().prop_map(Some)], any::<u8>()).prop_map(
        |(len, same, first)| match same {
            Some(byte) => vec![byte; len],
            None => (0..len).map(|at| (at as u8).wrapping_mul(first | 1)).collect(),
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => entry().prop_map(Step::Append),
        2 => Just(Step::Reset),
        2 => Just(Step::Reopen),
        1 => prop::sample::select(&LAYOUTS[..]).prop_map(Step::Format),
    ]
}

fn the_entries_are_those_of_a_vec<A: Algorithm>() {
    let steps = (prop::collection::vec(step(), 0..60), 1_u64..400);
    proptest!(ProptestConfig::with_cases(96), |((steps, lines) in steps)| {
        let (_folder, pool) = pool();
        let len = (A::CONTROL_LINES + 1 + lines) * LINE;
        let claim = || pool.claim(AT, len).unwrap();
        let mut log = Some(Log::<A>::format(claim(), Layout::Lines).unwrap());
        let mut model: Vec<Vec<u8>> = Vec::new();
        for step in steps {
            let now = log.as_mut().unwrap();
            match step {
                Step::Append(entry) => {
                    let before = now.remaining();
                    let footprint = now.footprint(entry.len() as u64);
                    match now.append(&entry) {
                        Ok(()) => {
                            model.push(entry);
                            prop_assert_eq!(now.remaining(), before - footprint);
                        }
                        Err(Error::LogFull { needed, remaining, .. }) => {
                            prop_assert_eq!((needed, remaining), (footprint, before));
                            prop_assert!(needed > remaining);
                        }
                        Err(Error::EntryTooLong { capacity, .. }) => {
                            prop_assert!(footprint > capacity);
                        }
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                }
                Step::Reset => {
                    now.reset().unwrap();
                    prop_assert!(now.is_empty());
                    prop_assert_eq!(now.remaining(), now.capacity());
                    model.clear();
                }
                Step::Reopen => {
                    let (layout, remaining) = (now.layout(), now.remaining());
                    drop(log.take());
                    let opened = Log::open(claim()).unwrap();
                    prop_assert_eq!((opened.layout(), opened.remaining()), (layout, remaining));
                    log = Some(opened);
                }
                Step::Format(layout) => {
                    drop(log.take());
                    log = Some(Log::format(claim(), layout).unwrap());
                    model.clear();
                }
            }
            prop_assert_eq!(&list(log.as_ref().unwrap()), &model);
        }
    });
}

/// Opening a space with arbitrary bytes ends, with entries or with an error.
fn open_any<A: Algorithm>(pool: &Pool, len: u64) -> Option<Vec<Vec<u8>>> {
    match Log::<A>::open(pool.claim(AT, len).unwrap()) {
        Ok(mut log) => {
            let entries = list(&log);
            // The log goes on working.
            if log.remaining() >= log.footprint(3) {
                log.append(b"new").unwrap();
                assert_eq!(list(&log).last().map(Vec::as_slice), Some(&b"new"[..]));
            }
            drop(log);
            let again = Log::<A>::open(pool.claim(AT, len).unwrap()).unwrap();
            assert_eq!(&list(&again)[..entries.len()], &entries);
            Some(entries)
        }
        Err(
            Error::NotALog { .. }
            | Error::LogDamaged { .. }
            | Error::LogVersion { .. }
            | Error::LogAlgorithm { .. },
        ) => None,
        Err(other) => panic!("{other}"),
    }
}

fn arbitrary_bytes_open_or_are_named<A: Algorithm>() {
    let len = (A::CONTROL_LINES + 20) * LINE;
    let head = A::CONTROL_LINES as usize * 64 + 64;
    let words = prop_oneof![any::<u64>(), 0..40_u64, Just(0), Just(u64::MAX), Just(1 << 63)];
    let bytes = (any::<bool>(), prop::collection::vec(words, len as usize / 8));
    proptest!(ProptestConfig::with_cases(200), |((keeps_head, words) in bytes)| {
        let (_folder, pool) = pool();
        let mut space = Log::<A>::format(pool.claim(AT, len).unwrap(), Layout::Packed).unwrap().into_space();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let from = if keeps_head { head } else { 0 };
        space.write(from as u64, &bytes[from..]);
        drop(space);
        open_any::<A>(&pool, len);
    });
}

fn filled<A: Algorithm>(pool: &Pool, layout: Layout, len: u64) -> (Fresh, Vec<Vec<u8>>) {
    let mut log = Log::<A>::format(pool.claim(AT, len).unwrap(), layout).unwrap();
    log.append(b"of an earlier life, which is longer than what comes now").unwrap();
    log.append(&[0; 100]).unwrap();
    log.reset().unwrap();
    let mut entries = Vec::new();
    for number in 0..12 {
        let entry = vec![number * 7 + 1; usize::from(number) * 9];
        log.append(&entry).unwrap();
        entries.push(entry);
    }
    (log.into_space(), entries)
}

/// A log with flipped bits, or with a zeroed or stale end, is opened or refused. A salted one, whose sums
/// detect every change, yields a prefix of its entries.
fn a_changed_log_yields_entries_or_is_named<A: Algorithm>() {
    let len = (A::CONTROL_LINES + 60) * LINE;
    let changes = (0..2_usize, any::<prop::sample::Index>(), 0..8_u32, 0..3_u32);
    proptest!(ProptestConfig::with_cases(300), |((layout, at, bit, how) in changes)| {
        let (_folder, pool) = pool();
        let (mut space, entries) = filled::<A>(&pool, LAYOUTS[layout], len);
        let at = at.index(len as usize - LINE as usize) as u64 + if how == 0 { 0 } else { LINE };
        match how {
            0 => {
                let byte = space.read(at, 1)[0];
                space.write(at, &[byte ^ 1 << bit]);
            }
            1 => drop(space.zero(at..len)),
            _ => space.write(at, &vec![0xa5; (len - at) as usize]),
        }
        drop(space);
        let found = open_any::<A>(&pool, len);
        if let Some(found) = found && A::NAME == "salted" {
            prop_assert!(entries.starts_with(&found), "{:?}", found);
        }
    });
}

/// A payload that is a copy of entries, at the places where the log goes on in its next life.
fn what_looks_like_entries_is_none<A: Algorithm>() {
    for layout in LAYOUTS {
        let (_folder, pool) = pool();
        let len = (A::CONTROL_LINES + 100) * LINE;
        let mut log = Log::<A>::format(pool.claim(AT, len).unwrap(), layout).unwrap();
        log.append(b"first").unwrap();
        log.append(b"second").unwrap();
        let space = log.into_space();
        let start = ((1 + A::CONTROL_LINES) * LINE) as usize;
        let copy = space.bytes()[start..start + 1024].to_vec();
        drop(space);
        let mut log = Log::<A>::open(pool.claim(AT, len).unwrap()).unwrap();
        log.append(&copy).unwrap();
        log.reset().unwrap();
        assert_eq!(list(&log).len(), 0);
        log.append(b"x").unwrap();
        let log = Log::<A>::open(
            pool.claim(AT, {
                drop(log);
                len
            })
            .unwrap(),
        )
        .unwrap();
        assert_eq!(list(&log), [b"x"]);
    }
}

fn errors_are_named<A: Algorithm>() {
    let (_folder, pool) = pool();
    let claim = |len| pool.claim(AT, len).unwrap();
    assert!(matches!(Log::<A>::open(claim(UNIT / 2)), Err(Error::NotALog { offset: AT })));
    assert!(matches!(Log::<A>::open(claim(LINE)), Err(Error::LogSpace { .. })));
    assert!(matches!(Log::<A>::format(claim(4097), Layout::Lines), Err(Error::LogSpace { .. })));
    let len = (A::CONTROL_LINES + 9) * LINE;
    let mut log = Log::<A>::format(claim(len), Layout::Lines).unwrap();
    let error = log.append(&[1; 512]).unwrap_err();
    assert!(matches!(error, Error::EntryTooLong { len: 512, capacity: 512 }), "{error}");
    while log.remaining() >= log.footprint(9) {
        log.append(b"something").unwrap();
    }
    let count = list(&log).len();
    assert!(matches!(log.append(&[1; 100]), Err(Error::LogFull { len: 100, .. })));
    assert_eq!(list(&log).len(), count);
    drop(log);
    // Another length, another algorithm, another version.
    assert!(matches!(Log::<A>::open(claim(len + LINE)), Err(Error::LogDamaged { .. })));
    assert!(Log::<A>::open(claim(len)).is_ok());
    let other = if A::NAME == "classic" {
        Log::<Salted>::open(claim(len)).err()
    } else {
        Log::<Classic>::open(claim(len)).err()
    };
    assert!(matches!(other, Some(Error::LogAlgorithm { found, .. }) if found == A::ID));
    let mut space = claim(len);
    let version = space.read(8, 1)[0];
    space.write(8, &[version + 1]);
    drop(space);
    let newer = Log::<A>::open(claim(len)).err();
    assert!(matches!(newer, Some(Error::LogVersion { found: 2, known: 1, .. })));
}

/// A space whose formatting was interrupted is not taken for a log.
fn a_failed_format_is_no_log<A: Algorithm>() {
    let (_folder, pool) = pool();
    let len = (A::CONTROL_LINES + 30) * LINE;
    let log = Log::<A>::format(pool.claim(AT, len).unwrap(), Layout::Packed).unwrap();
    let mut space = log.into_space();
    space.write(40, &[0; 8]);
    drop(space);
    assert!(matches!(
        Log::<A>::open(pool.claim(AT, len).unwrap()),
        Err(Error::NotALog { offset: AT })
    ));
}

/// The costs of one append, one reset and one format.
#[test]
fn operations_cost_what_the_documentation_says() {
    fn costs<A: Algorithm>(fences: u64, header: u64, more: u64) {
        let (_folder, pool) = pool();
        let len = UNIT / 4;
        let before = pool.traffic();
        let mut log = Log::<A>::format(pool.claim(AT, len).unwrap(), Layout::Lines).unwrap();
        let zeroes = A::NEEDS_BLANK || A::CONTROL_LINES > 0;
        assert_eq!((pool.traffic() - before).fences, 2 + u64::from(zeroes), "{}", A::NAME);
        for n in [0, 1, 8, 48, 52, 53, 56, 57, 64, 100, 512, 2000, 5000] {
            let before = pool.traffic();
            log.append(&vec![7; n as usize]).unwrap();
            let cost = pool.traffic() - before;
            let bytes = if A::NAME == "rawl" {
                let words: u64 = 1 + u64::div_ceil(n, 8);
                8 * (words + words.div_ceil(63))
            } else {
                header + n
            };
            let lines = bytes.div_ceil(64) + more;
            assert_eq!((cost.fences, cost.lines), (fences, lines), "{} {n}", A::NAME);
            if A::NAME != "rawl" || bytes <= 4096 {
                assert_eq!(cost.flushes, fences, "{} {n}", A::NAME);
            }
        }
        let before = pool.traffic();
        log.reset().unwrap();
        let cost = pool.traffic() - before;
        if A::NEEDS_BLANK {
            assert_eq!(cost.fences, 3, "{}", A::NAME);
        } else {
            assert_eq!((cost.fences, cost.lines), (1, 1), "{}", A::NAME);
        }
    }
    costs::<Classic>(2, 16, 1);
    costs::<Header<1>>(2, 8, 1);
    costs::<Header<64>>(2, 8, 1);
    costs::<Rawl>(1, 0, 0);
    costs::<PopLog>(1, 8, 0);
    costs::<Salted>(1, 12, 0);
}

/// RAWL's next life uses the opposite validity bit where that is cheaper.
#[test]
fn a_full_rawl_is_reset_by_one_store() {
    let (_folder, pool) = pool();
    let space = pool.claim(AT, 11 * LINE).unwrap();
    let mut log = Log::<Rawl>::format(space, Layout::Lines).unwrap();
    for round in 0..5 {
        while log.remaining() > 0 {
            log.append(&[round; 40]).unwrap();
        }
        assert_eq!(list(&log), vec![vec![round; 40]; 10]);
        let before = pool.traffic();
        log.reset().unwrap();
        let cost = pool.traffic() - before;
        assert_eq!((cost.fences, cost.lines), (1, 1));
        assert_eq!(list(&log).len(), 0);
    }
    for rounds in [7_u8, 3, 6, 2, 10, 5] {
        for number in 0..rounds {
            log.append(&[number; 40]).unwrap();
        }
        log.reset().unwrap();
        let space = log.into_space();
        drop(space);
        log = Log::open(pool.claim(AT, 11 * LINE).unwrap()).unwrap();
        assert!(log.is_empty());
    }
}
