//! Small batches of several threads made one (Yan §3.2.2).
//!
//! A thread that commits goes to its bucket. If there is no leader, it leads: it waits for as long as an option says,
//! then commits the batches that were left with it, and its own, as one entry of the ring, with one fence. A thread
//! that finds a leader leaves its batch there and waits. While a leader commits, the next one gathers.
//!
//! Batches that were put together are atomic together, which is more than was asked for, and no caller can tell. If
//! there is no room for all, each thread commits its own by itself: a small batch is not refused for a large one
//! beside it.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halite_contract::{Durability, Result};
use parking_lot::{Condvar, Mutex};

use crate::encoded::Encoded;
use crate::error::Error as LsmError;
use crate::store::Store;

/// Buckets of a store: so many leaders may gather at once.
const BUCKETS: usize = 4;

/// The buckets in which threads meet to commit together.
pub(crate) struct Batching {
    /// Batches that a leader commits at the most, its own among them.
    batches_max: usize,
    /// How long a leader waits for more.
    linger: Duration,
    buckets: [Bucket; BUCKETS],
    hasher: RandomState,
}

#[derive(Default)]
struct Bucket {
    gathering: Mutex<Gathering>,
    /// Notified when there are as many as a leader commits, or when one has committed.
    changed: Condvar,
}

#[derive(Default)]
struct Gathering {
    has_leader: bool,
    left: Vec<Arc<Left>>,
}

/// A batch that was left with a leader.
struct Left {
    state: Mutex<LeftState>,
}

struct LeftState {
    encoded: Encoded,
    outcome: Option<Outcome>,
}

/// The outcome of batches that were put together.
#[derive(Clone)]
enum Outcome {
    Committed(u64),
    /// There was no room for all of them, or no file, and nothing was changed.
    Refused,
    /// The failure as a message, which every caller gets.
    Failed(Arc<str>),
}

impl Outcome {
    fn of(store: &Store, committed: &Result<u64>) -> Self {
        match committed {
            Ok(last) => Self::Committed(*last),
            Err(error) if store.is_refusal(error) => Self::Refused,
            Err(error) => Self::Failed(error.to_string().into()),
        }
    }
}

impl Batching {
    /// `None`, if every batch is to be committed by itself.
    pub(crate) fn new(batches_max: usize, linger: Duration) -> Option<Self> {
        (batches_max > 1).then(|| Self {
            batches_max,
            linger,
            buckets: Default::default(),
            hasher: RandomState::new(),
        })
    }

    /// [`Store::commit`], durable on return, perhaps together with batches of other threads.
    pub(crate) fn commit(&self, store: &Store, encoded: &mut Encoded) -> Result<u64> {
        let thread = self.hasher.hash_one(std::thread::current().id());
        let bucket = &self.buckets[thread as usize % BUCKETS];
        let mut gathering = bucket.gathering.lock();
        if gathering.has_leader && gathering.left.len() + 1 < self.batches_max {
            let state = LeftState { encoded: mem::take(encoded), outcome: None };
            let left = Arc::new(Left { state: Mutex::new(state) });
            gathering.left.push(Arc::clone(&left));
            if gathering.left.len() + 1 == self.batches_max {
                bucket.changed.notify_all();
            }
            return self.wait(store, bucket, gathering, &left, encoded);
        }
        if gathering.has_leader {
            drop(gathering);
            return store.commit(encoded, Durability::Immediate, None);
        }
        gathering.has_leader = true;
        let until = Instant::now().checked_add(self.linger);
        while !self.linger.is_zero() && gathering.left.len() + 1 < self.batches_max {
            match until {
                Some(until) if bucket.changed.wait_until(&mut gathering, until).timed_out() => {
                    break;
                }
                Some(_) => {}
                None => bucket.changed.wait(&mut gathering),
            }
        }
        let left = mem::take(&mut gathering.left);
        gathering.has_leader = false;
        drop(gathering);
        if left.is_empty() {
            return store.commit(encoded, Durability::Immediate, None);
        }
        let own = encoded.mark();
        for other in &left {
            encoded.append(&other.state.lock().encoded);
        }
        let committed = store.commit(encoded, Durability::Immediate, None);
        let outcome = Outcome::of(store, &committed);
        for other in &left {
            other.state.lock().outcome = Some(outcome.clone());
        }
        {
            let _gathering = bucket.gathering.lock();
            bucket.changed.notify_all();
        }
        if matches!(outcome, Outcome::Refused) {
            encoded.cut(&own);
            return store.commit(encoded, Durability::Immediate, None);
        }
        committed
    }

    fn wait(
        &self,
        store: &Store,
        bucket: &Bucket,
        mut gathering: parking_lot::MutexGuard<'_, Gathering>,
        left: &Left,
        encoded: &mut Encoded,
    ) -> Result<u64> {
        loop {
            bucket.changed.wait(&mut gathering);
            let mut state = left.state.lock();
            let Some(outcome) = state.outcome.take() else { continue };
            *encoded = mem::take(&mut state.encoded);
            drop(gathering);
            return match outcome {
                Outcome::Committed(last) => Ok(last),
                Outcome::Refused => store.commit(encoded, Durability::Immediate, None),
                Outcome::Failed(why) => {
                    Err(LsmError::CommittedTogether { why: why.to_string() }.into())
                }
            };
        }
    }
}
