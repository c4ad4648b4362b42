//! The `halite` binary, as its users start it.
//!
//! Every test runs real processes one after another on a folder of its own: each must find the state that the
//! one before it left.

mod backup;
mod bench;
mod bulk;
mod config_file;
mod data;
mod datasets;
mod engines;
mod followed;
mod inspection;
mod interruption;
mod kill;
mod lab;
mod memory;
mod middle;
mod objects;
mod pool;
mod redis_files;
mod remote;
mod replaced;
mod run;
mod serve;
mod served;
mod small_disk;
mod table_damage;
mod tables;
mod tiers;
mod tpcc;
mod transfers;
mod usage;
