//! A kernel that has no descriptor, no memory or no time, at any of its calls: each operation of the pool
//! then fails with the kernel's error and has no effect, or succeeds all the same, and the pool stays
//! usable. After a failed sync, the pool reports that failure from then on.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use halite_pmem::{Domain, Error, Pool, PoolOptions, Result, UNIT};
use halite_sim::{Call, Failures};

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EOPNOTSUPP: i32 = 95;
const ERRNOS: [i32; 5] = [EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE];

/// A pool of which calls fail.
struct Life {
    path: PathBuf,
    failures: Failures,
    options: PoolOptions,
    errno: i32,
    /// How often an operation was refused.
    failed: usize,
}

/// The operations on a pool, each repeatable. The file's length does not change where one fails.
type Step = fn(&Pool) -> Result<()>;

const STEPS: [Step; 5] = [
    |pool| {
        let mut fresh = pool.claim(4096, 8192)?;
        fresh.write(0, &[7; 5000]);
        pool.fence([fresh.flush(0..5000)]).map(drop)
    },
    |pool| pool.grow(UNIT),
    |pool| {
        // The longer file that a growth leaves when a kill interrupts it.
        let file = OpenOptions::new().write(true).open(pool.path()).unwrap();
        file.set_len(pool.len() + 4096).unwrap();
        pool.grow(1)
    },
    |pool| {
        let fresh = pool.claim(4096, 8192)?;
        pool.fence_found(&[fresh.flush(0..5000)]).map(drop)
    },
    Pool::sync_file,
];

impl Life {
    fn new(folder: &Path, domain: Option<Domain>, errno: i32) -> Self {
        let (path, failures) = (folder.join("pool"), Failures::default());
        let mut options = PoolOptions::default();
        options.size_max = 16 << 20;
        options.assume_domain = domain;
        options.failures = Some(failures.clone());
        Self { path, failures, options, errno, failed: 0 }
    }

    fn create(&self) -> Result<Pool> {
        let pool = Pool::create(&self.path, &self.options)?;
        // If the name may not be durable, the pool is named again.
        pool.install().inspect_err(|_| _ = fs::remove_file(&self.path))?;
        Ok(pool)
    }

    fn open(&self) -> Result<Pool> {
        let mut byte = [0];
        Pool::peek(&self.path, &self.options, 4096, &mut byte).map_err(|source| Error::Io {
            path: self.path.clone(),
            action: "peek",
            source,
        })?;
        Pool::open(&self.path, &self.options)
    }

    /// Counts a failure, which has to be the kernel's.
    fn note(&mut self, error: &Error) {
        self.failed += 1;
        let is_own = |error: &Error| matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(self.errno));
        assert!(is_own(error), "{error}");
        assert_eq!(self.failures.failed().len(), 1, "{error}");
    }

    /// Runs `act`, and again if it fails.
    fn twice<T>(&mut self, act: impl Fn(&Self) -> Result<T>) -> T {
        act(self).unwrap_or_else(|error| {
            self.note(&error);
            act(self).unwrap()
        })
    }

    /// Whether the pool holds the bytes that the first step stored.
    fn is_whole(pool: &Pool) -> bool {
        let fresh = pool.claim(4096, 8192).unwrap();
        fresh.bytes()[..5000].iter().all(|byte| *byte == 7)
    }

    fn live(&mut self) {
        let mut pool = self.twice(Self::create);
        for (number, step) in STEPS.into_iter().enumerate() {
            let len = pool.len();
            if let Err(error) = step(&pool) {
                self.note(&error);
                assert_eq!(pool.len(), len);
                assert!(number == 0 || Self::is_whole(&pool));
                if self.failures.failed() == [Call::Sync] {
                    let told = pool.check_synced().unwrap_err();
                    assert!(matches!(told, Error::SyncFailed { .. }), "{told}");
                    assert!(matches!(pool.sync_file(), Err(Error::SyncFailed { .. })));
                    drop(pool);
                    pool = self.open().unwrap();
                }
                step(&pool).unwrap();
            }
            assert!(Self::is_whole(&pool));
        }
        assert_eq!(pool.len(), 3 * UNIT);
        drop(pool);
        let pool = self.twice(Self::open);
        assert!(Self::is_whole(&pool) && pool.len() == 3 * UNIT);
        STEPS[0](&pool)
            .or_else(|error| {
                self.note(&error);
                drop(pool);
                STEPS[0](&self.open().unwrap())
            })
            .unwrap();
    }
}

/// Lets each call of a pool's life fail in turn. Returns how many there are.
fn fail_each(folder: &Path, domain: Option<Domain>, errno: i32) -> u64 {
    for after in 0.. {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let mut life = Life::new(folder.path(), domain, errno);
        life.failures.fail(after, 1, errno);
        life.live();
        match life.failures.failed()[..] {
            [] => return after,
            // A call that a signal interrupts, and a write, are made again.
            [Call::Write] => assert_eq!(life.failed, 0),
            [call] => assert_eq!(life.failed, usize::from(errno != EINTR), "{call:?} {after}"),
            _ => panic!("one call was to fail: {:?}", life.failures.failed()),
        }
    }
    unreachable!("a life ends")
}

#[test]
fn every_call_may_fail_and_the_pool_goes_on() {
    let memory = Path::new("/dev/shm");
    for domain in [None, Some(Domain::PageCache)] {
        for errno in ERRNOS {
            let calls = fail_each(memory, domain, errno);
            assert!(calls > 25, "{calls} calls");
        }
    }
}

#[test]
fn every_call_about_an_ordinary_file_may_fail_and_the_pool_goes_on() {
    let calls = fail_each(Path::new(env!("CARGO_TARGET_TMPDIR")), None, ENOMEM);
    assert!(calls > 25, "{calls} calls");
}

/// Only the kernel's own answer tells whether a file is persistent memory, not a refusal for lack of a
/// resource.
#[test]
fn a_file_is_taken_for_an_ordinary_one_only_where_it_says_so() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let life = Life::new(folder.path(), None, 0);
    drop(life.create().unwrap());
    let open = |errno| {
        life.failures.stop();
        let map = (0..).find(|&after| {
            life.failures.fail(after, 1, ENOMEM);
            // The addresses have been reserved before.
            life.open().is_err_and(|error| error.to_string().contains("cannot map"))
        });
        life.failures.fail(map.unwrap(), 1, errno);
        life.open()
    };
    for errno in [EAGAIN, ENOMEM, ENFILE] {
        let error = open(errno).err().unwrap();
        assert!(error.to_string().contains("cannot map the pool"), "{error}");
    }
    for errno in [EOPNOTSUPP, EINVAL] {
        open(errno).unwrap();
        assert_eq!(life.failures.failed(), [Call::Map]);
    }
}

#[test]
fn where_space_cannot_be_promised_zeros_are_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let life = Life::new(folder.path(), None, EOPNOTSUPP);
    let calls = |life: &Life| {
        let before = life.failures.calls();
        drop(life.create().unwrap());
        fs::remove_file(&life.path).unwrap();
        life.failures.calls() - before
    };
    let promised = calls(&life);
    life.failures.fail_every(Call::Resize, EOPNOTSUPP);
    let pages = UNIT / rustix::param::page_size() as u64;
    // Each is allocated by a call that a test can let fail, and that is made again.
    assert_eq!(calls(&life), promised + pages);
}
