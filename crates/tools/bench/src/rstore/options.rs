//! Options of the experiments over the network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::server::NAMES;
use crate::kv::Distribution;
use crate::{Error, Result, RunOptions};

/// The experiments' sizes and times, and the places of the servers' programs.
#[derive(Debug, Clone)]
pub struct RstoreOptions {
    /// The servers, by name; all that are there, if empty.
    pub subjects: Vec<String>,
    /// Records to load, in place of each experiment's own number.
    pub records: Option<u64>,
    /// The length of each measurement, in place of 1 s, or 0.1 s if quick.
    pub seconds: Option<Duration>,
    /// Connections of all clients together.
    pub connections: usize,
    /// Threads of the load generator.
    pub client_threads: usize,
    /// Threads of each server that takes a number of them.
    pub server_threads: usize,
    /// The distribution of the requested records.
    pub distribution: Distribution,
    /// Bytes of the pool that is filled, in place of 1 GiB, or 64 MiB if quick.
    pub pool_bytes: Option<u64>,
    /// Operations a second at which the latency beside collection is measured.
    pub rate: u64,
    /// Dollars for 128 GiB of DRAM.
    pub dram_price: f64,
    /// Dollars for 128 GiB of persistent memory.
    pub pmem_price: f64,
    /// The program `halite`, if it is not this one or beside it.
    pub halite_bin: Option<PathBuf>,
    /// The program `halite-bench-peers`, if it is not this one or beside it.
    pub peers_bin: Option<PathBuf>,
}

impl Default for RstoreOptions {
    /// 50 connections of one thread, one thread a server, zipfian; rate and prices are those of Lersch
    /// (§5.6.3, §5.8.7).
    fn default() -> Self {
        Self {
            subjects: Vec::new(),
            records: None,
            seconds: None,
            connections: 50,
            client_threads: 1,
            server_threads: 1,
            distribution: Distribution::Zipfian,
            pool_bytes: None,
            rate: 25_000,
            dram_price: 1500.0,
            pmem_price: 695.0,
            halite_bin: None,
            peers_bin: None,
        }
    }
}

/// Connections of a process at most: its open files, and 20 bits of ports.
const CONNECTIONS_MAX: u64 = 10_000;

/// A day.
const SECONDS_MAX: u64 = 24 * 3600;

impl RstoreOptions {
    /// # Errors
    /// [`Error::Unknown`] for an unknown server, [`Error::Wrong`] for an invalid value, such as a program that is no
    /// file.
    pub fn check(&self) -> Result<()> {
        for name in &self.subjects {
            if !NAMES.contains(&name.as_str()) {
                return Err(Error::unknown("server", name, NAMES));
            }
        }
        for (option, value, least, most) in [
            ("--records", self.records.unwrap_or(1), 1, 1 << 40),
            ("--connections", self.connections as u64, 1, CONNECTIONS_MAX),
            ("--client-threads", self.client_threads as u64, 1, 1024),
            ("--server-threads", self.server_threads as u64, 1, 1024),
            ("--pool-size", self.pool_bytes.unwrap_or(16 << 20), 16 << 20, 1 << 40),
            ("--rate", self.rate, 1, 1_000_000_000),
        ] {
            if !(least..=most).contains(&value) {
                let why = format!("{value} is not between {least} and {most}");
                return Err(Error::Wrong { option, why });
            }
        }
        let seconds = self.seconds.unwrap_or(Duration::from_secs(1)).as_secs_f64();
        if !(seconds > 0.0 && seconds <= SECONDS_MAX as f64) {
            let why = format!("{seconds} s is not between 0 and a day");
            return Err(Error::Wrong { option: "--seconds", why });
        }
        for (option, price) in
            [("--dram-price", self.dram_price), ("--pmem-price", self.pmem_price)]
        {
            if !(price.is_finite() && price >= 0.0) {
                let why = format!("{price} is no price");
                return Err(Error::Wrong { option, why });
            }
        }
        for (option, program) in
            [("--halite-bin", &self.halite_bin), ("--peers-bin", &self.peers_bin)]
        {
            if let Some(path) = program.as_deref().filter(|path| !path.is_file()) {
                let why = format!("there is no file {}", path.display());
                return Err(Error::Wrong { option, why });
            }
        }
        Ok(())
    }

    /// Refuses a size that does not fit into the folder's medium, before the medium is filled.
    pub(super) fn check_space(folder: &Path, needed: u64) -> Result<()> {
        let Ok(medium) = rustix::fs::statvfs(folder) else { return Ok(()) };
        let free = medium.f_bavail.saturating_mul(medium.f_frsize);
        if needed > free {
            let folder = folder.display();
            let why = format!(
                "all servers together need about {needed} bytes in {folder}, and {free} are free; \
                 name fewer records, fewer servers (--subject), or another --folder"
            );
            return Err(Error::Wrong { option: "--records", why });
        }
        Ok(())
    }

    /// The length of a measurement.
    pub(super) fn time(&self, run: &RunOptions) -> Duration {
        let default = if run.quick { Duration::from_millis(100) } else { Duration::from_secs(1) };
        self.seconds.unwrap_or(default)
    }

    /// Records to load, where an experiment has so many, or so many if quick.
    pub(super) fn records(&self, run: &RunOptions, records: u64, quick: u64) -> u64 {
        self.records.unwrap_or(if run.quick { quick } else { records })
    }
}
