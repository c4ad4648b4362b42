//! Verification: the method's own, and then all pairs of the key spaces.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{Damage, Direction, Error, KeyRange, Progress, Result, VerifyReport};

use super::scan::PartScan;
use super::snapshot::TableSnapshot;
use super::store::Store;

/// Checks all that is stored. A method tells its first defect.
pub(super) fn verify(store: &Arc<Store>, progress: Progress<'_>) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let all = match store.testbed.footprint() {
        Ok(footprint) => footprint.total(),
        Err(error) => return note(report, error.into()),
    };
    if progress(0, all).is_break() {
        return Ok(report);
    }
    if let Err(error) = store.testbed.verify() {
        return note(report, error.into());
    }
    let TableSnapshot { reader, spaces, .. } = TableSnapshot::new(store);
    for space in spaces.values() {
        for partition in 0..store.testbed.partitions() {
            let range = (KeyRange::all(), Direction::Forward);
            for pair in PartScan::new(store, &reader, space, partition, range) {
                match pair {
                    Ok((key, value)) => report.bytes += (key.len() + value.len()) as u64,
                    Err(error) => return note(report, error),
                }
                report.records += 1;
                let is_reported = report.records.is_multiple_of(1024);
                if is_reported && progress(report.bytes.min(all), all) == ControlFlow::Break(()) {
                    return Ok(report);
                }
            }
        }
    }
    report.complete = true;
    Ok(report)
}

fn note(mut report: VerifyReport, error: Error) -> Result<VerifyReport> {
    let damage: Damage = error.damage().ok_or(error)?;
    report.damage.push(damage);
    report.complete = true;
    Ok(report)
}
