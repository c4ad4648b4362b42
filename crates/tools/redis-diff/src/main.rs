//! Random requests to Halite's server and to Redis: both must reply with the same bytes.
//!
//! `redis-diff` starts both servers (`sides`), each empty, and sends them the same streams of requests, in RESP2 and in
//! RESP3 (`stream`). The requests are made from patterns, a table of which each family of commands has (`families`,
//! whose `mod.rs` says how one is added); `pattern` makes words of a pattern, odd ones now and then; `words` has the
//! keys and values, and `hasty` leaves out requests that cannot be compared. Replies are compared as bytes, or as a
//! pattern says (`compare`). A stream ends at its first difference, which is shown with the requests before it that
//! concern the same keys; then both servers are emptied. Differences that are meant to be are named in `known`, and
//! counted.
//!
//! The exit status is 1 if there was a difference that is not known.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod families;
mod hasty;
mod known;
mod pattern;
mod report;
mod sides;
mod stream;
mod wire;
mod words;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::error::Error;
use crate::report::Report;
use crate::sides::Sides;
use crate::stream::Stream;

/// Sends random requests to Halite's server and to Redis, and shows where their replies differ.
#[derive(Debug, Parser)]
struct Options {
    /// The seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long requests are sent, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The families of commands to send; all of them if none is named.
    #[arg(long)]
    family: Vec<String>,
    /// Only patterns that begin with this word.
    #[arg(long)]
    command: Vec<String>,
    /// Threads of Halite's server.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The engine of Halite's database.
    #[arg(long, default_value = "indexlog")]
    engine: String,
    /// The program to start as Redis.
    #[arg(long, default_value = "redis-server")]
    redis: String,
    /// How many requests are shown before one whose replies differ.
    #[arg(long, default_value_t = 8)]
    history: usize,
    /// How many differences of each pattern are shown.
    #[arg(long, default_value_t = 1)]
    show: usize,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("redis-diff: {error}");
            ExitCode::from(2)
        }
    }
}

/// Sends requests as long as the options say; returns whether there was no difference but known ones.
fn run(options: &Options) -> Result<bool, Error> {
    let mut sides = Sides::start(options.threads, &options.engine, &options.redis)?;
    let patterns = families::patterns(&options.family, &options.command)?;
    let (patterns, missing) = sides.known_to_redis(patterns)?;
    let mut report = Report::new(options.show, options.history);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        let mut stream = Stream::new(options.seed, number, &patterns);
        stream.run(&mut sides, &mut report)?;
    }
    report.print(&missing);
    Ok(report.is_clean())
}
