//! The testbed of Arulraj et al.: tuples with fixed and variable fields, under recovery methods of which only one is
//! active, so that what a method costs on a medium is measured by itself.
//!
//! The floors of the crate, from the lowest:
//!
//! | module | contents |
//! |---|---|
//! | [`value`] | types of columns, values, exact decimals |
//! | `column` | a column, and the values that it takes |
//! | [`component`] | the parts that a transaction's time is split among, if a feature builds that in |
//! | [`key`] | keys: byte strings in the order of their values, and ranges of them |
//! | [`schema`] | schemas of tables, with the layout of their rows |
//! | [`row`] | images of rows: read by column, changed, compared, checked |
//! | [`catalog`] | all tables and indexes with their ids and states, and the statements that change them |
//! | [`index`] | ordered maps from keys to places of tuples, or to rows: in DRAM, in a heap and in a file |
//! | `tuple` | tuples in a heap |
//! | [`write_set`] | the changes of a transaction that has not ended |
//! | [`method`] | the recovery methods |
//! | [`partition`] | transactions, constraints and statements over any method |
//! | [`testbed`] | a store of some partitions, and transactions over several of them |
//! | `engine` | a store as an engine of the house: key spaces, snapshots, batches on conditions |
//!
//! Those above [`index`] in the list do no input or output, and take no lock.
#![forbid(unsafe_code)]

pub mod catalog;
mod column;
pub mod component;
mod cushion;
mod engine;
mod error;
mod files;
pub mod index;
pub mod key;
pub mod method;
pub mod partition;
mod registration;
pub mod row;
pub mod schema;
#[cfg(test)]
mod strategies;
pub mod testbed;
mod tuple;
pub mod value;
pub mod write_set;

pub use catalog::{Catalog, IndexId, IndexState, Table, TableId};
pub use column::Column;
pub use engine::TableEngine;
pub use error::{Error, Result};
pub use key::{KEY_LEN_MAX, KeyRange, KeySchema};
pub use method::{Footprint, Kind, Method, Ticket, Wear};
pub use partition::Partition;
pub use registration::{ENGINES, REGISTRATIONS};
pub use row::{Change, Field, FixedMut, FixedRef, Row, RowRef};
pub use schema::{IndexSchema, Layout, TableBuilder, TableSchema};
pub use testbed::{Executor, ExecutorOptions, Latencies, Pending};
pub use testbed::{Procedure, Records, TableOptions, Testbed, Transaction};
pub use value::{Decimal, Timestamp, Type, Value, ValueRef};
pub use write_set::{Savepoint, WriteSet};
