//! The topics of the report: which rows stand together, and the figures that are drawn of them.
//!
//! They are data. The report ([`crate::html`]) draws them and knows no experiment, so a new engine adds a file of
//! topics and a line in [`all`], and no drawing.

mod betree;
mod blocks;
mod device;
mod kv;
mod lsm;
mod rstore;
mod servers;

use crate::html::figures::Topic;

/// All topics, in the order of the report.
pub(crate) fn all() -> impl Iterator<Item = &'static Topic> {
    let parts = [
        device::TOPICS,
        blocks::TOPICS,
        kv::TOPICS,
        lsm::TOPICS,
        betree::TOPICS,
        rstore::TOPICS,
        servers::TOPICS,
    ];
    parts.into_iter().flatten()
}
