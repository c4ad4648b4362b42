//! `halite stat`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use halite::{Damage, Database, Figure, Stats};
use serde_json::{Map, Value, json};

use super::check::damage_as_json;
use crate::folder::{in_database, open};
use crate::remote::{ServerArgs, need};
use crate::size::{count, grouped, human};
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite stat ./data
  halite stat ./data --json | jq .pool.live_bytes
  halite stat --server 127.0.0.1:6379        what a server that has the database open tells of itself

Sizes are in bytes, times in seconds. The traffic is that of opening the database just now.
Of the engine lsm, it counts all records, and tells what the tables of its levels and its log take on the SSD, and
how many versions of keys its index in memory leads to.
Exit code 4: the records of a key space cannot be counted, since something is damaged.";

/// Show the statistics of a database, and the meaning of durable on its medium
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    /// The database's folder
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    path: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(mut server) = self.server.connect()? {
            return self.print_info(&server.info(&SECTIONS)?);
        }
        let path = need(self.path.as_ref(), "PATH")?;
        let db = open(path)?;
        let stats = db.stats();
        let mut spaces = Vec::new();
        for space in db.key_spaces().map_err(|error| in_database(path, error))? {
            let len = match space.len() {
                Ok(len) => Ok(len),
                Err(error) => Err(error.damage().ok_or_else(|| in_database(path, error))?),
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
            parts => {
                Err(Error::DamageFound { path: path.clone(), parts: count(parts as u64, "part") })
            }
        }
    }

    /// Prints what a server tells of itself.
    fn print_info(&self, info: &str) -> Result<()> {
        let (mut sections, mut text) = (Map::new(), String::new());
        for section in info.split("# ").filter(|section| !section.is_empty()) {
            let mut lines = section.lines();
            let name = lines.next().unwrap_or_default();
            let pairs: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
            let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            let _ = writeln!(text, "{}{name}", if text.is_empty() { "" } else { "\n" });
            for (name, value) in &pairs {
                let _ = writeln!(text, "  {name:width$}  {value}");
            }
            let value = |text: &str| match text.parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => json!(text),
            };
            let pairs = pairs.iter().map(|(name, text)| ((*name).to_owned(), value(text)));
            sections.insert(name.to_ascii_lowercase(), Value::Object(pairs.collect()));
        }
        match self.json {
            true => output::json(&Value::Object(sections)),
            false => output::text(&text),
        }
    }
}

/// The sections of a server's INFO that are shown.
const SECTIONS: [&str; 7] =
    ["server", "clients", "memory", "persistence", "stats", "halite", "keyspace"];

/// The engines' own figures that have a place among the others; the rest of an engine's follow them.
const PLACED: [&str; 5] =
    ["change_log_bytes", "level_bytes", "value_file_bytes", "level_zero_runs", "log_bytes"];

/// The figures of an engine's own that have no place among the others.
fn others(stats: &Stats) -> impl Iterator<Item = &Figure> {
    stats.own.iter().filter(|own| !own.is_detail && !PLACED.contains(&own.name))
}

/// A key space, and its number of records, or the damage that keeps them from being counted.
type Space = (String, std::result::Result<u64, Damage>);

/// The number of records, unless the engine has to count them and some cannot be counted.
fn records(stats: &Stats, spaces: &[Space]) -> Option<u64> {
    match stats.is_tiered {
        false => Some(stats.records),
        true => spaces.iter().map(|(_, len)| len.as_ref().ok()).sum(),
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
    let (records, is_tiered) = (records(stats, spaces), stats.is_tiered);
    let levels = stats.figure("level_bytes").map(|bytes| {
        json!({
            "bytes": bytes,
            "value_bytes": stats.figure("value_file_bytes"),
            "level_zero_runs": stats.figure("level_zero_runs"),
            "log_bytes": stats.figure("log_bytes"),
        })
    });
    let spaces: Map<_, _> =
        spaces.iter().map(|(name, len)| (name.clone(), json!(len.as_ref().ok()))).collect();
    let (recovery, traffic) = (&stats.recovery, &stats.traffic);
    let mut all = json!({
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
            "change_log_bytes": stats.figure("change_log_bytes").unwrap_or(0),
        },
        "levels": levels,
        "index": {
            "dram_bytes": stats.index_bytes,
            "dram_bytes_per_record": per_record(stats).filter(|_| !is_tiered),
            "versions_in_memory": is_tiered.then_some(stats.records),
            "dram_bytes_per_version": per_record(stats).filter(|_| is_tiered),
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
    });
    let others: Map<_, _> =
        others(stats).map(|own| (own.name.to_owned(), json!(own.value))).collect();
    if !others.is_empty() {
        all["own"] = Value::Object(others);
    }
    all
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
    let bytes_of = |name| stats.figure(name).filter(|bytes| *bytes > 0).map(human);
    if let Some(bytes) = bytes_of("change_log_bytes") {
        row("", format!("change log {bytes}"));
    }
    if let Some(bytes) = stats.figure("level_bytes") {
        let runs = count(stats.figure("level_zero_runs").unwrap_or(0), "run");
        row("levels", format!("{}, {runs} of level zero", human(bytes)));
    }
    if let Some(bytes) = bytes_of("value_file_bytes") {
        row("large values", bytes);
    }
    if let Some(bytes) = stats.figure("log_bytes") {
        row("", format!("log {}", human(bytes)));
    }
    for own in others(stats) {
        row("", format!("{} {}", own.name, grouped(own.value)));
    }
    let per_record = per_record(stats).map_or(String::new(), |bytes| match stats.is_tiered {
        false => format!(", {bytes:.1} B a record"),
        true => format!(", {bytes:.1} B a version, {} in memory", grouped(stats.records)),
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

/// The damage and the foreign files that the opening of the store found, and what its file system lacks, a line each.
pub(crate) fn findings(stats: &Stats) -> impl Iterator<Item = String> {
    let damaged = stats.recovery.damage.iter().map(|Damage { what, why }| {
        format!("damaged: {what}: {why}; reads that need it fail, see `halite check`")
    });
    let foreign = stats.recovery.foreign_files.iter();
    let foreign = foreign.map(|file| format!("{file} is not this database's; move it away"));
    let lacks_direct = stats.figure("log_direct") == Some(0);
    let slow = lacks_direct.then(|| {
        "the file system has no direct I/O: commits go through its page cache, and take longer"
            .into()
    });
    damaged.chain(foreign).chain(slow)
}

fn per_record(stats: &Stats) -> Option<f64> {
    (stats.records > 0).then(|| stats.index_bytes as f64 / stats.records as f64)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}
