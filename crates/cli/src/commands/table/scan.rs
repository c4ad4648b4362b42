//! `halite table scan`.

use std::io::Write;
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;

use clap::Args;
use halite_table::index::Direction;
use halite_table::{KeyRange, RowRef, TableSchema, Type, ValueRef};
use serde_json::Map;

use super::print::Aligned;
use super::store::{Selection, Store};
use super::value::{json_of, prefix};
use crate::interrupt::Interrupt;
use crate::{Result, escape, output};

const EXAMPLES: &str = "\
Examples:
  halite table scan ./bank account                           all rows, in the order of the primary key
  halite table scan ./bank account --from 100 --to 200       from 100 up to, not including, 200
  halite table scan ./bank account --index by_owner --from Smith
  halite table scan ./bank customer --from '3,\"Smith, John\"'  the values of the first columns of the key
  halite table scan ./bank account --reverse --limit 10 --json | jq .balance

The rows of all partitions are merged. A value for --from and --to is written as in a file for `table load`. With --json,
a line is an object: integers and FLOAT64 are numbers, every other value is its text, and NULL is null.";

/// List rows in the order of a key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Scan {
    /// The store's folder
    path: PathBuf,

    /// The table
    table: String,

    /// The secondary index to scan; by default the primary key
    #[arg(long, value_name = "NAME")]
    index: Option<String>,

    /// Only rows from these values of the key on
    #[arg(long, value_name = "VALUE,..", allow_negative_numbers = true)]
    from: Option<String>,

    /// Only rows before these values of the key
    #[arg(long, value_name = "VALUE,..", allow_negative_numbers = true)]
    to: Option<String>,

    /// From the greatest key to the least
    #[arg(long)]
    reverse: bool,

    /// At most N rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Scan {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let store = Store::open(&self.path)?;
        let schema = store.schema(&self.table)?;
        let selection = self.selection(&store, &schema)?;
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut rows = |print: &mut dyn FnMut(RowRef<'_>) -> Result<()>| {
            store.visit(&selection, |row| {
                interrupt.check()?;
                if left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
                left -= 1;
                print(row).map(ControlFlow::Continue)
            })
        };
        if self.json {
            let mut out = output::stdout();
            rows(&mut |row| {
                let object = store.done(object(row))?;
                writeln!(out, "{}", serde_json::Value::Object(object)).map_err(output::failed)
            })?;
            return out.flush().map_err(output::failed);
        }
        let columns = schema.columns().iter().map(|column| {
            let is_text = matches!(column.ty(), Type::Char(_) | Type::VarChar(_) | Type::Bytes(_));
            (escape::to_text(column.name().as_bytes()), !is_text)
        });
        let mut table = Aligned::new(output::stdout(), columns.collect());
        rows(&mut |row| {
            let cells = store.done(row.values())?.into_iter().map(cell).collect();
            table.row(cells).map_err(output::failed)
        })?;
        table.finish().map_err(output::failed)
    }

    fn selection(&self, store: &Store, schema: &TableSchema) -> Result<Selection<'_>> {
        let key = match &self.index {
            None => schema.primary_key(),
            Some(name) => schema.indexes()[store.done(schema.index(name))?].key(),
        };
        let bound = |option, text: &Option<String>| {
            text.as_ref().map(|text| prefix(option, text, schema, key)).transpose()
        };
        let from = bound("--from", &self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = bound("--to", &self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        let (table, index) = (self.table.as_str(), self.index.as_deref());
        let direction = if self.reverse { Direction::Reverse } else { Direction::Forward };
        Ok(Selection { table, index, range: KeyRange::between(from, to), direction })
    }
}

/// A value in a line of a table.
fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => escape::to_text(text.as_bytes()),
        other => other.to_string(),
    }
}

fn object(row: RowRef<'_>) -> halite_table::Result<Map<String, serde_json::Value>> {
    let columns = row.schema().columns().iter().enumerate();
    columns.map(|(at, column)| Ok((column.name().to_owned(), json_of(row.get(at)?)))).collect()
}
