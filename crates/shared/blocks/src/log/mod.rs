//! Logs: entries appended durably, and a valid prefix of them after a crash (van Renen §3.3).
//!
//! A [`Log`] is a range of a pool: a head, control lines where an algorithm has some, and entries one
//! behind the other. How an entry becomes durable, and how a torn one is told, is its [`Algorithm`]:
//!
//! | algorithm | fences | lines of an aligned entry of *n* bytes | needs zeroed space | reset |
//! |---|---|---|---|---|
//! | [`Classic`] | 2 | ⌈(16 + n) / 64⌉ + 1 | no | 1 fence, 1 line |
//! | [`Header`]`<1>`, `<64>` | 2 | ⌈(8 + n) / 64⌉ + 1 | no | 1 fence, 1 line |
//! | [`Rawl`] | 1 | ⌈8 (w + ⌈w / 63⌉) / 64⌉, w = 1 + ⌈n / 8⌉ words | yes | 3 fences, up to half of the log; 1 fence, 1 line if it is full |
//! | [`PopLog`] | 1 | ⌈(8 + n) / 64⌉ | yes | 3 fences, all that was written |
//! | [`Salted`] | 1 | ⌈(12 + n) / 64⌉ | no | 1 fence, 1 line |
//!
//! There is a flush for each fence. RAWL flushes 4 KiB at a time. For packed entries of more than four
//! lines, the other algorithms flush the lines behind the first separately, 4 KiB at a time.
//!
//! The paper counts two persistency barriers for Classic and Header, one for RAWL and PopLog, and a
//! waste by padding of up to one line, two for Classic.
//!
//! An append walks `Log::append` (is there room?) → the algorithm's `persist` → `staging.rs`, which
//! composes packed lines in DRAM → [`Fresh::persist_stream`], past the cache and with one fence.
//! [`Log::open`] reads the head (`head.rs`), walks the entries up to the first that is not whole, makes the
//! valid prefix durable, and makes sure that no part of a torn entry can come back.

mod classic;
pub mod frame;
mod head;
mod header;
mod poplog;
mod rawl;
mod salted;
mod staging;

use std::borrow::Cow;
use std::ops::Range;

use halite_pmem::{Fresh, LINE};

pub use classic::Classic;
use head::Head;
pub use head::Layout;
pub use header::Header;
pub use poplog::PopLog;
pub use rawl::Rawl;
pub use salted::Salted;
pub use staging::Staging;

use crate::{Error, Result};

/// How entries become durable and are distinguished from bytes that only look like entries.
///
/// Offsets are relative to the log's space and multiples of 8, of a line under [`Layout::Lines`].
pub trait Algorithm: Sized {
    /// The name in messages and benches.
    const NAME: &'static str;
    /// The number that stands for it in a log's head.
    const ID: u8;
    /// Lines of its own between the head and the entries.
    const CONTROL_LINES: u64 = 0;
    /// Whether space must be blank before an entry is written to it.
    const NEEDS_BLANK: bool = false;
    /// The longest entry that it has numbers for, in bytes.
    const ENTRY_LEN_MAX: u64 = 1 << 62;

    /// The state at the start of a life.
    fn begin(life: &Life, layout: Layout) -> Self;

    /// The room that an entry of `len` bytes takes, in bytes.
    fn footprint(&self, len: u64) -> u64;

    /// Writes an entry to its place, an offset and a footprint, and waits until it is durable. Its lines
    /// may be composed in `staging`.
    ///
    /// # Errors
    /// The pool's errors.
    fn persist(
        &mut self,
        space: &mut Fresh,
        staging: &mut Staging,
        place: (u64, u64),
        entry: &[u8],
    ) -> Result<()>;

    /// The entry at `at` of the space, if there is a whole one.
    fn read<'a>(&self, space: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>>;

    /// Reads the control lines, before entries are read.
    fn read_control(&mut self, _space: &[u8]) {}

    /// Resumes the log where its `entries` entries end: changes the bytes behind the end so that later
    /// appends cannot complete an entry that was torn there, and waits until that is durable.
    ///
    /// # Errors
    /// [`Error::LogDamaged`]; the pool's errors.
    fn resume(&mut self, _space: &mut Fresh, _end: u64, _entries: u64) -> Result<()> {
        Ok(())
    }

    /// The part that a reset has to overwrite in a log whose entries are in `written` and which has room up
    /// to `end`.
    fn wipe(&self, written: Range<u64>, _end: u64) -> Wipe {
        Wipe { range: written.start..written.start, word: 0, validity: true }
    }
}

/// One of the lives of a log's space: from a format or a reset to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The log's random number, of its last format.
    pub salt: u64,
    /// Resets before this life.
    pub number: u64,
    /// The value of validity bits ([`Rawl`]).
    pub validity: bool,
}

/// The part of the space to be overwritten before a life begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wipe {
    /// The place of the entry in the space.
    pub range: Range<u64>,
    /// The word to fill it with.
    pub word: u64,
    /// [`Life::validity`] of the next life.
    pub validity: bool,
}

/// A log in a range of a pool.
pub struct Log<A> {
    space: Fresh,
    head: Head,
    /// Where the next entry goes.
    tail: u64,
    /// A write failed half way: the bytes behind the tail are unknown.
    failed: bool,
    algorithm: A,
    staging: Staging,
}

impl<A: Algorithm> Log<A> {
    /// Where the entries begin.
    const START: u64 = (1 + A::CONTROL_LINES) * LINE;

    /// Makes `space` an empty log; its contents are lost. Two fences, and a third where bytes have to be
    /// zero: control lines, or the whole space for an algorithm that needs blank space. Another one where lines
    /// keep no order.
    ///
    /// If it is interrupted, the space has its earlier contents, [`Error::NotALog`], or the empty log.
    ///
    /// # Errors
    /// [`Error::LogSpace`]; [`Error::Pool`].
    pub fn format(mut space: Fresh, layout: Layout) -> Result<Self> {
        Self::check_space(&space)?;
        // After a failed sync, the old log may reappear when the pool is opened again.
        space.pool().check_synced()?;
        let salt = space.pool().random()?;
        let life = Life { salt, number: 0, validity: true };
        let head = Head { layout, algorithm: A::ID, life, is_wiping: false };
        let killed = Head::kill(&mut space);
        space.pool().fence([killed])?;
        let end = if A::NEEDS_BLANK { space.len() } else { Self::START };
        if LINE < end {
            let zeroed = space.zero(LINE..end);
            space.pool().fence([zeroed])?;
        }
        let written = head.write(&mut space)?;
        space.pool().fence([written])?;
        Ok(Self::empty(space, head))
    }

    fn empty(space: Fresh, head: Head) -> Self {
        let algorithm = A::begin(&head.life, head.layout);
        let staging = Staging::default();
        Self { space, head, tail: Self::START, failed: false, algorithm, staging }
    }

    /// Opens the log in `space`. Torn entries behind the valid prefix are discarded, and the prefix is
    /// durable.
    ///
    /// # Errors
    /// [`Error::NotALog`], [`Error::LogVersion`], [`Error::LogAlgorithm`], [`Error::LogDamaged`],
    /// [`Error::LogSpace`]; [`Error::Pool`].
    pub fn open(mut space: Fresh) -> Result<Self> {
        Self::check_space(&space)?;
        let head = Head::read::<A>(&space)?;
        if head.is_wiping {
            return Self::end_reset(space, head);
        }
        let mut algorithm = A::begin(&head.life, head.layout);
        algorithm.read_control(space.bytes());
        let mut walk = Walk { algorithm: &algorithm, space: space.bytes(), at: Self::START };
        let entries = walk.by_ref().count() as u64;
        let tail = walk.at;
        // A process may have been killed where the power was not cut. Where blank space is relied on,
        // zeros count as found, too.
        let found = space.flush(0..if A::NEEDS_BLANK { space.len() } else { tail });
        space.pool().fence_found(&[found])?;
        algorithm.resume(&mut space, tail, entries)?;
        let staging = Staging::default();
        Ok(Self { space, head, tail, failed: false, algorithm, staging })
    }

    /// Appends an entry. It is durable when this returns.
    ///
    /// # Errors
    /// [`Error::EntryTooLong`], [`Error::LogFull`], and the log is unchanged; [`Error::Pool`], and it has
    /// to be opened again ([`Error::LogFailed`] until then).
    #[inline]
    pub fn append(&mut self, entry: &[u8]) -> Result<()> {
        let len = entry.len() as u64;
        if len > A::ENTRY_LEN_MAX {
            return Err(self.refuse(len));
        }
        let footprint = self.algorithm.footprint(len);
        if footprint > self.remaining() || self.failed {
            return Err(self.refuse(len));
        }
        self.failed = true;
        let place = (self.tail, footprint);
        self.algorithm.persist(&mut self.space, &mut self.staging, place, entry)?;
        self.failed = false;
        self.tail += footprint;
        Ok(())
    }

    /// The entries, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        // After a failed reset, bytes behind the tail may look like entries.
        let space = &self.space.bytes()[..self.tail as usize];
        Walk { algorithm: &self.algorithm, space, at: Self::START }
    }

    /// Empties the log, to be filled again. If it is interrupted, the entries are all there or gone.
    ///
    /// # Errors
    /// [`Error::LogFailed`]; [`Error::Pool`], and the log has to be opened again.
    pub fn reset(&mut self) -> Result<()> {
        if self.failed {
            return Err(Error::LogFailed { offset: self.space.offset() });
        }
        self.failed = true;
        let wipe = self.algorithm.wipe(Self::START..self.tail, self.space.len());
        if !wipe.range.is_empty() {
            self.head.is_wiping = true;
            let wiping = self.head.write_life(&mut self.space);
            self.space.pool().fence([wiping])?;
            staging::fill(&mut self.space, wipe.range, wipe.word)?;
        }
        self.head.begin_life(wipe.validity);
        let begun = self.head.write_life(&mut self.space);
        self.space.pool().fence([begun])?;
        self.algorithm = A::begin(&self.head.life, self.head.layout);
        (self.tail, self.failed) = (Self::START, false);
        Ok(())
    }

    /// Ends a reset that was interrupted while it wiped, by wiping the whole log: its progress is unknown.
    fn end_reset(mut space: Fresh, mut head: Head) -> Result<Self> {
        // A killed process may have stored the mark and not waited for it.
        let found = space.flush(0..LINE);
        space.pool().fence_found(&[found])?;
        let zeroed = space.zero(Self::START..space.len());
        space.pool().fence([zeroed])?;
        head.begin_life(true);
        let begun = head.write_life(&mut space);
        space.pool().fence([begun])?;
        Ok(Self::empty(space, head))
    }

    /// The room that an entry of `len` bytes takes, in bytes.
    #[must_use]
    pub fn footprint(&self, len: u64) -> u64 {
        self.algorithm.footprint(len.min(A::ENTRY_LEN_MAX))
    }

    /// The room left for entries, in bytes.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.space.len() - self.tail
    }

    /// The room of an empty log for entries, in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.space.len() - Self::START
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tail == Self::START
    }

    /// How entries lie.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.head.layout
    }

    /// Gives the space back with its contents.
    #[must_use]
    pub fn into_space(self) -> Fresh {
        self.space
    }

    #[cold]
    fn refuse(&self, len: u64) -> Error {
        if self.failed {
            return Error::LogFailed { offset: self.space.offset() };
        }
        let (needed, remaining) = (self.footprint(len), self.remaining());
        if len > A::ENTRY_LEN_MAX || needed > self.capacity() {
            return Error::EntryTooLong { len, capacity: self.capacity() };
        }
        Error::LogFull { len, needed, remaining }
    }

    fn check_space(space: &Fresh) -> Result<()> {
        let (offset, len, least) = (space.offset(), space.len(), Self::START + LINE);
        let is_aligned = offset.is_multiple_of(LINE) && len.is_multiple_of(LINE);
        if len < least || !is_aligned {
            return Err(Error::LogSpace { offset, len, least });
        }
        Ok(())
    }
}

/// The whole entries from an offset on.
struct Walk<'a, A> {
    algorithm: &'a A,
    space: &'a [u8],
    at: u64,
}

impl<'a, A: Algorithm> Iterator for Walk<'a, A> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let entry = self.algorithm.read(self.space, self.at)?;
        self.at += self.algorithm.footprint(entry.len() as u64);
        Some(entry)
    }
}

/// The word at `at`, or `None` if it is not all inside.
#[inline]
fn word(space: &[u8], at: u64) -> Option<u64> {
    let bytes = space.get(usize::try_from(at).ok()?..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Reports damage if an entry of this life stands behind the end of the valid prefix: it was written when
/// all entries before it were durable. For algorithms whose entries no other bytes can imitate.
///
/// `cost` returns how many bytes are read to check one place. Forged lengths can make each place cost as
/// much as the log, so the search stops when it has read four times that.
fn check_nothing_behind<A: Algorithm>(
    algorithm: &A,
    space: &Fresh,
    end: u64,
    layout: Layout,
    cost: impl Fn(&[u8]) -> u64,
) -> Result<()> {
    let bytes = space.bytes();
    let mut budget = 4 * space.len();
    for at in (end..space.len()).step_by(layout.pad(1) as usize) {
        budget = budget.saturating_sub(cost(&bytes[at as usize..]));
        if budget == 0 {
            break;
        }
        if algorithm.read(bytes, at).is_some() {
            let what = "an entry is not whole, though one behind it is";
            return Err(Error::LogDamaged { offset: space.offset(), what });
        }
    }
    Ok(())
}

/// The `len` bytes behind a header at `at`, if the whole entry is inside.
#[inline]
fn payload<'a, A: Algorithm>(
    algorithm: &A,
    space: &'a [u8],
    at: u64,
    header: u64,
    len: u64,
) -> Option<&'a [u8]> {
    let room = space.len() as u64 - at;
    if len > room || algorithm.footprint(len) > room {
        return None;
    }
    let start = (at + header) as usize;
    Some(&space[start..start + len as usize])
}
