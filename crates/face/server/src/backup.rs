//! A backup that a client takes while others write.
//!
//! `HALITE.BACKUP BEGIN` takes a snapshot, and starts a thread that writes it as a backup into a [`Pipe`].
//! `HALITE.BACKUP NEXT` returns the next piece; while there is none, the command waits in its connection, and no other
//! connection does. The thread waits in turn while the few pieces that are ready are not fetched. So a backup takes as
//! much memory as these pieces, at any length, and no file is written where the server runs.
//!
//! One backup is taken at a time. It ends with its client, or when its client has fetched no piece for a minute: the
//! space that the snapshot holds is not reused meanwhile.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use halite_contract::panic_message;

use crate::lock::lock;
use crate::shared::Shared;

/// Bytes of a piece at most.
const PIECE_LEN: usize = 256 << 10;
/// Pieces that may be ready and not fetched.
const PIECES_MAX: usize = 2;
/// How long the client may fetch no piece.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the end of the server is looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// A backup that is taken, as its client has it: dropped, it ends.
#[derive(Debug)]
pub(crate) struct Backup(Arc<Pipe>);

/// A part of a backup.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The end of the backup.
    End,
    /// It cannot go on, for this reason.
    Failed(String),
}

/// The queue between the thread that writes the backup and the client.
#[derive(Debug, Default)]
struct Pipe {
    pieces: Mutex<VecDeque<Piece>>,
    /// The client has taken a piece, or has gone.
    changed: Condvar,
    is_closed: AtomicBool,
}

impl Backup {
    /// Lets a thread of its own `write` a backup. Whenever there is a piece again, thread `reader` of the server
    /// is woken.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn begin(
        turn: Turn,
        reader: usize,
        write: impl FnOnce(&mut Writer) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (pipe, shared) = (Arc::new(Pipe::default()), Arc::clone(&turn.0));
        let mut out = Writer {
            piece: Vec::new(),
            pipe: Arc::clone(&pipe),
            shared: Arc::clone(&shared),
            turn: Some(turn),
            reader,
            last: Piece::End,
        };
        let run = move || {
            let caught = catch_unwind(AssertUnwindSafe(|| write(&mut out)));
            let written = caught.unwrap_or_else(|panic| {
                Err(format!("the thread that wrote it panicked: {}", panic_message(&*panic)))
            });
            out.end(written.map_or_else(Piece::Failed, |()| Piece::End));
        };
        let builder = thread::Builder::new().name("halite-backup".to_owned());
        let started = builder.spawn(run).map_err(|error| format!("no thread for it: {error}"))?;
        // The one before it has ended, or is about to.
        *lock(&shared.backup) = Some(started);
        Ok(Self(pipe))
    }

    /// Whether there is a piece.
    pub(crate) fn is_ready(&self) -> bool {
        !lock(&self.0.pieces).is_empty()
    }

    /// The next piece, if there is one.
    pub(crate) fn next(&self) -> Option<Piece> {
        let piece = lock(&self.0.pieces).pop_front();
        self.0.changed.notify_all();
        piece
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.changed.notify_all();
    }
}

/// The right to take a backup, which one backup at a time holds.
pub(crate) struct Turn(Arc<Shared>);

impl Turn {
    /// The turn, if no backup holds it.
    pub(crate) fn take(shared: &Arc<Shared>) -> Option<Self> {
        let taken = shared.backs_up.swap(true, Ordering::AcqRel);
        (!taken).then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.backs_up.store(false, Ordering::Release);
    }
}

/// Cuts the bytes of the backup into pieces. Dropping it sends the last piece.
pub(crate) struct Writer {
    piece: Vec<u8>,
    pipe: Arc<Pipe>,
    shared: Arc<Shared>,
    turn: Option<Turn>,
    /// The thread of the server that the client belongs to.
    reader: usize,
    last: Piece,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Released before the client gets the last piece, so that it can begin the next backup at once.
        self.turn = None;
        let last = std::mem::replace(&mut self.last, Piece::End);
        lock(&self.pipe.pieces).push_back(last);
        self.shared.ring_one(self.reader);
    }
}

impl Writer {
    fn end(mut self, last: Piece) {
        self.last = last;
    }

    fn send(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut pieces = lock(&self.pipe.pieces);
        while pieces.len() >= PIECES_MAX {
            if self.must_end() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if Instant::now() >= until {
                let why =
                    format!("no client has asked for more of it for {} s", PATIENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            let waited = self.pipe.changed.wait_timeout(pieces, PAUSE);
            pieces = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        pieces.push_back(Piece::Bytes(std::mem::take(&mut self.piece)));
        drop(pieces);
        self.shared.ring_one(self.reader);
        Ok(())
    }

    /// Whether the client will fetch no more pieces.
    fn must_end(&self) -> bool {
        self.pipe.is_closed.load(Ordering::Acquire) || self.shared.ending.has_begun()
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.must_end() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(PIECE_LEN - self.piece.len());
        self.piece.extend_from_slice(&bytes[..len]);
        if self.piece.len() == PIECE_LEN {
            self.send()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::Config;
    use crate::loading::Loading;
    use crate::partition_set::PartitionSet;
    use crate::settings::Settings;
    use crate::shard::bell::Bell;

    #[test]
    fn a_thread_that_panics_says_so_and_lets_the_next_one_begin() {
        let bell = Bell::new(Waker::new(Poll::new().unwrap().registry(), Token(0)).unwrap());
        let loading = Loading::new(1, 1, PartitionSet::first(1));
        let settings = Settings::new(&Config::default(), 0);
        let shared = Arc::new(Shared::new(settings, vec![bell].into(), loading));
        for panics in [true, false] {
            let turn = Turn::take(&shared).unwrap();
            assert!(Turn::take(&shared).is_none());
            let backup = Backup::begin(turn, 0, move |out| {
                out.write_all(b"some").map_err(|error| error.to_string())?;
                assert!(!panics, "as the test wants it");
                out.flush().map_err(|error| error.to_string())
            });
            let backup = backup.unwrap();
            // The server, which waits for the thread at its end, does not panic.
            lock(&shared.backup).take().unwrap().join().unwrap();
            if panics {
                let why = backup.next();
                assert!(
                    matches!(&why, Some(Piece::Failed(why)) if why.contains("panicked: as the test"))
                );
            } else {
                assert!(matches!(backup.next(), Some(Piece::Bytes(bytes)) if bytes == b"some"));
                assert!(matches!(backup.next(), Some(Piece::End)));
            }
            assert!(backup.next().is_none());
        }
    }
}
