//! Capabilities: the traits that an engine may have beyond the core.
//!
//! Each capability is a trait in a file of its own. [`Engine::capabilities`](crate::Engine::capabilities) names those
//! of an engine, and `absent` answers for the others.

mod absent;
mod change_feed;
mod index_snapshots;
mod on_demand;
mod partitioned;
mod snapshots;
mod space_management;
mod transactional;

pub use change_feed::ChangeFeed;
pub use index_snapshots::IndexSnapshots;
pub use on_demand::OnDemand;
pub use partitioned::Partitioned;
pub use snapshots::Snapshots;
pub use space_management::SpaceManagement;
pub use transactional::Transactional;

/// The capabilities of an engine; `None` where it lacks one.
///
/// ```
/// use halite_contract::{Capabilities, Engine, Model};
/// let model = Model::new();
/// let Capabilities { transactional, change_feed, .. } = model.capabilities();
/// assert!(transactional.is_some() && change_feed.is_none());
/// ```
#[derive(Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// Keys are spread over partitions.
    pub partitioned: Option<&'a dyn Partitioned>,
    /// Past states can be read.
    pub snapshots: Option<&'a dyn Snapshots>,
    /// A write can depend on earlier reads.
    pub transactional: Option<&'a dyn Transactional>,
    /// Changes can be read in their order. Here if the engine's stores can have a change log; whether this one has,
    /// [`ChangeFeed::change_log`] says.
    pub change_feed: Option<&'a dyn ChangeFeed>,
    /// The store may open before all of it is recovered.
    pub on_demand: Option<&'a dyn OnDemand>,
    /// The index can be kept for the next opening.
    pub index_snapshots: Option<&'a dyn IndexSnapshots>,
    /// Collection ahead of time, a reserve for bookkeeping, and the space of a record.
    pub space_management: Option<&'a dyn SpaceManagement>,
}
