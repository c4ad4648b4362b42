//! The manager of a pool's segments.
//!
//! After a failed sync, the state in memory may be ahead of the medium, or behind it: a segment whose
//! release failed may be free there, one whose allocation failed may be owned. So each change asks the pool
//! first ([`Pool::check_synced`]), and after a failure all changes are refused until the pool is opened
//! again. On other media than an ordinary file no fence fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use halite_pmem::{Domain, Pool, PoolOptions};
use halite_sim::locks::Mutex;
use halite_sim::planted;

use crate::shutdown;
use crate::superblock::{self, Superblock};
use crate::table::{Owner, Table};
use crate::{Device, Error, Result, SEGMENT};

/// A pool whose new length has to be synced grows by an eighth, but by no more segments than this at a
/// time. Others grow by one: the pages of each take about a millisecond, for which the allocating thread
/// waits.
const GROWTH_MAX: u64 = 16;

/// The segments of one pool.
pub struct Segments {
    pool: Pool,
    state: Mutex<State>,
}

struct State {
    superblock: Superblock,
    table: Table,
    free: BTreeSet<u64>,
    /// Physical segments by owner, committed or only granted.
    owned: BTreeMap<Owner, u64>,
}

impl Segments {
    /// Creates a pool; [`Segments::install`] puts it in its place.
    ///
    /// # Errors
    /// See [`Pool::create`]; the pool is put at `path` by [`Segments::install`].
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Arc<Self>> {
        let pool = Pool::create(path, options)?;
        let mut superblock = Superblock::create(&pool)?;
        shutdown::begin(&pool, &mut superblock)?;
        Self::new(pool, superblock)
    }

    /// Opens a pool: checks its superblock and reads its allocation table.
    ///
    /// # Errors
    /// See [`Pool::open`]; and [`Error::Foreign`], [`Error::FutureVersion`], [`Error::Truncated`],
    /// [`Error::Damaged`], [`Error::UnsafeShutdown`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Arc<Self>> {
        // The format is checked before the holes of a file are filled: a file that is not a pool stays unchanged.
        superblock::refuse_foreign(path, options)?;
        let pool = Pool::open(path, options)?;
        let mut superblock = Superblock::open(&pool)?;
        shutdown::check(&pool, &superblock)?;
        // After a crash between the file's growth and the superblock's change, the words of the new
        // segments are zero.
        let segments = pool.len() / SEGMENT;
        if superblock.segments() < segments {
            // The process that grew it may have died before the length was durable.
            pool.sync_file()?;
            superblock.set_segments(segments)?;
        }
        shutdown::begin(&pool, &mut superblock)?;
        Self::new(pool, superblock)
    }

    fn new(pool: Pool, superblock: Superblock) -> Result<Arc<Self>> {
        let mut table = Table::new(superblock.salt());
        table.extend(&pool, superblock.segments())?;
        table.make_durable(superblock.segments())?;
        let (mut free, mut owned) = (BTreeSet::new(), BTreeMap::new());
        for segment in (0..superblock.segments()).filter(|&segment| !Table::is_table(segment)) {
            let Some(owner) = table.read(segment)? else {
                free.insert(segment);
                continue;
            };
            if let Some(other) = owned.insert(owner, segment) {
                return Err(Error::Damaged {
                    path: pool.path().to_owned(),
                    what: format!("allocation table, segments {other} and {segment}"),
                    why: format!("both are {} of device {}", owner.logical, owner.device),
                });
            }
        }
        Ok(Arc::new(Self { pool, state: Mutex::new(State { superblock, table, free, owned }) }))
    }

    /// Puts a pool that [`Segments::create`] made in its place, durably.
    ///
    /// # Errors
    /// See [`Pool::install`].
    pub fn install(&self) -> Result<()> {
        Ok(self.pool.install()?)
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A random number of this pool, to seed the checksums of the data stored in it.
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.state.lock().superblock.salt()
    }

    /// The pool's identity, drawn at random when it was created.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.state.lock().superblock.uuid()
    }

    /// The value of a named root.
    #[must_use]
    pub fn root(&self, name: &str) -> Option<u64> {
        self.state.lock().superblock.root(name)
    }

    /// The names of all roots.
    #[must_use]
    pub fn root_names(&self) -> Vec<String> {
        self.state.lock().superblock.root_names()
    }

    /// Sets a named root, durably and failure-atomically. Two fences.
    ///
    /// # Errors
    /// [`Error::Root`] if there is no room for it; the pool's errors, and [`Error::Pool`] with
    /// [`halite_pmem::Error::SyncFailed`] after that.
    pub fn set_root(&self, name: &str, value: u64) -> Result<()> {
        self.state.lock().superblock.set_root(name, value)
    }

    /// The logical device with a number.
    ///
    /// # Panics
    /// If the number is not below [`crate::DEVICES_MAX`].
    #[must_use]
    pub fn device(self: &Arc<Self>, id: u16) -> Device {
        assert!(id < crate::DEVICES_MAX, "there is no device {id}");
        Device::new(Arc::clone(self), id)
    }

    /// Free segments, and those that the pool may still grow by (the device may have less room).
    #[must_use]
    pub fn available(&self) -> u64 {
        self.free() + (self.pool.len_max() - self.pool.len()) / SEGMENT
    }

    /// Segments that are free without growth.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.state.lock().free.len() as u64
    }

    /// Makes sure that so many segments are free without growth: grows the pool, if it can. Returns whether they are.
    ///
    /// # Errors
    /// The pool's errors, but for a lack of room.
    pub fn keep_free(&self, wanted: u64) -> Result<bool> {
        let mut state = self.state.lock();
        while (state.free.len() as u64) < wanted {
            match self.pool.check_synced().map_err(Error::from).and_then(|()| self.grow(&mut state))
            {
                Err(Error::Full { .. }) => return Ok(false),
                grown => grown?,
            }
        }
        Ok(true)
    }

    pub(crate) fn take(&self, owner: Owner) -> Result<u64> {
        self.pool.check_synced()?;
        let mut state = self.state.lock();
        assert!(!state.owned.contains_key(&owner), "{owner:?} has a segment already");
        let segment = loop {
            match state.free.pop_first() {
                Some(segment) => break segment,
                // The growth may have added a segment of the table only.
                None => self.grow(&mut state)?,
            }
        };
        state.owned.insert(owner, segment);
        Ok(segment)
    }

    /// [`Segments::take`] of a segment that is free already, if so many others stay free.
    pub(crate) fn take_spare(&self, owner: Owner, others: u64) -> Option<u64> {
        let mut state = self.state.lock();
        assert!(!state.owned.contains_key(&owner), "{owner:?} has a segment already");
        if state.free.len() as u64 <= others {
            return None;
        }
        let segment = state.free.pop_first()?;
        state.owned.insert(owner, segment);
        Some(segment)
    }

    pub(crate) fn commit(&self, owner: Owner, segment: u64) -> Result<()> {
        self.pool.check_synced()?;
        let state = self.state.lock();
        assert_eq!(state.owned.get(&owner), Some(&segment), "what is granted stays granted");
        state.table.write(segment, Some(owner))
    }

    /// Forgets a grant, or releases a committed segment durably.
    pub(crate) fn give_back(&self, owner: Owner, committed: bool) -> Result<()> {
        let mut state = self.state.lock();
        let Some(&segment) = state.owned.get(&owner) else { return Ok(()) };
        if committed {
            self.pool.check_synced()?;
            planted!(
                "alloc.segment-reused-before-released",
                drop(state.table.store(segment, None)),
                state.table.write(segment, None)?
            );
        }
        state.owned.remove(&owner);
        state.free.insert(segment);
        Ok(())
    }

    /// Gives a committed segment another owner, durably.
    pub(crate) fn change_owner(&self, from: Owner, to: Owner) -> Result<()> {
        self.pool.check_synced()?;
        let mut state = self.state.lock();
        let segment = state.owned.get(&from).copied();
        let segment = segment.unwrap_or_else(|| panic!("{from:?} has no segment"));
        assert!(!state.owned.contains_key(&to), "{to:?} has a segment already");
        state.table.write(segment, Some(to))?;
        state.owned.remove(&from);
        state.owned.insert(to, segment);
        Ok(())
    }

    pub(crate) fn physical(&self, owner: Owner) -> Option<u64> {
        self.state.lock().owned.get(&owner).copied()
    }

    pub(crate) fn logical(&self, device: u16) -> Vec<u32> {
        let (from, to) = (Owner { device, logical: 0 }, Owner { device, logical: u32::MAX });
        self.state.lock().owned.range(from..=to).map(|(owner, _)| owner.logical).collect()
    }

    fn grow(&self, state: &mut State) -> Result<()> {
        let old = state.superblock.segments();
        let step = match self.pool.domain() {
            Domain::Process | Domain::Volatile => 1,
            _ => (old / 8).clamp(1, GROWTH_MAX),
        };
        planted!(
            "alloc.growth-announced-before-length",
            state.superblock.set_segments(old + step)?
        );
        self.pool.grow(step * SEGMENT).or_else(|error| match error {
            halite_pmem::Error::NoSpace { .. } | halite_pmem::Error::SizeLimit { .. } => {
                self.pool.grow(SEGMENT).map_err(no_room)
            }
            other => Err(other.into()),
        })?;
        let new = self.pool.len() / SEGMENT;
        state.table.extend(&self.pool, new)?;
        state.superblock.set_segments(new)?;
        state.free.extend((old..new).filter(|&segment| !Table::is_table(segment)));
        Ok(())
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // If this fails, the pool counts as in use: at worst the next open refuses it without need.
        let _ = shutdown::end(&self.pool, &mut self.state.get_mut().superblock);
    }
}

fn no_room(reason: halite_pmem::Error) -> Error {
    match reason {
        halite_pmem::Error::NoSpace { .. } | halite_pmem::Error::SizeLimit { .. } => {
            Error::Full { reason }
        }
        other => other.into(),
    }
}
