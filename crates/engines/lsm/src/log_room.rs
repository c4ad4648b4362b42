//! Room for the log on its disk: which batches get it, and how the log gets shorter.
//!
//! The log goes on in files that are there already, and these are set aside for removals and bookkeeping, which use
//! them on a full disk. When a quarter of that space is used up, a thread brings all memtables to the levels, for
//! which the levels' ballast has room: then files of the log are removed, which had more bytes than the new tables
//! have. The ballast is restored first, and the rest is set aside for the log: so the tables of removals cost the
//! log's part, and never the space that is needed to give back removed data. Where nothing of the part is left,
//! removals wait for that.

use std::time::Duration;

use halite_contract::{Error, Result};
use halite_wal::Wal;

use crate::encoded::Encoded;
use crate::failure::{from_log, is_full, lacks_space, no_room};
use crate::refusals::Purpose;
use crate::store::Store;
use crate::wal::Space;

/// Smaller reservations to try where the disk refuses one, each half of the one before.
const HALVES: u32 = 4;

/// How long a removal waits for room to be made before it looks again.
const WAIT: Duration = Duration::from_millis(100);

/// How often a removal waits without any room having been made meanwhile.
const WAITS_MAX: u32 = 600;

/// How often bookkeeping has the log made shorter.
const BOOKKEEPING_TRIES: u32 = 3;

/// How a batch has waited for room in the log.
#[derive(Default)]
pub(crate) struct Waited {
    times: u32,
    /// How often it waited since the levels changed, and how often these had changed by then.
    since: u32,
    edits: u64,
}

impl Store {
    /// Gives a batch its place in the log, in its turn, so that the batch does not fail for lack of space.
    ///
    /// # Errors
    /// [`crate::Error::LogFull`], [`crate::Error::LogFile`]: nothing is changed.
    pub(crate) fn reserve_log(&self, encoded: &Encoded) -> Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        let Space { len, left } = Space::of(wal, encoded);
        let mut reserved = Ok(());
        if wal.lacks(len, left) {
            reserved = self.levels.reserve_beside_ballast(|| wal.grow(len, left)).map_err(no_room);
        }
        let placed = reserved.and_then(|()| wal.place(len).map_err(from_log));
        if encoded.purpose != Purpose::Put && wal.is_spare_low() && !self.refill_log() {
            wal.set_to_be_shorter(true);
            self.signals.wake();
        }
        if wal.asks_to_prepare() {
            self.signals.wake();
        }
        placed
    }

    /// Has the next file of the log written with zeros, where that is due. Returns whether it was.
    ///
    /// # Errors
    /// Those of syncs.
    pub(crate) fn prepare_log(&self) -> Result<bool> {
        let Some(wal) = self.wal.as_ref().filter(|wal| wal.must_prepare()) else {
            return Ok(false);
        };
        let left = wal.spare().max(1);
        let grown = self.levels.reserve_beside_ballast(|| wal.grow(0, left)).map_err(no_room);
        match grown {
            // There is no room for a file beside the spare space: then commits wait for their own.
            Err(error) if self.is_refusal(&error) => {}
            grown => grown?,
        }
        wal.prepare().map_err(from_log)?;
        Ok(true)
    }

    /// Sets aside again the missing space for bookkeeping and removals, or a part of it. Returns whether nothing is
    /// missing then.
    pub(crate) fn refill_log(&self) -> bool {
        let Some(wal) = &self.wal else { return true };
        let missing = wal.missing_spare();
        let refill = |halved: u32| {
            let left = wal.spare() - (missing - (missing >> halved));
            // The next write reports any other failure to set it aside.
            self.levels.reserve_beside_ballast(|| wal.grow(0, left)).is_ok()
        };
        missing == 0 || (0..HALVES).find(|halved| refill(*halved)) == Some(0)
    }

    /// Brings memtables to the levels, so that files of the log are removed. Returns whether any memtable was
    /// brought.
    fn shorten_log(&self) -> Result<bool> {
        let Some(wal) = &self.wal else { return Ok(false) };
        wal.set_to_be_shorter(false);
        let _flushing = self.turns.flush();
        match self.roll_all() {
            // The memtables that are full already may suffice.
            Err(error) if lacks_space(&error) || is_full(&error) => {}
            rolled => rolled?,
        }
        // Before the sync: a removal that becomes visible meanwhile hides nothing that may be dropped.
        let durable = self.visible();
        self.sync()?;
        let mut handed_on = false;
        while self.hand_on(Some(durable))? {
            handed_on = true;
        }
        if handed_on {
            self.refusals.look_again();
        }
        Ok(handed_on)
    }

    /// Shortens the log where a part of the space that is set aside for removals is used up.
    pub(crate) fn shorten_log_if_due(&self) -> Result<bool> {
        if !self.wal.as_ref().is_some_and(Wal::is_to_be_shorter) {
            return Ok(false);
        }
        match self.shorten_log() {
            // The next use of that space has it tried again.
            Err(error) if lacks_space(&error) => Ok(false),
            shortened => shortened,
        }
    }

    /// Makes room in the log for a batch that found none: for bookkeeping a few times, as other threads may be at it
    /// and have the ballast meanwhile; for a removal as long as earlier removals may give room back.
    ///
    /// # Errors
    /// `full`, if there is no hope; any other error that kept the log from getting shorter.
    pub(crate) fn wait_for_log(
        &self,
        purpose: Purpose,
        waited: &mut Waited,
        full: Error,
    ) -> Result<()> {
        waited.times += 1;
        let may_wait = match purpose {
            Purpose::Put => false,
            Purpose::Bookkeeping => waited.times <= BOOKKEEPING_TRIES,
            Purpose::Removal => true,
        };
        if waited.times > 1 && !(may_wait && self.wait_for_emptying(waited)) {
            return Err(full);
        }
        match self.shorten_log() {
            Err(error) if !lacks_space(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until earlier removals may have given room back. Returns whether they have, or may later.
    fn wait_for_emptying(&self, waited: &mut Waited) -> bool {
        let edits = self.levels.edits();
        waited.since = if edits == waited.edits { waited.since + 1 } else { 0 };
        waited.edits = edits;
        if waited.since > WAITS_MAX || !self.has_threads() {
            return false;
        }
        self.refusals.hurry();
        let before = self.signals.seen();
        let seen = self.signals.wake_and_wait(&before, WAIT);
        seen.done != before.done || self.refusals.may_give_back()
    }
}
