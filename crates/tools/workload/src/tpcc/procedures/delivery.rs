//! Delivery (§2.7.4): the oldest order of each district, all in one transaction.

use std::ops::ControlFlow;

use halite_table::{Change, Timestamp, values};

use super::super::inputs::Delivery;
use super::super::rows::{change, mantissa, money, number, read_for_update};
use super::super::schema::{
    CUSTOMER, NEW_ORDER, ORDER, ORDER_LINE, customer, new_order, order, order_line,
};
use crate::Result;
use crate::store::{Scan, Transaction};

/// The outcome of a delivery, which is written to its result file (§2.7.2.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivered {
    /// The district and the number of each order that was delivered.
    pub orders: Vec<(u32, u32)>,
    /// The districts without an order to deliver.
    pub skipped: Vec<u32>,
}

/// Delivers the oldest order of each of a warehouse's districts.
///
/// # Errors
/// Those of the transaction; [`crate::Error::Missing`] for a row that must be there.
pub fn deliver(
    tx: &mut dyn Transaction,
    input: &Delivery,
    districts: u32,
    now: Timestamp,
) -> Result<Delivered> {
    let mut delivered = Delivered::default();
    for district in 1..=districts {
        match deliver_one(tx, input, district, now)? {
            Some(order) => delivered.orders.push((district, order)),
            None => delivered.skipped.push(district),
        }
    }
    Ok(delivered)
}

fn deliver_one(
    tx: &mut dyn Transaction,
    input: &Delivery,
    d: u32,
    now: Timestamp,
) -> Result<Option<u32>> {
    let w = input.warehouse;
    let mut oldest = None;
    tx.scan(NEW_ORDER, &Scan::prefix(&values![w, d]), &mut |row| {
        oldest = Some(number(&row, new_order::NO_O_ID)?);
        Ok(ControlFlow::Break(()))
    })?;
    let Some(o) = oldest else { return Ok(None) };
    let key = values![w, d, o];
    tx.delete(NEW_ORDER, &key)?;
    let c = read_for_update(tx, ORDER, &key, |row| number(&row, order::O_C_ID))?;
    change(tx, ORDER, &key, &[Change::new(order::O_CARRIER_ID, input.carrier)])?;
    let mut lines = Vec::new();
    tx.scan(ORDER_LINE, &Scan::prefix(&key), &mut |row| {
        let cents = mantissa(&row, order_line::OL_AMOUNT)?;
        lines.push((number(&row, order_line::OL_NUMBER)?, cents));
        Ok(ControlFlow::Continue(()))
    })?;
    for (line, _) in &lines {
        let changes = [Change::new(order_line::OL_DELIVERY_D, now)];
        change(tx, ORDER_LINE, &values![w, d, o, *line], &changes)?;
    }
    let sum: i64 = lines.iter().map(|(_, cents)| cents).sum();
    let key = values![w, d, c];
    let (balance, deliveries) = read_for_update(tx, CUSTOMER, &key, |row| {
        Ok((mantissa(&row, customer::C_BALANCE)?, number(&row, customer::C_DELIVERY_CNT)?))
    })?;
    let changes = [
        Change::new(customer::C_BALANCE, money(balance + sum)),
        Change::new(customer::C_DELIVERY_CNT, deliveries + 1),
    ];
    change(tx, CUSTOMER, &key, &changes)?;
    Ok(Some(o))
}
