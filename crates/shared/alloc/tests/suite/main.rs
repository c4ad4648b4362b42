//! The promises of segments, of object pools and of heaps.

mod halloc;
mod heap;
mod heap_model;
mod heap_undo;
mod segments;
