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
//! Halite serves within this process (`halite`), or, with `--folder`, as a program on a database there (`program`). That one is
//! killed by SIGKILL now and then (`kills`), between requests and while some are under way, and started again: then both
//! must have the same keys, values and times (`state`), those requests having happened or not, in their order. What a
//! restart rightly forgets, Redis is made to forget (`Sides::go_on`).
//!
//! The exit status is 1 if there was a difference that is not known.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod families;
mod halite;
mod hasty;
mod kills;
mod known;
mod pattern;
mod program;
mod redis;
mod report;
mod scripts;
mod sides;
mod state;
mod stream;
mod wire;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::error::Error;
use crate::families::Pattern;
use crate::report::Report;
use crate::sides::Sides;
use crate::stream::Stream;

/// Sends random requests to Halite's server and to Redis, and shows where their replies differ.
#[derive(Debug, Parser)]
struct Options {
    /// The seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long requests are sent, in seconds [default: 10, without --requests].
    #[arg(long)]
    seconds: Option<u64>,
    /// How many requests are sent, up to the end of the last stream.
    #[arg(long)]
    requests: Option<u64>,
    /// Packs of 50 requests that a stream has.
    #[arg(long, default_value_t = 20)]
    packs: usize,
    /// The stream of this number only, again and again: one in which a difference was found.
    #[arg(long)]
    stream: Option<u64>,
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
    /// Let a program serve a new database in this folder, rather than this process one in memory.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The program to start as Halite, with --folder [default: `halite` beside this one].
    #[arg(long, requires = "folder")]
    halite: Option<PathBuf>,
    /// Kill that program once in so many requests, on average; 0: never.
    #[arg(long, default_value_t = 0, requires = "folder")]
    kill_every: usize,
    /// How many requests are shown before one whose replies differ.
    #[arg(long, default_value_t = 8)]
    history: usize,
    /// How many differences of each pattern are shown.
    #[arg(long, default_value_t = 1)]
    show: usize,
}

/// How long requests are sent, if no option says it.
const SECONDS: u64 = 10;

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
    let Options { threads, engine, redis, .. } = options;
    let mut sides = match &options.folder {
        Some(folder) => {
            Sides::start_program(*threads, engine, redis, options.halite.as_deref(), folder)?
        }
        None => Sides::start(*threads, engine, redis)?,
    };
    let patterns = families::patterns(&options.family, &options.command)?;
    let (patterns, missing) = sides.known_to_redis(patterns)?;
    let mut report = Report::new(options.show, options.history);
    let sent = streams(options, &patterns, &mut sides, &mut report);
    report.print(&missing);
    if sent.is_err() || !report.is_clean() {
        let kept = sides.keep();
        kept.iter()
            .for_each(|folder| println!("Halite's database is kept in {}", folder.display()));
    }
    sent.map(|()| report.is_clean())
}

/// Sends streams of requests, as long as the options say.
fn streams(
    options: &Options,
    patterns: &[Pattern],
    sides: &mut Sides,
    report: &mut Report,
) -> Result<(), Error> {
    let seconds = options.seconds.or(options.requests.is_none().then_some(SECONDS));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    for number in 0.. {
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        if is_over || options.requests.is_some_and(|requests| report.requests >= requests) {
            break;
        }
        let number = options.stream.unwrap_or(number);
        report.stream = (options.seed, number);
        let (kill_every, threads) = (options.kill_every, options.threads);
        let mut stream = Stream::new(options.seed, number, patterns, kill_every, threads);
        stream.run(sides, report, options.packs)?;
    }
    Ok(())
}
