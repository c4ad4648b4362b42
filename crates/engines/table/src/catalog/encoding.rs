//! The bytes of a catalog.
//!
//! ```text
//! catalog  = magic u32 | format u16 | version | next id | count, table.. | count, dropping.. | checksum u64
//! table    = id | id of the primary index | name | count, column.. | count, number of a column of the primary key..
//!          | count, index..
//! column   = name | may be NULL u8 | type
//! type     = code u8 | precision u8, scale u8   of DECIMAL
//!                    | length                   of CHAR, VARCHAR, BYTES
//! index    = id | ready u8 | unique u8 | name | count, number of a column..
//! dropping = index u8 | id
//! ```
//!
//! Magic, format and checksum are little-endian, all other numbers varints; names have their lengths before them; a u8
//! that says whether is 0 or 1. The checksum has a seed of the store. A catalog has one encoding, and a decoded one is
//! checked as if it were built by statements: its schemas by their builder, its ids to be different and below the next.

use std::{collections::BTreeSet, sync::Arc};

use halite_codec::{Reader, Seed, check_behind, put_behind, put_bytes, put_varint};

use super::{Catalog, Dropping, FIRST_ID, IndexId, IndexState, Table, TableId};
use crate::{Error, KeySchema, Result, TableSchema, Type};

/// `HTC` and a byte that is not text, little-endian.
const MAGIC: u32 = u32::from_le_bytes(*b"HTC\x91");

/// The format that is written and read.
const FORMAT: u16 = 1;

/// Versions are below this, so that no statement comes to their end.
const VERSION_END: u64 = 1 << 63;

/// A defect in words.
type Why = String;

/// The code of a type.
const fn code(ty: Type) -> u8 {
    match ty {
        Type::Int8 => 1,
        Type::Int16 => 2,
        Type::Int32 => 3,
        Type::Int64 => 4,
        Type::UInt8 => 5,
        Type::UInt16 => 6,
        Type::UInt32 => 7,
        Type::UInt64 => 8,
        Type::Float64 => 9,
        Type::Decimal(..) => 10,
        Type::Char(_) => 11,
        Type::VarChar(_) => 12,
        Type::Bytes(_) => 13,
        Type::Timestamp => 14,
    }
}

fn put_type(to: &mut Vec<u8>, ty: Type) {
    to.push(code(ty));
    match ty {
        Type::Decimal(precision, scale) => to.extend_from_slice(&[precision, scale]),
        Type::Char(len) | Type::VarChar(len) | Type::Bytes(len) => put_varint(to, len.into()),
        _ => {}
    }
}

fn read_type(from: &mut Reader<'_>) -> Result<Type, Why> {
    Ok(match from.u8().map_err(why)? {
        1 => Type::Int8,
        2 => Type::Int16,
        3 => Type::Int32,
        4 => Type::Int64,
        5 => Type::UInt8,
        6 => Type::UInt16,
        7 => Type::UInt32,
        8 => Type::UInt64,
        9 => Type::Float64,
        10 => Type::Decimal(from.u8().map_err(why)?, from.u8().map_err(why)?),
        11 => Type::Char(from.varint_u32().map_err(why)?),
        12 => Type::VarChar(from.varint_u32().map_err(why)?),
        13 => Type::Bytes(from.varint_u32().map_err(why)?),
        14 => Type::Timestamp,
        code => return Err(format!("there is no type with the code {code}")),
    })
}

fn why(error: impl ToString) -> Why {
    error.to_string()
}

fn put_key(to: &mut Vec<u8>, key: &KeySchema) {
    put_varint(to, key.columns().len() as u64);
    key.columns().for_each(|number| put_varint(to, number as u64));
}

fn put_table(to: &mut Vec<u8>, table: &Table) {
    let schema = table.schema();
    put_varint(to, table.id.0.into());
    put_varint(to, table.primary.0.into());
    put_bytes(to, schema.name().as_bytes());
    put_varint(to, schema.columns().len() as u64);
    for column in schema.columns() {
        put_bytes(to, column.name().as_bytes());
        to.push(column.is_nullable().into());
        put_type(to, column.ty());
    }
    put_key(to, schema.primary_key());
    put_varint(to, table.indexes().len() as u64);
    for index in table.indexes() {
        put_varint(to, index.id.0.into());
        to.push((index.state == IndexState::Ready).into());
        to.push(index.schema.is_unique().into());
        put_bytes(to, index.schema.name().as_bytes());
        put_key(to, index.schema.key());
    }
}

fn read_name<'a>(from: &mut Reader<'a>) -> Result<&'a str, Why> {
    std::str::from_utf8(from.bytes().map_err(why)?).map_err(|_| "a name is not UTF-8".into())
}

fn read_flag(from: &mut Reader<'_>) -> Result<bool, Why> {
    match from.u8().map_err(why)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a byte that says whether is neither 0 nor 1".into()),
    }
}

/// As many things as a number before them says; each takes at least a byte, so that they end with the bytes.
fn read_each<'a>(
    from: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<(), Why>,
) -> Result<(), Why> {
    let count = from.varint().map_err(why)?;
    (0..count).try_for_each(|_| read(from))
}

/// The names of the columns of a key.
fn read_key<'a>(from: &mut Reader<'_>, columns: &[&'a str]) -> Result<Vec<&'a str>, Why> {
    let mut names = Vec::new();
    read_each(from, |from| {
        let number = from.varint_u32().map_err(why)? as usize;
        names.push(*columns.get(number).ok_or("a key has a column that there is not")?);
        Ok(())
    })?;
    Ok(names)
}

fn read_table(from: &mut Reader<'_>) -> Result<Table, Why> {
    let id = TableId(from.varint_u32().map_err(why)?);
    let primary = IndexId(from.varint_u32().map_err(why)?);
    let mut builder = TableSchema::builder(read_name(from)?);
    let mut columns = Vec::new();
    read_each(from, |from| {
        let (name, is_nullable) = (read_name(from)?, read_flag(from)?);
        columns.push((name, is_nullable, read_type(from)?));
        Ok(())
    })?;
    let names: Vec<&str> = columns.iter().map(|&(name, ..)| name).collect();
    for &(name, is_nullable, ty) in &columns {
        builder = if is_nullable { builder.nullable(name, ty) } else { builder.column(name, ty) };
    }
    builder = builder.primary_key(read_key(from, &names)?);
    let mut indexes = Vec::new();
    let mut declared = Vec::new();
    read_each(from, |from| {
        let id = IndexId(from.varint_u32().map_err(why)?);
        let state = if read_flag(from)? { IndexState::Ready } else { IndexState::Building };
        indexes.push((id, state));
        declared.push((read_flag(from)?, read_name(from)?, read_key(from, &names)?));
        Ok(())
    })?;
    for (is_unique, name, columns) in declared {
        builder = match is_unique {
            true => builder.unique_index(name, columns),
            false => builder.index(name, columns),
        };
    }
    let schema = Arc::new(builder.build().map_err(why)?);
    Ok(Table { id, primary, schema, indexes })
}

fn read_dropping(from: &mut Reader<'_>) -> Result<Dropping, Why> {
    let is_index = read_flag(from)?;
    let id = from.varint_u32().map_err(why)?;
    Ok(if is_index { Dropping::Index(IndexId(id)) } else { Dropping::Table(TableId(id)) })
}

fn read(bytes: &[u8], seed: Seed) -> Result<Catalog, Why> {
    let mut from = Reader(check_behind(bytes, seed).map_err(why)?);
    if from.u32().map_err(why)? != MAGIC {
        return Err("it does not begin with the sign of a catalog".into());
    }
    let format = from.u16().map_err(why)?;
    if format != FORMAT {
        return Err(format!("it has the format {format}, and this program reads format {FORMAT}"));
    }
    let (version, next_id) = (from.varint().map_err(why)?, from.varint_u32().map_err(why)?);
    let mut catalog = Catalog { version, next_id, tables: Vec::new(), dropping: Vec::new() };
    read_each(&mut from, |from| {
        catalog.tables.push(Arc::new(read_table(from)?));
        Ok(())
    })?;
    read_each(&mut from, |from| {
        catalog.dropping.push(read_dropping(from)?);
        Ok(())
    })?;
    check(&catalog)?;
    // Numbers in more bytes than they need, and bytes behind the last thing.
    match catalog.encode(seed) == bytes {
        true => Ok(catalog),
        false => Err("it is not encoded as catalogs are".into()),
    }
}

/// Checks the invariants that statements keep: the order of ids, that no id and no name is there twice, and that the next id is above all.
fn check(catalog: &Catalog) -> Result<(), Why> {
    let Catalog { version, next_id, tables, dropping } = catalog;
    let names: BTreeSet<&str> = tables.iter().map(|table| table.schema().name()).collect();
    if names.len() != tables.len() {
        return Err("two tables have one name".into());
    }
    let of_table = |table: &Arc<Table>| {
        let indexes: Vec<u32> = table.indexes.iter().map(|&(id, _)| id.0).collect();
        [vec![table.id.0, table.primary.0], indexes].concat()
    };
    let mut ids: Vec<u32> = tables.iter().flat_map(of_table).collect();
    ids.extend(dropping.iter().map(|dropping| dropping.id()));
    let different: BTreeSet<u32> = ids.iter().copied().collect();
    if different.len() != ids.len() {
        return Err("an id is there twice".into());
    }
    if *next_id < FIRST_ID || different.iter().any(|id| !(FIRST_ID..*next_id).contains(id)) {
        return Err("an id was never given".into());
    }
    if !tables.is_sorted_by_key(|table| table.id()) || !dropping.is_sorted_by_key(|it| it.id()) {
        return Err("its ids are not in order".into());
    }
    match *version < VERSION_END {
        true => Ok(()),
        false => Err("its version is beyond all versions".into()),
    }
}

impl Catalog {
    /// The bytes of the catalog, with a checksum of a seed of the store.
    #[must_use]
    pub fn encode(&self, seed: Seed) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + 512 * self.tables.len());
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        put_varint(&mut bytes, self.version);
        put_varint(&mut bytes, self.next_id.into());
        put_varint(&mut bytes, self.tables.len() as u64);
        self.tables.iter().for_each(|table| put_table(&mut bytes, table));
        put_varint(&mut bytes, self.dropping.len() as u64);
        for dropping in &self.dropping {
            bytes.push(matches!(dropping, Dropping::Index(_)).into());
            put_varint(&mut bytes, dropping.id().into());
        }
        put_behind(&mut bytes, seed);
        bytes
    }

    /// The catalog of which [`Catalog::encode`] made these bytes, which may be damaged, or of another store.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn decode(bytes: &[u8], seed: Seed) -> Result<Self> {
        read(bytes, seed).map_err(|why| Error::damaged("the catalog", why))
    }
}
