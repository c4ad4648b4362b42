//! `halite table describe`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use halite_table::{Footprint, IndexState, KeySchema, Table, TableSchema};
use serde_json::{Value, json};

use super::store::{Selection, Store};
use crate::interrupt::Interrupt;
use crate::{Result, escape, output, size};

const EXAMPLES: &str = "\
Examples:
  halite table describe ./bank
  halite table describe ./bank account --count
  halite table describe ./bank --json | jq '.tables[].name'

Space is that of all partitions, by its use. Rows are counted by reading them.";

/// Show the method, the space and the tables of a store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Describe {
    /// The store's folder
    path: PathBuf,

    /// The table; by default all of them
    table: Option<String>,

    /// Count the rows
    #[arg(long)]
    count: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// A table, and the number of its rows if they were counted.
type Counted<'a> = (&'a Table, Option<u64>);

impl Describe {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let store = Store::open(&self.path)?;
        let catalog = store.testbed.catalog();
        let tables = match &self.table {
            Some(name) => vec![store.done(catalog.table(name))?],
            None => catalog.tables().iter().collect(),
        };
        let tables = tables.into_iter().map(|table| {
            let rows = self.count.then(|| count(&store, table.schema().name(), &interrupt));
            Ok((&**table, rows.transpose()?))
        });
        let tables: Vec<Counted<'_>> = tables.collect::<Result<_>>()?;
        let footprint = store.done(store.testbed.footprint())?;
        match self.json {
            true => output::json(&as_json(&store, &footprint, &tables)),
            false => output::text(&as_text(&store, &footprint, &tables)),
        }
    }
}

/// The number of a table's rows in all partitions; copies of a row count once.
fn count(store: &Store, name: &str, interrupt: &Interrupt) -> Result<u64> {
    let mut rows = 0;
    store.visit(&Selection::all(name), |_| {
        rows += 1;
        Ok(interrupt.flow())
    })?;
    interrupt.check().map(|()| rows)
}

fn columns_of<'a>(schema: &'a TableSchema, key: &'a KeySchema) -> Vec<&'a str> {
    key.columns().map(|number| schema.columns()[number].name()).collect()
}

fn as_text(store: &Store, footprint: &Footprint, tables: &[Counted<'_>]) -> String {
    let (testbed, mut text) = (&store.testbed, String::new());
    let Footprint { table, index, log, checkpoint, other } = footprint;
    let space = [
        ("table", table),
        ("index", index),
        ("log", log),
        ("checkpoint", checkpoint),
        ("other", other),
    ];
    let space = space.map(|(name, bytes)| format!("{name} {}", size::human(*bytes))).join(", ");
    let mut row = |name: &str, value: String| {
        // A string takes every write.
        let _ = writeln!(text, "{name:<12}{value}");
    };
    row("store", store.path.display().to_string());
    row("method", testbed.kind().to_string());
    row("partitions", testbed.partitions().to_string());
    row("domain", testbed.pool().domain().to_string());
    row("space", space);
    for counted in tables {
        text.push('\n');
        text.push_str(&table_as_text(counted));
    }
    text
}

fn table_as_text((table, rows): &Counted<'_>) -> String {
    let schema = table.schema();
    let shown = |name: &str| escape::to_text(name.as_bytes());
    let listed =
        |key| columns_of(schema, key).into_iter().map(shown).collect::<Vec<_>>().join(", ");
    let mut text = format!("{}\n", shown(schema.name()));
    let width = schema.columns().iter().map(|column| shown(column.name()).chars().count()).max();
    let width = width.unwrap_or(0);
    for column in schema.columns() {
        let null = if column.is_nullable() { " NULL" } else { "" };
        let _ = writeln!(text, "  {:<width$}  {}{null}", shown(column.name()), column.ty());
    }
    let _ = writeln!(text, "  primary key ({})", listed(schema.primary_key()));
    for index in table.indexes() {
        let kind = if index.schema.is_unique() { "unique index" } else { "index" };
        let _ = writeln!(
            text,
            "  {kind} {} ({})",
            shown(index.schema.name()),
            listed(index.schema.key())
        );
    }
    if let Some(rows) = rows {
        let _ = writeln!(text, "  {}", size::count(*rows, "row"));
    }
    text
}

fn as_json(store: &Store, footprint: &Footprint, tables: &[Counted<'_>]) -> Value {
    let testbed = &store.testbed;
    json!({
        "path": store.path.to_string_lossy(),
        "method": testbed.kind().name(),
        "partitions": testbed.partitions(),
        "domain": testbed.pool().domain().name(),
        "space": {
            "table_bytes": footprint.table,
            "index_bytes": footprint.index,
            "log_bytes": footprint.log,
            "checkpoint_bytes": footprint.checkpoint,
            "other_bytes": footprint.other,
            "total_bytes": footprint.total(),
        },
        "tables": tables.iter().map(table_as_json).collect::<Vec<_>>(),
    })
}

fn table_as_json((table, rows): &Counted<'_>) -> Value {
    let schema = table.schema();
    let columns = schema.columns().iter().map(|column| {
        json!({ "name": column.name(), "type": column.ty().to_string(), "nullable": column.is_nullable() })
    });
    let indexes = table.indexes().map(|index| {
        json!({
            "name": index.schema.name(),
            "columns": columns_of(schema, index.schema.key()),
            "unique": index.schema.is_unique(),
            "ready": index.state == IndexState::Ready,
        })
    });
    json!({
        "name": schema.name(),
        "columns": columns.collect::<Vec<_>>(),
        "primary_key": columns_of(schema, schema.primary_key()),
        "indexes": indexes.collect::<Vec<_>>(),
        "rows": rows,
    })
}
