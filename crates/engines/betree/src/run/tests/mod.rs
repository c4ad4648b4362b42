//! Tests of runs as a whole, against maps in memory.

mod ahead;
mod caches;
mod costs;
mod damage;
mod merged;
mod model;
mod moves;
mod runs;
mod steps;
