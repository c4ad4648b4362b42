//! `halite repair`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use halite::{Damage, Database, RepairReport};
use serde_json::{Value, json};

use super::check::damage_as_json;
use crate::folder::{check_exists, in_database};
use crate::interrupt::Interrupt;
use crate::size::count;
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite repair ./data --dry-run              what is lost, and what a repair would do
  halite repair ./data                        do it, and check with `halite check ./data`
  halite repair ./data --json | jq '.lost[].what'

A database of the engine lsm has sorted tables beside its pool, and a manifest that says which. If one of
them is missing or damaged, restore a backup, or bring the file back from a copy: nothing else brings back
what was in it. If there is none, a repair lets the database open without it:

  a table that is missing or damaged    is left out; where it had the newest version of a key, an older
                                        one is seen again, or a key that it said was removed
  the manifest, or CURRENT              all tables that can be read are merged into new ones, which needs
                                        room for them twice; keys that were removed may be seen again

A database of the engine betree goes on before the damage of its log, or with the newest state that its
devices have, if that is not the newest there was; what came behind it is lost, whole.

What cannot be read, of a bad sector too, is set aside under a name that ends in `.damaged`, and not
removed. Files of other
databases stay where they are. Whatever is damaged in the pool cannot be repaired, nor can databases of the
engine indexlog, which have nothing else: restore a backup.

Exit codes: 0 if nothing was wrong, or the repair is done; 4 if --dry-run found something to repair, or if
what is damaged cannot be repaired.";

/// Let a database open without the files that are lost
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Repair {
    /// The database's folder
    path: PathBuf,

    /// Only report the changes that a repair would make
    #[arg(long)]
    dry_run: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Repair {
    pub(crate) fn run(&self) -> Result<()> {
        check_exists(&self.path)?;
        // A repair is whole at any moment: it is ended where it is.
        Interrupt::catch()?;
        let builder = Database::builder();
        let report = match self.dry_run {
            true => builder.examine(&self.path),
            false => builder.repair(&self.path),
        };
        let report = report.map_err(|error| in_database(&self.path, error))?;
        match self.json {
            true => output::json(&self.as_json(&report))?,
            false => output::text(&self.as_text(&report))?,
        }
        if self.dry_run && !report.is_whole() {
            let parts = count(report.lost.len() as u64, "part");
            return Err(Error::RepairNeeded { path: self.path.clone(), parts });
        }
        Ok(())
    }

    fn as_text(&self, report: &RepairReport) -> String {
        let (path, mut text) = (self.path.display(), String::new());
        let (tables, entries) = (count(report.tables, "table"), count(report.entries, "record"));
        // A string takes every write.
        if report.is_whole() {
            let _ = writeln!(text, "{path}: nothing to repair: {tables}, {entries}");
            return text;
        }
        for Damage { what, why } in &report.lost {
            let _ = writeln!(text, "lost: {what}: {why}");
        }
        let aside = if self.dry_run { "to be set aside" } else { "set aside" };
        for name in &report.set_aside {
            let _ = writeln!(text, "{aside} as {name}");
        }
        let done = match (self.dry_run, report.is_rebuilt) {
            (true, true) => "to be made anew of",
            (true, false) => "to go on with",
            (false, true) => "made anew of what could be read:",
            (false, false) => "goes on with",
        };
        let _ = writeln!(text, "{path}: {done} {tables}, {entries}");
        if report.is_rebuilt {
            let _ = writeln!(text, "{path}: keys that were removed may be seen again");
        }
        text
    }

    fn as_json(&self, report: &RepairReport) -> Value {
        json!({
            "whole": report.is_whole(),
            "repaired": !self.dry_run && !report.is_whole(),
            "rebuilt": report.is_rebuilt,
            "tables": report.tables,
            "entries": report.entries,
            "lost": damage_as_json(&report.lost),
            "set_aside": report.set_aside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_what_is_done_is_told() {
        let repair = |dry_run| Repair { path: "data".into(), dry_run, json: false };
        let lost = Damage { what: "levels/000004.sst".into(), why: "it is too short".into() };
        let set_aside = vec!["levels/000004.sst.damaged".to_owned()];
        let report =
            RepairReport { lost: vec![lost], set_aside, tables: 2, entries: 9, is_rebuilt: false };
        assert_eq!(
            repair(true).as_text(&report),
            "lost: levels/000004.sst: it is too short\n\
             to be set aside as levels/000004.sst.damaged\n\
             data: to go on with 2 tables, 9 records\n"
        );
        let json = repair(false).as_json(&report);
        assert_eq!((&json["repaired"], &json["whole"]), (&json!(true), &json!(false)));
        let rebuilt = RepairReport { is_rebuilt: true, ..report };
        assert!(repair(false).as_text(&rebuilt).ends_with("may be seen again\n"));
        let whole = RepairReport { tables: 1, ..RepairReport::default() };
        let text = repair(false).as_text(&whole);
        assert_eq!(text, "data: nothing to repair: 1 table, 0 records\n");
    }
}
