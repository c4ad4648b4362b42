//! `halite stat`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use halite::{Damage, Database, Stats};
use serde_json::{Map, Value, json};

use super::check::damage_as_json;
use crate::folder::{in_database, open};
use crate::size::{count, grouped, human};
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite stat ./data
  halite stat ./data --json | jq .pool.live_bytes

Sizes are in bytes, times in seconds. The traffic is that of opening the database just now.
Of the engine lsm, it counts all records, and tells what the tables of its levels and its log take on the SSD, and
how many versions of keys its index in memory leads to.
Exit code 4: the records of a key space cannot be counted, since something is damaged.";

/// Show the statistics of a database, and the meaning of durable on its medium
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    /// The database's folder
    path: PathBuf,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(&self) -> Result<()> {
        let db = open(&self.path)?;
        let stats = db.stats();
        let mut spaces = Vec::new();
        for space in db.key_spaces().map_err(|error| in_database(&self.path, error))? {
            let len = match space.len() {
                Ok(len) => Ok(len),
                Err(error) => Err(error.damage().ok_or_else(|| in_database(&self.path, error))?),
            };
            spaces.push((space.name().to_owned(), len));
        }
        if self.json {
            output::json(&as_json(&db, &stats, &spaces))?;
        } else {
            output::text(&as_table(&db, &stats, &spaces))?;
        }
        match damage(&spaces).len() {
            0 => Ok(()),
            parts => Err(Error::DamageFound {
                path: self.path.clone(),
                parts: count(parts as u64, "part"),
            }),
        }
    }
}

/// A key space, and its number of records, or the damage that keeps them from being counted.
type Space = (String, std::result::Result<u64, Damage>);

/// The number of records, unless the engine has to count them and some cannot be counted.
fn records(stats: &Stats, spaces: &[Space]) -> Option<u64> {
    match stats.levels {
        None => Some(stats.records),
        Some(_) => spaces.iter().map(|(_, len)| len.as_ref().ok()).sum(),
    }
}

/// The damage that keeps records from being counted, each part once.
fn damage(spaces: &[Space]) -> Vec<Damage> {
    let mut found = Vec::new();
    for (_, len) in spaces {
        if let Err(damage) = len
            && !found.contains(damage)
        {
            found.push(damage.clone());
        }
    }
    found
}

fn as_json(db: &Database, stats: &Stats, spaces: &[Space]) -> Value {
    let damage = damage_as_json(&damage(spaces));
    let (records, has_levels) = (records(stats, spaces), stats.levels.is_some());
    let levels = stats.levels.map(|levels| {
        json!({
            "bytes": levels.bytes,
            "value_bytes": levels.value_bytes,
            "level_zero_runs": levels.level_zero_runs,
            "log_bytes": levels.log_bytes,
        })
    });
    let spaces: Map<_, _> =
        spaces.iter().map(|(name, len)| (name.clone(), json!(len.as_ref().ok()))).collect();
    let (recovery, traffic) = (&stats.recovery, &stats.traffic);
    json!({
        "path": db.path().to_string_lossy(),
        "engine": db.engine_name(),
        "domain": stats.domain.name(),
        "survives_power_cut": stats.domain.survives_power_cut(),
        "records": records,
        "key_spaces": spaces,
        "damage": damage,
        "pool": {
            "bytes": stats.pool_bytes,
            "bytes_max": stats.pool_bytes_max,
            "live_bytes": stats.live_bytes,
            "dead_bytes": stats.dead_bytes,
            "free_bytes": stats.free_bytes,
            "change_log_bytes": stats.change_log_bytes,
        },
        "levels": levels,
        "index": {
            "dram_bytes": stats.index_bytes,
            "dram_bytes_per_record": per_record(stats).filter(|_| !has_levels),
            "versions_in_memory": has_levels.then_some(stats.records),
            "dram_bytes_per_version": per_record(stats).filter(|_| has_levels),
        },
        "recovery": {
            "clean": recovery.clean,
            "records_read": recovery.records_read,
            "records_replayed": recovery.records_replayed,
            "records_cut": recovery.records_cut,
            "segments_reclaimed": recovery.segments_reclaimed,
            "seconds": recovery.duration.as_secs_f64(),
            "damage": damage_as_json(&recovery.damage),
            "foreign_files": recovery.foreign_files,
        },
        "traffic": {
            "loads": traffic.loads,
            "stores": traffic.stores,
            "flushes": traffic.flushes,
            "fences": traffic.fences,
            "lines": traffic.lines,
            "media_blocks": traffic.media_blocks,
        },
    })
}

fn as_table(db: &Database, stats: &Stats, spaces: &[Space]) -> String {
    let mut table = String::new();
    let mut row = |name: &str, value: String| {
        // A string takes every write.
        let _ = writeln!(table, "{name:<12}{value}");
    };
    row("database", db.path().display().to_string());
    row("engine", db.engine_name().to_owned());
    row("domain", format!("{}: {}", stats.domain, stats.domain.guarantee()));
    let records = records(stats, spaces);
    row("records", records.map_or_else(|| "not all are counted".to_owned(), grouped));
    for (name, len) in spaces {
        let records = match len {
            Ok(len) => grouped(*len),
            Err(Damage { what, why }) => format!("not counted: damaged: {what}: {why}"),
        };
        row("", format!("{name}: {records}"));
    }
    row("pool", format!("{}, up to {}", human(stats.pool_bytes), human(stats.pool_bytes_max)));
    for (name, bytes) in
        [("live", stats.live_bytes), ("dead", stats.dead_bytes), ("free", stats.free_bytes)]
    {
        row("", format!("{name} {} ({:.1}%)", human(bytes), percent(bytes, stats.pool_bytes)));
    }
    if stats.change_log_bytes > 0 {
        row("", format!("change log {}", human(stats.change_log_bytes)));
    }
    if let Some(levels) = stats.levels {
        let runs = count(levels.level_zero_runs, "run");
        row("levels", format!("{}, {runs} of level zero", human(levels.bytes)));
        if levels.value_bytes > 0 {
            row("large values", human(levels.value_bytes));
        }
        if let Some(bytes) = levels.log_bytes {
            row("", format!("log {}", human(bytes)));
        }
    }
    let per_record = per_record(stats).map_or(String::new(), |bytes| match stats.levels {
        None => format!(", {bytes:.1} B a record"),
        Some(_) => format!(", {bytes:.1} B a version, {} in memory", grouped(stats.records)),
    });
    row("index", format!("{} of DRAM{per_record}", human(stats.index_bytes)));
    row("recovery", recovery(stats));
    for finding in findings(stats) {
        row("", finding);
    }
    let traffic = &stats.traffic;
    row(
        "traffic",
        format!(
            "{}, {}, {}, {} ({} of 64 B, {} of 256 B)",
            count(traffic.loads, "load"),
            count(traffic.stores, "store"),
            count(traffic.flushes, "write-back"),
            count(traffic.fences, "fence"),
            count(traffic.lines, "line"),
            count(traffic.media_blocks, "block"),
        ),
    );
    table
}

/// The recovery at the opening of the store, on one line.
pub(crate) fn recovery(stats: &Stats) -> String {
    let recovery = &stats.recovery;
    let replayed = match recovery.records_replayed {
        0 => String::new(),
        replayed => format!("{} replayed, ", grouped(replayed)),
    };
    format!(
        "{} read, {}{} cut, {} reclaimed, in {:.3} s; it was {}",
        count(recovery.records_read, "record"),
        replayed,
        grouped(recovery.records_cut),
        count(recovery.segments_reclaimed, "segment"),
        recovery.duration.as_secs_f64(),
        if recovery.clean { "closed cleanly" } else { "not closed cleanly" },
    )
}

/// The damage and the foreign files that the opening of the store found, a line each.
pub(crate) fn findings(stats: &Stats) -> impl Iterator<Item = String> {
    let damaged = stats.recovery.damage.iter().map(|Damage { what, why }| {
        format!("damaged: {what}: {why}; reads that need it fail, see `halite check`")
    });
    let foreign = stats.recovery.foreign_files.iter();
    damaged.chain(foreign.map(|file| format!("{file} is not this database's; move it away")))
}

fn per_record(stats: &Stats) -> Option<f64> {
    (stats.records > 0).then(|| stats.index_bytes as f64 / stats.records as f64)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}
