//! A commit: from a batch to records that are durable, visible and in order.
//!
//! A walk: [`Store::commit`] enters the ring. In its turn the batch is granted sequences and space in the active
//! memtables of its trees: its ChainLog entry, of fragments (Yan §3.2.1). Then, beside others, its fragments are
//! completed and streamed to their zones; one fence; the volatile indexes point to the records, which are not visible
//! yet. When all earlier batches are committed, [`Store::do_commit`] moves the commit points behind this one and
//! makes it visible.
//!
//! # Costs
//!
//! Of a batch in one zone: its lines, one fence. With [`crate::experiments::CommitPoints::Ordered`], two lines and two
//! fences more. With [`Durability::Deferred`] nothing but the stores; [`Store::sync`] writes the lines back and fences
//! them, for all batches since the last one at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use halite_contract::{Durability, Error, Result};
use halite_index::RadixTree;
use halite_pmem::{Flushed, Grant, LINE};
use halite_sim::planted;
use halite_wal::Wal;

use crate::concurrency_restriction::ConcurrencyRestriction;
use crate::encoded::Encoded;
use crate::error::Error as LsmError;
use crate::failure::{from_log, is_full, is_log_full, lacks_room};
use crate::fragment::{HEADER, Header};
use crate::group_commit::begins_zone;
use crate::limits::BATCH_BYTES_MAX;
use crate::log_room::Waited;
use crate::memtable::Memtable;
use crate::refusals::{Entrance, Purpose};
use crate::store::Store;
use crate::unsynced::{End, Entry, Few};
use crate::wal;
use crate::zones::Granted;
use halite_index::DELETES_MAX;

/// Fills a batch in its turn, or refuses.
pub(crate) type Prepare<'a> = &'a dyn Fn(&mut Encoded) -> Result<()>;

impl Store {
    /// Commits a batch. Returns its last sequence; 0 if there is nothing in it.
    ///
    /// `prepare`, if it is given, is called in the batch's turn when all earlier batches are committed: it may add to
    /// the batch, or refuse.
    pub(crate) fn commit(
        &self,
        encoded: &mut Encoded,
        durability: Durability,
        prepare: Option<Prepare<'_>>,
    ) -> Result<u64> {
        self.commit_prepared(encoded, encoded.padded(), durability, prepare)
    }

    /// [`Store::commit`] of a batch that will have about so many bytes when it is prepared.
    pub(crate) fn commit_prepared(
        &self,
        encoded: &mut Encoded,
        bytes: u64,
        durability: Durability,
        prepare: Option<Prepare<'_>>,
    ) -> Result<u64> {
        let purpose = encoded.purpose;
        let entrance = self.refusals.enter(purpose, bytes);
        let mut began = None;
        let committed = match entrance {
            Entrance::Refused(error) => return Err(error),
            Entrance::NoWaiting => self.commit_once(encoded, durability, prepare),
            Entrance::Open | Entrance::Looking(_) => {
                if purpose == Purpose::Put || !self.refusals.are_puts_refused() {
                    self.slow_down(encoded.padded());
                }
                self.commit_waiting(encoded, durability, prepare, &mut began)
            }
        };
        match (&committed, entrance) {
            (Err(error), entrance) if lacks_room(error) => {
                if let Entrance::Looking(looking) = entrance {
                    began = Some(looking);
                }
                self.refusals.note(purpose, bytes, error, began);
            }
            (Ok(_), Entrance::Looking(_)) => self.refusals.open(purpose),
            _ => {}
        }
        let has_removed = purpose == Purpose::Removal && committed.is_ok();
        let is_due = began.is_some() && self.refusals.are_removals_due();
        if has_removed && self.refusals.note_removal(encoded.has_range()) || is_due {
            self.signals.wake();
        }
        committed
    }

    /// Commits a batch, which waits for room if it must. Notes when it began to wait.
    fn commit_waiting(
        &self,
        encoded: &mut Encoded,
        durability: Durability,
        prepare: Option<Prepare<'_>>,
        began: &mut Option<Duration>,
    ) -> Result<u64> {
        // Room may have been made before the batch first looked, and none since: it is tried once more.
        const TRIES: u32 = 2;
        let (mut tries, mut waited) = (0, Waited::default());
        loop {
            let error = match self.commit_once(encoded, durability, prepare) {
                Err(error) if self.may_wait_for(&error, encoded.purpose) => error,
                other => return other,
            };
            began.get_or_insert_with(|| self.refusals.now());
            if is_log_full(&error) {
                self.wait_for_log(encoded.purpose, &mut waited, error)?;
                continue;
            }
            if tries == TRIES {
                return Err(self.full());
            }
            match self.wait_for_room(encoded.padded(), error, tries > 0) {
                Err(error) if lacks_room(&error) && self.may_wait_for(&error, encoded.purpose) => {
                    tries += 1;
                }
                outcome => outcome?,
            }
        }
    }

    /// Whether there may be room for a batch if it waits. Puts do not wait for room in the log: the ballast is for
    /// others.
    fn may_wait_for(&self, error: &Error, purpose: Purpose) -> bool {
        is_full(error) || is_log_full(error) && purpose != Purpose::Put
    }

    fn commit_once(
        &self,
        encoded: &mut Encoded,
        durability: Durability,
        prepare: Option<Prepare<'_>>,
    ) -> Result<u64> {
        self.check_healthy()?;
        let _active = self.restriction.as_ref().map(ConcurrencyRestriction::join);
        let turn = self.ring.enter(|_, entry| self.do_commit(entry));
        if let Some(prepare) = prepare {
            turn.wait_alone();
            encoded.clear();
            let granted = self.commits.granted();
            if let Err(error) = prepare(encoded) {
                turn.pass();
                // The caller that tries again sees the change that refused it.
                self.make_visible(granted)?;
                return Err(error);
            }
            self.pace.charge(encoded.padded());
        }
        if encoded.is_empty() {
            let granted = self.commits.granted();
            turn.pass();
            // Earlier deferred batches become durable, too; and what the batch found is visible.
            return match durability {
                Durability::Immediate => self.sync().map(|()| 0),
                Durability::Deferred => self.make_visible(granted).map(|()| 0),
            };
        }
        if encoded.padded() > BATCH_BYTES_MAX {
            return Err(Error::BatchTooLarge { len: encoded.padded(), limit: BATCH_BYTES_MAX });
        }
        let mut memtables = Few::new();
        self.make_room(encoded, turn.bid(), &mut memtables)
            .and_then(|()| self.reserve_log(encoded))
            .inspect_err(|error| self.poison_by(error))?;
        let mut grants: Few<Granted<'_>> = Few::new();
        for (fragment, memtable) in encoded.fragments().iter().zip(&memtables) {
            grants.push(memtable.zones.grant(fragment.padded()));
        }
        let base = self.commits.take_sequences(encoded.records());
        let last = base + u64::from(encoded.records()) - 1;
        for memtable in &memtables {
            memtable.last.store(last, Ordering::Release);
        }
        let logged = self.wal.as_ref().map(|wal| (wal, wal::append(wal, base, encoded)));
        let durable = durability == Durability::Immediate;
        let user_bytes = encoded.user_bytes();
        let log_end = logged.map(|(_, end)| end).filter(|_| durable);
        let ends = match logged {
            Some(_) => Few::new(),
            None => grants
                .iter()
                .zip(&memtables)
                .map(|(granted, memtable)| End {
                    zones: Arc::clone(&memtable.zones),
                    lines: granted.lines(),
                })
                .collect(),
        };
        let granted = turn.grant(Entry { ends, last, user_bytes, durable, log_end });

        let places: Few<_> = grants
            .iter()
            .zip(&memtables)
            .map(|(granted, memtable)| (granted.address.to_bits(), memtable.zones.seed))
            .collect();
        encoded.complete(base, &places);
        planted!(
            "lsm.gidx-before-data",
            (grants.iter().zip(&memtables))
                .for_each(|(granted, memtable)| memtable.zones.advance_gidx(granted.lines().end))
        );
        planted!("lsm.commit-id-before-data", self.commits.set_commit_id(last));
        // One pin for all work in the indexes. Taking it is a fence, too: behind the stores, it would wait for them.
        let pinned = logged.is_none().then(RadixTree::pin);
        self.put(encoded, grants, &memtables, durable)?;
        for ((fragment, memtable), place) in encoded.fragments().iter().zip(&memtables).zip(&places)
        {
            memtable.add(place.0, fragment.payload());
        }
        drop(pinned);
        let bid = granted.finish();
        match logged {
            Some((wal, _)) => self.wait_visible(wal, bid, last, log_end)?,
            None => self.ring.wait_committed(bid),
        }
        // A batch that is durable is acknowledged, though another thread's work may have failed to sync meanwhile.
        self.health.check()?;
        if durable {
            self.levels.values().note_durable(last);
        }
        Ok(last)
    }

    /// Returns when a batch of a store with a log is visible; if the log is to be durable up to an end for it, behind a
    /// sync that it shares.
    fn wait_visible(&self, wal: &Wal, bid: u64, last: u64, log_end: Option<u64>) -> Result<()> {
        if let Some(end) = log_end {
            self.sync_log_to(wal, end)?;
        }
        // The first thread of those that shared the sync does it for all.
        if self.visible() < last {
            self.commits.hold().reveal(wal);
        }
        if self.visible() >= last {
            return Ok(());
        }
        self.ring.wait_committed(bid);
        // A deferred batch waits for those before it that are to be durable.
        self.make_visible(last)
    }

    /// Makes everything visible up to a sequence, as far as it is committed, behind a sync if a log has to be durable
    /// for it.
    fn make_visible(&self, last: u64) -> Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        let awaited = self.commits.hold().awaited_by(last);
        if let Some(end) = awaited {
            self.sync_log_to(wal, end)?;
            self.commits.hold().reveal(wal);
        }
        Ok(())
    }

    fn sync_log_to(&self, wal: &Wal, end: u64) -> Result<()> {
        wal.sync_to(end).map_err(from_log).inspect_err(|error| self.poison(&error.to_string()))
    }

    /// Whether an error refused a batch before it was granted anything, and everything in the store is as certain as
    /// before: another batch may succeed.
    pub(crate) fn is_refusal(&self, error: &Error) -> bool {
        let are_pools_synced = || self.memory.check_synced().is_ok();
        lacks_room(error)
            || matches!(LsmError::of(error), Some(LsmError::LogFile { .. }))
            || error.is_of_pool_kernel() && are_pools_synced()
    }

    /// Refuses all later batches after an error that leaves the durability of this one unknown, such as a failed sync.
    /// The store could report them as refused and yet have them when it is opened again.
    pub(crate) fn poison_by(&self, error: &Error) {
        if planted!("lsm.roll-failure-forgiven", false, !self.is_refusal(error)) {
            self.poison(&error.to_string());
        }
    }

    /// Stores a batch in the space that it was granted, and lets it be read there.
    fn put(
        &self,
        encoded: &Encoded,
        mut grants: Few<Granted<'_>>,
        memtables: &[Arc<Memtable>],
        durable: bool,
    ) -> Result<()> {
        let parts = || memtables.iter().zip(encoded.fragments());
        let mut flushed: Few<Flushed> = Few::new();
        let mut points: Few<Flushed> = Few::new();
        for (granted, (memtable, fragment)) in grants.iter_mut().zip(parts()) {
            if durable && begins_zone(&granted.lines()) {
                points.push(memtable.zones.flush_gidx());
                points.push(self.commits.flush_commit_id());
            }
            if let Some(end) = &mut granted.end {
                let mark = line_of(&Header::END.encode(memtable.zones.seed));
                flushed.extend(store(end, &mark, durable));
            }
            flushed.extend(store(&mut granted.grant, fragment.bytes(), durable));
        }
        // While lines are on their way to the medium, the lines that the indexes will need are on their way from
        // DRAM.
        if durable || encoded.records() > 1 {
            parts().for_each(|(memtable, fragment)| memtable.prefetch(fragment.payload()));
        }
        let grants =
            grants.into_iter().flat_map(|granted| granted.end.into_iter().chain([granted.grant]));
        if !durable {
            grants.for_each(Grant::reveal);
            return Ok(());
        }
        flushed.extend(points);
        let fenced: Few<_> = match flushed.into_inner() {
            Ok(only) => self.pool().fence(only).map(Few::from_buf),
            Err(several) => self.pool().fence_all(&several).map(Few::from_vec),
        }
        .inspect_err(|error| self.poison(&error.to_string()))?;
        for (grant, fenced) in grants.zip(&fenced) {
            grant.publish(fenced);
        }
        Ok(())
    }

    /// The memtable that each fragment of the batch goes to, with room for it.
    fn make_room(
        &self,
        encoded: &Encoded,
        bid: u64,
        memtables: &mut Few<Arc<Memtable>>,
    ) -> Result<()> {
        for (at, fragment) in encoded.fragments().iter().enumerate() {
            let of_tree = |other: &&crate::encoded::Fragment| other.tree == fragment.tree;
            let earlier = encoded.fragments()[..at].iter().position(|other| of_tree(&other));
            if let Some(earlier) = earlier {
                memtables.push(Arc::clone(&memtables[earlier]));
                continue;
            }
            let lens =
                || encoded.fragments().iter().filter(of_tree).map(|fragment| fragment.padded());
            let len = lens().sum();
            let mut memtable = Arc::clone(&self.trees[fragment.tree].view().active);
            let used = memtable.zones.used_bytes();
            let is_full =
                used + len > self.limits.memtable_bytes || memtable.deletes.len() >= DELETES_MAX;
            if used > 0 && is_full {
                memtable = self.roll(fragment.tree, bid)?;
            }
            // Zones that do not suffice are left to other batches.
            if !self.has_room_for(&memtable, lens(), encoded.purpose)? {
                return Err(self.full());
            }
            if !memtable.zones.reserve(lens())? {
                return Err(Error::BatchTooLarge { len, limit: BATCH_BYTES_MAX });
            }
            memtables.push(memtable);
        }
        Ok(())
    }

    /// Stage 4 of the ring, alone and in order (algorithm 3).
    pub(crate) fn do_commit(&self, entry: Entry) {
        self.commits.hold().commit(entry, self.levels.values(), self.wal.as_ref());
    }

    /// Makes the last `gidx` of a memtable durable, which is full and committed, and before that all of its batches.
    pub(crate) fn finish_gidx(&self, memtable: &Memtable) -> Result<()> {
        let mut holder = self.commits.hold();
        let finished = holder.make_durable(self.levels.values()).and_then(|()| {
            let fenced = self.pool().fence([memtable.zones.flush_gidx()]);
            fenced.map(drop).map_err(Error::from)
        });
        finished.inspect_err(|error| self.poison_by(error))
    }

    /// Makes every batch durable that is visible now. With a log, others commit meanwhile, and threads that are here at
    /// once share its syncs.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_healthy()?;
        let Some(wal) = &self.wal else {
            let mut holder = self.commits.hold();
            self.check_healthy()?;
            let synced = holder.make_durable(self.levels.values());
            return synced.inspect_err(|error| self.poison(&error.to_string()));
        };
        let batches = self.commits.unsynced_batches();
        self.sync_log(wal)?;
        self.commits.note_synced(batches);
        Ok(())
    }

    /// Gives every batch to the operating system that is visible now.
    pub(crate) fn hand_over(&self) -> Result<()> {
        let Some(wal) = &self.wal else { return Ok(()) };
        wal.hand_over().map_err(from_log).inspect_err(|error| self.poison(&error.to_string()))
    }

    /// Makes everything durable that was appended to the log.
    pub(crate) fn sync_log(&self, wal: &Wal) -> Result<()> {
        let visible = self.visible();
        wal.sync().map_err(from_log).inspect_err(|error| self.poison(&error.to_string()))?;
        self.commits.hold().reveal(wal);
        self.levels.values().note_durable(visible);
        Ok(())
    }

    /// Makes the commit points durable, and everything before them: before a change after which recovery relies on
    /// them.
    pub(crate) fn persist_commit_points(&self) -> Result<()> {
        let mut holder = self.commits.hold();
        let durable = holder.make_durable(self.levels.values());
        durable.inspect_err(|error| self.poison_by(error))?;
        let mut flushed = vec![self.commits.flush_commit_id()];
        for tree in &self.trees {
            flushed.extend(tree.view().memtables().map(|memtable| memtable.zones.flush_gidx()));
        }
        let fenced = self.pool().fence_all(&flushed).map_err(Error::from);
        fenced.map(drop).inspect_err(|error| self.poison_by(error))
    }
}

/// Stores a fragment, past the cache if it is to be durable now.
#[inline]
fn store(grant: &mut Grant<'_>, bytes: &[u8], durable: bool) -> Option<Flushed> {
    if durable {
        return Some(grant.write_stream(0, bytes));
    }
    grant.write(0, bytes);
    None
}

/// A header alone in its line.
fn line_of(header: &[u8; HEADER]) -> [u8; LINE as usize] {
    let mut line = [0; LINE as usize];
    line[..HEADER].copy_from_slice(header);
    line
}
