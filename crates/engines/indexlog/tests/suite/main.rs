//! The engine's promises, through its public face.

mod changes;
mod conformance;
mod damage;
mod engine;
mod index_snapshot;
mod power;
mod space;
