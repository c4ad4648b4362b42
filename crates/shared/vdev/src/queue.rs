//! Requests of a vdev that go on while their callers do other work.
//!
//! ```text
//! submit ──▶ waiting: at most as many as the queue is deep ──▶ a thread of the queue ──▶ Ticket::wait
//!    │                         └──────────────── the thread that waits for it ─────────────▶ │
//!    └──▶ the submitting thread: the queue is full, has no threads, or the vdev is memory ──▶ │
//! ```
//!
//! A request that no thread has begun is done by the thread that waits for it: so requests take no longer than without
//! a queue, whenever the threads of the queue get to run, and also where the system has no more threads. At the bound,
//! the submitting thread does the request itself, which holds writers back: their buffers take no more memory than that.
//!
//! A ticket tells the result of its own request: the caller waits for the tickets of its writes before it syncs the vdev
//! and before it publishes anything that leads to them. A ticket that is dropped takes its request back, or waits until
//! that is done: no request outlives its ticket, so the extents that it uses may be freed behind it.
//!
//! Requests of memory are done before their submission returns: handing them over takes longer than doing them.
//!
//! | step | cost |
//! |---|---|
//! | submission | 2 allocations, 2 locks, and where a thread sleeps, its waking: about 5 µs |
//! | request of memory | 1 allocation |
//! | a thread | begins with the first request that finds none free, and ends with the queue |

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use halite_sim::locks;
use parking_lot::{Condvar, Mutex};

use crate::{Error, Result, Vdev};

/// Requests that wait for a thread, unless a caller wants another number.
pub const QUEUE_DEPTH: usize = 32;

/// A request before it is begun.
type Job<T> = Box<dyn FnOnce(&Vdev) -> Result<T> + Send>;

/// A request, and its result once that is there.
struct Request<T> {
    job: Mutex<Option<Job<T>>>,
    result: Mutex<Option<Result<T>>>,
    came: Condvar,
}

/// A request of any result.
trait Work: Send + Sync {
    /// Does the request. Its caller has taken it from those that wait, so it is done once.
    fn run(&self, vdev: &Vdev);
}

impl<T: Send> Work for Request<T> {
    fn run(&self, vdev: &Vdev) {
        let job = self.job.lock().take().expect("a request is begun once");
        // All that the job has captured is dropped before its result is there.
        let result = guarded(|| job(vdev));
        *self.result.lock() = Some(result);
        self.came.notify_all();
    }
}

/// Does a request; a panic, of a check that the caller gave, is that request's failure alone.
fn guarded<T>(request: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(request)).unwrap_or(Err(Error::Lost))
}

/// A request that was submitted.
#[must_use = "the result comes by `wait`"]
pub struct Ticket<T: Send + 'static>(Stage<T>);

enum Stage<T: Send + 'static> {
    Done(Result<T>),
    Submitted(Arc<Request<T>>, Arc<Shared>),
    Over,
}

impl<T: Send + 'static> Ticket<T> {
    /// Waits for the result.
    ///
    /// # Errors
    /// Those of the request; [`Error::Lost`] if it panicked.
    pub fn wait(mut self) -> Result<T> {
        match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Done(result) => result,
            Stage::Submitted(request, shared) => {
                if shared.take_back(&request) {
                    request.run(&shared.vdev);
                }
                request.result()
            }
            Stage::Over => unreachable!("a ticket is waited for once"),
        }
    }
}

impl<T> Request<T> {
    /// Waits for the result of a request that was begun.
    fn result(&self) -> Result<T> {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => self.came.wait(&mut result),
            }
        }
    }
}

impl<T: Send + 'static> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Stage::Submitted(request, shared) = &self.0
            && !shared.take_back(request)
        {
            drop(request.result());
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<dyn Work>>,
    /// Threads that sleep until a request comes.
    sleeping: usize,
    is_closing: bool,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    vdev: Arc<Vdev>,
    threads_max: usize,
    depth: usize,
    state: Mutex<State>,
    /// A request waits, or the queue closes.
    came: Condvar,
}

/// A queue of requests of one vdev. Dropping it waits for those that were begun.
pub struct Queue(Arc<Shared>);

impl Queue {
    /// A queue with at most so many threads, and room for `depth` requests that wait for one ([`QUEUE_DEPTH`]). Without
    /// threads, each request is done before its submission returns: in the order of the submissions, by one thread.
    #[must_use]
    pub fn new(vdev: Arc<Vdev>, threads_max: usize, depth: usize) -> Self {
        let (state, came) = Default::default();
        Self(Arc::new(Shared { vdev, threads_max, depth, state, came }))
    }

    /// The vdev.
    #[must_use]
    pub fn vdev(&self) -> &Arc<Vdev> {
        &self.0.vdev
    }

    /// Whether requests are done before their submission returns: then a caller that has nothing else to do may as well
    /// ask the vdev.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.threads_max == 0 || self.0.vdev.is_memory() || locks::is_scheduled()
    }

    /// Submits a request. Does it at once if the queue is full.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Vdev) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let shared = &self.0;
        if self.is_direct() {
            return Ticket(Stage::Done(guarded(|| job(&shared.vdev))));
        }
        let mut state = shared.state.lock();
        if state.waiting.len() >= shared.depth {
            drop(state);
            return Ticket(Stage::Done(guarded(|| job(&shared.vdev))));
        }
        let job: Mutex<Option<Job<T>>> = Mutex::new(Some(Box::new(job)));
        let (result, came) = Default::default();
        let request = Arc::new(Request { job, result, came });
        state.waiting.push_back(Arc::clone(&request) as Arc<dyn Work>);
        if state.waiting.len() > state.sleeping && state.threads.len() < shared.threads_max {
            let of_thread = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("halite-vdev".into());
            // Where the system has no more threads, those that there are do it, or the one that waits for it.
            state.threads.extend(thread.spawn(move || of_thread.work()));
        }
        drop(state);
        shared.came.notify_one();
        Ticket(Stage::Submitted(request, Arc::clone(shared)))
    }
}

impl Shared {
    /// Takes a request from those that wait. Returns whether it was there: if not, it was begun.
    fn take_back<T>(&self, request: &Arc<Request<T>>) -> bool {
        let waiting = &mut self.state.lock().waiting;
        let is_it = |work: &Arc<dyn Work>| Arc::as_ptr(work).addr() == Arc::as_ptr(request).addr();
        let place = waiting.iter().position(is_it);
        place.and_then(|place| waiting.remove(place)).is_some()
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.is_closing {
            match state.waiting.pop_front() {
                Some(request) => {
                    drop(state);
                    request.run(&self.vdev);
                    drop(request);
                    state = self.state.lock();
                }
                None => {
                    state.sleeping += 1;
                    self.came.wait(&mut state);
                    state.sleeping -= 1;
                }
            }
        }
    }
}

impl Drop for Queue {
    /// Requests that were not begun are left to the threads that wait for them.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closing = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.came.notify_all();
        let current = std::thread::current().id();
        // A request that has the last reference to the queue's owner drops it in a thread of the queue, which then ends.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != current) {
            // A thread catches the panics of its requests.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::faulty::Faulty;
    use crate::{Arrangement, BLOCK, Extent, MemoryLeaf};

    fn queue(threads: usize, depth: usize) -> (Vec<Arc<Faulty>>, Queue) {
        let (leaves, vdev) = Faulty::vdev(Arrangement::Single, 1, 4096);
        (leaves, Queue::new(Arc::new(vdev), threads, depth))
    }

    fn extent(block: u64) -> Extent {
        Extent { block, blocks: 1 }
    }

    fn write(queue: &Queue, block: u64, byte: u8) -> Ticket<()> {
        queue.submit(move |vdev| vdev.write(extent(block), &[byte; BLOCK]))
    }

    fn thread_of_request(queue: &Queue) -> Ticket<ThreadId> {
        queue.submit(|_| Ok(current().id()))
    }

    /// Has the only thread of a queue wait for the sender.
    fn occupy(queue: &Queue) -> (Ticket<()>, Sender<()>) {
        let (begins, begun) = channel();
        let (release, released) = channel();
        let ticket = queue.submit(move |_| {
            begins.send(()).unwrap();
            released.recv().unwrap();
            Ok(())
        });
        begun.recv().unwrap();
        (ticket, release)
    }

    #[test]
    fn a_request_is_done_once_and_its_ticket_has_its_result() {
        for (threads, depth) in [(0, 8), (1, 1), (4, 8), (4, 100)] {
            let (leaves, queue) = queue(threads, depth);
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let queue = &queue;
                    scope.spawn(move || {
                        for round in 0..100_u8 {
                            let blocks = thread * 100..thread * 100 + 7;
                            let writes: Vec<_> =
                                blocks.clone().map(|block| write(queue, block, round)).collect();
                            writes.into_iter().for_each(|write| write.wait().unwrap());
                            let read = |block| {
                                queue.submit(move |vdev| {
                                    let mut to = [0; 10];
                                    let right = |bytes: &[u8]| bytes[0] == round;
                                    vdev.read(extent(block), 9, &mut to, &right).map(|()| to)
                                })
                            };
                            let reads: Vec<_> = blocks.map(read).collect();
                            for read in reads.into_iter().rev() {
                                assert_eq!(read.wait().unwrap(), [round; 10]);
                            }
                        }
                    });
                }
            });
            assert_eq!(queue.vdev().leaves()[0].stats.writes.requests, 2800);
            assert!((0..7).all(|block| leaves[0].block(block)[5] == 99));
        }
    }

    #[test]
    fn a_full_queue_has_its_submitters_do_the_work_and_what_waits_is_done_by_its_waiters() {
        let (_, queue) = queue(1, 3);
        let (occupied, release) = occupy(&queue);
        let waiting: Vec<_> = (0..3).map(|_| thread_of_request(&queue)).collect();
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let beyond = queue.submit(move |_| {
            runs.store(true, Relaxed);
            Ok(())
        });
        assert!(has_run.load(Relaxed) && queue.0.state.lock().waiting.len() == 3);
        beyond.wait().unwrap();
        for ticket in waiting.into_iter().rev() {
            assert_eq!(ticket.wait().unwrap(), current().id());
        }
        release.send(()).unwrap();
        occupied.wait().unwrap();
    }

    #[test]
    fn each_ticket_tells_of_its_own_failure_once() {
        for threads in [0, 2] {
            let (leaves, queue) = queue(threads, 8);
            leaves[0].fails_writes.store(true, Relaxed);
            let failing: Vec<_> = (0..5).map(|block| write(&queue, block, 1)).collect();
            for ticket in failing {
                assert!(ticket.wait().unwrap_err().to_string().contains("as planned"));
            }
            leaves[0].fails_writes.store(false, Relaxed);
            let panics = queue.submit(|_| -> Result<()> { panic!("as planned") });
            assert!(matches!(panics.wait(), Err(Error::Lost)));
            write(&queue, 0, 1).wait().unwrap();
            queue.vdev().sync().unwrap();
        }
    }

    #[test]
    fn no_request_outlives_its_ticket() {
        let (_, queue) = queue(1, 8);
        let (occupied, release) = occupy(&queue);
        let runs = Arc::new(AtomicUsize::new(0));
        let count = || {
            let runs = Arc::clone(&runs);
            queue.submit(move |_| {
                runs.fetch_add(1, Relaxed);
                Ok(())
            })
        };
        // One that is not begun never is.
        drop(count());
        assert_eq!((runs.load(Relaxed), Arc::strong_count(&runs)), (0, 1));
        std::thread::scope(|scope| {
            let drops = scope.spawn(|| drop(occupied));
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert!(!drops.is_finished(), "the request goes on");
            release.send(()).unwrap();
        });
        let left = count();
        drop(queue);
        left.wait().unwrap();
        assert_eq!((runs.load(Relaxed), Arc::strong_count(&runs)), (1, 1));
    }

    #[test]
    fn a_request_may_have_the_last_reference_to_its_queue() {
        let (_, queue) = queue(2, 8);
        let queue = Arc::new(queue);
        let (begins, begun) = channel();
        let (release, released) = channel();
        let own = Arc::clone(&queue);
        let ticket = queue.submit(move |_| {
            begins.send(()).unwrap();
            released.recv().unwrap();
            drop(own);
            Ok(())
        });
        begun.recv().unwrap();
        drop(queue);
        release.send(()).unwrap();
        ticket.wait().unwrap();
    }

    #[test]
    fn requests_of_memory_are_done_by_their_submitters() {
        let vdev = Vdev::single(Arc::new(MemoryLeaf::new("64M", 2048)));
        let queue = Queue::new(Arc::new(vdev), 4, 8);
        assert_eq!(thread_of_request(&queue).wait().unwrap(), current().id());
        assert!(queue.is_direct() && queue.0.state.lock().threads.is_empty());
    }
}
