//! `halite backup`.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use halite::{BackupError, BackupInfo, BackupReport, Database};
use serde_json::json;

use crate::backups::{in_file, info_of, new_name, newest};
use crate::folder::{in_database, open};
use crate::interrupt::Interrupt;
use crate::remote::{Address, Client, fetch, password};
use crate::size::{count, human};
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite backup ./data monday.backup                          everything that there is
  halite backup ./data tuesday.backup --since monday.backup   what was changed since then
  halite backup ./data ./backups                              the next in a folder of them: 0001.full
  halite backup ./data ./backups --since ./backups            ... that follows the newest: 0002.since-0001
  halite check tuesday.backup                                 whether it is whole
  halite backup --server 127.0.0.1:6379 monday.backup         of what a server has open
  halite restore ./copy monday.backup tuesday.backup

A backup has every key space, times to live included, of one moment, with a checksum over all of it. A
file appears when it is complete, and none is ever replaced. --since needs a database that was made with a
change log (`halite load --change-log`, `halite serve --change-log`) which still retains what was changed.

Without --server this opens the folder, which no other process may have open. With it, a server that has it
open takes the backup while it goes on serving, and sends it here: the file is written where this runs. The
password comes from --password-file or the environment variable HALITE_REQUIREPASS. In a program,
`Database::backup` takes backups.";

/// Write a backup, for `restore`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The database's folder; with --server, the TARGET
    path: PathBuf,

    /// The file to write, which must not be there, or a folder of backups
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    target: Option<PathBuf>,

    /// Let the server at this address, or at the unix socket `unix:FILE`, take the backup of its open database
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,

    /// Take the server's password from the first line of FILE
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Write only the changes since this backup, or since the newest of this folder
    #[arg(long, value_name = "BACKUP")]
    since: Option<PathBuf>,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(&self) -> Result<()> {
        if self.password_file.is_some() && self.server.is_none() {
            return Err(Error::Usage(
                "--password-file: it is a server's; give --server too".into(),
            ));
        }
        let previous = match &self.since {
            Some(path) if path.is_dir() => Some(newest(path)?),
            Some(path) => Some((path.clone(), info_of(path)?)),
            None => None,
        };
        let previous_number = previous.as_ref().map(|(path, _)| path.as_path());
        let target = self.target.as_ref().unwrap_or(&self.path);
        let file = match target.is_dir() {
            true => new_name(target, previous_number)?,
            false => target.clone(),
        };
        if fs::symlink_metadata(&file).is_ok() {
            return Err(Error::input(file.display(), "it is there already; name another file"));
        }
        let previous = previous.as_ref().map(|(_, info)| info);
        let interrupt = &Interrupt::catch()?;
        let report = match &self.server {
            Some(address) => {
                let password = password(self.password_file.as_deref())?;
                let client = Client::connect(&Address::of_server(address)?, password.as_deref())?;
                write(&file, interrupt, |part, out| {
                    fetch(client, interrupt, part, out, &file, previous)
                })?
            }
            None => {
                let db = open(&self.path)?;
                write(&file, interrupt, |_, out| {
                    self.write_to(&db, interrupt.writer(out), &file, previous)
                })?
            }
        };
        if self.json {
            return output::json(&json!({
                "file": file.to_string_lossy(),
                "id": report.info.id().to_string(),
                "since": report.info.parent().map(|parent| parent.to_string()),
                "operations": report.operations,
                "bytes": report.bytes,
            }));
        }
        let (operations, bytes) = (count(report.operations, "operation"), human(report.bytes));
        let kind = if report.info.is_full() { "full backup" } else { "backup of changes" };
        output::text(&format!("{}: {kind}, {operations}, {bytes}\n", file.display()))
    }

    fn write_to(
        &self,
        db: &Database,
        out: impl Write,
        file: &Path,
        previous: Option<&BackupInfo>,
    ) -> Result<BackupReport> {
        let bar = progress::bytes("backing up", None);
        let out = BufWriter::with_capacity(1 << 18, bar.wrap_write(out));
        let snapshot = db.take_snapshot().map_err(|error| in_database(&self.path, error))?;
        let report = match previous {
            Some(previous) => db.backup_since(previous, &snapshot, out),
            None => db.backup(&snapshot, out),
        };
        bar.finish_and_clear();
        report.map_err(|error| match error {
            BackupError::Database(error) => in_database(&self.path, error),
            BackupError::Write(_) => in_file(file, error),
            // Other errors are about the backup that is followed.
            other => in_file(self.since.as_deref().unwrap_or(file), other),
        })
    }
}

/// Writes under another name first: an interrupted backup never has the final one. Neither name replaces a file.
fn write(
    file: &Path,
    interrupt: &Interrupt,
    fill: impl FnOnce(&Path, &File) -> Result<BackupReport>,
) -> Result<BackupReport> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    let created = File::create_new(&part).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::input(
            part.display(),
            "it is there already: another backup is writing it, or was interrupted; remove it if none is",
        ),
        _ => Error::io(part.display(), error),
    })?;
    interrupt.remove_at_end(&part);
    let written = fill(&part, &created).and_then(|report| {
        let named = created.sync_all().and_then(|()| match fs::hard_link(&part, file) {
            // Not every file system has links. There, the process that creates the file owns the name. A missing file
            // was removed by an interruption.
            Err(error)
                if ![ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind()) =>
            {
                File::create_new(file).and_then(|_| fs::rename(&part, file))
            }
            linked => linked,
        });
        named.map_err(|error| Error::io(file.display(), error))?;
        Ok(report)
    });
    // The file has its final name, or the backup failed.
    let _ = fs::remove_file(&part);
    interrupt.keep();
    let report = written.map_err(|error| match interrupt.is_raised() {
        true => Error::Stopped { left: "there is no backup" },
        false => error,
    })?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::io(folder.display(), error))?;
    Ok(report)
}
