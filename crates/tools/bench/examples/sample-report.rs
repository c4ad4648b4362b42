//! Writes a report of an invented run, to look at: `cargo run --example sample-report -- FOLDER`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

#[path = "../tests/report/fixture.rs"]
mod fixture;

fn main() -> halite_bench::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| "sample-report".into(), PathBuf::from);
    let rows = fixture::rows(true);
    let file = halite_bench::html::write(&rows, &folder)?;
    println!("{}", file.display());
    Ok(())
}
