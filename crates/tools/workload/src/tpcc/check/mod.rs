//! The twelve consistency conditions (§3.3.2), as queries.
//!
//! [`CONDITIONS`] has what each says. Conditions 1 and 8 are about a warehouse, 2, 3, 4, 9 and 11 about a district,
//! 5 and 6 about an order, 7 about an order line, 10 and 12 about a customer.
//!
//! The payments of HISTORY are read first, as a customer's payments lie with the warehouses that took them; then each
//! district is checked in one transaction. So the check is for a store at rest: transactions between its own would make
//! conditions 8 to 10 fail.

use std::fmt;

use super::load::Loaded;
use crate::Result;
use crate::store::Store;

mod district;
mod payments;
mod warehouse;

use payments::Payments;

/// The text of each condition, in their order.
pub const CONDITIONS: [&str; 12] = [
    "W_YTD = sum of D_YTD",
    "D_NEXT_O_ID - 1 = greatest O_ID = greatest NO_O_ID, if there is one",
    "the NO_O_ID have no gap",
    "sum of O_OL_CNT = number of order lines",
    "O_CARRIER_ID is NULL if, and only if, the order is in NEW-ORDER",
    "O_OL_CNT = number of the order's lines",
    "OL_DELIVERY_D is NULL if, and only if, O_CARRIER_ID is",
    "W_YTD = sum of H_AMOUNT",
    "D_YTD = sum of H_AMOUNT",
    "C_BALANCE = sum of delivered OL_AMOUNT - sum of H_AMOUNT",
    "orders - new orders = orders delivered by the load + sum of C_DELIVERY_CNT",
    "C_BALANCE + C_YTD_PAYMENT = sum of delivered OL_AMOUNT",
];

/// Violations that are kept; the others are counted.
const KEPT_MAX: usize = 100;

/// A row, or rows, that violate a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the condition, 1 to 12.
    pub condition: u8,
    /// The rows: a table, and a key.
    pub rows: String,
    /// The two sides that are not equal.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition {} does not hold for {}: {}", self.condition, self.rows, self.reason)
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Warehouses that were checked.
    pub warehouses: u32,
    /// Orders that were read.
    pub orders: u64,
    /// Violations, the first hundred of them.
    pub violations: Vec<Violation>,
    /// The number of all violations of each condition, the first first.
    pub counts: [u64; 12],
}

impl CheckReport {
    /// Whether all conditions hold.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.violation_count() == 0
    }

    /// The number of all violations.
    #[must_use]
    pub fn violation_count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn note(&mut self, condition: u8, rows: impl fmt::Display, reason: impl fmt::Display) {
        self.counts[usize::from(condition) - 1] += 1;
        if self.violations.len() < KEPT_MAX {
            let (rows, reason) = (rows.to_string(), reason.to_string());
            self.violations.push(Violation { condition, rows, reason });
        }
    }

    /// Notes a violation if the two sides differ.
    fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        condition: u8,
        rows: impl fmt::Display,
        [left, right]: [(&str, T); 2],
    ) {
        if left.1 != right.1 {
            let reason = format!("{} is {}, but {} is {}", left.0, left.1, right.0, right.1);
            self.note(condition, rows, reason);
        }
    }
}

/// How a check goes on: takes the steps that are done and all, two for each district, and says whether to go on.
pub type CheckProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Checks the database in a store; `None` if `progress` broke the check off.
///
/// # Errors
/// As [`Loaded::open`]: a database that is not whole is not checked.
pub fn check(store: &dyn Store, progress: CheckProgress<'_>) -> Result<Option<CheckReport>> {
    let scale = Loaded::open(store)?.scale;
    let mut report = CheckReport::default();
    let all = 2 * u64::from(scale.warehouses) * u64::from(scale.districts);
    let mut done = 0;
    let mut goes_on = || {
        done += 1;
        progress(done, all)
    };
    let Some(payments) = Payments::read(store, &scale, &mut goes_on, &mut report)? else {
        return Ok(None);
    };
    for warehouse in 1..=scale.warehouses {
        warehouse::check(store, &scale, warehouse, &payments, &mut report)?;
        for district in 1..=scale.districts {
            district::check(store, &scale, [warehouse, district], &payments, &mut report)?;
            if !goes_on() {
                return Ok(None);
            }
        }
        report.warehouses += 1;
    }
    Ok(Some(report))
}
