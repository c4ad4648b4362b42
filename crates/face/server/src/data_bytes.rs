//! The bytes of all records, for `maxmemory` on an engine that does not know them.
//!
//! An engine with levels learns only in merges what a write has replaced. As soon as there is a limit, a thread adds up all
//! records once, and from then on each commit adds what it makes them grow ([`halite::Batch::growth`]), for which it reads
//! what it replaces. The bytes are counted for each key space, so that those of one that is emptied are known at once,
//! also while the others are added up. Until the sum is there, the limit does not hold. It is about right: commits of
//! other threads at the moment at which it begins may be missed, and records that cannot be read.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use halite::{Batch, Iter, KeySpace, KeySpaceId};

use crate::ending::Ending;
use crate::lock::lock;

/// Records after which a sum looks whether it is still wanted.
const STEP: u64 = 1024;

/// The bytes of all records, for all threads.
#[derive(Default)]
pub(crate) struct DataBytes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The bytes of all key spaces, or what they have grown since the sum began.
    bytes: AtomicI64,
    /// By key space: the part of it in that. They are those with which the first sum has begun.
    spaces: OnceLock<HashMap<KeySpaceId, Part>>,
    /// The number of the sum that is being made, or is there; 0: none.
    wanted: AtomicU64,
    /// The number of the last sum that is in `bytes`.
    added: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct Part {
    bytes: AtomicI64,
    /// It was emptied since the sum began, which has to leave it out.
    is_emptied: AtomicBool,
}

/// The growth of the records by a commit, by key space; `None`: it is emptied before.
pub(crate) struct Growth {
    parts: Vec<(KeySpaceId, Option<i64>)>,
    /// If a record that is replaced cannot be read, the batch is written all the same, and the records are added up anew.
    is_known: bool,
}

impl Part {
    fn add(&self, all: &AtomicI64, growth: i64) {
        self.bytes.fetch_add(growth, Ordering::Relaxed);
        all.fetch_add(growth, Ordering::Relaxed);
    }
}

impl Growth {
    /// That of a batch.
    pub(crate) fn of(batch: &Batch) -> Self {
        let mut parts: Vec<(KeySpaceId, Option<i64>)> = Vec::new();
        let noted = batch.growth(|space, growth| match (parts.last_mut(), growth) {
            (Some((last, Some(sum))), Some(growth)) if *last == space => *sum += growth,
            _ => parts.push((space, growth)),
        });
        Self { is_known: noted.unwrap_or(false), parts }
    }
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
    pub(crate) fn add(&self, growth: &Growth) {
        if !growth.is_known {
            return self.forget();
        }
        let Some(spaces) = self.0.spaces.get() else { return };
        for (space, growth) in &growth.parts {
            // Those of the server itself are no data.
            let Some(part) = spaces.get(space) else { continue };
            match growth {
                Some(growth) => part.add(&self.0.bytes, *growth),
                None => {
                    // The sum must not be added meanwhile.
                    let _state = lock(&self.0.state);
                    part.is_emptied.store(true, Ordering::Relaxed);
                    let bytes = part.bytes.swap(0, Ordering::Relaxed);
                    self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
            }
        }
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
        let parts = self
            .0
            .spaces
            .get_or_init(|| spaces.iter().map(|space| (space.id(), Part::default())).collect());
        for part in parts.values() {
            part.bytes.store(0, Ordering::Relaxed);
            part.is_emptied.store(false, Ordering::Relaxed);
        }
        self.0.bytes.store(0, Ordering::Relaxed);
        self.0.wanted.store(number, Ordering::Release);
        // All of them show the records as they are now.
        let iters = spaces.iter().filter_map(|space| Some((space.id(), space.iter().ok()?)));
        let iters: Vec<(KeySpaceId, Iter)> = iters.collect();
        let (shared, db, ending) = (Arc::clone(&self.0), db.clone(), Arc::clone(ending));
        let add_up = move || {
            let is_wanted =
                || shared.wanted.load(Ordering::Relaxed) == number && !ending.has_begun();
            let mut sums = Vec::new();
            for (space, iter) in iters {
                let part = shared.spaces.get().and_then(|parts| parts.get(&space));
                let Some(part) = part.filter(|_| is_wanted()) else { continue };
                let go_on = || is_wanted() && !part.is_emptied.load(Ordering::Relaxed);
                let sum = catch_unwind(AssertUnwindSafe(|| add_up(&db, iter, go_on)));
                sums.push((part, sum.unwrap_or(0)));
            }
            let _state = lock(&shared.state);
            if is_wanted() {
                let is_there = |(part, _): &(&Part, u64)| !part.is_emptied.load(Ordering::Relaxed);
                for (part, sum) in sums.into_iter().filter(is_there) {
                    part.add(&shared.bytes, sum as i64);
                }
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

/// The bytes of the records of a scan, as far as they can be read.
fn add_up(db: &halite::Database, iter: Iter, go_on: impl Fn() -> bool) -> u64 {
    let (mut sum, mut count, mut unreadable) = (0, 0_u64, 0);
    let is_bearable = |pair: &halite::Result<_>| {
        unreadable += usize::from(pair.is_err());
        unreadable <= UNREADABLE_MAX
    };
    for (key, value) in iter.take_while(is_bearable).flatten() {
        sum += db.space_of(key.len(), value.len());
        count += 1;
        if count.is_multiple_of(STEP) && !go_on() {
            break;
        }
    }
    sum
}
