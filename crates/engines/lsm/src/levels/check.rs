//! Reads everything, and reports which files are damaged.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_cache::BlockCache;
use halite_sst::{Table, TableId};

use super::edit::TableMeta;
use super::error::{Error, Result};
use super::inner::Levels;
use super::manifest;
use super::names;
use super::version::Files;

/// The progress of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries that were read.
    pub entries: u64,
    /// Bytes of the tables that were looked at.
    pub bytes: u64,
    /// Bytes of all tables.
    pub bytes_all: u64,
}

impl Levels {
    /// Reads all tables from their files, and the manifest, and reports an error for each file that is damaged. Reads
    /// that do not need those files succeed all the same.
    ///
    /// `progress` is called after each table; if it breaks, the rest is not read.
    pub fn check(&self, progress: &mut dyn FnMut(Checked) -> ControlFlow<()>) -> Vec<Error> {
        let files = &self.inner.files;
        let mut found = Vec::new();
        let manifest = {
            // A change that begins a new one removes the old one.
            let _locked = self.inner.locked.lock();
            manifest::current(&files.disk, files.store_id)
                .and_then(|current| manifest::replay(&files.disk, files.store_id, current, false))
        };
        found.extend(manifest.err());
        let versions = self.inner.versions();
        let runs = || {
            versions
                .iter()
                .flat_map(|(tree, version)| version.runs().map(move |(_, run)| (*tree, run)))
        };
        let bytes_all = runs().map(|(_, run)| run.bytes()).sum::<u64>() + files.values.bytes();
        let mut checked = Checked { bytes_all, ..Checked::default() };
        for (tree, run) in runs() {
            for table in &run.tables {
                match read(files, table.meta.number, Some((tree, &table.meta))) {
                    Ok((_, meta)) => checked.entries += meta.entries,
                    Err(error) => found.push(error),
                }
                checked.bytes += table.meta.file_len;
                if progress(checked).is_break() {
                    return found;
                }
            }
        }
        found.extend(files.values.check(&mut |bytes| {
            checked.bytes += bytes;
            progress(checked)
        }));
        found
    }
}

/// Reads all of a table from its file, which has to agree with the manifest's description, if that is known.
pub(super) fn read(
    files: &Files,
    number: u64,
    known: Option<(u32, &TableMeta)>,
) -> Result<(u32, TableMeta)> {
    let name = names::table(number);
    let id = TableId { store_id: files.store_id, number };
    // Opened anew, and past the cache: bytes that were read before may have been damaged since.
    let table = Table::open(&files.disk, &name, id, &Arc::new(BlockCache::new(0, 1)))?;
    table.check()?;
    let tree = table.properties().tree;
    let meta = TableMeta::of(number, table.file_len(), table.properties());
    match known {
        Some(known) if known != (tree, &meta) => {
            let why = "the manifest says something else of it";
            Err(Error::damaged(&name, "properties", why))
        }
        _ => Ok((tree, meta)),
    }
}
