//! Finding a customer by number or by last name (§2.5.2.2, §2.6.2.2).

use std::ops::ControlFlow;

use halite_table::values;

use super::super::inputs::Customer;
use super::super::rows::{missing, number};
use super::super::schema::{BY_NAME, CUSTOMER, customer as columns};
use crate::Result;
use crate::store::{Scan, Transaction};

/// The name of a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerName {
    /// C_FIRST.
    pub first: String,
    /// C_MIDDLE.
    pub middle: String,
    /// C_LAST.
    pub last: String,
}

/// The number of a district's customer: of those with the last name, the one at the position n / 2, rounded up, in the
/// order of first names.
pub(super) fn customer_number(
    tx: &mut dyn Transaction,
    warehouse: u32,
    district: u32,
    customer: &Customer,
) -> Result<u32> {
    let name = match customer {
        Customer::Number(number) => return Ok(*number),
        Customer::Name(name) => name,
    };
    let key = values![warehouse, district, name];
    let mut found = Vec::new();
    tx.scan(CUSTOMER, &Scan::prefix(&key).by(BY_NAME), &mut |row| {
        found.push(number(&row, columns::C_ID)?);
        Ok(ControlFlow::Continue(()))
    })?;
    match found.is_empty() {
        true => Err(missing(CUSTOMER, &key)),
        false => Ok(found[(found.len() - 1) / 2]),
    }
}
