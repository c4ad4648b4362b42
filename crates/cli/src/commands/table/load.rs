//! `halite table load`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, value_parser};
use halite::Durability;
use halite_table::{Row, TableSchema, Transaction, Value};
use serde_json::json;

use super::csv::{Reader, Record};
use super::store::Store;
use super::value::value_of;
use crate::commands::load::open_input;
use crate::interrupt::Interrupt;
use crate::{Error, Result, escape, output, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite table load ./bank account accounts.csv
  zcat accounts.csv.gz | halite table load ./bank account -
  halite table load ./bank account changes.csv --replace

The file has comma-separated values as RFC 4180 says, in UTF-8. The first line names columns, in any order; those that it
leaves out have to be able to be NULL. A field with a comma, a quote or a line end stands between quotes, and a quote in
it is written twice. An empty field is NULL, and \"\" is empty text; where text cannot be NULL, both are empty text.

  -12, 3.50, -1.5e10, inf, NaN    numbers
  \\x00ff                          BYTES: \\x and two hexadecimal digits a byte
  2026-11-27 02:04:30.5           TIMESTAMP, in UTC

Some rows at a time are one transaction. Where a row is wrong, and at Ctrl-C, nothing of its transaction is kept and
everything before it is; the command says how much that is.";

/// A transaction ends at so many bytes of rows, whatever --batch says: that of several partitions has less than 2 MiB.
const BATCH_BYTES: usize = 1 << 19;

/// Bytes after which rows are made durable, so that a crash loses no more than this.
const SYNC_BYTES: usize = 64 << 20;

/// Add rows from a file of comma-separated values
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Load {
    /// The store's folder
    path: PathBuf,

    /// The table
    table: String,

    /// The file; `-`: standard input
    file: PathBuf,

    /// Overwrite rows that have the primary key of one in the file; columns that it does not name become NULL
    #[arg(long)]
    replace: bool,

    /// Rows of a transaction; it has fewer if they are long
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    batch: u32,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

impl Load {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let store = Store::open(&self.path)?;
        let (name, input, len) = open_input(&self.file, "a folder; name a file")?;
        let bar = progress::bytes("loading", len);
        let input = BufReader::with_capacity(1 << 18, bar.wrap_read(input));
        let mut loader = Loader::new(&store, &self.table, self.batch as usize, self.replace)?;
        let started = Instant::now();
        let loaded = loader.load(name, input, || interrupt.is_raised());
        let synced = store.done(store.testbed.sync());
        bar.finish_and_clear();
        let kept = || size::count(loader.loaded, "row");
        loaded
            .and(synced)
            .map_err(|error| Error::LoadFailed { source: Box::new(error), records: kept() })?;
        if interrupt.is_raised() {
            return Err(Error::Interrupted { records: kept() });
        }
        let seconds = started.elapsed().as_secs_f64();
        if self.json {
            return output::json(&json!({
                "rows": loader.loaded,
                "seconds": seconds,
                "method": store.testbed.kind().name(),
                "domain": store.testbed.pool().domain().name(),
            }));
        }
        output::text(&format!("loaded {} in {seconds:.2} s\n", kept()))
    }
}

/// A row on its way, with the line where it began, and its partition.
struct Incoming {
    line: u64,
    partition: usize,
    row: Row,
}

/// Loads rows, some in each transaction.
pub(super) struct Loader<'a> {
    store: &'a Store,
    schema: Arc<TableSchema>,
    batch_max: usize,
    replaces: bool,
    batch: Vec<Incoming>,
    batch_bytes: usize,
    unsynced_bytes: usize,
    /// Rows that are committed.
    pub(super) loaded: u64,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        store: &'a Store,
        table: &str,
        batch_max: usize,
        replaces: bool,
    ) -> Result<Self> {
        let (schema, batch) = (store.schema(table)?, Vec::new());
        let (batch_bytes, unsynced_bytes, loaded) = (0, 0, 0);
        Ok(Self { store, schema, batch_max, replaces, batch, batch_bytes, unsynced_bytes, loaded })
    }

    /// Loads the rows of a file, until `is_stopped`.
    pub(super) fn load(
        &mut self,
        name: String,
        input: impl BufRead,
        is_stopped: impl Fn() -> bool,
    ) -> Result<()> {
        let (mut reader, mut record) = (Reader::new(name, input), Record::default());
        if !reader.read(&mut record)? {
            return Err(reader.wrong(1, "the file is empty; its first line names the columns"));
        }
        let columns = self.columns(&record).map_err(|why| reader.wrong(record.line, why))?;
        while reader.read(&mut record)? {
            if is_stopped() {
                return Ok(());
            }
            let row = self.row(&columns, &record);
            let (partition, row) = row.map_err(|why| reader.wrong(record.line, why))?;
            self.batch_bytes += row.bytes().len();
            self.batch.push(Incoming { line: record.line, partition, row });
            if self.batch.len() >= self.batch_max || self.batch_bytes >= BATCH_BYTES {
                self.commit(&reader)?;
            }
        }
        self.commit(&reader)
    }

    /// The numbers of the columns that the first line names.
    fn columns(&self, record: &Record) -> std::result::Result<Vec<usize>, String> {
        let mut columns = Vec::new();
        for field in record.fields() {
            let name = str::from_utf8(field.bytes);
            let name = name.map_err(|_| {
                format!("the name of column {} is not UTF-8", escape::to_text(field.bytes))
            })?;
            let number = self.schema.column(name).map_err(|error| error.to_string())?;
            if columns.contains(&number) {
                return Err(format!("column {name:?} is named twice; leave one out"));
            }
            columns.push(number);
        }
        let mut missing = self.schema.columns().iter().enumerate();
        let missing = missing.find(|(at, column)| !column.is_nullable() && !columns.contains(at));
        match missing {
            None => Ok(columns),
            Some((_, column)) => {
                let name = column.name();
                Err(format!(
                    "column {name:?} must have a value, and the first line does not name it"
                ))
            }
        }
    }

    /// The row of a record, and its partition.
    fn row(&self, columns: &[usize], record: &Record) -> std::result::Result<(usize, Row), String> {
        let (wanted, found) = (columns.len(), record.fields().len());
        if found != wanted {
            return Err(format!(
                "it has {found} fields, and the first line names {wanted} columns"
            ));
        }
        let schema = &*self.schema;
        let mut values = vec![Value::Null; schema.columns().len()];
        for (&number, field) in columns.iter().zip(record.fields()) {
            values[number] = value_of(&schema.columns()[number], field)?;
        }
        let values: Vec<_> = values.iter().map(Value::as_ref).collect();
        let made = Row::from_values(schema, &values).and_then(|row| {
            let first =
                schema.primary_key().columns().next().map_or(Ok(0), |number| {
                    self.store.testbed.partition_of(schema, values[number])
                });
            Ok((first?, row))
        });
        made.map_err(|error| error.to_string())
    }

    /// Commits the rows that were collected, all or none.
    fn commit<R: BufRead>(&mut self, reader: &Reader<R>) -> Result<()> {
        let (batch, bytes) = (std::mem::take(&mut self.batch), self.batch_bytes);
        self.batch_bytes = 0;
        let Some(first) = batch.first() else { return Ok(()) };
        let partitions: Vec<_> = batch.iter().map(|incoming| incoming.partition).collect();
        let mut at = first.line;
        let committed =
            self.store.testbed.transact(&partitions, Durability::Deferred, |transaction| {
                batch.iter().try_for_each(|incoming| {
                    at = incoming.line;
                    self.put(transaction, incoming)
                })?;
                at = first.line;
                Ok(())
            });
        committed.map_err(|error: halite_table::Error| match error.is_damage() {
            true => super::store::in_store(&self.store.path, error),
            false => reader.wrong(at, error),
        })?;
        self.loaded += batch.len() as u64;
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            self.store.done(self.store.testbed.sync())?;
        }
        Ok(())
    }

    fn put(
        &self,
        transaction: &mut Transaction<'_>,
        incoming: &Incoming,
    ) -> halite_table::Result<()> {
        let &Incoming { partition, ref row, .. } = incoming;
        let table = transaction.table(partition, self.schema.name())?;
        if self.replaces {
            let row = row.view(&self.schema)?;
            let key = row.primary_key()?;
            if let Some(there) = transaction.get(partition, &table, &key)? {
                let changes = there.view(&self.schema)?.changes_to(row)?;
                return transaction.update(partition, &table, &key, &changes).map(drop);
            }
        }
        transaction.insert(partition, &table, row)
    }
}
