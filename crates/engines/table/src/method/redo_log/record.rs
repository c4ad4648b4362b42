//! What a batch of the log has: the changes of a transaction, or a catalog.
//!
//! ```text
//! batch   = 1 | row..                                                      a transaction
//!         | 2 | catalog                                                    the catalog from then on
//! row     = table | 0 | length | image                                     an insertion
//!         | table | 1 | length | image                                     a deletion
//!         | table | 2 | length | key | count, (column | NULL u8 | before | after)..    an update
//! before  = the bytes of a number in the fixed part of a row, or length and bytes of text or bytes; nothing for NULL
//! ```
//!
//! Kinds and the NULL bits, 1 for before and 2 for after, are bytes; all other numbers are varints. Entries of indexes
//! follow from the rows, and so do the keys of whole rows: neither is logged. So an insertion or a deletion costs the bytes
//! of its row, and an update twice those of the columns that change, and its key.

use std::sync::Arc;

use halite_codec::{Reader, Seed, put_bytes, put_varint};

use crate::component::Component;
use crate::schema::layout::read;
use crate::write_set::{RowWrite, WriteSet};
use crate::{Catalog, Change, Error, Result, Row, RowRef, Table, TableId, TableSchema, ValueRef};

const TRANSACTION: u8 = 1;
const CATALOG: u8 = 2;

const INSERTION: u8 = 0;
const DELETION: u8 = 1;
const UPDATE: u8 = 2;

/// The bits of the images that are NULL.
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

/// A batch that was read.
#[derive(Debug)]
pub(crate) enum Logged<'a> {
    Transaction(Vec<LoggedRow<'a>>),
    Catalog(Catalog),
}

/// A row that a transaction changed.
#[derive(Debug)]
pub(crate) struct LoggedRow<'a> {
    pub(crate) table: Arc<Table>,
    /// The primary key.
    pub(crate) key: Vec<u8>,
    pub(crate) change: LoggedChange<'a>,
}

/// The change of a row.
#[derive(Debug)]
pub(crate) enum LoggedChange<'a> {
    Insertion(Row),
    Deletion(Row),
    Update(Vec<ColumnChange<'a>>),
}

/// A column before an update and after it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ColumnChange<'a> {
    pub(crate) column: usize,
    pub(crate) before: ValueRef<'a>,
    pub(crate) after: ValueRef<'a>,
}

/// The batch of a transaction's rows; nothing, if it changes none.
pub(crate) fn transaction(catalog: &Catalog, writes: &WriteSet) -> Result<Vec<u8>> {
    let _in = Component::Recovery.enter();
    let mut batch = Vec::new();
    for (table, key, write) in writes.rows() {
        let table = catalog.table_by_id(table)?;
        if batch.is_empty() {
            batch.push(TRANSACTION);
        }
        put_varint(&mut batch, table.id().0.into());
        match write {
            RowWrite { before: None, after: None } => unreachable!("the row changes"),
            RowWrite { before: None, after: Some(row) } => put_row(&mut batch, INSERTION, row),
            RowWrite { before: Some(row), after: None } => put_row(&mut batch, DELETION, row),
            RowWrite { before: Some(before), after: Some(after) } => {
                batch.push(UPDATE);
                put_bytes(&mut batch, key);
                let schema = table.schema();
                put_columns(&mut batch, before.view(schema)?, after.view(schema)?)?;
            }
        }
    }
    Ok(batch)
}

/// The batch of a catalog.
pub(crate) fn catalog(catalog: &Catalog, seed: Seed) -> Vec<u8> {
    [&[CATALOG][..], &catalog.encode(seed)].concat()
}

fn put_row(to: &mut Vec<u8>, kind: u8, row: &Row) {
    to.push(kind);
    put_bytes(to, row.bytes());
}

fn put_columns(to: &mut Vec<u8>, before: RowRef<'_>, after: RowRef<'_>) -> Result<()> {
    let changes = before.changes_to(after)?;
    put_varint(to, changes.len() as u64);
    for Change { column, value } in changes {
        put_varint(to, column as u64);
        let is_null = before.get(column)?.is_null();
        let bit = |is_null, bit| if is_null { bit } else { 0 };
        to.push(bit(is_null, BEFORE) | bit(value.is_null(), AFTER));
        put_column(to, before, column)?;
        put_column(to, after, column)?;
    }
    Ok(())
}

fn put_column(to: &mut Vec<u8>, row: RowRef<'_>, column: usize) -> Result<()> {
    let place = &row.schema().layout().places()[column];
    match row.get(column)? {
        ValueRef::Null => {}
        ValueRef::Text(text) => put_bytes(to, text.as_bytes()),
        ValueRef::Bytes(bytes) => put_bytes(to, bytes),
        _ => to.extend_from_slice(place.of(row.fixed().bytes())),
    }
    Ok(())
}

impl<'a> Logged<'a> {
    /// Reads a batch that was written under a catalog.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn read(payload: &'a [u8], catalog: &Catalog, seed: Seed) -> Result<Self> {
        let mut reader = Reader(payload);
        match reader.u8().map_err(damaged)? {
            TRANSACTION => {
                let mut rows = Vec::new();
                while !reader.is_empty() {
                    rows.push(LoggedRow::read(&mut reader, catalog)?);
                }
                Ok(Self::Transaction(rows))
            }
            CATALOG => Ok(Self::Catalog(Catalog::decode(reader.0, seed)?)),
            kind => Err(damaged(format!("it is of no kind, but {kind}"))),
        }
    }
}

impl<'a> LoggedRow<'a> {
    fn read(from: &mut Reader<'a>, catalog: &Catalog) -> Result<Self> {
        let id = TableId(from.varint_u32().map_err(damaged)?);
        let table = catalog.table_by_id(id).map_err(damaged)?;
        let kind = from.u8().map_err(damaged)?;
        let bytes = from.bytes().map_err(damaged)?;
        let (key, change) = match kind {
            INSERTION | DELETION => {
                let row = Row::from_bytes(table.schema(), bytes.to_vec())?;
                let key = row.view(table.schema())?.primary_key()?;
                let change = match kind {
                    INSERTION => LoggedChange::Insertion(row),
                    _ => LoggedChange::Deletion(row),
                };
                (key, change)
            }
            UPDATE => {
                let count = from.varint().map_err(damaged)?;
                let columns = (0..count).map(|_| ColumnChange::read(from, table.schema()));
                (bytes.to_vec(), LoggedChange::Update(columns.collect::<Result<_>>()?))
            }
            kind => return Err(damaged(format!("the change of a row is of no kind, but {kind}"))),
        };
        Ok(Self { table: Arc::clone(table), key, change })
    }
}

impl<'a> ColumnChange<'a> {
    fn read(from: &mut Reader<'a>, schema: &TableSchema) -> Result<Self> {
        let column = from.varint_u32().map_err(damaged)? as usize;
        if column >= schema.columns().len() {
            return Err(damaged(schema.no_column(column)));
        }
        let nulls = from.u8().map_err(damaged)?;
        if nulls > BEFORE | AFTER {
            return Err(damaged("there are more images than two"));
        }
        let before = read_column(from, schema, column, nulls & BEFORE != 0)?;
        let after = read_column(from, schema, column, nulls & AFTER != 0)?;
        Ok(Self { column, before, after })
    }
}

fn read_column<'a>(
    from: &mut Reader<'a>,
    schema: &TableSchema,
    column: usize,
    is_null: bool,
) -> Result<ValueRef<'a>> {
    let (declared, place) = (&schema.columns()[column], &schema.layout().places()[column]);
    let value = if is_null {
        ValueRef::Null
    } else if declared.ty().is_text_or_bytes() {
        declared.long_value(from.bytes().map_err(damaged)?)?
    } else {
        let bytes = from.take(place.width).map_err(damaged)?;
        read(declared.ty(), bytes).map_err(|why| declared.damaged(why))?
    };
    // The form in which a row has it.
    match declared.conform(value) {
        Ok(conformed) if conformed == value => Ok(value),
        _ => Err(declared.damaged("it is not in the form of its column")),
    }
}

fn damaged(why: impl ToString) -> Error {
    Error::damaged("a batch of the log", why.to_string())
}
