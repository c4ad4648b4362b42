//! The twelve conditions of a consistent database.

use std::fmt::Write;
use std::path::Path;

use halite_workload::store::Store;
use halite_workload::tpcc::{CONDITIONS, CheckReport, check};
use serde_json::{Value, json};

use super::store::in_tables;
use crate::interrupt::Interrupt;
use crate::size::{count, grouped};
use crate::{Error, Result, progress};

/// Checks the conditions of the database in `path`.
pub(super) fn examine(
    store: &dyn Store,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<CheckReport> {
    let bar = progress::share("checking");
    let checked = check(store, &mut |done, all| {
        progress::set(&bar, done.into(), all.into());
        !interrupt.is_raised()
    });
    bar.finish_and_clear();
    let checked = checked.map_err(|error| in_tables(path, error))?;
    checked.ok_or(Error::Stopped { left: "not every row was checked" })
}

/// A line for each condition, and for each violation of it that is kept.
pub(super) fn as_text(report: &CheckReport) -> String {
    let mut text = String::new();
    for ((number, says), violated) in (1..).zip(CONDITIONS).zip(report.counts) {
        let result = match violated {
            0 => "ok".to_owned(),
            _ => format!("violated {}", times(violated)),
        };
        // A string takes every write.
        let _ = writeln!(text, "condition {number:>2}  {result}: {says}");
        let of_it = report.violations.iter().filter(|found| found.condition == number);
        let mut told = 0;
        for found in of_it {
            let _ = writeln!(text, "              {}: {}", found.rows, found.reason);
            told += 1;
        }
        if told < violated {
            let _ = writeln!(text, "              and {} more", grouped(violated - told));
        }
    }
    let (warehouses, orders) = (u64::from(report.warehouses), report.orders);
    let (warehouses, orders) = (count(warehouses, "warehouse"), count(orders, "order"));
    let _ = writeln!(text, "{warehouses}, {orders} checked");
    text
}

pub(super) fn as_json(report: &CheckReport) -> Value {
    let of = |(number, violations): (u8, u64)| {
        let of_it = report.violations.iter().filter(|found| found.condition == number);
        let rows = of_it.map(|found| json!({ "rows": found.rows, "reason": found.reason }));
        json!({
            "condition": number,
            "ok": violations == 0,
            "violations": violations,
            "rows": rows.collect::<Vec<_>>(),
        })
    };
    json!({
        "consistent": report.is_consistent(),
        "warehouses": report.warehouses,
        "orders": report.orders,
        "conditions": (1..).zip(report.counts).map(of).collect::<Vec<_>>(),
    })
}

/// An error if a condition is violated.
pub(super) fn verdict(report: &CheckReport, path: &Path) -> Result<()> {
    match report.violation_count() {
        0 => Ok(()),
        violated => Err(Error::input(
            path.display(),
            format!(
                "conditions of TPC-C are violated {}, as told above; look for damage with `halite check`, and load \
                 another database",
                times(violated)
            ),
        )),
    }
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        _ => format!("{} times", grouped(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_workload::tpcc::Violation;

    #[test]
    fn each_condition_is_told_with_its_violations() {
        let violation = Violation {
            condition: 3,
            rows: "NEW_ORDER (1, 2)".to_owned(),
            reason: "7 is missing".to_owned(),
        };
        let mut report = CheckReport { warehouses: 1, orders: 60, ..CheckReport::default() };
        assert!(verdict(&report, Path::new("data")).is_ok());
        report.violations.push(violation);
        report.counts[2] = 1200;
        let text = as_text(&report);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "condition  1  ok: W_YTD = sum of D_YTD");
        assert_eq!(lines[2], "condition  3  violated 1,200 times: the NO_O_ID have no gap");
        assert_eq!(lines[3], "              NEW_ORDER (1, 2): 7 is missing");
        assert_eq!(lines[4], "              and 1,199 more");
        assert_eq!(lines.len(), 12 + 2 + 1);
        let json = as_json(&report);
        assert_eq!(json["conditions"][2]["violations"], 1200);
        assert_eq!(
            (&json["consistent"], &json["conditions"][0]["ok"]),
            (&json!(false), &json!(true))
        );
        let error = verdict(&report, Path::new("data")).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(
            error.to_string().starts_with("data: conditions of TPC-C are violated 1,200 times")
        );
    }
}
