//! An open store: memtables above trees, the log below the memtables, and the storage pool below the trees.
//!
//! A write walks [`commit`]: its turn, the log, the active memtable. [`flush`] moves the oldest frozen memtable to the
//! trees, and [`checkpoint`] makes the trees durable and the log shorter. A reader takes a [`view`], of which nothing
//! that it can see changes, and reads through [`read`](crate::read). `open` does all that at an opening: the last
//! superblock, then the log behind it.

pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod flush;
pub(crate) mod pool_record;
pub(crate) mod recatalogue;
pub(crate) mod recent;
pub(crate) mod retired;
pub(crate) mod room;
pub(crate) mod signals;
pub(crate) mod superblock;
pub(crate) mod view;
pub(crate) mod written_large;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;
use halite_alloc::Segments;
use halite_contract::{Health, Recovery, Result};
use halite_disk::Disk;
use halite_sim::locks::{Mutex, RwLock};

use crate::catalogue::Catalogue;
use crate::devices::Places;
use crate::home::CLEAN;
use crate::log::Log;
use crate::memtable::Chunks;
use crate::migration::Rounds;
use crate::pass::Passes;
use crate::settings::Settings;
use crate::storage::labels::Labels;
use crate::tree::{Context, Dropped};
use checkpoint::Checkpoints;
use commit::Commits;
use recent::Recent;
use retired::Retired;
use room::Room;
use signals::Signals;
use view::View;

/// An open store.
pub(crate) struct Store {
    /// The pool that says what the store is.
    pub(crate) home: Arc<Segments>,
    pub(crate) settings: Settings,
    /// The storage pool, the caches, and how trees are written.
    pub(crate) trees: Arc<Context>,
    pub(crate) labels: Labels,
    /// Where leaves are found and made.
    pub(crate) places: Places,
    /// The log's disk.
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    pub(crate) commits: Commits,
    pub(crate) catalogue: ArcSwap<Catalogue>,
    /// Held while datasets are made or dropped.
    pub(crate) cataloguing: Mutex<()>,
    pub(crate) view: ArcSwap<View>,
    /// Held while the view changes.
    pub(crate) changing: Mutex<()>,
    /// Held during a flush, or a checkpoint: what these change besides the view.
    pub(crate) checkpoints: Mutex<Checkpoints>,
    /// Held for reading while large values are written, until they are committed.
    pub(crate) writing_large: RwLock<()>,
    /// The memory of memtables.
    pub(crate) memory: Arc<Chunks>,
    pub(crate) recent: Recent,
    pub(crate) retired: Retired,
    pub(crate) room: Room,
    pub(crate) signals: Signals,
    pub(crate) health: Arc<Health>,
    /// Whether a pass over all extents is under way.
    pub(crate) is_passing: AtomicBool,
    /// How often a leaf came back, or was replaced.
    pub(crate) returns: AtomicU64,
    pub(crate) passes: Mutex<Passes>,
    /// The state of automatic migration, if it is on.
    pub(crate) rounds: Option<Mutex<Rounds>>,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) recovery: Recovery,
}

impl Store {
    /// The current view.
    #[inline]
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Changes the view. Returns the changed one. Only readers of the view that it replaces, and of earlier ones, use
    /// what is dropped.
    pub(crate) fn publish(
        &self,
        dropped: Vec<Dropped>,
        change: impl FnOnce(&View) -> View,
    ) -> Arc<View> {
        let _changing = self.changing.lock();
        let changed = Arc::new(change(&self.view.load()));
        let before = self.view.swap(Arc::clone(&changed));
        self.retired.push(&before, dropped);
        changed
    }

    /// A view, the sequence up to which its readers see everything, and the datasets: one state.
    pub(crate) fn state(&self) -> (Arc<View>, u64, Arc<Catalogue>) {
        self.commits
            .between_turns(|| (self.view(), self.commits.visible(), self.catalogue.load_full()))
    }

    /// A view, and the sequence up to which its readers see everything: one state.
    pub(crate) fn now(&self) -> (Arc<View>, u64) {
        let (view, at, _) = self.state();
        (view, at)
    }

    /// A view, and a sequence: the state at some moment of the call, without waiting for a turn.
    pub(crate) fn latest(&self) -> (Arc<View>, u64) {
        // A commit that becomes visible between the two is not in the view only if a memtable was frozen between them:
        // then the reader finds the state at the freezing, as a batch lies in one memtable.
        let view = self.view();
        (view, self.commits.visible())
    }

    /// Brings everything into a checkpoint, and notes that the store is closed.
    pub(crate) fn close(&self) -> Result<()> {
        self.health.check()?;
        self.sync()?;
        self.freeze()?;
        while self.flush_oldest()? {}
        self.checkpoint()?;
        self.log.close()?;
        self.home.pool().sync_file()?;
        Ok(self.home.set_root(CLEAN, 1)?)
    }
}
