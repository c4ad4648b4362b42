//! Reading and changing rows of TPC-C: numbers as integers, rows that must be there.

use halite_table::{Change, Decimal, RowRef, ValueRef};

use super::schema::schemas;
use crate::store::Transaction;
use crate::{Error, Result};

/// An amount of money in cents.
pub(crate) fn money(cents: i64) -> Decimal {
    Decimal::new(cents.into(), 2).expect("an amount has at most 19 digits")
}

/// A rate in ten-thousandths.
pub(crate) fn rate(parts: i64) -> Decimal {
    Decimal::new(parts.into(), 4).expect("a rate has at most 19 digits")
}

/// The mantissa of a decimal column: cents of an amount, ten-thousandths of a rate.
pub(crate) fn mantissa(row: &RowRef<'_>, column: usize) -> Result<i64> {
    let mantissa = row.decimal(column)?.mantissa();
    Ok(i64::try_from(mantissa).expect("a column of at most 12 digits"))
}

/// A small number that is not negative.
pub(crate) fn number(row: &RowRef<'_>, column: usize) -> Result<u32> {
    let number = row.uint(column)?;
    Ok(u32::try_from(number).expect("a column of at most 32 bits"))
}

/// The error that a row is missing that must be there.
pub(crate) fn missing(table: usize, key: &[ValueRef<'_>]) -> Error {
    let values: Vec<_> = key.iter().map(ToString::to_string).collect();
    let table = schemas()[table].name().to_owned();
    Error::Missing { table, key: format!("({})", values.join(", ")) }
}

/// The result of `take` on the row with this key, if there is one.
pub(crate) fn find<T>(
    tx: &mut dyn Transaction,
    table: usize,
    key: &[ValueRef<'_>],
    mut take: impl FnMut(RowRef<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut taken = None;
    tx.get(table, key, &mut |row| {
        taken = Some(take(row)?);
        Ok(())
    })?;
    Ok(taken)
}

/// [`find`] of a row that must be there.
pub(crate) fn read<T>(
    tx: &mut dyn Transaction,
    table: usize,
    key: &[ValueRef<'_>],
    take: impl FnMut(RowRef<'_>) -> Result<T>,
) -> Result<T> {
    find(tx, table, key, take)?.ok_or_else(|| missing(table, key))
}

/// [`read`] of a row that is changed next.
pub(crate) fn read_for_update<T>(
    tx: &mut dyn Transaction,
    table: usize,
    key: &[ValueRef<'_>],
    mut take: impl FnMut(RowRef<'_>) -> Result<T>,
) -> Result<T> {
    let mut taken = None;
    tx.get_for_update(table, key, &mut |row| {
        taken = Some(take(row)?);
        Ok(())
    })?;
    taken.ok_or_else(|| missing(table, key))
}

/// Changes a row that must be there.
pub(crate) fn change(
    tx: &mut dyn Transaction,
    table: usize,
    key: &[ValueRef<'_>],
    changes: &[Change<'_>],
) -> Result<()> {
    match tx.update(table, key, changes)? {
        true => Ok(()),
        false => Err(missing(table, key)),
    }
}
