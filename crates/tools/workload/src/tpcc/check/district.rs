//! The conditions of a district, its orders and its customers: 2 to 7, and 9 to 12.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use halite_table::values;

use super::super::rows::{mantissa, money, number, read};
use super::super::scale::Scale;
use super::super::schema::{
    CUSTOMER, DISTRICT, NEW_ORDER, ORDER, ORDER_LINE, customer, district, new_order, order,
    order_line,
};
use super::CheckReport;
use super::payments::Payments;
use crate::Result;
use crate::store::{Homes, Outcome, Scan, Store, Transaction};

/// An order, and what its lines say.
struct Order {
    customer: u32,
    is_delivered: bool,
    lines_said: u64,
    lines: u64,
}

#[derive(Default)]
struct Customer {
    balance: i64,
    paid: i64,
    deliveries: u64,
    delivered: i64,
}

/// The rows of a district, as one transaction read them.
#[derive(Default)]
struct District {
    next: u32,
    ytd: i64,
    new_orders: BTreeSet<u32>,
    orders: BTreeMap<u32, Order>,
    customers: BTreeMap<u32, Customer>,
    lines: u64,
    /// The order and the number of lines whose delivery differs from their order's, and those of no order.
    undelivered: Vec<(u32, u32)>,
    orphans: Vec<(u32, u32)>,
}

pub(super) fn check(
    store: &dyn Store,
    scale: &Scale,
    [w, d]: [u32; 2],
    payments: &Payments,
    report: &mut CheckReport,
) -> Result<()> {
    let mut found = District::default();
    store.run(Homes::Of(&[w]), &mut |tx| {
        found = District::read(tx, w, d)?;
        Ok(Outcome::Commit)
    })?;
    report.orders += found.orders.len() as u64;
    found.check_numbers(w, d, scale, report);
    found.check_orders(w, d, report);
    let rows = format!("DISTRICT ({w}, {d})");
    let took = money(payments.of_district(w, d));
    report.compare(9, rows, [("D_YTD", money(found.ytd)), ("the sum of H_AMOUNT", took)]);
    found.check_customers(w, d, payments, report);
    Ok(())
}

impl District {
    fn read(tx: &mut dyn Transaction, w: u32, d: u32) -> Result<Self> {
        let key = values![w, d];
        let mut found = Self::default();
        (found.next, found.ytd) = read(tx, DISTRICT, &key, |row| {
            Ok((number(&row, district::D_NEXT_O_ID)?, mantissa(&row, district::D_YTD)?))
        })?;
        tx.scan(NEW_ORDER, &Scan::prefix(&key), &mut |row| {
            found.new_orders.insert(number(&row, new_order::NO_O_ID)?);
            Ok(ControlFlow::Continue(()))
        })?;
        tx.scan(CUSTOMER, &Scan::prefix(&key), &mut |row| {
            let found_customer = Customer {
                balance: mantissa(&row, customer::C_BALANCE)?,
                paid: mantissa(&row, customer::C_YTD_PAYMENT)?,
                deliveries: row.uint(customer::C_DELIVERY_CNT)?,
                delivered: 0,
            };
            found.customers.insert(number(&row, customer::C_ID)?, found_customer);
            Ok(ControlFlow::Continue(()))
        })?;
        tx.scan(ORDER, &Scan::prefix(&key), &mut |row| {
            let found_order = Order {
                customer: number(&row, order::O_C_ID)?,
                is_delivered: !row.get(order::O_CARRIER_ID)?.is_null(),
                lines_said: row.uint(order::O_OL_CNT)?,
                lines: 0,
            };
            found.orders.insert(number(&row, order::O_ID)?, found_order);
            Ok(ControlFlow::Continue(()))
        })?;
        tx.scan(ORDER_LINE, &Scan::prefix(&key), &mut |row| {
            let of = number(&row, order_line::OL_O_ID)?;
            let line = (of, number(&row, order_line::OL_NUMBER)?);
            let is_delivered = !row.get(order_line::OL_DELIVERY_D)?.is_null();
            found.lines += 1;
            let Some(order) = found.orders.get_mut(&of) else {
                found.orphans.push(line);
                return Ok(ControlFlow::Continue(()));
            };
            order.lines += 1;
            if is_delivered != order.is_delivered {
                found.undelivered.push(line);
            }
            if let (true, Some(customer)) = (is_delivered, found.customers.get_mut(&order.customer))
            {
                customer.delivered += mantissa(&row, order_line::OL_AMOUNT)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Conditions 2, 3, 4 and 11.
    fn check_numbers(&self, w: u32, d: u32, scale: &Scale, report: &mut CheckReport) {
        let rows = format!("DISTRICT ({w}, {d})");
        let last = ("D_NEXT_O_ID - 1", i64::from(self.next) - 1);
        let newest = self.orders.last_key_value().map_or(0, |(order, _)| i64::from(*order));
        report.compare(2, &rows, [last, ("the greatest O_ID", newest)]);
        if let (Some(first), Some(newest)) = (self.new_orders.first(), self.new_orders.last()) {
            report.compare(2, &rows, [last, ("the greatest NO_O_ID", i64::from(*newest))]);
            let sides = [
                ("the greatest NO_O_ID - the least + 1", (newest - first + 1) as usize),
                ("the number of new orders", self.new_orders.len()),
            ];
            report.compare(3, &rows, sides);
        }
        let said = self.orders.values().map(|order| order.lines_said).sum();
        let sides = [("the sum of O_OL_CNT", said), ("the number of order lines", self.lines)];
        report.compare(4, &rows, sides);
        let deliveries: u64 = self.customers.values().map(|customer| customer.deliveries).sum();
        let delivered = i64::from(scale.delivered()) + deliveries as i64;
        let without_new = self.orders.len() as i64 - self.new_orders.len() as i64;
        let sides = [
            ("the number of orders that are not new", without_new),
            ("the number of deliveries", delivered),
        ];
        report.compare(11, &rows, sides);
    }

    /// Conditions 5, 6 and 7.
    fn check_orders(&self, w: u32, d: u32, report: &mut CheckReport) {
        for (number, order) in &self.orders {
            let rows = format!("ORDER ({w}, {d}, {number})");
            if order.is_delivered == self.new_orders.contains(number) {
                let reason = match order.is_delivered {
                    true => "it has a carrier, and is in NEW-ORDER",
                    false => "it has no carrier, and is not in NEW-ORDER",
                };
                report.note(5, &rows, reason);
            }
            let sides = [("O_OL_CNT", order.lines_said), ("the number of lines", order.lines)];
            report.compare(6, rows, sides);
        }
        for number in self.new_orders.iter().filter(|number| !self.orders.contains_key(number)) {
            report.note(5, format!("NEW-ORDER ({w}, {d}, {number})"), "there is no such order");
        }
        for (order, line) in &self.orphans {
            let rows = format!("ORDER-LINE ({w}, {d}, {order}, {line})");
            report.note(6, rows, "there is no such order");
        }
        for (order, line) in &self.undelivered {
            let rows = format!("ORDER-LINE ({w}, {d}, {order}, {line})");
            report.note(7, rows, "one of OL_DELIVERY_D and O_CARRIER_ID is NULL, the other is not");
        }
    }

    /// Conditions 10 and 12.
    fn check_customers(&self, w: u32, d: u32, payments: &Payments, report: &mut CheckReport) {
        for (number, customer) in &self.customers {
            let rows = format!("CUSTOMER ({w}, {d}, {number})");
            let owed = customer.delivered - payments.of_customer([w, d, *number]);
            let sides = [
                ("C_BALANCE", money(customer.balance)),
                ("the sum of delivered OL_AMOUNT - the sum of H_AMOUNT", money(owed)),
            ];
            report.compare(10, &rows, sides);
            let sides = [
                ("C_BALANCE + C_YTD_PAYMENT", money(customer.balance + customer.paid)),
                ("the sum of delivered OL_AMOUNT", money(customer.delivered)),
            ];
            report.compare(12, rows, sides);
        }
    }
}
