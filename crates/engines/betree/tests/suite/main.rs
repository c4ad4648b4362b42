//! Tests of the Bε-tree engine through its public interface.

mod caches;
mod conformance;
mod copies;
mod home;
mod messages;
mod object_failures;
mod object_properties;
mod objects;
mod objects_on_threads;
mod power_cuts;
mod redundancy;
mod repairs;
mod snapshots;
mod tiers;
mod transfers;
