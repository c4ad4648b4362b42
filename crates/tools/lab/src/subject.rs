//! The systems that the lab tests.

use std::fmt::{self, Debug};

use halite_pmem::Medium;

use crate::Random;
use crate::world::{Digest, World};

/// Why a store does not open, or cannot be read.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// The store reports that the platform lost durable data.
    UnsafeShutdown,
    /// The store names the damage, or the kind of file that it found instead: the file is foreign, truncated, of a
    /// newer format, or refers to places outside it.
    Named(String),
    /// Any other error.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsafeShutdown => f.write_str("it says that the platform failed"),
            Self::Named(what) | Self::Failed(what) => f.write_str(what),
        }
    }
}

/// A part of a history.
#[derive(Debug, Clone)]
pub enum Action<S> {
    /// The store takes a step.
    Step(S),
    /// The store is closed, and opened again.
    Reopen,
    /// The process is killed and started again: every store that it made is there, durable or not.
    Kill,
    /// The process is killed while it takes a step, or, without one, while it closes the store and
    /// opens it again: after so many of the events that a trace records, if it takes so many.
    KillWithin(Option<S>, u32),
    /// The kernel fails to sync, after so many syncs, while the store takes a step, or, without one, while
    /// it is closed and opened again. In the first case it goes on without being opened again.
    FailWithin(Option<S>, u32),
    /// The process is killed, and the kernel fails to sync, after so many syncs, when it is started again.
    FailOpening(u32),
}

/// A kind of store, as the lab sees it: it opens on a medium, takes steps, and can be read as a world.
pub trait Subject: Sync {
    /// One thing that the store does: atomically, but for [`Subject::worlds_within`].
    type Step: Clone + Debug + Send;
    /// An open store. Dropping it closes it.
    type Open;

    /// The name in reports.
    fn name(&self) -> &str;

    /// Bytes that the store may take.
    fn capacity(&self) -> u64;

    /// A history: the steps of the store before the power is cut.
    fn history(&self, random: &mut Random) -> Vec<Action<Self::Step>>;

    /// The steps of the store after its recovery, which show that it goes on working.
    fn afterlife(&self, random: &mut Random) -> Vec<Self::Step>;

    /// Opens the store on a medium, or creates it if there is none.
    ///
    /// # Errors
    /// Why it does not open.
    fn open(&self, medium: &Medium) -> Result<Self::Open, Refusal>;

    /// Takes a step.
    ///
    /// # Errors
    /// Why it cannot; in the lab it should, unless a sync failed.
    fn apply(&self, open: &mut Self::Open, step: &Self::Step) -> Result<(), String>;

    /// Applies a step to a world; returns whether all steps so far are durable when it has returned.
    fn model(&self, world: &mut World, step: &Self::Step) -> bool;

    /// The worlds that a crash within a step may leave besides the whole step and none of it: for a step of parts that
    /// are not atomic together.
    fn worlds_within(&self, _world: &World, _step: &Self::Step) -> Vec<World> {
        Vec::new()
    }

    /// Returns, for a store whose parts become durable by themselves, the part that a name belongs to.
    fn part_of(&self, _name: &[u8]) -> usize {
        0
    }

    /// Returns, for such a store, the parts that a step writes to, or makes durable; and whether they are durable
    /// when it has returned. `None`: all of them, as [`Subject::model`] says.
    fn parts_of(&self, _world: &World, _step: &Self::Step) -> Option<(Vec<usize>, bool)> {
        None
    }

    /// Whether a step may succeed although a sync failed: the sync was for background work of the store, done after the
    /// step is durable. The next step reports it.
    fn tells_failures_later(&self) -> bool {
        false
    }

    /// Whether the store has what a sync was for in another place, too, where that may fail: then a step may succeed, and
    /// the store may open, although a sync failed.
    fn survives_failed_syncs(&self) -> bool {
        false
    }

    /// The contents of the store.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn world(&self, open: &mut Self::Open) -> Result<World, Refusal>;

    /// The value of one name in the store, looked up by itself.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn look_up(&self, open: &mut Self::Open, name: &[u8]) -> Result<Option<Digest>, Refusal>;

    /// Whether the store verifies its data as undamaged.
    ///
    /// # Errors
    /// The damage that it finds.
    fn verify(&self, open: &mut Self::Open) -> Result<(), Refusal>;

    /// Whether the medium has no proof of the last writes of a store that was killed: damaged, they cannot be told from
    /// interrupted ones. This is so for a log, whose records prove those before them.
    fn ends_unproven(&self) -> bool {
        true
    }
}
