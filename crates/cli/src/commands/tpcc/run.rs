//! `halite tpcc run`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use halite_workload::tpcc::mix::Mix;
use halite_workload::tpcc::{End, RunOptions, run};

use super::conditions;
use super::report::Figures;
use super::store::{THREADS_MAX, Tables, in_tables};
use crate::interrupt::Interrupt;
use crate::{Error, Result, duration, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite tpcc run ./tpcc --threads 2
  halite tpcc run ./tpcc --transactions 10000 --check
  halite tpcc run ./tpcc --duration 10m --threads 10 --think-times     ten terminals of one warehouse
  halite tpcc run ./tpcc --mix 0,0,50,0,50                             only what reads

Each transaction is serializable, and durable at its commit: the line `domain` says what that is worth on this medium.
One that another was in the way of is run again, which counts as a retry. One New-Order in a hundred asks for an item
that is not there, and is rolled back. Deliveries wait in a queue, from where their latency counts; the run lasts until
the queue is empty.

Ctrl-C ends the run, and its figures so far are printed.

Exit code 1: with --check, a condition is violated.";

/// Run the five transactions of TPC-C on a loaded database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    /// The database's folder
    path: PathBuf,

    /// Terminals, each a thread; one thread more carries out deliveries
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=THREADS_MAX))]
    threads: u32,

    /// How long transactions begin, such as 60s, 10m or 2h; the run lasts until the last delivery is done
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    duration: Duration,

    /// Run so many transactions, however long it takes
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    transactions: Option<NonZeroU64>,

    /// The shares of New-Order, Payment, Order-Status, Delivery and Stock-Level, in percent
    #[arg(long, value_name = "SHARES", default_value = "45,43,4,4,4", value_parser = parse_mix)]
    mix: Mix,

    /// Let terminals wait as if people typed and thought; the specification has ten terminals a warehouse
    #[arg(long)]
    think_times: bool,

    /// Check the twelve conditions after the run, as `halite tpcc check`
    #[arg(long)]
    check: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

fn parse_mix(text: &str) -> std::result::Result<Mix, String> {
    let shares: std::result::Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    let shares = shares.ok().and_then(|shares| <[u32; 5]>::try_from(shares).ok());
    let shares = shares.ok_or("a mix is five whole numbers, as in 45,43,4,4,4")?;
    Mix::new(shares).map_err(|error| error.to_string())
}

impl Run {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let tables = Tables::open(&self.path)?;
        let store = &*tables.store;
        let end = match self.transactions {
            Some(count) => End::Transactions(count.get()),
            None => End::After(self.duration),
        };
        let options = RunOptions {
            threads: self.threads,
            end,
            mix: self.mix,
            waits: self.think_times,
            ..RunOptions::default()
        };
        let bar = progress::share("running");
        let started = Instant::now();
        let ran = run(store, &options, &|begun| {
            match end {
                End::Transactions(count) => progress::set(&bar, begun.into(), count.into()),
                End::After(time) => {
                    progress::set(&bar, started.elapsed().as_millis(), time.as_millis());
                }
            }
            !interrupt.is_raised()
        });
        bar.finish_and_clear();
        let report = ran.map_err(|error| in_tables(&self.path, error))?;
        let figures = Figures { report: &report, options: &options, tables: &tables };
        let asks_check = self.check && !report.is_broken_off;
        let checked = match asks_check {
            // The figures are printed before the check, which may take as long as the run.
            true if !self.json => {
                output::text(&figures.as_text())?;
                let checked = conditions::examine(store, &self.path, &interrupt)?;
                output::text(&format!("\n{}", conditions::as_text(&checked)))?;
                Some(checked)
            }
            true => Some(conditions::examine(store, &self.path, &interrupt)?),
            false => None,
        };
        if self.json {
            let mut object = figures.as_json();
            object["check"] = checked.as_ref().map(conditions::as_json).into();
            output::json(&object)?;
        } else if !asks_check {
            output::text(&figures.as_text())?;
        }
        if report.is_broken_off {
            return Err(Error::Stopped { left: "the figures are of what was run until then" });
        }
        checked.map_or(Ok(()), |checked| conditions::verdict(&checked, &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_five_shares_of_a_hundred() {
        assert_eq!(parse_mix("45,43,4,4,4"), Ok(Mix::default()));
        assert_eq!(parse_mix("0,0,50,0,50").unwrap().percent(), [0, 0, 50, 0, 50]);
        for text in ["", "100", "45,43,4,4", "45,43,4,4,4,0", "45,43,4,4,-4", "45,43,4,4,4.0"] {
            assert!(parse_mix(text).unwrap_err().contains("five whole numbers"), "{text}");
        }
        for text in ["45,43,4,4,5", "0,0,0,0,0", "4294967295,4294967295,4294967295,1,1"] {
            assert!(parse_mix(text).unwrap_err().contains("not to 100"), "{text}");
        }
    }
}
