//! One thread with its connections.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::connection::{Connection, Pending};
use super::protocol::{Answer, Arrived};
use super::recorder::Recorder;
use super::source::{Request, Source};
use super::{CHECKED, Pace, Shared, Target, Workload, resp};
use crate::kv::records::{KeyForm, Records, VERSIONS};
use crate::{Error, Result};

/// How often a waiting thread checks whether it has to stop.
const NAP: Duration = Duration::from_millis(100);

/// Replies may come so long after the end of a phase.
const GRACE: Duration = Duration::from_secs(10);

/// The most unanswered requests of a thread: a server that is too slow for a schedule does not fill the memory.
/// Requests that are due meanwhile are sent later, and their latency counts from when they were due.
const PENDING_MAX: usize = 100_000;

/// Connections that are looked at in one turn.
const EVENTS: usize = 1024;

/// The timer's token among the connections.
const TIMER: u64 = u64::MAX;

pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    thread: u64,
    epoll: OwnedFd,
    /// Wakes an open loop: epoll's own timeout knows milliseconds only.
    timer: OwnedFd,
    /// When the timer wakes it, in ns since `start`.
    wakes_ns: u64,
    events: Vec<epoll::Event>,
    connections: Vec<Connection>,
    source: Source,
    records: Records,
    value_len: usize,
    recorder: Recorder,
    start: Instant,
    /// In ns since `start`, read once a turn.
    now_ns: u64,
    /// Puts so far.
    version: u64,
    /// Gets answered so far.
    gets: u64,
    /// Requests without a reply.
    pending: usize,
}

impl<'a> Client<'a> {
    /// Makes the thread's share of the connections.
    pub(super) fn new(
        shared: &'a Shared<'a>,
        workload: &Workload,
        thread: usize,
        source: Source,
    ) -> Result<Self> {
        let failed = |errno: Errno| shared.target.failed("watch its connections", errno.into());
        let clients = shared.clients;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let count = clients.connections / clients.threads
            + usize::from(thread < clients.connections % clients.threads);
        let mut connections = Vec::new();
        for place in 0..count.max(1) {
            let connection = Connection::open(shared.target.addr)
                .map_err(|error| shared.target.failed("connect", error))?;
            let data = epoll::EventData::new_u64(place as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&epoll, &connection.stream, data, flags).map_err(failed)?;
            connections.push(connection);
        }
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)
            .and_then(|timer| {
                let (data, flags) = (epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN);
                epoll::add(&epoll, &timer, data, flags | epoll::EventFlags::ET)?;
                Ok(timer)
            })
            .map_err(failed)?;
        let is_open_loop = matches!(shared.pace, Pace::Open { .. });
        Ok(Self {
            shared,
            thread: thread as u64,
            epoll,
            timer,
            wakes_ns: 0,
            events: Vec::with_capacity(EVENTS),
            connections,
            source,
            records: Records::new(KeyForm::Padded, workload.value_len, workload.seed),
            value_len: workload.value_len,
            recorder: Recorder::new(shared.measured_ns(), is_open_loop),
            start: Instant::now(),
            now_ns: 0,
            version: 0,
            gets: 0,
            pending: 0,
        })
    }

    /// The whole phase.
    pub(super) fn run(mut self, start: Instant) -> Result<Recorder> {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        self.start = start;
        self.tick();
        let (_, end_ns) = self.shared.measured_ns();
        match self.shared.pace {
            Pace::Open { rate, .. } => self.open_loop(rate, end_ns)?,
            Pace::Operations(_) | Pace::Closed(_) => self.closed_loop(end_ns)?,
        }
        for connection in &self.connections {
            for pending in &connection.pending {
                self.recorder.unanswered(pending.request, pending.due_ns, self.now_ns);
            }
        }
        let now = clock_gettime(ClockId::ThreadCPUTime);
        let ns = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self.recorder.cpu_ns = ns(now) - ns(cpu);
        Ok(self.recorder)
    }

    fn closed_loop(&mut self, end_ns: u64) -> Result<()> {
        for place in 0..self.connections.len() {
            self.fill(place)?;
        }
        while self.pending > 0 && !self.is_over(end_ns)? {
            let ready = self.wait(None)?;
            for place in ready {
                self.receive(place)?;
                if self.connections[place].pending.is_empty() && self.now_ns < end_ns {
                    self.fill(place)?;
                } else {
                    self.send(place)?;
                }
            }
        }
        Ok(())
    }

    fn open_loop(&mut self, rate: u64, end_ns: u64) -> Result<()> {
        let threads = self.shared.clients.threads as u64;
        // The threads' requests are due one after the other.
        let mut number = self.thread;
        let (mut place, mut touched) = (0, Vec::new());
        loop {
            let mut due_ns = due(number, rate);
            while due_ns <= self.now_ns && due_ns < end_ns && self.pending < PENDING_MAX {
                let Some(request) = self.source.next() else { break };
                self.recorder.sent(due_ns, self.now_ns);
                self.request(place, request, due_ns);
                touched.push(place);
                place = (place + 1) % self.connections.len();
                number += threads;
                due_ns = due(number, rate);
            }
            for place in touched.drain(..) {
                self.send(place)?;
            }
            if self.pending == 0 && due_ns >= end_ns || self.is_over(end_ns)? {
                break;
            }
            let is_waiting = due_ns < end_ns && self.pending < PENDING_MAX;
            for place in self.wait(is_waiting.then_some(due_ns))? {
                self.receive(place)?;
                self.send(place)?;
            }
        }
        // Requests that were due and never sent have no reply either.
        let (mut due_ns, mut unsent) = (due(number, rate), number);
        while due_ns < end_ns.min(self.now_ns) {
            let Some(request) = self.source.next() else { break };
            self.recorder.unanswered(request, due_ns, self.now_ns);
            unsent += threads;
            due_ns = due(unsent, rate);
        }
        Ok(())
    }

    /// Whether to stop, without waiting for outstanding replies.
    fn is_over(&self, end_ns: u64) -> Result<bool> {
        let late_ns = end_ns.saturating_add(GRACE.as_nanos() as u64);
        Ok(self.shared.stopped()? || self.now_ns > late_ns || self.recorder.wrong > 0)
    }

    /// Sends as many requests as the pipeline is deep.
    fn fill(&mut self, place: usize) -> Result<()> {
        for _ in 0..self.shared.clients.pipeline {
            let Some(request) = self.source.next() else { break };
            self.request(place, request, self.now_ns);
        }
        self.send(place)
    }

    /// Encodes a request.
    #[inline]
    fn request(&mut self, place: usize, request: Request, due_ns: u64) {
        let protocol = self.shared.target.protocol;
        let connection = &mut self.connections[place];
        match request {
            Request::Get(number) => protocol.get(&mut connection.out, self.records.key(number)),
            Request::Put(number) => {
                self.version = (self.version + 1) % VERSIONS;
                let (key, value) = self.records.pair(number, self.version);
                protocol.put(&mut connection.out, key, value);
            }
            Request::Scan(count) => resp::scan(&mut connection.out, connection.cursor, count),
        }
        connection.pending.push_back(Pending { request, due_ns });
        self.pending += 1;
    }

    fn send(&mut self, place: usize) -> Result<()> {
        self.connections[place].send().map_err(|error| self.lost("send a request", error))
    }

    /// Takes all replies that have arrived on a connection.
    fn receive(&mut self, place: usize) -> Result<()> {
        loop {
            let more = self.connections[place]
                .receive()
                .map_err(|error| self.lost("receive a reply", error))?;
            self.tick();
            self.take(place)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn take(&mut self, place: usize) -> Result<()> {
        let target = self.shared.target;
        loop {
            let connection = &mut self.connections[place];
            let (bytes, pending) = connection.arrived();
            let (len, answer) = match target.protocol.reply(bytes) {
                Arrived::Part => return Ok(()),
                Arrived::Reply(len, answer) => (len, answer),
                Arrived::Garbage => {
                    let start = bytes[..bytes.len().min(60)].escape_ascii();
                    return Err(no_reply(target, format!("it sent `{start}`, which is no reply")));
                }
            };
            let Some(pending) = pending.pop_front() else {
                return Err(no_reply(target, "it sent a reply that nobody asked for".to_owned()));
            };
            self.pending -= 1;
            let (mut keys, mut next) = (0, None);
            let right = match (pending.request, &answer) {
                (Request::Put(_), Answer::Stored) => true,
                (Request::Get(number), Answer::Value(value)) => {
                    self.gets += 1;
                    value.len() == self.value_len
                        && (!self.gets.is_multiple_of(CHECKED)
                            || is_value_of(&mut self.records, number, value))
                }
                (Request::Scan(_), Answer::Keys { cursor, count }) => {
                    (keys, next) = (*count, Some(*cursor));
                    true
                }
                _ => false,
            };
            if right {
                self.recorder.reply(pending.request, pending.due_ns, self.now_ns, keys);
            } else {
                self.recorder.wrong(|| described(pending.request, &answer));
            }
            connection.consume(len);
            connection.cursor = next.unwrap_or(connection.cursor);
        }
    }

    /// Waits until some connections are ready, or until that time, in ns since `start`.
    fn wait(&mut self, until_ns: Option<u64>) -> Result<Vec<usize>> {
        let failed =
            |errno: Errno| self.shared.target.failed("watch its connections", errno.into());
        let left = until_ns.map(|until_ns| until_ns.saturating_sub(self.now_ns));
        let timeout = if left == Some(0) { Duration::ZERO } else { NAP };
        if let (Some(until_ns), Some(left @ 1..)) = (until_ns, left)
            && self.wakes_ns != until_ns
        {
            let (it_interval, it_value) =
                (timespec(Duration::ZERO), timespec(Duration::from_nanos(left)));
            let once = Itimerspec { it_interval, it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).map_err(failed)?;
            self.wakes_ns = until_ns;
        }
        self.events.clear();
        let timeout = timespec(timeout);
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        self.tick();
        let ready = self.events.iter().map(|event| event.data.u64());
        Ok(ready.filter(|data| *data != TIMER).map(|data| data as usize).collect())
    }

    fn tick(&mut self) {
        self.now_ns = self.start.elapsed().as_nanos() as u64;
    }

    /// A connection ended. After a Ctrl-C, that is why.
    fn lost(&self, action: &'static str, source: std::io::Error) -> Error {
        match self.shared.stopped() {
            Err(interrupted) => interrupted,
            Ok(_) => self.shared.target.failed(action, source),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Returns when the request of that number is due, in ns since the start.
fn due(number: u64, rate: u64) -> u64 {
    (u128::from(number) * 1_000_000_000 / u128::from(rate.max(1))) as u64
}

fn is_value_of(records: &mut Records, number: u64, value: &[u8]) -> bool {
    records.key(number);
    records.version(records.last_key(), value).is_some()
}

fn described(request: Request, answer: &Answer<'_>) -> String {
    let asked = match request {
        Request::Get(number) => format!("a get of record {number}"),
        Request::Put(number) => format!("a put of record {number}"),
        Request::Scan(_) => "a scan".to_owned(),
    };
    let said = match answer {
        Answer::Other(line) => format!("`{}`", line.escape_ascii()),
        Answer::Missing => "that there is no such record".to_owned(),
        Answer::Value(value) => format!("another value, of {} bytes", value.len()),
        Answer::Stored | Answer::Keys { .. } => "the reply to something else".to_owned(),
    };
    format!("{asked} was answered by {said}")
}

fn no_reply(target: &Target, why: String) -> Error {
    target.failed("receive a reply", std::io::Error::other(why))
}
