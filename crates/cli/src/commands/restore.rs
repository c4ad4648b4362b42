//! `halite restore`.

use std::path::PathBuf;

use clap::Args;
use halite::{BackupError, Database, Partitioning};
use serde_json::json;

use crate::backups::{chain_of, in_file, open_backup};
use crate::engine::EngineArgs;
use crate::folder::{check_folder, in_database, with_change_log};
use crate::interrupt::Interrupt;
use crate::size::{self, count, human};
use crate::{Error, Result, index, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite restore ./data monday.backup
  halite restore ./data monday.backup tuesday.backup    a full backup, and those that follow it, in order
  halite restore ./data ./backups                       the newest full one of a folder, and what follows
  halite restore ./data monday.backup --force           in place of the database that is there
  halite restore ./data monday.backup --partitions 4
  halite restore ./data monday.backup --engine lsm --levels /ssd/levels

The database appears when it is complete, at once: what is interrupted leaves what was there. It gets the
partitions and the change log of the database that was backed up, if nothing else is said; the engine is
indexlog, of whichever the backup is, unless --engine names another, and only indexlog has change logs. Its
positions are its own: the next backup of it is a full one.

Of a database that is replaced, sorted tables in a folder of their own (--levels) stay there, and nothing
needs them any more. The new one's have to be in another folder.";

/// Make a database from a backup, and those that follow it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// The folder to make the database in
    path: PathBuf,

    /// A full backup and those that follow it, in order, or a folder of backups
    #[arg(required = true, value_name = "BACKUP")]
    backups: Vec<PathBuf>,

    /// Replace the database that is there, when the new one is complete
    #[arg(long)]
    force: bool,

    /// The number of partitions that keys are spread over, by hash
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    partitions: Option<u16>,

    /// The size to which the pool may grow
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_size: Option<u64>,

    /// Retain SIZE of a change log. Of the engine indexlog
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    change_log: Option<u64>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

const STOPPED: Error = Error::Stopped { left: "nothing was restored" };

impl Restore {
    pub(crate) fn run(&self) -> Result<()> {
        check_folder(&self.path)?;
        let builder = with_change_log(Database::builder(), self.change_log);
        let mut builder = self.engine.for_new(builder, index::asked(None, self.change_log))?;
        let files = match &self.backups[..] {
            [folder] if folder.is_dir() => chain_of(folder)?,
            files => files.to_vec(),
        };
        let mut bytes = 0;
        for file in &files {
            bytes +=
                std::fs::metadata(file).map_err(|error| Error::io(file.display(), error))?.len();
        }
        let interrupt = Interrupt::catch()?;
        let bar = progress::bytes("restoring", Some(bytes));
        let opened = files
            .iter()
            .map(|path| open_backup(path, |file| interrupt.reader(bar.clone().wrap_read(file))));
        let opened = opened.collect::<Result<Vec<_>>>();
        let readers =
            opened.map_err(|error| if interrupt.is_raised() { STOPPED } else { error })?;
        if let Some(partitions) = self.partitions {
            builder = builder.partitioning(Partitioning::Hash(partitions.into()));
        }
        if let Some(max_size) = self.max_size {
            builder = builder.max_size(max_size);
        }
        let restored = builder.restore(&self.path, readers, self.force);
        bar.finish_and_clear();
        let report = restored.map_err(|error| match error {
            _ if interrupt.is_raised() => STOPPED,
            BackupError::Database(source) => in_database(&self.path, source),
            BackupError::InBackup { nth, source, .. } => match *source {
                // The error is the database's: the backup is not full.
                BackupError::Database(source) => in_database(&self.path, source),
                source => in_file(&files[nth], source),
            },
            other => in_file(&self.path, other),
        })?;
        if self.json {
            return output::json(&json!({
                "backups": files.len(),
                "operations": report.operations,
                "bytes": report.bytes,
                "records": report.pairs,
            }));
        }
        output::text(&format!(
            "{}: {} restored from {}, {}\n",
            self.path.display(),
            count(report.pairs, "record"),
            count(files.len() as u64, "backup"),
            human(report.bytes),
        ))
    }
}
