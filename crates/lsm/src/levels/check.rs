//! Reads everything, and tells what is damaged.

use super::inner::Levels;
use super::manifest;
use super::names;
use super::version::TableFile;
use crate::sst::{BlockCache, Error, Result, Table, TableId};

impl Levels {
    /// Reads all tables from their files, and the manifest, and tells what is wrong with them: an error for
    /// each file. What does not need those files can be read all the same.
    ///
    /// `progress` is told how many bytes of how many were looked at, table by table.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Vec<Error> {
        let files = &self.inner.files;
        let mut found = Vec::new();
        let manifest = manifest::current(&files.disk, files.store_id)
            .and_then(|current| manifest::replay(&files.disk, files.store_id, current, false));
        found.extend(manifest.err());
        let versions = self.inner.versions();
        let runs = || versions.iter().flat_map(|(_, version)| version.runs());
        let total = runs().map(|(_, run)| run.bytes()).sum();
        let mut done = 0;
        for table in runs().flat_map(|(_, run)| &run.tables) {
            found.extend(self.check_table(table).err());
            done += table.meta.file_len;
            progress(done, total);
        }
        found
    }

    fn check_table(&self, file: &TableFile) -> Result<()> {
        let (files, meta) = (&self.inner.files, &file.meta);
        let name = names::table(meta.number);
        // Opened anew: what was read before may have been damaged since.
        let id = TableId { store_id: files.store_id, number: meta.number };
        let table =
            Table::open(&files.disk, &name, id, &std::sync::Arc::new(BlockCache::new(0, 1)))?;
        table.check()?;
        let properties = table.properties();
        let says =
            (table.file_len(), properties.entries, properties.range_deletes, &properties.span);
        if says != (meta.file_len, meta.entries, meta.range_deletes, &meta.span) {
            return Err(Error::damaged(
                &name,
                "properties",
                "the manifest says something else of it",
            ));
        }
        Ok(())
    }
}
