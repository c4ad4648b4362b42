//! The measurements of a run.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::super::mix::Kind;
use super::super::procedures::Delivered;
use super::super::scale::Scale;
use crate::store::{Ended, Outcome};

/// The longest latency that is told from longer ones: an hour, in nanoseconds.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The time within which a delivery should end (§2.7.2.2).
const DELIVERY_LIMIT: Duration = Duration::from_secs(80);

/// The most New-Order transactions a minute and warehouse that terminals with waits can reach.
const TPM_PER_WAREHOUSE_MAX: f64 = 12.86;

/// The counts of a run, or of one of its threads.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Latencies in nanoseconds, in the order of [`Kind::ALL`]; that of a delivery counts from the queue on.
    pub latencies: [Histogram<u64>; 5],
    /// Transactions that were run again because another was in the way, each time counted.
    pub retries: [u64; 5],
    /// New-Order transactions that were rolled back, as one in a hundred has an unused item.
    pub rolled_back: u64,
    /// Order lines, rolled back ones included.
    pub lines: u64,
    /// Order lines that another warehouse supplies.
    pub remote_lines: u64,
    /// Payments of customers of another warehouse.
    pub remote_payments: u64,
    /// Orders that were delivered.
    pub delivered: u64,
    /// Districts in which a delivery found no order.
    pub skipped: u64,
    /// Deliveries that took longer than 80 seconds.
    pub late_deliveries: u64,
}

impl Default for Measured {
    fn default() -> Self {
        let histogram = || Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("constant bounds");
        Self {
            latencies: std::array::from_fn(|_| histogram()),
            retries: [0; 5],
            rolled_back: 0,
            lines: 0,
            remote_lines: 0,
            remote_payments: 0,
            delivered: 0,
            skipped: 0,
            late_deliveries: 0,
        }
    }
}

impl Measured {
    pub(super) fn note(&mut self, kind: Kind, latency: Duration, ended: Ended) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies[kind as usize].saturating_record(nanos);
        self.retries[kind as usize] += u64::from(ended.retries);
        self.rolled_back += u64::from(ended.outcome == Outcome::Rollback);
    }

    pub(super) fn note_delivery(&mut self, latency: Duration, ended: Ended, done: &Delivered) {
        self.note(Kind::Delivery, latency, ended);
        self.delivered += done.orders.len() as u64;
        self.skipped += done.skipped.len() as u64;
        self.late_deliveries += u64::from(latency > DELIVERY_LIMIT);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (all, one) in self.latencies.iter_mut().zip(&other.latencies) {
            all.add(one).expect("the bounds are the same");
        }
        for (all, one) in self.retries.iter_mut().zip(other.retries) {
            *all += one;
        }
        self.rolled_back += other.rolled_back;
        self.lines += other.lines;
        self.remote_lines += other.remote_lines;
        self.remote_payments += other.remote_payments;
        self.delivered += other.delivered;
        self.skipped += other.skipped;
        self.late_deliveries += other.late_deliveries;
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The counts.
    pub measured: Measured,
    /// How long the run took, until the last delivery.
    pub elapsed: Duration,
    /// The size of the database.
    pub scale: Scale,
    /// Whether terminals typed and thought.
    pub waits: bool,
    /// Whether the run was broken off before its end.
    pub is_broken_off: bool,
}

impl Report {
    /// The name of such results, which no auditor has seen.
    pub const NAME: &str = "TPC-C-like";

    /// Transactions of a kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.measured.latencies[kind as usize].len()
    }

    /// All transactions.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.count(kind)).sum()
    }

    /// The share of a kind that the run achieved, in percent.
    #[must_use]
    pub fn share_percent(&self, kind: Kind) -> f64 {
        100.0 * self.count(kind) as f64 / self.transactions().max(1) as f64
    }

    /// Transactions of all kinds a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.transactions() as f64 / self.elapsed.as_secs_f64()
    }

    /// New-Order transactions a minute, those that were rolled back included.
    #[must_use]
    pub fn tpm(&self) -> f64 {
        60.0 * self.count(Kind::NewOrder) as f64 / self.elapsed.as_secs_f64()
    }

    /// Whether terminals with waits entered more orders than they can: such a result is wrong.
    #[must_use]
    pub fn exceeds_terminals(&self) -> bool {
        self.waits && self.tpm() > TPM_PER_WAREHOUSE_MAX * f64::from(self.scale.warehouses)
    }
}
