//! RStore under measurement: each experiment redraws a figure or a table of Lersch's thesis (ch. 5).

use crate::Experiment;

pub mod messages;

/// Those of `halite bench rstore`.
pub const RSTORE: &[Experiment] =
    &[Experiment { name: "messages", plan: messages::plan, run: messages::run }];
