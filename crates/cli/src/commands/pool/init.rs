//! `halite pool init`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use halite::{Database, Feature, Topology, engine_with, engines};

use super::status::{as_json, as_table};
use crate::folder::{check_folder, in_database, open_with};
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite pool init ./data                                        the default devices, beside the pool
  halite pool init ./data --topology 'mirror file:/ssd1/a file:/ssd2/a'
  halite pool init ./data --topology 'pmem: ; parity1 file:/hd1/a@64G file:/hd2/a@64G file:/hd3/a@64G'
  halite pool init ./data --topology-file pool.json

A topology is classes with `;` between them, the fastest first. A class is devices, each by itself, or behind `mirror`,
`parity1`, `parity2` or `parity3` together. A device is `file:PATH` or `pmem:PATH`, with `@SIZE` if it may not take more;
`pmem:` alone is the database's own pool. A file without a folder before its name lies in the folder of the log. The files
must not exist. JSON has the same: {\"classes\": [{\"vdevs\": [{\"mirror\": [{\"file\": \"/ssd1/a\"}, {\"file\": \"/ssd2/a\"}]}]}]}";

/// The longest file of a topology, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Make a database on a pool of devices
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// The folder of the new database
    path: PathBuf,

    /// The devices, as text or JSON
    #[arg(long, value_name = "TOPOLOGY", conflicts_with = "topology_file", value_parser = parse)]
    topology: Option<Topology>,

    /// Take the devices from FILE, text or JSON
    #[arg(long, value_name = "FILE")]
    topology_file: Option<PathBuf>,

    /// The engine, which has to have pools
    #[arg(
        long,
        value_name = "NAME",
        default_value = default_engine(),
        value_parser = PossibleValuesParser::new(engines().into_iter().map(|engine| engine.name)),
    )]
    engine: String,

    /// Print the state of the new pool as a JSON object
    #[arg(long)]
    json: bool,
}

/// The first engine that has pools.
fn default_engine() -> &'static str {
    engine_with(Feature::Pool).map_or(halite::ENGINES[0], |engine| engine.name)
}

fn parse(text: &str) -> std::result::Result<Topology, String> {
    text.parse::<Topology>().map_err(|error| error.to_string())
}

impl Init {
    pub(crate) fn run(&self) -> Result<()> {
        check_folder(&self.path)?;
        if Database::exists(&self.path) {
            let why = "there is a database here already; name another folder";
            return Err(Error::input(self.path.display(), why));
        }
        let topology = match &self.topology_file {
            Some(file) => Some(read(file)?),
            None => self.topology.clone(),
        };
        let mut builder = Database::builder().engine(&self.engine);
        if let Some(topology) = topology {
            builder = builder.topology(topology);
        }
        let db = open_with(builder.needs(Feature::Pool), &self.path)?;
        let status = db.pool_status().map_err(|error| in_database(&self.path, error))?;
        match self.json {
            true => output::json(&as_json(&self.path, &status)),
            false => output::text(&as_table(&self.path, &status)),
        }
    }
}

fn read(path: &Path) -> Result<Topology> {
    let failed = |error| Error::io(path.display(), error);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(Error::input(path.display(), "it is longer than 1 MiB, so it is no topology"));
    }
    parse(&text).map_err(|why| Error::input(path.display(), why))
}
