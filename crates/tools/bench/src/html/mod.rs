//! The report for people: one HTML file that needs no other file.
//!
//! [`write()`] sorts the rows into topics (`topics` has the list, `figures.rs` says what a topic is), turns each
//! figure's rows into panels of series (`plot.rs`, `shape.rs`), and draws those as SVG (`lines.rs` and `bars.rs`, on
//! axes from `scale.rs`). Under the figures of a topic stands the table of all its rows (`tables.rs`). There is no
//! script and no file to load; colours follow the reader's theme. The row of the experiment `run` describes the run and
//! stands at the head.

mod bars;
mod chart;
pub(crate) mod figures;
mod grid;
mod lines;
mod markup;
mod page;
mod plot;
mod quantity;
mod scale;
mod shape;
mod tables;
mod topic;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::row::Row;
use crate::{Error, Result};

const FILE: &str = "index.html";
/// The report gets its name when it is whole, so that an older one is not lost to half a new one.
const UNFINISHED: &str = "index.html.new";

/// Writes `folder/index.html`, creates the folder if it does not exist, and returns the file's path.
///
/// # Errors
/// [`Error::Write`].
pub fn write(rows: &[Row], folder: &Path) -> Result<PathBuf> {
    let (file, unfinished) = (folder.join(FILE), folder.join(UNFINISHED));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&unfinished, page::page(rows)))
        .and_then(|()| fs::rename(&unfinished, &file))
        .map_err(|source| Error::Write { thing: file.display().to_string(), source })?;
    Ok(file)
}

/// Whether a report can be written into `folder`: to be asked before hours of measuring. Creates the
/// folder, and leaves a report that is there already as it is.
///
/// # Errors
/// [`Error::Unwritable`].
pub fn check(folder: &Path) -> Result<()> {
    let unfinished = folder.join(UNFINISHED);
    fs::create_dir_all(folder)
        .and_then(|()| match folder.join(FILE).is_dir() {
            true => Err(io::Error::new(io::ErrorKind::IsADirectory, format!("{FILE} is a folder"))),
            false => File::create(&unfinished),
        })
        .and_then(|_| fs::remove_file(&unfinished))
        .map_err(|source| Error::Unwritable {
            path: folder.to_owned(),
            action: "write a report into this folder",
            source,
        })
}
