//! The place where a running script and the service meet.
//!
//! Functions of the sandbox live as long as the Lua state, and the service is lent to a run only. So `redis.call` lays
//! the words of a command on the desk and rings the bell: a function that lives as long as the run, executes the
//! command, and leaves the reply's bytes here.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::{Duration, Instant};

use mlua::Function;

use super::library::Registering;
use super::random;
use crate::random::generator;
use crate::reply::Protocol;

/// The request for which the bell rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// Execute the words.
    Execute,
    /// Write the words to the log.
    Log,
    /// Tell whether the client may have the words executed.
    CheckRights,
    /// Look after the server: the script has been running for some time.
    LookAfter,
}

/// Why a script does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abort {
    /// A client has killed it.
    Killed,
    /// It has run for longer than it may.
    TooLong,
    /// It needs a partition that is not here.
    Elsewhere,
    /// The store failed, or the server ends.
    Failed,
}

/// Words, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) bytes: Vec<u8>,
    pub(super) ranges: Vec<Range<usize>>,
}

impl Words {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
    }

    pub(super) fn push(&mut self, word: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(word);
        self.ranges.push(start..self.bytes.len());
    }
}

/// The desk.
pub(super) struct Desk {
    /// The function that serves the script, while one runs.
    pub(super) bell: RefCell<Option<Function>>,
    pub(super) errand: Cell<Errand>,
    pub(super) words: RefCell<Words>,
    /// The reply, in `protocol`.
    pub(super) reply: RefCell<Vec<u8>>,
    /// The protocol that the script has chosen for replies.
    pub(super) protocol: Cell<Protocol>,
    pub(super) abort: Cell<Option<Abort>>,
    /// The script's place when it was stopped: its source and a line of it.
    pub(super) stopped_at: RefCell<Option<(String, usize)>>,
    /// When the run began.
    pub(super) began: Cell<Instant>,
    /// When the bell rings for [`Errand::LookAfter`], counted from `began`.
    pub(super) next_look: Cell<Duration>,
    /// Bytes that a value may take which is built outside of the Lua state: as many as the state itself.
    pub(super) memory_max: Cell<usize>,
    /// The state of `math.random`.
    pub(super) random: Cell<u64>,
    /// The functions that a library registers, while it is loaded.
    pub(super) registering: RefCell<Option<Registering>>,
}

/// Bytes of a line that a script writes to the log.
pub(super) const LOGGED_LEN_MAX: usize = 1024;

/// Bytes of a buffer that are kept for the next run.
const KEPT: usize = 64 << 10;

impl Desk {
    pub(super) fn new() -> Self {
        Self {
            bell: RefCell::default(),
            errand: Cell::new(Errand::Execute),
            words: RefCell::default(),
            reply: RefCell::default(),
            protocol: Cell::new(Protocol::Resp2),
            abort: Cell::new(None),
            stopped_at: RefCell::default(),
            began: Cell::new(Instant::now()),
            next_look: Cell::new(Duration::MAX),
            memory_max: Cell::new(usize::MAX),
            random: Cell::new(random::seeded(generator().i32(..))),
            registering: RefCell::default(),
        }
    }

    /// Makes the desk ready for a run.
    pub(super) fn clear(&self, now: Instant, first_look: Duration) {
        self.protocol.set(Protocol::Resp2);
        self.abort.set(None);
        self.stopped_at.replace(None);
        self.began.set(now);
        self.next_look.set(first_look);
        let (words, reply) = (&mut *self.words.borrow_mut(), &mut *self.reply.borrow_mut());
        if words.bytes.capacity() > KEPT {
            *words = Words::default();
        }
        if reply.capacity() > KEPT {
            *reply = Vec::new();
        }
    }

    /// Limits the time of a library's code, which runs without a bell, until [`Desk::rest`].
    pub(super) fn load_until(&self, time_max: Duration) {
        self.began.set(Instant::now());
        self.next_look.set(time_max);
    }

    /// Ends the limit of the code that ran. The server's own code in Lua, which keeps scripts between runs, has none: the
    /// hook counts its instructions, too.
    pub(super) fn rest(&self) {
        self.next_look.set(Duration::MAX);
    }

    /// Rings the bell; false: no script runs.
    pub(super) fn ring(&self, errand: Errand) -> mlua::Result<bool> {
        let Some(bell) = self.bell.borrow().clone() else { return Ok(false) };
        self.errand.set(errand);
        bell.call::<()>(())?;
        Ok(true)
    }
}
