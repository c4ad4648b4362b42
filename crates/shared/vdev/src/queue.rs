//! Requests of a vdev that go on while their callers do other work.
//!
//! A queue has threads, and a bound on the requests that are waiting or under way: at the bound, submitting blocks, so
//! that writes take no more memory than that. A write that was submitted is seen by every later read of the queue:
//! until it is done, its extent is read from its buffer. A write that fails is told by the next sync; until then its
//! extent reads as damaged.
//!
//! Without threads, a request is done before its submission returns: for tests that have to run in one thread.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use halite_sim::locks;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Error, Extent, Result, Vdev};

/// Requests that may wait or be under way, for each leaf, unless a caller wants another number.
pub const QUEUE_DEPTH: usize = 20;

/// Tells whether bytes are right.
pub type Check = Box<dyn Fn(&[u8]) -> bool + Send>;

enum Job {
    Write { number: u64, extent: Extent, bytes: Arc<Vec<u8>> },
    Read { extent: Extent, at: usize, len: usize, check: Check, answer: Arc<Answer> },
}

/// The result of a read, once it is there.
#[derive(Default)]
struct Answer {
    bytes: Mutex<Option<Result<Vec<u8>>>>,
    came: Condvar,
}

impl Answer {
    fn give(&self, bytes: Result<Vec<u8>>) {
        *self.bytes.lock() = Some(bytes);
        self.came.notify_all();
    }
}

/// A read that was submitted.
#[must_use = "the bytes come by `wait`"]
pub struct Ticket(Arc<Answer>);

impl Ticket {
    /// Waits for the bytes.
    ///
    /// # Errors
    /// As [`Vdev::read`]; [`Error::Lost`] if the check panicked.
    pub fn wait(self) -> Result<Vec<u8>> {
        let mut bytes = self.0.bytes.lock();
        loop {
            if let Some(bytes) = bytes.take() {
                return bytes;
            }
            self.0.came.wait(&mut bytes);
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Requests that wait or are under way.
    accepted: usize,
    /// The numbers of writes that are not done.
    unwritten: BTreeSet<u64>,
    /// Their bytes, by the first blocks of their extents.
    unwritten_bytes: HashMap<u64, Arc<Vec<u8>>>,
    next_write: u64,
    /// Writes that failed since the last sync.
    failed: u64,
    first_failure: Option<Error>,
    is_closing: bool,
}

impl State {
    /// The bytes of an extent whose write is not done. A damaged pointer may lead to another length: that is no such
    /// extent.
    fn unwritten(&self, extent: Extent) -> Option<Arc<Vec<u8>>> {
        let bytes = self.unwritten_bytes.get(&extent.block)?;
        (bytes.len() == extent.byte_len()).then(|| Arc::clone(bytes))
    }
}

struct Shared {
    vdev: Arc<Vdev>,
    depth: usize,
    state: Mutex<State>,
    /// A request was accepted, or the queue closes.
    came: Condvar,
    /// A request is done.
    done: Condvar,
}

/// A queue of requests of one vdev. Dropping it waits for all of them.
pub struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Queue {
    /// A queue with so many threads, and room for `depth_per_leaf` requests for each leaf ([`QUEUE_DEPTH`]).
    ///
    /// # Errors
    /// [`Error::Thread`] if the system has no more threads.
    ///
    /// # Panics
    /// If there is no room for a request.
    pub fn new(vdev: Arc<Vdev>, threads: usize, depth_per_leaf: usize) -> Result<Self> {
        assert!(depth_per_leaf > 0, "a queue has room for a request");
        let depth = vdev.leaves().len() * depth_per_leaf;
        let (state, came, done) = Default::default();
        let shared = Arc::new(Shared { vdev, depth, state, came, done });
        let mut queue = Self { shared, threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&queue.shared);
            let thread = std::thread::Builder::new().name("halite-vdev".into());
            let spawned = thread.spawn(move || shared.work());
            queue.threads.push(spawned.map_err(|source| Error::Thread { source })?);
        }
        Ok(queue)
    }

    /// The vdev. Requests that go to it directly see no write that is not done.
    #[must_use]
    pub fn vdev(&self) -> &Arc<Vdev> {
        &self.shared.vdev
    }

    /// Waits until there is room for a request, and hands it over.
    fn accept(&self, mut state: MutexGuard<'_, State>, job: Job) {
        if self.threads.is_empty() {
            state.accepted += 1;
            drop(state);
            self.shared.run(job);
            return;
        }
        state.accepted += 1;
        state.waiting.push_back(job);
        drop(state);
        self.shared.came.notify_one();
    }

    /// Submits the write of a whole extent ([`Vdev::write`]). Blocks while the queue is full, and while an earlier
    /// write of the same extent is not done.
    ///
    /// # Panics
    /// If the bytes are not as many as the extent's.
    pub fn submit_write(&self, extent: Extent, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), extent.byte_len(), "an extent is written whole");
        let bytes = Arc::new(bytes);
        let mut state = self.shared.state.lock();
        while state.accepted >= self.shared.depth
            || state.unwritten_bytes.contains_key(&extent.block)
        {
            self.shared.wait_for_done(&mut state);
        }
        let number = state.next_write;
        state.next_write += 1;
        state.unwritten.insert(number);
        state.unwritten_bytes.insert(extent.block, Arc::clone(&bytes));
        self.accept(state, Job::Write { number, extent, bytes });
    }

    /// Submits the read of `len` bytes of an extent, from its byte `at` on ([`Vdev::read`]). Blocks while the queue is
    /// full.
    ///
    /// # Panics
    /// If the range is not inside the extent.
    pub fn submit_read(&self, extent: Extent, at: usize, len: usize, check: Check) -> Ticket {
        let answer = Arc::new(Answer::default());
        let mut state = self.shared.state.lock();
        if let Some(bytes) = state.unwritten(extent) {
            drop(state);
            answer.give(Ok(bytes[at..at + len].to_vec()));
            return Ticket(answer);
        }
        while state.accepted >= self.shared.depth {
            self.shared.wait_for_done(&mut state);
        }
        let job = Job::Read { extent, at, len, check, answer: Arc::clone(&answer) };
        self.accept(state, job);
        Ticket(answer)
    }

    /// Reads in the calling thread, past the queue ([`Vdev::read`]), and sees every write that was submitted before.
    ///
    /// # Errors
    /// As [`Vdev::read`].
    ///
    /// # Panics
    /// If the range is not inside the extent.
    pub fn read(
        &self,
        extent: Extent,
        at: usize,
        to: &mut [u8],
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let unwritten = self.shared.state.lock().unwritten(extent);
        match unwritten {
            Some(bytes) => {
                to.copy_from_slice(&bytes[at..at + to.len()]);
                Ok(())
            }
            None => self.shared.vdev.read(extent, at, to, check),
        }
    }

    /// Gives up an extent ([`Vdev::free`]), after its write is done.
    #[must_use]
    pub fn free(&self, extent: Extent) -> bool {
        let mut state = self.shared.state.lock();
        while state.unwritten_bytes.contains_key(&extent.block) {
            self.shared.wait_for_done(&mut state);
        }
        drop(state);
        self.shared.vdev.free(extent)
    }

    /// Waits for all writes that were submitted before, and makes them durable. A failure is told to one sync: one
    /// thread at a time relies on its result.
    ///
    /// # Errors
    /// [`Error::Queued`] if a write failed since the last sync: then the vdev was not synced. As [`Vdev::sync`].
    pub fn sync(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        let end = state.next_write;
        while state.unwritten.first().is_some_and(|&oldest| oldest < end) {
            self.shared.wait_for_done(&mut state);
        }
        if let Some(first) = state.first_failure.take() {
            let failed = std::mem::take(&mut state.failed);
            return Err(Error::Queued { failed, first: Box::new(first) });
        }
        drop(state);
        self.shared.vdev.sync()
    }
}

impl Shared {
    /// Waits until a request is done. Simulated threads share one, so they take turns instead of sleeping.
    fn wait_for_done(&self, state: &mut MutexGuard<'_, State>) {
        if locks::is_scheduled() {
            MutexGuard::unlocked(state, locks::point);
        } else {
            self.done.wait(state);
        }
    }

    /// The life of a thread.
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let job = loop {
                match state.waiting.pop_front() {
                    Some(job) => break job,
                    None if state.is_closing => return,
                    None => self.came.wait(&mut state),
                }
            };
            drop(state);
            self.run(job);
        }
    }

    fn run(&self, job: Job) {
        match job {
            Job::Write { number, extent, bytes } => {
                let written = guarded(|| self.vdev.write(extent, &bytes));
                let mut state = self.state.lock();
                state.unwritten.remove(&number);
                state.unwritten_bytes.remove(&extent.block);
                if let Err(error) = written {
                    state.failed += 1;
                    state.first_failure.get_or_insert(error);
                }
                state.accepted -= 1;
            }
            Job::Read { extent, at, len, check, answer } => {
                let read = guarded(|| {
                    let mut to = vec![0; len];
                    self.vdev.read(extent, at, &mut to, &*check).map(|()| to)
                });
                answer.give(read);
                self.state.lock().accepted -= 1;
            }
        }
        self.done.notify_all();
    }
}

/// Does a request; a panic, of a check that the caller gave, is that request's failure alone.
fn guarded<T>(request: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(request)).unwrap_or(Err(Error::Lost))
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.state.lock().is_closing = true;
        self.shared.came.notify_all();
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its requests.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::faulty::Faulty;
    use crate::{Arrangement, BLOCK};

    fn queue(threads: usize, depth: usize) -> (Vec<Arc<Faulty>>, Queue) {
        let (leaves, vdev) = Faulty::vdev(Arrangement::Single, 1, 4096);
        (leaves, Queue::new(Arc::new(vdev), threads, depth).unwrap())
    }

    fn extent(block: u64) -> Extent {
        Extent { block, blocks: 1 }
    }

    #[test]
    fn a_read_sees_every_write_that_was_submitted_before_it() {
        for threads in [0, 1, 4] {
            let (_, queue) = queue(threads, 8);
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let queue = &queue;
                    scope.spawn(move || {
                        for round in 0..200_u64 {
                            let (extent, byte) = (extent(thread * 100 + round % 7), round as u8);
                            queue.submit_write(extent, vec![byte; BLOCK]);
                            let mut to = [0; 10];
                            queue.read(extent, 9, &mut to, &|bytes| bytes[0] == byte).unwrap();
                            assert_eq!(to, [byte; 10]);
                            let check = Box::new(move |bytes: &[u8]| bytes[0] == byte);
                            let ticket = queue.submit_read(extent, 3, 20, check);
                            assert_eq!(ticket.wait().unwrap(), [byte; 20]);
                        }
                        assert!(queue.free(extent(thread * 100)));
                    });
                }
            });
            queue.sync().unwrap();
            assert_eq!(queue.vdev().leaves()[0].stats.writes.requests, 800);
        }
    }

    #[test]
    fn a_full_queue_holds_its_writers_back() {
        let (_, queue) = queue(1, 3);
        let (release, released) = mpsc::channel();
        let released = std::sync::Mutex::new(released);
        // The only thread waits here, and two more requests find room.
        let check = move |_: &[u8]| released.lock().unwrap().recv().is_ok();
        let ticket = queue.submit_read(extent(0), 0, 1, Box::new(check));
        let submitted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for block in 1..10 {
                    queue.submit_write(extent(block), vec![1; BLOCK]);
                    submitted.fetch_add(1, Relaxed);
                }
            });
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(submitted.load(Relaxed), 2);
            release.send(()).unwrap();
        });
        assert!(ticket.wait().is_ok());
        queue.sync().unwrap();
        assert_eq!(submitted.load(Relaxed), 9);
    }

    #[test]
    fn the_next_sync_tells_of_writes_that_failed() {
        for threads in [0, 2] {
            let (leaves, queue) = queue(threads, 8);
            leaves[0].fails_writes.store(true, Relaxed);
            (0..5).for_each(|block| queue.submit_write(extent(block), vec![1; BLOCK]));
            let Err(Error::Queued { failed, first }) = queue.sync() else { panic!("they failed") };
            assert_eq!(failed, 5);
            assert!(first.to_string().contains("as planned"));
            leaves[0].fails_writes.store(false, Relaxed);
            queue.submit_write(extent(0), vec![1; BLOCK]);
            queue.sync().unwrap();
        }
    }

    #[test]
    fn a_check_that_panics_fails_its_own_read_alone() {
        for threads in [0, 1] {
            let (_, queue) = queue(threads, 8);
            let ticket = queue.submit_read(extent(0), 0, 1, Box::new(|_| panic!("as planned")));
            assert!(matches!(ticket.wait(), Err(Error::Lost)));
            let wrong = queue.submit_read(extent(0), 0, 1, Box::new(|_| false));
            assert!(matches!(wrong.wait(), Err(Error::Damaged { .. })));
            assert!(queue.submit_read(extent(0), 0, 1, Box::new(|_| true)).wait().is_ok());
        }
    }

    #[test]
    fn a_queue_that_is_dropped_has_done_its_writes() {
        let (leaves, queue) = queue(2, 8);
        (0..100).for_each(|block| queue.submit_write(extent(block), vec![block as u8; BLOCK]));
        drop(queue);
        assert!((0..100).all(|block| leaves[0].block(block)[5] == block as u8));
    }
}
