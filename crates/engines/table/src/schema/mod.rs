//! Schemas of tables, and the layout of their rows.
//!
//! [`TableSchema::builder`] makes a schema, and refuses one that breaks a limit: a table has 1 to [`COLUMNS_MAX`]
//! columns, a primary key of columns that are never NULL, and at most [`INDEXES_MAX`] secondary indexes. Everything
//! that a row or a key needs of it is computed then ([`Layout`], [`KeySchema`](crate::KeySchema)).

mod builder;
mod index_schema;
pub(crate) mod layout;
mod table_schema;

pub use builder::TableBuilder;
pub(crate) use builder::check_name;
pub use index_schema::IndexSchema;
pub use layout::{Layout, Place};
pub use table_schema::TableSchema;

/// Columns that a table has at most.
pub const COLUMNS_MAX: usize = 1024;

/// Secondary indexes that a table has at most.
pub const INDEXES_MAX: usize = 64;

/// Bytes of the name of a table, a column or an index, at most.
pub const NAME_LEN_MAX: usize = 800;
