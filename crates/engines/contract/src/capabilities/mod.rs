//! Capabilities: the traits that an engine may have beyond the core.
//!
//! Each capability is a trait in a file of its own. [`Engine::capabilities`](crate::Engine::capabilities) names those
//! of an engine, and `absent` answers for the others, but for those that are a [`Feature`](crate::Feature): for these,
//! nothing can stand in, and the layer above refuses by the registry's word for the engines that have it.

mod absent;
mod change_feed;
mod datasets;
mod index_snapshots;
mod object_stores;
mod on_demand;
mod partitioned;
mod pooled;
mod snapshots;
mod space_management;
mod tiered;
mod transactional;
mod transfers;
mod trees;

pub use change_feed::ChangeFeed;
pub use datasets::{Datasets, RangeCopy, SnapshotInfo};
pub use index_snapshots::IndexSnapshots;
pub use object_stores::ObjectStores;
pub use on_demand::OnDemand;
pub use partitioned::Partitioned;
pub use pooled::Pooled;
pub use snapshots::Snapshots;
pub use space_management::SpaceManagement;
pub use tiered::{MigrationReport, Tiered};
pub use transactional::Transactional;
pub use transfers::{StreamInfo, TransferReport, Transfers};
pub use trees::Trees;

use crate::Feature;

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
    /// There are objects beside the key spaces.
    pub object_stores: Option<&'a dyn ObjectStores>,
    /// The store lies on a pool of devices.
    pub pooled: Option<&'a dyn Pooled>,
    /// Key spaces have snapshots that are kept.
    pub datasets: Option<&'a dyn Datasets>,
    /// Kept snapshots can be sent and received.
    pub transfers: Option<&'a dyn Transfers>,
    /// Data lies in storage classes.
    pub tiered: Option<&'a dyn Tiered>,
    /// Trees can be looked at.
    pub trees: Option<&'a dyn Trees>,
}

impl Capabilities<'_> {
    /// Whether the engine has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Objects => self.object_stores.is_some(),
            Feature::Pool => self.pooled.is_some(),
            Feature::Datasets => self.datasets.is_some(),
            Feature::Transfers => self.transfers.is_some(),
            Feature::Tiers => self.tiered.is_some(),
            Feature::Trees => self.trees.is_some(),
        }
    }
}
