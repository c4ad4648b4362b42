//! Options of the experiments.

use std::path::PathBuf;
use std::time::Duration;

use super::Medium;
use crate::{Error, Result};

/// The media, the sizes of data, and the times of measurements. Where a value is `None`, its default is smaller in a
/// quick run.
#[derive(Debug, Clone, PartialEq)]
pub struct BetreeBenchOptions {
    /// The folder on a disk.
    pub disk: PathBuf,
    /// The media that are measured.
    pub media: Vec<Medium>,
    /// Records of the key-value experiments.
    pub records: Option<u64>,
    /// Bytes of an object, and of the region of `access`.
    pub object_bytes: Option<u64>,
    /// How long each measurement of throughput takes.
    pub seconds: Option<Duration>,
    /// Threads that ask key-value stores.
    pub threads: usize,
    /// Whether the kernel may keep the stores' files in its page cache.
    pub page_cache: bool,
}

impl Default for BetreeBenchOptions {
    fn default() -> Self {
        Self {
            disk: "/var/tmp".into(),
            media: Medium::ALL.to_vec(),
            records: None,
            object_bytes: None,
            seconds: None,
            threads: 2,
            page_cache: false,
        }
    }
}

impl BetreeBenchOptions {
    /// # Errors
    /// [`Error::Wrong`].
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |option, why| Err(Error::Wrong { option, why });
        if self.records.is_some_and(|records| !(1_000..=1 << 40).contains(&records)) {
            return wrong("--records", "it is not between 1000 and 2^40".to_owned());
        }
        if self.object_bytes.is_some_and(|bytes| !(1 << 20..=1 << 44).contains(&bytes)) {
            return wrong("--object-bytes", "it is not between 1 MiB and 16 TiB".to_owned());
        }
        if !(1..=1024).contains(&self.threads) {
            return wrong("--threads", format!("{} is not between 1 and 1024", self.threads));
        }
        if self.seconds.is_some_and(|time| time.is_zero() || time.as_secs() > 24 * 3600) {
            return wrong("--seconds", "it is not between 0 and a day".to_owned());
        }
        if self.media.is_empty() {
            return wrong("--medium", "there is none".to_owned());
        }
        Ok(())
    }
}
