//! Inserts and lookups a second of the radix tree, beside the partial-key tree behind a lock.
//!
//! `cargo run --release -p halite-index --example radix [keys] [rounds]`. `bench-peers` measures the
//! indexes of other projects in the same way.

mod measure;

fn main() {
    measure::compare(&measure::ours());
}
