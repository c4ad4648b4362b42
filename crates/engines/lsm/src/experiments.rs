//! Choices of the paper and of this engine that tests and measurements compare. The defaults are the best that is known.

use std::time::Duration;

/// How commit points (`gidx` and `commit_id`) become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitPoints {
    /// With a later fence. Recovery finds the whole batches behind them by their checksums.
    #[default]
    Trailing,
    /// In every commit: data, then `gidx`, then `commit_id`, three fences (Yan, algorithm 3).
    Ordered,
}

/// How threads wait for one another in a commit. Such a wait takes less than a microsecond, unless the
/// thread that is waited for does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spinning: the shortest wait, as long as there are processors for all threads. Others are let run only
    /// after about 0.1 ms.
    Spin,
    /// Spinning for a while, then letting others run.
    Yield,
    /// Spinning for a while, letting others run a few times, then sleeping until woken. A long wait uses no
    /// processor time.
    #[default]
    Park,
}

impl WaitStrategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Spin, Self::Yield, Self::Park];
}

/// The choices of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Experiments {
    /// How long a committing thread waits for the batches of others. A longer wait puts more batches into a
    /// fence, and delays them.
    pub batch_linger: Duration,
    /// How commit points become durable.
    pub commit_points: CommitPoints,
    /// How threads wait for one another in a commit.
    pub wait: WaitStrategy,
}
