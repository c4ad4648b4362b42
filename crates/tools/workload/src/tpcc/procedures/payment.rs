//! Payment (§2.5.2).

use halite_table::{Change, Timestamp, values};

use super::super::inputs::Payment;
use super::super::rows::{change, mantissa, money, number, read_for_update};
use super::super::schema::{
    CUSTOMER, DISTRICT, HISTORY, WAREHOUSE, customer as columns, district, warehouse,
};
use super::customer::{CustomerName, customer_number};
use crate::Result;
use crate::store::Transaction;

/// The most bytes of C_DATA.
const DATA_LEN_MAX: usize = 500;

/// A payment that was made: the output of §2.5.3.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    /// C_ID.
    pub customer: u32,
    /// The customer's name.
    pub name: CustomerName,
    /// C_BALANCE after the payment, in cents.
    pub balance_cents: i64,
    /// The first 200 characters of C_DATA, of a customer with bad credit.
    pub data: Option<String>,
}

/// Adds an amount to the sum of a warehouse or a district, and returns the name.
fn receive(
    tx: &mut dyn Transaction,
    table: usize,
    key: &[halite_table::ValueRef<'_>],
    [name, ytd]: [usize; 2],
    cents: i64,
) -> Result<String> {
    let (name, sum) = read_for_update(tx, table, key, |row| {
        Ok((row.text(name)?.to_owned(), mantissa(&row, ytd)?))
    })?;
    change(tx, table, key, &[Change::new(ytd, money(sum + cents))])?;
    Ok(name)
}

/// Enters a payment.
///
/// # Errors
/// Those of the transaction; [`crate::Error::Missing`] for a row that must be there.
pub fn pay(tx: &mut dyn Transaction, input: &Payment, now: Timestamp) -> Result<Paid> {
    let (w, d, cents) = (input.warehouse, input.district, input.cents);
    let (customer_w, customer_d) = (input.customer_warehouse, input.customer_district);
    let warehouse_columns = [warehouse::W_NAME, warehouse::W_YTD];
    let warehouse_name = receive(tx, WAREHOUSE, &values![w], warehouse_columns, cents)?;
    let district_columns = [district::D_NAME, district::D_YTD];
    let district_name = receive(tx, DISTRICT, &values![w, d], district_columns, cents)?;
    let c = customer_number(tx, customer_w, customer_d, &input.customer)?;
    let key = values![customer_w, customer_d, c];
    let (name, balance, paid, payments, bad_data) = read_for_update(tx, CUSTOMER, &key, |row| {
        let text = |column| row.text(column).map(str::to_owned);
        let name = CustomerName {
            first: text(columns::C_FIRST)?,
            middle: text(columns::C_MIDDLE)?,
            last: text(columns::C_LAST)?,
        };
        let is_bad = row.text(columns::C_CREDIT)? == "BC";
        Ok((
            name,
            mantissa(&row, columns::C_BALANCE)? - cents,
            mantissa(&row, columns::C_YTD_PAYMENT)? + cents,
            number(&row, columns::C_PAYMENT_CNT)? + 1,
            if is_bad { Some(text(columns::C_DATA)?) } else { None },
        ))
    })?;
    let data = bad_data.map(|data| {
        let amount = money(cents);
        let entry = format!("{c} {customer_d} {customer_w} {d} {w} {amount} ");
        let mut data = entry + &data;
        data.truncate(DATA_LEN_MAX);
        data
    });
    let mut changes = vec![
        Change::new(columns::C_BALANCE, money(balance)),
        Change::new(columns::C_YTD_PAYMENT, money(paid)),
        Change::new(columns::C_PAYMENT_CNT, payments),
    ];
    changes.extend(data.as_ref().map(|data| Change::new(columns::C_DATA, data)));
    change(tx, CUSTOMER, &key, &changes)?;
    let note = format!("{warehouse_name}    {district_name}");
    let amount = money(cents);
    let row = values![w, d, customer_w, customer_d, c, payments, now, amount, &note];
    tx.insert(HISTORY, &row)?;
    let data = data.map(|data| data.chars().take(200).collect());
    Ok(Paid { customer: c, name, balance_cents: balance, data })
}
