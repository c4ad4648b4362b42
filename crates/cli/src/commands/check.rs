//! `halite check`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use halite::{BackupReport, Damage, Database, VerifyReport};
use serde_json::{Value, json};

use crate::backups::{in_file, open_backup};
use crate::folder::{in_database, open};
use crate::interrupt::Interrupt;
use crate::remote::{Copy, ServerArgs, need};
use crate::size::{count, human};
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite check ./data                         one line when all is well
  halite check ./data || echo damaged         exit code 4: damage found
  halite check ./data --json | jq '.damage[].what'
  halite check monday.backup                  a backup, which must be whole to be restored
  halite check --server 127.0.0.1:6379        what a server has open

Everything that has a checksum is read and compared. Nothing is repaired: restore what is damaged
from a backup. With --server, the server reads all that it has, as for a backup, and what arrives is verified: what
takes no part in reading, such as dead records, is not. Where tables or the manifest of the engine lsm are lost, `halite repair` goes on without
them.";

/// Verify every checksum
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// The database's folder, or a backup
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    path: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        if let Some(server) = self.server.connect()? {
            let address = server.address().to_owned();
            let copy = Copy::new(&interrupt)?;
            let fetched = copy.fetch(server, &interrupt);
            let report =
                fetched.map_err(|error| if interrupt.is_raised() { STOPPED } else { error })?;
            return self.print_backup(&address, &report);
        }
        let path = need(self.path.as_ref(), "PATH")?;
        if path.is_file() {
            return self.check_backup(path, &interrupt);
        }
        let report = match open(path) {
            Ok(db) => verify(path, &db, &interrupt)?,
            Err(error) => not_opened(error)?,
        };
        if self.json {
            output::json(&as_json(&report))?;
        } else {
            output::text(&as_text(path, &report))?;
        }
        match report.damage.len() {
            0 => Ok(()),
            parts => {
                Err(Error::DamageFound { path: path.clone(), parts: count(parts as u64, "part") })
            }
        }
    }

    fn check_backup(&self, path: &Path, interrupt: &Interrupt) -> Result<()> {
        let len = std::fs::metadata(path).map_err(|error| Error::io(path.display(), error));
        let bar = progress::bytes("checking", Some(len?.len()));
        let opened = open_backup(path, |file| interrupt.reader(bar.clone().wrap_read(file)));
        let read = opened.and_then(|backup| backup.verify().map_err(|error| in_file(path, error)));
        bar.finish_and_clear();
        let report = read.map_err(|error| if interrupt.is_raised() { STOPPED } else { error })?;
        self.print_backup(&path.display().to_string(), &report)
    }

    fn print_backup(&self, name: &str, report: &BackupReport) -> Result<()> {
        if self.json {
            return output::json(&json!({
                "whole": true,
                "id": report.info.id().to_string(),
                "since": report.info.parent().map(|parent| parent.to_string()),
                "operations": report.operations,
                "bytes": report.bytes,
            }));
        }
        let (operations, bytes) = (count(report.operations, "operation"), human(report.bytes));
        let kind = match report.info.parent() {
            None => "a full backup".to_owned(),
            Some(parent) => format!("what was changed since backup {parent}"),
        };
        let id = report.info.id();
        output::text(&format!(
            "{name}: whole: backup {id}, {kind}, {operations}, {bytes} verified\n"
        ))
    }
}

fn verify(path: &Path, db: &Database, interrupt: &Interrupt) -> Result<VerifyReport> {
    let bar = progress::bytes("checking", Some(0));
    let report = db.verify(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        interrupt.flow()
    });
    bar.finish_and_clear();
    if interrupt.is_raised() {
        return Err(STOPPED);
    }
    report.map_err(|error| in_database(path, error))
}

fn as_text(path: &Path, report: &VerifyReport) -> String {
    let mut text = String::new();
    for Damage { what, why } in &report.damage {
        // A string takes every write.
        let _ = writeln!(text, "damaged: {what}: {why}");
    }
    let (records, bytes) = (count(report.records, "record"), human(report.bytes));
    if report.damage.is_empty() {
        let _ = writeln!(text, "{}: whole: {records}, {bytes} verified", path.display());
    } else if !report.complete {
        let _ = writeln!(text, "not everything could be read: {records}, {bytes} verified");
    }
    text
}

const STOPPED: Error = Error::Stopped { left: "not everything was read" };

/// Damage that keeps the database from opening is a finding like any other.
fn not_opened(error: Error) -> Result<VerifyReport> {
    match &error {
        Error::Database { source, .. } => match source.damage() {
            Some(part) => Ok(VerifyReport { damage: vec![part], ..VerifyReport::default() }),
            None => Err(error),
        },
        _ => Err(error),
    }
}

fn as_json(report: &VerifyReport) -> Value {
    json!({
        "whole": report.damage.is_empty() && report.complete,
        "complete": report.complete,
        "records": report.records,
        "bytes": report.bytes,
        "damage": damage_as_json(&report.damage),
    })
}

/// Damaged parts as an array.
pub(super) fn damage_as_json(damage: &[Damage]) -> Value {
    damage.iter().map(|part| json!({ "what": part.what, "why": part.why })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_part_is_told() {
        let part =
            |n: u32| Damage { what: format!("record {n}"), why: "checksum differs".to_owned() };
        let path = Path::new("data");
        let report =
            VerifyReport { records: 9, bytes: 900, damage: vec![part(1), part(2)], complete: true };
        let text = as_text(path, &report);
        assert_eq!(
            text,
            "damaged: record 1: checksum differs\ndamaged: record 2: checksum differs\n"
        );
        let json = as_json(&report);
        assert_eq!(
            (&json["whole"], &json["damage"][1]["what"]),
            (&json!(false), &json!("record 2"))
        );
        let whole = VerifyReport { damage: vec![], ..report };
        assert_eq!(as_text(path, &whole), "data: whole: 9 records, 900 B verified\n");
    }
}
