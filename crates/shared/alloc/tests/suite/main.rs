//! The promises of segments, and of object pools.

mod halloc;
mod segments;
