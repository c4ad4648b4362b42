//! The conditions of a warehouse: 1 and 8.

use std::ops::ControlFlow;

use halite_table::values;

use super::super::rows::{mantissa, money, read};
use super::super::scale::Scale;
use super::super::schema::{DISTRICT, WAREHOUSE, district, warehouse};
use super::CheckReport;
use super::payments::Payments;
use crate::Result;
use crate::store::{Homes, Outcome, Scan, Store};

pub(super) fn check(
    store: &dyn Store,
    scale: &Scale,
    w: u32,
    payments: &Payments,
    report: &mut CheckReport,
) -> Result<()> {
    let (mut ytd, mut of_districts) = (0, 0);
    store.run(Homes::Of(&[w]), &mut |tx| {
        ytd = read(tx, WAREHOUSE, &values![w], |row| mantissa(&row, warehouse::W_YTD))?;
        of_districts = 0;
        tx.scan(DISTRICT, &Scan::prefix(&values![w]), &mut |row| {
            of_districts += mantissa(&row, district::D_YTD)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Outcome::Commit)
    })?;
    let paid = (1..=scale.districts).map(|d| payments.of_district(w, d)).sum();
    let rows = format!("WAREHOUSE ({w})");
    let ytd = ("W_YTD", money(ytd));
    report.compare(1, &rows, [ytd, ("the sum of D_YTD", money(of_districts))]);
    report.compare(8, &rows, [ytd, ("the sum of H_AMOUNT", money(paid))]);
    Ok(())
}
