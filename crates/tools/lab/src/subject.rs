//! What the lab tests.

use std::fmt::{self, Debug};

use halite_pmem::Medium;

use crate::Random;
use crate::world::{Digest, World};

/// Why a store does not open, or does not tell what it holds.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// It says that the platform lost what had been durable.
    UnsafeShutdown,
    /// It says what is damaged, or what the file is instead of a store: it is foreign, truncated, of
    /// a newer format, or refers to what is outside it.
    Named(String),
    /// Anything else.
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
    /// The store does something.
    Step(S),
    /// The store is closed, and opened again.
    Reopen,
    /// The process is killed and started again: what it had stored is there, durable or not.
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

/// A kind of store, as the lab sees it: it opens on a medium, takes steps, and tells what it holds.
pub trait Subject: Sync {
    /// One thing that the store does: atomically, but for [`Subject::worlds_within`].
    type Step: Clone + Debug + Send;
    /// An open store. Dropping it closes it.
    type Open;

    /// The name in reports.
    fn name(&self) -> &str;

    /// Bytes that the store may take.
    fn capacity(&self) -> u64;

    /// A history: what the store does before the power is cut.
    fn history(&self, random: &mut Random) -> Vec<Action<Self::Step>>;

    /// What the store does after it came back, to show that it goes on working.
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

    /// What a step makes of a world; and whether all steps so far are durable when it has returned.
    fn model(&self, world: &mut World, step: &Self::Step) -> bool;

    /// What a crash within a step may leave of it, besides all and nothing: if it has parts that need not
    /// come together.
    fn worlds_within(&self, _world: &World, _step: &Self::Step) -> Vec<World> {
        Vec::new()
    }

    /// For a store whose parts become durable by themselves: the part that a name belongs to.
    fn part_of(&self, _name: &[u8]) -> usize {
        0
    }

    /// For such a store: the parts that a step writes to, or makes durable; and whether they are durable
    /// when it has returned. `None`: all of them, as [`Subject::model`] says.
    fn parts_of(&self, _world: &World, _step: &Self::Step) -> Option<(Vec<usize>, bool)> {
        None
    }

    /// Whether a step may be done though a sync failed: it was one of what the store does besides, for itself, once
    /// the step is durable. The next step tells.
    fn tells_failures_later(&self) -> bool {
        false
    }

    /// What the store holds.
    ///
    /// # Errors
    /// Why it cannot tell.
    fn world(&self, open: &mut Self::Open) -> Result<World, Refusal>;

    /// What the store holds by one name, looked up by itself.
    ///
    /// # Errors
    /// Why it cannot tell.
    fn look_up(&self, open: &mut Self::Open, name: &[u8]) -> Result<Option<Digest>, Refusal>;

    /// Whether the store finds itself whole.
    ///
    /// # Errors
    /// What it finds.
    fn verify(&self, open: &mut Self::Open) -> Result<(), Refusal>;

    /// Whether nothing on the medium proves the last writes of a store that was killed: damaged, they
    /// cannot be told from interrupted ones. So it is with a log, whose records prove those before
    /// them.
    fn ends_unproven(&self) -> bool {
        true
    }
}
