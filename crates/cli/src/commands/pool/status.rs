//! `halite pool status`.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use halite::{ClassStatus, LeafState, LeafStatus, PoolLeaf, PoolStatus, Position, VdevStatus};
use serde_json::{Value, json};

use super::{PoolPlace, report};
use crate::size::{count, human};
use crate::{Result, output};

const EXAMPLES: &str = "\
Examples:
  halite pool status ./data
  halite pool status ./data --search /mnt/moved       devices that lie in another folder now
  halite pool status ./data --json | jq '.classes[].vdevs[] | select(.degraded)'

Sizes are in bytes. Reads, writes and errors of a device are those since the database was opened just now.";

/// Show the devices of a pool, their states and counts, and the last scrub
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    place: PoolPlace,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(&self) -> Result<()> {
        let (_db, status) = self.place.open()?;
        match self.json {
            true => output::json(&as_json(&self.place.path, &status)),
            false => output::text(&as_table(&self.place.path, &status)),
        }
    }
}

/// The name of a leaf on the command line.
pub(super) fn name_of(Position { class, vdev, leaf }: Position) -> String {
    format!("{class}/{vdev}/{leaf}")
}

fn state_of(leaf: &LeafStatus) -> &'static str {
    match leaf.state {
        LeafState::Online => "online",
        LeafState::Offline => "offline",
        LeafState::Faulted => "faulted",
        LeafState::Missing => "missing",
    }
}

fn is_degraded(status: &PoolStatus) -> bool {
    status.classes.iter().flat_map(|class| &class.vdevs).any(|vdev| vdev.is_degraded)
}

pub(super) fn as_table(path: &Path, status: &PoolStatus) -> String {
    let mut table = String::new();
    let mut row = |name: &str, value: String| {
        // A string takes every write.
        let _ = writeln!(table, "{name:<12}{value}");
    };
    row("database", path.display().to_string());
    let state = if is_degraded(status) {
        "degraded: a device is away, or missed writes; bring it back or replace it, and resilver"
    } else {
        "all devices are whole"
    };
    row("state", state.to_owned());
    for (number, class) in status.classes.iter().enumerate() {
        row(&format!("class {number}"), space_of(class));
        for vdev in &class.vdevs {
            let state = if vdev.is_degraded { ", degraded" } else { "" };
            row("", format!("{}{state}", vdev.arrangement));
            for leaf in &vdev.leaves {
                row(&format!("  {}", name_of(leaf.position)), line_of(leaf));
            }
        }
    }
    row("scrub", report::state(status.scrub.as_ref()));
    row("resilver", report::state(status.resilver.as_ref()));
    table
}

fn space_of(class: &ClassStatus) -> String {
    let mut text = format!("{} used, {} free", human(class.used), human(class.free));
    if class.deferred > 0 {
        // A string takes every write.
        let _ = write!(text, ", {} freed soon", human(class.deferred));
    }
    let _ = write!(text, ", of {}", human(class.capacity));
    if class.effective < class.capacity {
        let _ = write!(text, ", which hold {} of data", human(class.effective));
    }
    text
}

fn line_of(PoolLeaf { place, status, .. }: &PoolLeaf) -> String {
    let stats = &status.stats;
    let mut text = format!("{:<8} {place}", state_of(status));
    // A string takes every write.
    if status.is_stale {
        text.push_str(", missed writes");
    }
    let _ =
        write!(text, ", {} read, {} written", human(stats.reads.bytes), human(stats.writes.bytes));
    let failed = stats.reads.failed + stats.writes.failed + stats.syncs.failed;
    for (number, thing, end) in [
        (failed, "request", " failed"),
        (stats.checksum_errors, "checksum error", ""),
        (stats.repaired, "extent", " repaired"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {}{end}", count(number, thing));
        }
    }
    text
}

pub(super) fn as_json(path: &Path, status: &PoolStatus) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "topology": status.topology.to_string(),
        "degraded": is_degraded(status),
        "classes": status.classes.iter().map(class_as_json).collect::<Vec<_>>(),
        "scrub": status.scrub.as_ref().map(report::as_json),
        "resilver": status.resilver.as_ref().map(report::as_json),
    })
}

fn class_as_json(class: &ClassStatus) -> Value {
    json!({
        "capacity_bytes": class.capacity,
        "used_bytes": class.used,
        "deferred_bytes": class.deferred,
        "free_bytes": class.free,
        "effective_bytes": class.effective,
        "effective_free_bytes": class.effective_free,
        "reads": class.reads,
        "read_bytes": class.read_bytes,
        "migrated_in_bytes": class.migrated_in,
        "migrated_out_bytes": class.migrated_out,
        "fragmentation": class.fragmentation,
        "vdevs": class.vdevs.iter().map(vdev_as_json).collect::<Vec<_>>(),
    })
}

fn vdev_as_json(vdev: &VdevStatus) -> Value {
    json!({
        "arrangement": vdev.arrangement.to_string(),
        "degraded": vdev.is_degraded,
        "leaves": vdev.leaves.iter().map(leaf_as_json).collect::<Vec<_>>(),
    })
}

fn leaf_as_json(PoolLeaf { position, guid, place, status }: &PoolLeaf) -> Value {
    let stats = &status.stats;
    json!({
        "leaf": name_of(*position),
        "guid": format!("{guid:016x}"),
        "place": place.to_string(),
        "state": state_of(status),
        "missed_writes": status.is_stale,
        "reads": stats.reads.requests,
        "read_bytes": stats.reads.bytes,
        "failed_reads": stats.reads.failed,
        "writes": stats.writes.requests,
        "written_bytes": stats.writes.bytes,
        "failed_writes": stats.writes.failed,
        "failed_syncs": stats.syncs.failed,
        "checksum_errors": stats.checksum_errors,
        "repaired": stats.repaired,
    })
}
