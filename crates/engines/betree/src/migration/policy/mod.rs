//! Policies: which data moves in a round of automatic migration.
//!
//! A policy sees the tiers, which are the classes of the pool, and the units, which are runs and large values, each whole
//! in one tier, with their hotness: decayed uses. It moves nothing itself, so a deterministic simulation drives it.
//!
//! Both policies exchange data between neighbouring tiers in the same order ([`exchange`]): the coldest units of a tier
//! that is above its limit go down, then the hottest units of the slower tier come up, as long as there is room, or
//! colder ones make room. LFU (`lfu`) does all that; reinforcement learning (`reinforcement`) does those of the
//! steps that raise the value of the tiers, as it has learnt that.

mod exchange;
mod lfu;
mod reinforcement;
#[cfg(test)]
mod simulation;

pub(super) use lfu::Lfu;
pub(super) use reinforcement::Reinforcement;

/// A storage class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tier {
    /// Bytes that are in use, or wait for a checkpoint.
    pub(super) taken: u64,
    /// Bytes up to which it is to be filled.
    pub(super) limit: u64,
}

/// Data that moves whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// The number of its tier.
    pub(super) tier: usize,
    /// Bytes of its extents; some.
    pub(super) bytes: u64,
    /// Decayed uses.
    pub(super) hotness: f64,
    /// Whether its bytes come back when it moves away: no snapshot has them.
    pub(super) frees: bool,
}

/// A move of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    /// The number of the unit.
    pub(super) unit: usize,
    /// The tier that it moves to.
    pub(super) to: usize,
}

/// A choice of moves.
pub(super) trait MigrationPolicy: Send {
    /// The moves of a round, of so many bytes at most. Tiers are the fastest first.
    fn plan(&mut self, tiers: &[Tier], units: &[Unit], budget: u64) -> Vec<Move>;
}

impl Unit {
    /// Decayed uses a byte.
    fn density(&self) -> f64 {
        self.hotness / self.bytes as f64
    }
}
