//! New-Order (§2.4.2).

use halite_table::{Change, Timestamp, values};

use super::super::inputs::{Line, NewOrder};
use super::super::random::ORIGINAL;
use super::super::rows::{change, find, mantissa, money, number, read, read_for_update};
use super::super::schema::{
    CUSTOMER, DISTRICT, ITEM, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE, customer, district,
    item, stock, warehouse,
};
use crate::Result;
use crate::store::Transaction;

/// An order that was entered: the output of §2.4.3.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// O_ID.
    pub order: u32,
    /// C_LAST.
    pub last: String,
    /// C_CREDIT.
    pub credit: String,
    /// The sum of the lines with discount and taxes, in cents.
    pub total_cents: i64,
    /// The lines.
    pub lines: Vec<OrderedLine>,
}

/// A line of an order that was entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedLine {
    /// I_NAME.
    pub name: String,
    /// S_QUANTITY after the order.
    pub stock: i64,
    /// Whether I_DATA and S_DATA both have the word ORIGINAL: `B`, otherwise `G`.
    pub is_brand: bool,
    /// I_PRICE, in cents.
    pub price_cents: i64,
    /// OL_AMOUNT, in cents.
    pub cents: i64,
}

/// Enters an order. `None` if a line has an unused item: the caller rolls back (§2.4.1.4).
///
/// # Errors
/// Those of the transaction; [`crate::Error::Missing`] for a row that must be there.
pub fn order(
    tx: &mut dyn Transaction,
    input: &NewOrder,
    now: Timestamp,
) -> Result<Option<Ordered>> {
    let (w, d, c) = (input.warehouse, input.district, input.customer);
    let warehouse_tax = read(tx, WAREHOUSE, &values![w], |row| mantissa(&row, warehouse::W_TAX))?;
    let key = values![w, d];
    let (district_tax, order) = read_for_update(tx, DISTRICT, &key, |row| {
        Ok((mantissa(&row, district::D_TAX)?, number(&row, district::D_NEXT_O_ID)?))
    })?;
    change(tx, DISTRICT, &key, &[Change::new(district::D_NEXT_O_ID, order + 1)])?;
    let (discount, last, credit) = read(tx, CUSTOMER, &values![w, d, c], |row| {
        let last = row.text(customer::C_LAST)?.to_owned();
        let credit = row.text(customer::C_CREDIT)?.to_owned();
        Ok((mantissa(&row, customer::C_DISCOUNT)?, last, credit))
    })?;
    let is_local = input.lines.iter().all(|line| line.supplier == w);
    let count = input.lines.len() as u32;
    tx.insert(ORDER, &values![w, d, order, c, now, None::<u32>, count, u32::from(is_local)])?;
    tx.insert(NEW_ORDER, &values![w, d, order])?;
    let mut lines = Vec::with_capacity(input.lines.len());
    for (at, line) in (1..).zip(&input.lines) {
        let Some(ordered) = order_line(tx, [w, d, order, at], line)? else { return Ok(None) };
        lines.push(ordered);
    }
    let sum: i64 = lines.iter().map(|line| line.cents).sum();
    let total_cents = total(sum, discount, warehouse_tax + district_tax);
    Ok(Some(Ordered { order, last, credit, total_cents, lines }))
}

/// A sum with discount and tax, which are in ten-thousandths, rounded to cents.
fn total(cents: i64, discount: i64, tax: i64) -> i64 {
    (cents * (10_000 - discount) * (10_000 + tax) + 50_000_000) / 100_000_000
}

/// The stock that is left of `stock`, filled up when it gets low (§2.4.2.2).
fn stock_after(stock: i64, ordered: i64) -> i64 {
    match stock - ordered {
        left if left >= 10 => left,
        left => left + 91,
    }
}

fn order_line(
    tx: &mut dyn Transaction,
    [w, d, order, at]: [u32; 4],
    line: &Line,
) -> Result<Option<OrderedLine>> {
    let item = find(tx, ITEM, &values![line.item], |row| {
        let is_original = row.text(item::I_DATA)?.contains(ORIGINAL);
        let name = row.text(item::I_NAME)?.to_owned();
        Ok((name, mantissa(&row, item::I_PRICE)?, is_original))
    })?;
    let Some((name, price_cents, is_original)) = item else { return Ok(None) };
    let key = values![line.supplier, line.item];
    let info_column = stock::S_DIST_01 + d as usize - 1;
    let (before, ytd, orders, remote, info, in_stock_original) =
        read_for_update(tx, STOCK, &key, |row| {
            Ok((
                row.int(stock::S_QUANTITY)?,
                number(&row, stock::S_YTD)?,
                number(&row, stock::S_ORDER_CNT)?,
                number(&row, stock::S_REMOTE_CNT)?,
                row.text(info_column)?.to_owned(),
                row.text(stock::S_DATA)?.contains(ORIGINAL),
            ))
        })?;
    let left = stock_after(before, line.quantity.into());
    let is_remote = line.supplier != w;
    let changes = [
        Change::new(stock::S_QUANTITY, left),
        Change::new(stock::S_YTD, ytd + line.quantity),
        Change::new(stock::S_ORDER_CNT, orders + 1),
        Change::new(stock::S_REMOTE_CNT, remote + 1),
    ];
    change(tx, STOCK, &key, &changes[..if is_remote { 4 } else { 3 }])?;
    let cents = i64::from(line.quantity) * price_cents;
    let (supplier, amount) = (line.supplier, money(cents));
    let row = values![
        w,
        d,
        order,
        at,
        line.item,
        supplier,
        None::<Timestamp>,
        line.quantity,
        amount,
        &info
    ];
    tx.insert(ORDER_LINE, &row)?;
    let is_brand = is_original && in_stock_original;
    Ok(Some(OrderedLine { name, stock: left, is_brand, price_cents, cents }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_stock_is_filled_up() {
        assert_eq!([stock_after(20, 10), stock_after(19, 10), stock_after(10, 10)], [10, 100, 91]);
    }

    #[test]
    fn a_total_has_discount_and_tax_and_whole_cents() {
        assert_eq!(total(10_000, 1000, 2000), 10_800);
        assert_eq!(total(1, 0, 0), 1);
        assert_eq!(total(333, 5000, 1), 167);
    }
}
