//! Options of the experiments with stores.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};

/// The sizes of stores, the places of their files, and the times of measurements. Where a value is `None`, its default
/// is smaller in a quick run.
#[derive(Debug, Clone, PartialEq)]
pub struct LsmBenchOptions {
    /// The folder on an SSD: levels, logs, and all files of peers.
    pub disk: PathBuf,
    /// Bytes of persistent memory of the store that has some. The others have as many of DRAM instead.
    pub pmem: Option<u64>,
    /// Bytes of the database for each byte of persistent memory, in `ycsb`.
    pub fill: f64,
    /// How long each measurement of throughput takes.
    pub seconds: Option<Duration>,
    /// How long `stability` takes, for each store.
    pub stability: Option<Duration>,
    /// Threads that ask stores.
    pub threads: usize,
    /// Bytes of keys and values to recover.
    pub recovery_bytes: Option<u64>,
    /// Whether the kernel may keep the stores' files in its page cache.
    pub page_cache: bool,
}

impl Default for LsmBenchOptions {
    /// As in the paper: a database 2.5 times as large as persistent memory, 32 threads, no page cache.
    fn default() -> Self {
        Self {
            disk: "/var/tmp".into(),
            pmem: None,
            fill: 2.5,
            seconds: None,
            stability: None,
            threads: 32,
            recovery_bytes: None,
            page_cache: false,
        }
    }
}

const MIB: u64 = 1 << 20;

impl LsmBenchOptions {
    /// # Errors
    /// [`Error::Wrong`].
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |option, why| Err(Error::Wrong { option, why });
        let within = |value: u64, least: u64, most: u64| (least..=most).contains(&value);
        let (pmem, recovery) = (self.pmem.unwrap_or(MIB * 64), self.recovery_bytes.unwrap_or(MIB));
        if !within(pmem, 64 * MIB, 1 << 44) {
            return wrong("--pmem", format!("{pmem} is not between 64 MiB and 16 TiB"));
        }
        if !within(recovery, MIB, 1 << 44) {
            return wrong(
                "--recovery-bytes",
                format!("{recovery} is not between 1 MiB and 16 TiB"),
            );
        }
        if !within(self.threads as u64, 1, 1024) {
            return wrong("--threads", format!("{} is not between 1 and 1024", self.threads));
        }
        if !(self.fill > 0.0 && self.fill <= 100.0) {
            return wrong("--fill", format!("{} is not between 0 and 100", self.fill));
        }
        for (option, time) in [("--seconds", self.seconds), ("--minutes", self.stability)] {
            if time.is_some_and(|time| time.is_zero() || time.as_secs() > 24 * 3600) {
                return wrong(option, "it is not between 0 and a day".to_owned());
            }
        }
        Ok(())
    }
}
