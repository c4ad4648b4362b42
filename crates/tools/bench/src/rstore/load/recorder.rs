//! The figures of one thread.

use hdrhistogram::Histogram;

use super::source::Request;

/// The window in which replies are counted to see how steady they come.
pub(super) const WINDOW_NS: u64 = 100_000_000;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The longest latency that is distinguished from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The kinds of requests, by the names that metrics have.
pub(super) const KINDS: [&str; 3] = ["get", "put", "scan"];

/// Counts and latencies of a thread.
pub(super) struct Recorder {
    /// The measured time, in ns since the start.
    begin_ns: u64,
    end_ns: u64,
    is_open_loop: bool,
    /// All replies.
    pub(super) all_replies: u64,
    /// Replies in the measured time.
    pub(super) replies: u64,
    /// When the last reply came.
    pub(super) last_ns: u64,
    /// Keys that scans returned in the measured time.
    pub(super) keys: u64,
    /// Replies in each window of the measured time.
    pub(super) windows: Vec<u64>,
    /// The latencies of each kind of operation.
    pub(super) latencies: [Histogram<u64>; 3],
    /// How much later than due requests were sent; of open loops.
    pub(super) delays: Histogram<u64>,
    /// Requests that no reply came to in time.
    pub(super) unanswered: u64,
    /// Replies that were errors or did not fit the request.
    pub(super) wrong: u64,
    /// The first of them.
    pub(super) first_wrong: String,
    /// Processor time that the thread took.
    pub(super) cpu_ns: u64,
}

impl Recorder {
    pub(super) fn new((begin_ns, end_ns): (u64, u64), is_open_loop: bool) -> Self {
        Self {
            begin_ns,
            end_ns,
            is_open_loop,
            all_replies: 0,
            replies: 0,
            last_ns: 0,
            keys: 0,
            windows: Vec::new(),
            latencies: [histogram(), histogram(), histogram()],
            delays: histogram(),
            unanswered: 0,
            wrong: 0,
            first_wrong: String::new(),
            cpu_ns: 0,
        }
    }

    /// A reply came now to a request that was due then.
    #[inline]
    pub(super) fn reply(&mut self, request: Request, due_ns: u64, now_ns: u64, keys: u64) {
        self.all_replies += 1;
        let is_in_time = self.is_measured(now_ns);
        if is_in_time {
            self.replies += 1;
            self.keys += keys;
            self.last_ns = now_ns;
            let window = ((now_ns - self.begin_ns) / WINDOW_NS) as usize;
            if window >= self.windows.len() {
                self.windows.resize(window + 1, 0);
            }
            self.windows[window] += 1;
        }
        // On a schedule every request of the measured time counts, however late its reply is.
        if if self.is_open_loop { self.is_measured(due_ns) } else { is_in_time } {
            self.latencies[place(request)].saturating_record(now_ns.saturating_sub(due_ns));
        }
    }

    /// A request that was due then is sent now.
    #[inline]
    pub(super) fn sent(&mut self, due_ns: u64, now_ns: u64) {
        if self.is_measured(due_ns) {
            self.delays.saturating_record(now_ns.saturating_sub(due_ns));
        }
    }

    /// No reply came to a request until now: its latency is at least that.
    pub(super) fn unanswered(&mut self, request: Request, due_ns: u64, now_ns: u64) {
        if self.is_measured(due_ns) {
            self.unanswered += 1;
            self.latencies[place(request)].saturating_record(now_ns.saturating_sub(due_ns));
        }
    }

    /// A reply that is an error, or does not fit the request.
    pub(super) fn wrong(&mut self, why: impl FnOnce() -> String) {
        if self.wrong == 0 {
            self.first_wrong = why();
        }
        self.wrong += 1;
    }

    #[inline]
    fn is_measured(&self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }
}

fn place(request: Request) -> usize {
    match request {
        Request::Get(_) => 0,
        Request::Put(_) => 1,
        Request::Scan(_) => 2,
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are in order")
}
