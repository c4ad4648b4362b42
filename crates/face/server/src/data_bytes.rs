//! The bytes of all records, for `maxmemory` on an engine that does not know them.
//!
//! An engine with levels learns only in merges what a write has replaced. As soon as there is a limit, a thread adds up all
//! records once, and from then on each commit adds what it makes them grow ([`halite::Batch::growth`]), for which it reads
//! what it replaces. When all keys of a database are removed, the records are added up anew. Until the sum is there, the
//! limit does not hold. It is about right: commits of other threads at the moment at which it begins may be missed, and
//! records that cannot be read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use halite::{Iter, KeySpace};

use crate::ending::Ending;
use crate::lock::lock;

/// Records after which a sum looks whether it is still wanted.
const STEP: u64 = 1024;

/// The bytes of all records, for all threads.
#[derive(Default)]
pub(crate) struct DataBytes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The bytes, or what they have grown since the sum began.
    bytes: AtomicI64,
    /// The number of the sum that is being made, or is there; 0: none.
    wanted: AtomicU64,
    /// The number of the last sum that is in `bytes`.
    added: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last sum that was begun.
    last: u64,
    /// The thread that adds up, or has.
    thread: Option<JoinHandle<()>>,
}

impl DataBytes {
    /// The bytes, if they are known. If they are not, it begins to add up the records of `spaces`, unless a thread does.
    pub(crate) fn get(
        &self,
        db: &halite::Database,
        spaces: impl FnOnce() -> Vec<KeySpace>,
        ending: &Arc<Ending>,
    ) -> Option<u64> {
        let wanted = self.0.wanted.load(Ordering::Acquire);
        if wanted == 0 {
            self.begin(db, &spaces(), ending);
        }
        let is_known = wanted != 0 && self.0.added.load(Ordering::Acquire) == wanted;
        is_known.then(|| u64::try_from(self.0.bytes.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Notes what a commit has made the records grow.
    pub(crate) fn add(&self, growth: i64) {
        self.0.bytes.fetch_add(growth, Ordering::Relaxed);
    }

    /// Forgets the sum: it no longer holds, or there is no limit.
    pub(crate) fn forget(&self) {
        let _state = lock(&self.0.state);
        self.0.wanted.store(0, Ordering::Release);
    }

    /// Waits until the adding thread has ended.
    pub(crate) fn wait(&self) {
        let thread = lock(&self.0.state).thread.take();
        if let Some(thread) = thread {
            // A panic of the thread costs only the sum.
            let _ = thread.join();
        }
    }

    fn begin(&self, db: &halite::Database, spaces: &[KeySpace], ending: &Arc<Ending>) {
        let mut state = lock(&self.0.state);
        let is_adding = state.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if self.0.wanted.load(Ordering::Relaxed) != 0 || is_adding || ending.has_begun() {
            return;
        }
        state.last += 1;
        let number = state.last;
        self.0.bytes.store(0, Ordering::Relaxed);
        self.0.wanted.store(number, Ordering::Release);
        // All of them show the records as they are now.
        let iters: Vec<Iter> = spaces.iter().filter_map(|space| space.iter().ok()).collect();
        let (shared, db, ending) = (Arc::clone(&self.0), db.clone(), Arc::clone(ending));
        let add_up = move || {
            let is_wanted =
                || shared.wanted.load(Ordering::Relaxed) == number && !ending.has_begun();
            let sum = catch_unwind(AssertUnwindSafe(|| add_up(&db, iters, is_wanted)));
            let _state = lock(&shared.state);
            if is_wanted() {
                shared.bytes.fetch_add(sum.unwrap_or(0) as i64, Ordering::Relaxed);
                shared.added.store(number, Ordering::Release);
            }
        };
        match thread::Builder::new().name("halite-adder".to_owned()).spawn(add_up) {
            Ok(thread) => state.thread = Some(thread),
            // Without a thread, the next command tries again.
            Err(_) => self.0.wanted.store(0, Ordering::Release),
        }
    }
}

/// Records of a scan that cannot be read, at most, before it is given up.
const UNREADABLE_MAX: usize = 1000;

/// The bytes of the records of some scans, as far as they can be read.
fn add_up(db: &halite::Database, iters: Vec<Iter>, is_wanted: impl Fn() -> bool) -> u64 {
    let (mut sum, mut count) = (0, 0_u64);
    for iter in iters {
        let mut unreadable = 0;
        let is_bearable = |pair: &halite::Result<_>| {
            unreadable += usize::from(pair.is_err());
            unreadable <= UNREADABLE_MAX
        };
        for (key, value) in iter.take_while(is_bearable).flatten() {
            sum += db.space_of(key.len(), value.len());
            count += 1;
            if count.is_multiple_of(STEP) && !is_wanted() {
                return sum;
            }
        }
    }
    sum
}
