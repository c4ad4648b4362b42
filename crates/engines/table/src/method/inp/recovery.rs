//! Opening: the newest checkpoint, the log behind its begin, and all indexes.
//!
//! The rows of a checkpoint were copied at different moments. A row that was copied late has changes that the log has, too,
//! so batches from before the checkpoint's end are redone by their after images alone: whatever of them a row has, the last
//! change of each of its columns counts, and a row that was removed meanwhile is not missed. Behind the end, memory is
//! exactly what the transaction found, and anything else is damage.
//!
//! Nothing is cut or removed before everything is read, so that a crash on the way is of no consequence.

use halite_disk::Disk;
use halite_sim::planted;

use super::checkpoint::{Checkpoints, files, read::CheckpointReader};
use super::tables::Tables;
use super::{Options, seed};
use crate::method::catalog_slot::{OWNERS_END, check_ids};
use crate::method::redo_log::{Logged, LoggedChange, LoggedRow, RedoLog};
use crate::{Change, Error, Result, Row};

/// The work of an opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Rows that were read from the checkpoint.
    pub rows: u64,
    /// Transactions and catalogs that were redone.
    pub batches: u64,
    /// Changes of rows that were redone.
    pub changes: u64,
}

/// A partition that was read.
pub(super) struct Recovered {
    pub(super) tables: Tables,
    pub(super) log: RedoLog,
    pub(super) checkpoints: Checkpoints,
    pub(super) recovery: Recovery,
}

pub(super) fn recover(disk: &Disk, store_id: u128, options: Options) -> Result<Recovered> {
    let Some(&number) = files::named(disk)?.last() else {
        let what = disk.path().display().to_string().into();
        return Err(Error::Foreign { what, why: "it has no checkpoint".into() });
    };
    let mut reader = CheckpointReader::open(disk, store_id, &files::name_of(number), number)?;
    let begin = reader.begin();
    let mut tables = Tables::new(options, reader.catalog().clone())?;
    let mut recovery = Recovery::default();
    while let Some(rows) = reader.next()? {
        for row in rows.rows() {
            let (row, key) = row?;
            if tables.tree(rows.table.primary())?.get(&key).is_some() {
                return Err(reader.damaged("it has a row twice"));
            }
            tables.replace(&rows.table, &key, (None, Some(&row)))?;
            recovery.rows += 1;
        }
    }
    let end = reader.end();
    let redo = |sequence, payload: &[u8]| {
        planted!(
            "table.inp-redo-stops-early",
            if recovery.batches == 1 {
                return Ok(());
            }
        );
        recovery.batches += 1;
        match Logged::read(payload, tables.catalog(), seed(store_id))? {
            Logged::Catalog(catalog) => {
                check_ids(&catalog, OWNERS_END)?;
                tables.alter(catalog)
            }
            Logged::Transaction(rows) => {
                recovery.changes += rows.len() as u64;
                rows.iter().try_for_each(|row| tables.redo(row, sequence >= end.sequence))
            }
        }
    };
    let from = planted!("table.inp-redo-from-the-end", end, begin);
    let log = RedoLog::open(disk, store_id, options.log_shape(), (from, end), redo)?;
    tables.build_indexes()?;
    // The log's opening has synced the folder: a name that a killed process gave the checkpoint is durable.
    files::remove_others(disk, number)?;
    log.release(begin)?;
    let checkpoints = Checkpoints::found(number, begin, options.checkpoint_bytes);
    Ok(Recovered { tables, log, checkpoints, recovery })
}

impl Tables {
    /// Redoes the change of a row, in no secondary index. What is there has to be what the change found, if that is known.
    fn redo(&mut self, logged: &LoggedRow<'_>, is_known: bool) -> Result<()> {
        let LoggedRow { table, key, change } = logged;
        let there = self.get(table, key)?;
        let after = match (change, &there) {
            (LoggedChange::Insertion(row), None) => Some(row.clone()),
            (LoggedChange::Insertion(row), Some(_)) if !is_known => Some(row.clone()),
            (LoggedChange::Deletion(row), Some(there)) if !is_known || row == there => None,
            (LoggedChange::Update(columns), Some(there)) => {
                let view = there.view(table.schema())?;
                let mut changes = Vec::with_capacity(columns.len());
                for change in columns {
                    if is_known && view.get(change.column)? != change.before {
                        return Err(mismatch(logged));
                    }
                    changes.push(Change::new(change.column, change.after));
                }
                Some(view.with(&changes)?)
            }
            (LoggedChange::Deletion(_) | LoggedChange::Update(_), None) if !is_known => {
                return Ok(());
            }
            _ => return Err(mismatch(logged)),
        };
        let key_of = |row: &Row| row.view(table.schema())?.primary_key();
        if after.as_ref().map(key_of).transpose()?.is_some_and(|after| after != *key) {
            return Err(mismatch(logged));
        }
        self.replace(table, key, (there.as_ref(), after.as_ref()))
    }
}

fn mismatch(LoggedRow { table, key, .. }: &LoggedRow<'_>) -> Error {
    let (name, key) = (table.schema().name(), key.escape_ascii());
    let why = format!("row {key} of table {name:?} is not the one that a transaction found");
    Error::damaged("the log", why)
}
