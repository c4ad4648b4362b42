//! `halite pool`.

mod init;
mod leaf;
mod pass;
mod report;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use halite::{Database, PoolStatus};

use crate::Result;
use crate::folder::{check_exists, in_database, open_with};
use init::Init;
use leaf::{Offline, Online, Replace};
use pass::{Resilver, Scrub};
use status::Status;

const EXAMPLES: &str = "\
Examples:
  halite pool init ./data --topology 'mirror file:/ssd1/a file:/ssd2/a'
  halite pool status ./data                        devices, their states and counts, the last scrub
  halite pool scrub ./data                         read everything with its redundancy, and repair
  halite pool offline ./data 0/0/1                 take a device away for a while
  halite pool online ./data 0/0/1 && halite pool resilver ./data
  halite pool replace ./data 0/0/1 file:/ssd3/a && halite pool resilver ./data

A pool is what the engine betree keeps a database on: up to four classes of devices, the fastest first, each of single
devices, mirrors, and groups with parity 1 to 3. A device is named by its class, its group there and its place in that, as
in 0/0/1, or by its path.";

/// Make a database on a pool of devices, and look after them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(Init),
    Status(Status),
    Scrub(Scrub),
    Resilver(Resilver),
    Replace(Replace),
    Offline(Offline),
    Online(Online),
}

impl Pool {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Init(init) => init.run(),
            Action::Status(status) => status.run(),
            Action::Scrub(scrub) => scrub.run(),
            Action::Resilver(resilver) => resilver.run(),
            Action::Replace(replace) => replace.run(),
            Action::Offline(offline) => offline.run(),
            Action::Online(online) => online.run(),
        }
    }
}

/// A database on a pool.
#[derive(Debug, Args)]
struct PoolPlace {
    /// The database's folder
    path: PathBuf,

    /// Look in DIR for devices that are not where they were; may be given several times
    #[arg(long, value_name = "DIR")]
    search: Vec<PathBuf>,
}

impl PoolPlace {
    /// Opens the database, whose engine has to have pools.
    fn open(&self) -> Result<(Database, PoolStatus)> {
        check_exists(&self.path)?;
        let builder = Database::builder().create(false).search(self.search.clone());
        let db = open_with(builder, &self.path)?;
        let status = db.pool_status().map_err(|error| in_database(&self.path, error))?;
        Ok((db, status))
    }
}
