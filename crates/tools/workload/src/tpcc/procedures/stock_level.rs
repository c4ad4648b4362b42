//! Stock-Level (§2.8.2).

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use halite_table::values;

use super::super::inputs::StockLevel;
use super::super::rows::{number, read};
use super::super::schema::{DISTRICT, ORDER_LINE, STOCK, district, order_line, stock};
use crate::Result;
use crate::store::{Scan, Transaction};

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// Counts the distinct items of a district's last 20 orders whose stock is below the threshold.
///
/// # Errors
/// Those of the transaction; [`crate::Error::Missing`] for a row that must be there.
pub fn count_low_stock(tx: &mut dyn Transaction, input: &StockLevel) -> Result<u32> {
    let (w, d) = (input.warehouse, input.district);
    let next = read(tx, DISTRICT, &values![w, d], |row| number(&row, district::D_NEXT_O_ID))?;
    let mut items = BTreeSet::new();
    let from = values![w, d, next.saturating_sub(ORDERS)];
    let to = values![w, d, next];
    let scan = Scan::between(Bound::Included(&from), Bound::Excluded(&to));
    tx.scan(ORDER_LINE, &scan, &mut |row| {
        items.insert(number(&row, order_line::OL_I_ID)?);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut low = 0;
    for item in items {
        let quantity = read(tx, STOCK, &values![w, item], |row| Ok(row.int(stock::S_QUANTITY)?))?;
        low += u32::from(quantity < input.threshold);
    }
    Ok(low)
}
