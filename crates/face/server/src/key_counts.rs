//! How many keys each database has, for INFO, which has to reply at once.
//!
//! Some engines know the number, others have to count. Then INFO counts up to a limit. For a database with more keys it
//! reports the last count of a background thread, which looks at all keys. INFO starts that thread if the last count is
//! some time ago; so a server without calls of INFO does not count.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use halite::KeySpace;

use crate::ending::Ending;
use crate::lock::lock;
use crate::partition_set::PartitionSet;
use crate::store::Store;

/// Keys that INFO looks at, of all databases together: a few milliseconds.
const LOOKS_MAX: u64 = 10_000;
/// How old a count may become before there is another one.
const AGE_MAX: Duration = Duration::from_secs(10);
/// How much longer than a count took the time to the next one is: it takes a small part of a processor.
const REST: u32 = 10;
/// Keys after which a count looks whether the server ends.
const STEP: u64 = 1024;

/// The number of keys of a database.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) count: u64,
    pub(crate) of: Moment,
}

/// When a number of keys was counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Now,
    /// A count that began so long ago.
    Before(Duration),
    /// There is no count of all keys yet: there are at least so many.
    Never,
}

/// The last count, and the thread that counts.
#[derive(Default)]
pub(crate) struct KeyCounts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: Option<Counted>,
    /// The thread that counts, or has.
    thread: Option<JoinHandle<()>>,
}

/// A count of all keys.
struct Counted {
    /// By index of the databases' key spaces; `None` where counting failed.
    counts: Vec<Option<u64>>,
    began: Instant,
    took: Duration,
}

impl KeyCounts {
    /// The keys of each of so many databases, in some partitions, as they are `now`. If there are too many to be
    /// counted at once, and the last count is old, it begins another one, unless the server ends.
    pub(crate) fn count(
        &self,
        store: &Store,
        databases: usize,
        partitions: PartitionSet,
        now: Instant,
    ) -> Vec<Keys> {
        let mut left = LOOKS_MAX;
        let mut keys = Vec::new();
        // Counts from the last database to the first: each may use the share that those behind it left.
        for db in (0..databases).rev() {
            let mut share = 0..(left / (db as u64 + 1)).max(1);
            let counted = store.count(db, partitions, || share.next().is_some());
            let (count, is_all) = counted.unwrap_or((0, true));
            left = left.saturating_sub(share.start);
            let of = if is_all { Moment::Now } else { Moment::Never };
            keys.push(Keys { count, of });
        }
        keys.reverse();
        if keys.iter().any(|keys| keys.of == Moment::Never) {
            let (spaces, order) = store.values();
            let mut state = lock(&self.0);
            if let Some(last) = &state.last {
                let unknown =
                    keys.iter_mut().zip(order).filter(|(keys, _)| keys.of == Moment::Never);
                for (keys, place) in unknown {
                    if let Some(count) = last.counts.get(place).copied().flatten() {
                        let age = now.saturating_duration_since(last.began);
                        *keys = Keys { count: count.max(keys.count), of: Moment::Before(age) };
                    }
                }
            }
            if state.is_old() && !store.ending.has_begun() {
                let (shared, ending) = (Arc::clone(&self.0), Arc::clone(&store.ending));
                let builder = thread::Builder::new().name("halite-counter".to_owned());
                let count = move || count_all(&shared, &ending, &spaces, partitions);
                // Without a thread, the next INFO tries again.
                state.thread = builder.spawn(count).ok();
            }
        }
        keys
    }

    /// Waits until the counting thread has ended.
    pub(crate) fn wait(&self) {
        let thread = lock(&self.0).thread.take();
        if let Some(thread) = thread {
            // A panic of the thread costs only a count.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Whether the last count is so old that it is time for another one, and no thread counts.
    fn is_old(&self) -> bool {
        let is_counting = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        let is_new = self
            .last
            .as_ref()
            .is_some_and(|last| last.began.elapsed() < AGE_MAX.max(last.took.saturating_mul(REST)));
        !is_counting && !is_new
    }
}

/// Counts all keys, unless the server ends.
fn count_all(
    shared: &Mutex<State>,
    ending: &Ending,
    spaces: &[KeySpace],
    partitions: PartitionSet,
) {
    let began = Instant::now();
    let must_end = || ending.has_begun();
    let go_on = |_, looked_at: u64| !looked_at.is_multiple_of(STEP) || !must_end();
    let count = |space: &KeySpace| {
        let counts = partitions.iter().map(|number| space.count_of_partition(number, go_on));
        counts.map(|counted| counted.ok().map(|(count, _)| count)).sum::<Option<u64>>()
    };
    // After a panic there is no count, until it is time for the next.
    let counted = catch_unwind(AssertUnwindSafe(|| spaces.iter().map(count).collect()));
    let counts = counted.unwrap_or_else(|_| vec![None; spaces.len()]);
    if !must_end() {
        let counted = Counted { counts, began, took: began.elapsed() };
        lock(shared).last = Some(counted);
    }
}
