//! Order-Status (§2.6.2).

use std::ops::ControlFlow;

use halite_table::{Timestamp, ValueRef, values};

use super::super::inputs::OrderStatus;
use super::super::rows::{mantissa, missing, number, read};
use super::super::schema::{
    BY_CUSTOMER, CUSTOMER, ORDER, ORDER_LINE, customer as columns, order, order_line,
};
use super::customer::{CustomerName, customer_number};
use crate::Result;
use crate::store::{Scan, Transaction};

/// The last order of a customer: the output of §2.6.3.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// C_ID.
    pub customer: u32,
    /// The customer's name.
    pub name: CustomerName,
    /// C_BALANCE, in cents.
    pub balance_cents: i64,
    /// O_ID.
    pub order: u32,
    /// O_ENTRY_D.
    pub entered: Timestamp,
    /// O_CARRIER_ID, of a delivered order.
    pub carrier: Option<u32>,
    /// The lines.
    pub lines: Vec<StatusLine>,
}

/// A line of the last order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine {
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supplier: u32,
    /// OL_QUANTITY.
    pub quantity: u32,
    /// OL_AMOUNT, in cents.
    pub cents: i64,
    /// OL_DELIVERY_D, of a delivered order.
    pub delivered: Option<Timestamp>,
}

/// Finds the last order of a customer.
///
/// # Errors
/// Those of the transaction; [`crate::Error::Missing`] for a row that must be there.
pub fn status(tx: &mut dyn Transaction, input: &OrderStatus) -> Result<Status> {
    let (w, d) = (input.warehouse, input.district);
    let c = customer_number(tx, w, d, &input.customer)?;
    let (name, balance_cents) = read(tx, CUSTOMER, &values![w, d, c], |row| {
        let text = |column| row.text(column).map(str::to_owned);
        let name = CustomerName {
            first: text(columns::C_FIRST)?,
            middle: text(columns::C_MIDDLE)?,
            last: text(columns::C_LAST)?,
        };
        Ok((name, mantissa(&row, columns::C_BALANCE)?))
    })?;
    let key = values![w, d, c];
    let mut last = None;
    tx.scan(ORDER, &Scan::prefix(&key).by(BY_CUSTOMER).descending(), &mut |row| {
        let carrier = match row.get(order::O_CARRIER_ID)? {
            ValueRef::Null => None,
            _ => Some(number(&row, order::O_CARRIER_ID)?),
        };
        last = Some((number(&row, order::O_ID)?, row.timestamp(order::O_ENTRY_D)?, carrier));
        Ok(ControlFlow::Break(()))
    })?;
    let (order, entered, carrier) = last.ok_or_else(|| missing(ORDER, &key))?;
    let mut lines = Vec::new();
    tx.scan(ORDER_LINE, &Scan::prefix(&values![w, d, order]), &mut |row| {
        lines.push(StatusLine {
            item: number(&row, order_line::OL_I_ID)?,
            supplier: number(&row, order_line::OL_SUPPLY_W_ID)?,
            quantity: number(&row, order_line::OL_QUANTITY)?,
            cents: mantissa(&row, order_line::OL_AMOUNT)?,
            delivered: match row.get(order_line::OL_DELIVERY_D)? {
                ValueRef::Null => None,
                moment => Some(moment.timestamp()?),
            },
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Status { customer: c, name, balance_cents, order, entered, carrier, lines })
}
