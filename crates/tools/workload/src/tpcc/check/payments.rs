//! The sums of H_AMOUNT, by district and by customer.

use std::ops::ControlFlow;

use halite_table::values;

use super::super::rows::{mantissa, number};
use super::super::scale::Scale;
use super::super::schema::{HISTORY, history};
use super::CheckReport;
use crate::Result;
use crate::store::{Homes, Outcome, Scan, Store};

/// Sums in cents.
pub(super) struct Payments {
    scale: Scale,
    of_districts: Vec<i64>,
    of_customers: Vec<i64>,
}

impl Payments {
    /// Reads HISTORY, a district in one transaction; `None` if `goes_on` is false after one. A row of a customer that
    /// cannot be violates condition 10.
    pub(super) fn read(
        store: &dyn Store,
        scale: &Scale,
        goes_on: &mut dyn FnMut() -> bool,
        report: &mut CheckReport,
    ) -> Result<Option<Self>> {
        let districts = scale.warehouses as usize * scale.districts as usize;
        let mut payments = Self {
            scale: *scale,
            of_districts: vec![0; districts],
            of_customers: vec![0; districts * scale.customers as usize],
        };
        for w in 1..=scale.warehouses {
            for d in 1..=scale.districts {
                let mut rows = Vec::new();
                store.run(Homes::Of(&[w]), &mut |tx| {
                    rows.clear();
                    tx.scan(HISTORY, &Scan::prefix(&values![w, d]), &mut |row| {
                        let payer = [history::H_C_W_ID, history::H_C_D_ID, history::H_C_ID];
                        let [w, d, c] = payer.map(|column| number(&row, column));
                        rows.push(([w?, d?, c?], mantissa(&row, history::H_AMOUNT)?));
                        Ok(ControlFlow::Continue(()))
                    })?;
                    Ok(Outcome::Commit)
                })?;
                for (payer, cents) in &rows {
                    payments.of_districts[scale_index(scale, w, d)] += cents;
                    match payments.customer(*payer) {
                        Some(sum) => *sum += cents,
                        None => report.note(
                            10,
                            format!("HISTORY ({w}, {d})"),
                            format!("there is no customer {payer:?}"),
                        ),
                    }
                }
                if !goes_on() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(payments))
    }

    fn customer(&mut self, [w, d, c]: [u32; 3]) -> Option<&mut i64> {
        let at = customer_index(&self.scale, [w, d, c])?;
        self.of_customers.get_mut(at)
    }

    /// The sum that a district took, in cents.
    pub(super) fn of_district(&self, w: u32, d: u32) -> i64 {
        self.of_districts[scale_index(&self.scale, w, d)]
    }

    /// The sum that a customer paid, in cents; 0 for a customer that cannot be.
    pub(super) fn of_customer(&self, payer: [u32; 3]) -> i64 {
        customer_index(&self.scale, payer).map_or(0, |at| self.of_customers[at])
    }
}

fn scale_index(scale: &Scale, w: u32, d: u32) -> usize {
    (w as usize - 1) * scale.districts as usize + d as usize - 1
}

fn customer_index(scale: &Scale, [w, d, c]: [u32; 3]) -> Option<usize> {
    let is_there = (1..=scale.warehouses).contains(&w)
        && (1..=scale.districts).contains(&d)
        && (1..=scale.customers).contains(&c);
    is_there.then(|| scale_index(scale, w, d) * scale.customers as usize + c as usize - 1)
}
