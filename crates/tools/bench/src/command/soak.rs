//! `bench soak`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Common, EXAMPLES, Program};
use crate::soak::{SoakOptions, soak};
use crate::{Error, Result};

/// Minutes of a soak, and of a quick one.
const MINUTES: f64 = 30.0;
const MINUTES_QUICK: f64 = 0.2;

/// A week.
const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;

/// `bench soak`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Soak {
    /// How long clients work [default: 30, or 0.2 if quick]
    #[arg(long)]
    minutes: Option<f64>,

    /// Clients, each with one connection
    #[arg(long, default_value_t = SoakOptions::default().clients)]
    clients: u64,

    /// Threads of the server
    #[arg(long, default_value_t = SoakOptions::default().server_threads)]
    server_threads: usize,

    /// Bytes of its pool, most of which are filled
    #[arg(long, value_name = "BYTES", default_value_t = SoakOptions::default().pool_bytes)]
    pool_size: u64,

    /// The engine, one of `halite serve --help`; of betree, devices, snapshots and clones are looked after, too [default:
    /// that of the medium]
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,

    /// The program `halite` [default: this one, or the one beside it]
    #[arg(long, value_name = "FILE")]
    halite_bin: Option<PathBuf>,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Soak {
    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        if self.common.profile.is_some() {
            let why = "a profile slows down pools of this process, not servers; leave it out";
            return Err(Error::Wrong { option: "--profile", why: why.to_owned() });
        }
        if self.common.repeats.is_some() {
            let why = "a soak is one long run; give it more --minutes instead";
            return Err(Error::Wrong { option: "--repeats", why: why.to_owned() });
        }
        let default = if self.common.quick { MINUTES_QUICK } else { MINUTES };
        let minutes = self.minutes.unwrap_or(default);
        if !(minutes > 0.0 && minutes <= MINUTES_MAX) {
            let why = format!("{minutes} is not between 0 and a week");
            return Err(Error::Wrong { option: "--minutes", why });
        }
        let options = SoakOptions {
            time: Duration::from_secs_f64(minutes * 60.0),
            clients: self.clients,
            server_threads: self.server_threads,
            pool_bytes: self.pool_size,
            engine: self.engine.clone(),
            halite_bin: self.halite_bin.clone(),
        };
        options.check()?;
        self.common.with_repeats(1).run(program, Vec::new(), |run| soak(&options, run))
    }
}
