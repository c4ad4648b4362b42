//! The indexes' promises.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/records.rs"]
mod records;

mod hash;
mod image;
mod partial;
mod radix;
mod radix_bulk_load;
