//! `halite table create`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use halite::{Database, Partitioning, make_folder};
use halite_table::testbed::PARTITIONS_MAX;
use halite_table::{Column, Kind, TableSchema, Testbed};

use super::schema::{NewIndex, check_unique, column};
use super::store::{Store, in_store, options};
use crate::folder::{check_folder, in_database};
use crate::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  halite table create ./bank account --column 'id int64' --column 'balance decimal(12,2)' --primary-key id
  halite table create ./shop item --method cow --partitions 2 --primary-key id \\
      --column 'id int64' --column 'name varchar(20)' --column 'note varchar(100) null' --index 'by_name(name)'

Types, in letters of either case: INT8 to INT64, UINT8 to UINT64, FLOAT64, DECIMAL(digits, behind the point), CHAR(bytes),
VARCHAR(bytes), BYTES(bytes), TIMESTAMP. A column has a value, unless `null` stands behind its type.

The first table makes the store, with its method and its number of partitions, which stay. A row is in the partition that
a hash of the first column of its primary key says.";

/// Create a table, and the store if there is none
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Create {
    /// The store's folder, which is made if it is not there
    path: PathBuf,

    /// The table
    table: String,

    /// A column, in the order of the table: its name and its type, with `null` behind it if it may be NULL
    #[arg(long = "column", value_name = "NAME TYPE", required = true, value_parser = column)]
    columns: Vec<Column>,

    /// The columns of the primary key
    #[arg(long, value_name = "COLUMN,..", required = true, value_delimiter = ',')]
    primary_key: Vec<String>,

    /// A secondary index
    #[arg(long = "index", value_name = "NAME(COLUMN,..)")]
    indexes: Vec<NewIndex>,

    /// A secondary index without two equal keys, but for those with NULL. With several partitions, it has the first
    /// column of the primary key
    #[arg(long = "unique", value_name = "NAME(COLUMN,..)")]
    unique: Vec<NewIndex>,

    /// The recovery method of a new store; by default nvm-inp. A store that is there has to have it
    #[arg(long, value_parser = methods())]
    method: Option<Kind>,

    /// The partitions of a new store; by default 1. A store that is there has to have so many
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=PARTITIONS_MAX as u64))]
    partitions: Option<u64>,
}

fn methods() -> impl TypedValueParser<Value = Kind> {
    let names = PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.name()));
    names.try_map(|name| name.parse::<Kind>())
}

impl Create {
    pub(super) fn run(&self) -> Result<()> {
        // The command line comes first: where it is wrong, no empty store is left behind.
        let schema = self.schema().map_err(|error| Error::Usage(error.to_string()))?;
        check_folder(&self.path)?;
        let asked = self.partitions.map(|partitions| partitions as usize);
        let mut options = options(&self.path, true);
        options.partitioning = asked.map(Partitioning::Hash);
        let is_new = !Database::exists(&self.path);
        if is_new {
            check_unique(&schema, &self.unique, asked.unwrap_or(1))?;
            make_folder(&self.path).map_err(|error| in_database(&self.path, error))?;
        }
        let kind = self.method.or(is_new.then_some(Kind::NvmInP));
        let testbed = Testbed::open(kind, &options).map_err(|error| in_store(&self.path, error))?;
        check_unique(&schema, &self.unique, testbed.partitions())?;
        let store = Store { path: self.path.clone(), testbed };
        store.done(store.testbed.create_table(&schema))
    }

    fn schema(&self) -> halite_table::Result<TableSchema> {
        let mut builder = TableSchema::builder(&self.table);
        for column in &self.columns {
            builder = match column.is_nullable() {
                true => builder.nullable(column.name(), column.ty()),
                false => builder.column(column.name(), column.ty()),
            };
        }
        builder = builder.primary_key(self.primary_key.iter().map(|column| column.trim()));
        for index in &self.indexes {
            builder = builder.index(&index.name, index.columns());
        }
        for index in &self.unique {
            builder = builder.unique_index(&index.name, index.columns());
        }
        builder.build()
    }
}
