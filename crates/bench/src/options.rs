//! Options of the key-value workload.

use crate::{Error, Result};

/// How large the workload is. What one seed generates is the same for every store and every run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvOptions {
    /// Records to load.
    pub records: u64,
    /// Bytes of a key; at least 8, which keep the keys distinct.
    pub key_len: usize,
    /// Bytes of a value.
    pub value_len: usize,
    /// Whether to overwrite every record once, in another order, after the load.
    pub overwrite: bool,
    /// Random existing records to get.
    pub gets: u64,
    /// Scans, each from a random existing key.
    pub scans: u64,
    /// Pairs a scan reads at most.
    pub scan_len: u64,
    /// How often everything is measured, each time with fresh stores.
    pub repeats: u32,
    /// The seed of keys, values and orders.
    pub seed: u64,
}

impl Default for KvOptions {
    /// A million records of 16 + 100 bytes, five times.
    fn default() -> Self {
        Self {
            records: 1_000_000,
            key_len: 16,
            value_len: 100,
            overwrite: false,
            gets: 1_000_000,
            scans: 10_000,
            scan_len: 100,
            repeats: 5,
            seed: 1,
        }
    }
}

impl KvOptions {
    pub(crate) fn check(&self) -> Result<()> {
        for (option, value, least) in [
            ("the number of records", self.records, 1),
            ("the length of keys", self.key_len as u64, 8),
            ("the number of gets", self.gets, 1),
            ("the number of scans", self.scans, 1),
            ("the length of scans", self.scan_len, 1),
            ("the number of repeats", self.repeats.into(), 1),
        ] {
            if value < least {
                return Err(Error::Option { option, value, least });
            }
        }
        Ok(())
    }
}
