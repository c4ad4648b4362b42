//! Space of the disk that is set aside for what gives space back: with it, a full disk can be emptied.
//!
//! A file `BALLAST` without content has it, as long as nothing needs it. Compactions of what was removed borrow it, as
//! they write new tables before old ones go, and it is taken back when those are gone. A process that is killed leaves
//! it to the next one. It grows with the levels: small ones have small tables.

use halite_disk::{Disk, Writer};
use parking_lot::Mutex;

use super::options::LevelsOptions;
use crate::sst::Result;

/// The file's name.
pub(crate) const BALLAST: &str = "BALLAST";

/// The part of the levels that is set aside, until that is enough.
const PART: u64 = 4;

/// Space is asked for in steps of so many bytes.
const STEP: u64 = 1 << 20;

pub(super) struct Ballast {
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
        Ok(Self { min, max, state: Mutex::new(state) })
    }

    /// The levels have so many bytes now.
    pub(super) fn follow(&self, levels_bytes: u64) {
        let mut state = self.state.lock();
        let wanted = self.min.saturating_add(levels_bytes / PART).min(self.max);
        state.wanted = wanted.next_multiple_of(STEP).min(self.max);
        state.take();
    }

    /// Takes what is missing, as others have given space back.
    pub(super) fn take(&self) {
        self.state.lock().take();
    }

    /// Gives the space to others for a while.
    pub(super) fn lend(&self) -> Lent<'_> {
        let mut state = self.state.lock();
        state.lent += 1;
        if let Some(writer) = &mut state.writer {
            let _ = writer.give_back();
        }
        state.taken = 0;
        Lent(self)
    }
}

impl State {
    /// Takes the space, as far as it is not there yet; of what the disk does not have, a half, or a quarter.
    fn take(&mut self) {
        if self.lent > 0 || self.taken >= self.wanted {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        let mut sizes =
            (0..3).map(|halved| self.wanted >> halved).filter(|size| *size > self.taken);
        if let Some(taken) = sizes.find(|size| writer.reserve(*size).is_ok()) {
            self.taken = taken;
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
