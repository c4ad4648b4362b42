//! The `halite` command.
//!
//! A command line walks from `Cli` into the file of its command in `commands`. A command opens
//! the database through `folder`, reads and writes records in the forms of `formats`, and returns a
//! value of `Result`; here it becomes one line on standard error and an exit code.
#![forbid(unsafe_code)]

mod backups;
mod classes;
mod commands;
mod duration;
mod engine;
mod error;
mod escape;
mod folder;
mod formats;
mod index;
mod interrupt;
mod loader;
mod objects;
mod output;
mod place;
mod progress;
mod rdb;
mod remote;
mod size;
mod target;
mod time;
mod tree;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    Backup, Bench, Check, Completions, Dataset, Del, Dump, Get, Lab, Load, Obj, Pool, Put, Repair,
    Restore, Scan, Serve, Snapshot, Stat, Table, Tail, Tpcc, Tree,
};
use error::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  halite serve ./data                    serve ./data to Redis clients on 127.0.0.1:6379
  halite put ./data greeting hello       set a key
  halite get ./data greeting             print its value
  halite scan ./data --prefix user:      list what begins with `user:`
  halite load ./data people.jsonl --key id
  halite load ./docs --dir /usr/share/doc
  halite dump ./data all.tsv             everything as text, for `halite load ./other all.tsv`
  halite load ./data dump.rdb            what Redis keeps, and `halite dump --rdb` writes
  halite backup ./data monday.backup     everything, or what was changed, with checksums
  halite restore ./copy monday.backup    ... and back
  halite tail ./data                     what was changed, in order, if there is a change log
  halite check ./data                    verify every checksum
  halite repair ./data --dry-run         what is lost of a database with damaged files, and how it goes on
  halite pool init ./data                a database on a pool of devices, of the engine betree
  halite snapshot create ./data monday   ... which keeps a key space as it is
  halite obj put ./data photo photo.jpg  ... and stores objects of any length
  halite table load ./bank account x.csv rows of a table, after `halite table create`
  halite tpcc run ./tpcc --threads 2     orders and payments of TPC-C, after `halite tpcc load`
  halite lab crash                       look for a power cut that the store does not survive

A database is a folder, and one process at a time holds it. While a server has it open, `get`, `put`, `del`, `scan`,
`stat`, `check`, `dump` and `backup` work through it, with --server; other commands need it stopped. `halite COMMAND
--help` has more examples.

Exit codes:
  0    done
  1    error: one line on standard error says what, why and the way out
  2    the command line is wrong
  3    `get`, `obj`, `snapshot token`: the key, the object, or the token is not there
  4    damage found: stored bytes, or those of a stream, fail their checksum
  5    `lab`: a violation, or a mutant that nothing caught
  130  interrupted by SIGINT or SIGTERM: `load` and `table load` kept what they say, `lab`, `bench` and `tpcc run` say what they looked at,
       `dump`, `backup`, `restore`, `obj` and `snapshot` leave what was there before, `pool scrub`, `pool resilver`,
       `migrate` and `tpcc load` go on there the next time, `serve` was not closed in time";

/// An ordered, durable key-value database for memory that persists.
#[derive(Debug, Parser)]
#[command(name = "halite", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<Serve>),
    Get(Get),
    Put(Put),
    Del(Del),
    Scan(Scan),
    Load(Load),
    Dump(Dump),
    Stat(Stat),
    Tail(Tail),
    Backup(Backup),
    Restore(Restore),
    Check(Check),
    Repair(Repair),
    Pool(Pool),
    Dataset(Dataset),
    Snapshot(Snapshot),
    Obj(Obj),
    Tree(Tree),
    Table(Table),
    Bench(Bench),
    Tpcc(Tpcc),
    Lab(Lab),
    Completions(Completions),
}

/// Carries out the command line of the process.
///
/// A program of one's own begins with this after it has registered its engines (`halite::register_engine`): it is the
/// `halite` command, with them.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Get(get) => get.run(),
        Command::Put(put) => put.run(),
        Command::Del(del) => del.run(),
        Command::Scan(scan) => scan.run(),
        Command::Load(load) => load.run(),
        Command::Dump(dump) => dump.run(),
        Command::Stat(stat) => stat.run(),
        Command::Tail(tail) => tail.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Repair(repair) => repair.run(),
        Command::Pool(pool) => pool.run(),
        Command::Dataset(dataset) => dataset.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Obj(obj) => obj.run(),
        Command::Tree(tree) => tree.run(),
        Command::Table(table) => table.run(),
        Command::Bench(bench) => bench.run(),
        Command::Tpcc(tpcc) => tpcc.run(),
        Command::Lab(lab) => lab.run(),
        Command::Completions(completions) => completions.run(),
    };
    match done {
        // `halite scan ./data | head`: the reader has all that it wanted.
        Ok(()) | Err(Error::OutputClosed) => ExitCode::SUCCESS,
        Err(error) => {
            output::message(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
