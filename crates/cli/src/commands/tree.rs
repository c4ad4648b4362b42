//! `halite tree`.

use std::io::{self, Write};
use std::ops::ControlFlow;

use clap::{Args, Subcommand};
use halite::{BlockPlace, StoredPart, TreePart};
use serde_json::{Value, json};

use crate::folder::{in_database, need_space, open};
use crate::interrupt::Interrupt;
use crate::place::Place;
use crate::size::{count, human};
use crate::{Result, escape, output};

const EXAMPLES: &str = "\
Examples:
  halite tree dump ./data --space people
  halite tree dump ./data --space people --snapshot monday
  halite tree dump ./data --json | jq 'select(.part == \"run\") | .bytes'

For engineers of the engine betree; docs/BETREE.md says what a tree consists of.";

const DUMP_EXAMPLES: &str = "\
Examples:
  halite tree dump ./data
  halite tree dump ./data --space people --snapshot monday
  halite tree dump ./data --json | jq -s 'map(select(.part == \"run\")) | length'

A node is followed by its slots, each with the runs of its buffer, the newest first, and what is below it. A place is
class/vdev/block, and the number of blocks of 4 KiB. With --json, a line is an object with the field `part`: node, slot or
run. Nodes are read, and runs are not: a damaged node is an error (exit code 4) behind what was printed.";

/// Look at the stored tree of a key space
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tree {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the levels, nodes, slots and runs of a tree
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(Dump),
}

#[derive(Debug, Args)]
struct Dump {
    #[command(flatten)]
    place: Place,

    /// The tree of this snapshot of the key space
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Tree {
    pub(crate) fn run(&self) -> Result<()> {
        let Action::Dump(dump) = &self.action;
        dump.run()
    }
}

impl Dump {
    fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let db = open(&self.place.path)?;
        let space = need_space(&db, &self.place.space)?;
        let mut out = output::stdout();
        let mut printed = Ok(());
        // The level of the root.
        let mut top = None;
        let visited = space.visit_tree(self.snapshot.as_deref(), &mut |part| {
            let top = *top.get_or_insert(level_of(&part));
            printed = match self.json {
                true => writeln!(out, "{}", as_json(&part)),
                false => print(&mut out, &part, top),
            };
            match printed.is_err() || interrupt.is_raised() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        printed.and_then(|()| out.flush()).map_err(output::failed)?;
        interrupt.check()?;
        visited.map_err(|error| in_database(&self.place.path, error))
    }
}

fn level_of(part: &TreePart) -> u8 {
    match part {
        TreePart::Node { level, .. }
        | TreePart::Slot { level, .. }
        | TreePart::Run { level, .. } => *level,
    }
}

/// Prints a part on a line, indented by its depth below the root, which is at level `top`.
fn print(out: &mut impl Write, part: &TreePart, top: u8) -> io::Result<()> {
    let depth = 2 * usize::from(top.saturating_sub(level_of(part)));
    let (deeper, text) = match part {
        TreePart::Node { level, slots, stored } => {
            let stored = stored.as_ref().map_or_else(|| "not stored yet".to_owned(), place_of);
            (0, format!("node, level {level}, {}, {stored}", count(*slots as u64, "slot")))
        }
        TreePart::Slot { number, low, high, runs, .. } => {
            let (runs, keys) =
                (count(*runs as u64, "run"), range_of(low.as_deref(), high.as_deref()));
            (1, format!("slot {number}, {keys}, {runs}"))
        }
        TreePart::Run { is_base, messages, deleted_ranges, bytes, large_bytes, stored, .. } => {
            let mut text = format!(
                "{}, {}, {}",
                if *is_base { "leaf" } else { "run" },
                count(*messages, "message"),
                human(*bytes)
            );
            if *deleted_ranges > 0 {
                text.push_str(&format!(", {}", count(*deleted_ranges, "removed range")));
            }
            if *large_bytes > 0 {
                text.push_str(&format!(", {} of large values", human(*large_bytes)));
            }
            (2, format!("{text}, {}", place_of(stored)))
        }
    };
    writeln!(out, "{:width$}{text}", "", width = 2 * (depth + deeper))
}

fn range_of(low: Option<&[u8]>, high: Option<&[u8]>) -> String {
    let low = low.map(|low| format!("from `{}`", escape::to_text(low)));
    let high = high.map(|high| format!("up to `{}`", escape::to_text(high)));
    match (low, high) {
        (None, None) => "all keys".to_owned(),
        (Some(bound), None) | (None, Some(bound)) => bound,
        (Some(low), Some(high)) => format!("{low} {high}"),
    }
}

fn place_of(StoredPart { birth, extents }: &StoredPart) -> String {
    let place = |(BlockPlace { class, vdev, block }, blocks): &(BlockPlace, u32)| {
        format!("{class}/{vdev}/{block} ({})", count(u64::from(*blocks), "block"))
    };
    let places: Vec<_> = extents.iter().map(place).collect();
    format!("born in epoch {birth}, at {}", places.join(", "))
}

fn as_json(part: &TreePart) -> Value {
    match part {
        TreePart::Node { level, slots, stored } => {
            let mut object = json!({ "part": "node", "level": level, "slots": slots });
            object["birth"] = json!(stored.as_ref().map(|stored| stored.birth));
            object["extents"] = json!(stored.as_ref().map(extents_of));
            object
        }
        TreePart::Slot { level, number, low, high, runs } => {
            json!({
                "part": "slot",
                "level": level,
                "slot": number,
                "low": low.as_deref().map(escape::to_text),
                "high": high.as_deref().map(escape::to_text),
                "runs": runs,
            })
        }
        TreePart::Run { level, is_base, messages, deleted_ranges, bytes, large_bytes, stored } => {
            json!({
                "part": "run",
                "level": level,
                "leaf": is_base,
                "messages": messages,
                "deleted_ranges": deleted_ranges,
                "bytes": bytes,
                "large_bytes": large_bytes,
                "birth": stored.birth,
                "extents": extents_of(stored),
            })
        }
    }
}

fn extents_of(stored: &StoredPart) -> Value {
    let extent = |(place, blocks): &(BlockPlace, u32)| {
        let BlockPlace { class, vdev, block } = place;
        json!({ "class": class, "vdev": vdev, "block": block, "blocks": blocks })
    };
    stored.extents.iter().map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_indented_by_their_depth() {
        let stored = |block| StoredPart {
            birth: 3,
            extents: vec![(BlockPlace { class: 0, vdev: 1, block }, 2)],
        };
        let run = |level, is_base| TreePart::Run {
            level,
            is_base,
            messages: 1,
            deleted_ranges: 1,
            bytes: 10,
            large_bytes: 0,
            stored: stored(9),
        };
        let slot = |level| TreePart::Slot {
            level,
            number: 0,
            low: None,
            high: Some(b"k\0".to_vec()),
            runs: 1,
        };
        let mut out = Vec::new();
        for part in [
            TreePart::Node { level: 2, slots: 1, stored: None },
            slot(2),
            run(2, false),
            TreePart::Node { level: 1, slots: 1, stored: Some(stored(7)) },
            slot(1),
            run(1, true),
        ] {
            print(&mut out, &part, 2).unwrap();
        }
        let run = "1 message, 10 B, 1 removed range, born in epoch 3, at 0/1/9 (2 blocks)";
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "node, level 2, 1 slot, not stored yet\n  slot 0, up to `k\\0`, 1 run\n    run, {run}\n    \
                 node, level 1, 1 slot, born in epoch 3, at 0/1/7 (2 blocks)\n      \
                 slot 0, up to `k\\0`, 1 run\n        leaf, {run}\n"
            )
        );
    }
}
