//! Space of the disk that is set aside for work that gives space back: with it, a full disk can be emptied.
//!
//! A file `BALLAST` without content has the space, as long as no work needs it. Compactions of removed data borrow
//! it, as they write new tables before the old ones are removed, and it is taken back when those are gone. The log
//! and files of large values get space only while all of the ballast is there: so lent space comes back. A process
//! that is killed leaves it to the next one. It grows with the levels: small ones have small tables.

use halite_disk::{Disk, Error as DiskError, Writer};
use parking_lot::Mutex;

use super::error::Result;
use super::options::LevelsOptions;

/// The file's name.
pub(crate) const BALLAST: &str = "BALLAST";

/// The part of the levels that is set aside, until that is enough.
const PART: u64 = 4;

/// Space is asked for in steps of so many bytes.
const STEP: u64 = 1 << 20;

/// Where the disk does not have all that is wanted, no more than this part of it is left.
const LEFT_PART: u64 = 16;

pub(super) struct Ballast {
    disk: Disk,
    min: u64,
    max: u64,
    state: Mutex<State>,
}

struct State {
    writer: Option<Writer>,
    wanted: u64,
    /// Bytes that the disk had when they were asked for.
    taken: u64,
    /// How many have borrowed it.
    lent: u32,
}

/// The space is lent until this is dropped.
pub(super) struct Lent<'a>(&'a Ballast);

impl Ballast {
    /// Sets space aside, or none for now, if the disk does not have it; none, if none is wanted.
    pub(super) fn open(disk: &Disk, options: &LevelsOptions) -> Result<Self> {
        let (min, max) = (options.ballast_bytes_min, options.ballast_bytes_max);
        let is_there = disk.list()?.iter().any(|(name, _)| name == BALLAST);
        let writer = match (max, is_there) {
            (0, false) => None,
            (0, true) => {
                disk.remove(BALLAST)?;
                None
            }
            (_, true) => Some(disk.append(BALLAST, 0)?),
            // On a disk that has no room for a name, there is none.
            (_, false) => disk.create(BALLAST).ok(),
        };
        let state = State { writer, wanted: 0, taken: 0, lent: 0 };
        Ok(Self { disk: disk.clone(), min, max, state: Mutex::new(state) })
    }

    /// The levels have so many bytes now.
    pub(super) fn follow(&self, levels_bytes: u64) {
        let mut state = self.state.lock();
        let wanted = self.min.saturating_add(levels_bytes / PART).min(self.max);
        state.wanted = wanted.next_multiple_of(STEP).min(self.max);
        state.take();
    }

    /// Takes the missing space, as others have given some back. Returns whether all of it is there.
    pub(super) fn take(&self) -> bool {
        let mut state = self.state.lock();
        state.take();
        state.is_whole()
    }

    /// Lends the space to a compaction for a while.
    pub(super) fn lend(&self) -> Lent<'_> {
        let mut state = self.state.lock();
        state.lent += 1;
        state.give_back();
        Lent(self)
    }

    /// Lets another file have space by `reserve`, if all of the ballast is there.
    ///
    /// # Errors
    /// [`DiskError::NoSpace`]; the errors of `reserve`.
    pub(super) fn reserve_beside<E: From<DiskError>>(
        &self,
        reserve: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut state = self.state.lock();
        state.take();
        match state.is_whole() {
            true => reserve(),
            false => Err(DiskError::NoSpace { path: self.disk.path().to_owned() }.into()),
        }
    }

    pub(super) fn is_lent(&self) -> bool {
        self.state.lock().lent > 0
    }
}

impl State {
    /// Whether all of it is there. Where the disk has no room for its name, there is none.
    fn is_whole(&self) -> bool {
        self.writer.is_none() || self.lent == 0 && self.taken >= self.wanted
    }

    fn give_back(&mut self) {
        if let Some(writer) = &mut self.writer {
            let _ = writer.give_back();
        }
        self.taken = 0;
    }

    /// Takes the missing part, or almost as much of it as the disk has.
    fn take(&mut self) {
        let (mut next, mut refused) = (self.wanted, self.wanted);
        while self.lent == 0 && self.taken < next {
            let Some(writer) = &mut self.writer else { return };
            match writer.reserve(next) {
                Ok(()) => self.taken = next,
                Err(_) => {
                    refused = next;
                    // A file system may have given it all that was left: ext4 does.
                    let _ = writer.give_back();
                    if writer.reserve(self.taken).is_err() {
                        self.taken = 0;
                    }
                }
            }
            let left = refused - self.taken;
            let is_enough = self.taken == self.wanted || left <= self.wanted / LEFT_PART;
            next = if is_enough { 0 } else { self.taken + left / 2 };
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.lent -= 1;
        state.take();
    }
}
