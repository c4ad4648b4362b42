//! `halite dump`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use halite::{Database, KeySpace};
use indicatif::ProgressBar;

use crate::folder::{find_space, in_database, open};
use crate::formats::{Format, Writer};
use crate::place::DEFAULT_SPACE;
use crate::tree::same;
use crate::{Error, Result, output, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite dump ./data backup.tsv                everything: all key spaces, times to live included
  halite load ./other backup.tsv               ... and back
  halite dump ./data | gzip > backup.tsv.gz
  halite dump ./data --json                    JSON lines
  halite dump ./data --space people | halite load ./data - --space copy

The formats are those of `halite load --help`, and any bytes come back the same. Records of `db0`
name no key space, nor do those of a dump with --space: `halite load --space` says where they go.";

/// Write all records, for `load`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    /// The database's folder
    path: PathBuf,

    /// The file to write, replaced if it is there; `-` or none: standard output
    file: Option<PathBuf>,

    /// Only this key space; otherwise all of them
    #[arg(long, value_name = "NAME")]
    space: Option<String>,

    /// How to write; by default JSON lines for *.jsonl, *.ndjson and *.json, else TSV
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Short for --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl Dump {
    pub(crate) fn run(&self) -> Result<()> {
        let db = open(&self.path)?;
        let spaces = match &self.space {
            Some(name) => find_space(&db, name)?.into_iter().collect(),
            None => all_spaces(&db).map_err(|error| in_database(&self.path, error))?,
        };
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => self.dump_to_file(&spaces, file),
            None => {
                let mut writer = self.format(Path::new("-")).writer(output::stdout());
                let hidden = ProgressBar::hidden();
                self.dump(&spaces, &mut writer, &hidden, output::failed)?;
                writer.flush().map_err(output::failed)
            }
        }
    }

    fn dump_to_file(&self, spaces: &[KeySpace], path: &Path) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut records = 0;
        for space in spaces {
            records += space.len().map_err(|error| in_database(&self.path, error))?;
        }
        let file = self.create(path)?;
        let bar = progress::records("dumping", records);
        let mut writer = self.format(path).writer(BufWriter::with_capacity(1 << 16, &file));
        self.dump(spaces, &mut writer, &bar, failed)?;
        writer.flush().map_err(failed)?;
        bar.finish_and_clear();
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_file() {
            file.sync_all().map_err(failed)?;
        }
        let written = size::count(records, "record");
        output::message(format_args!("{}: {written} written", path.display()));
        Ok(())
    }

    fn dump(
        &self,
        spaces: &[KeySpace],
        writer: &mut Writer<impl Write>,
        bar: &ProgressBar,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        let in_database = |error| in_database(&self.path, error);
        for space in spaces {
            let unnamed = self.space.is_some() || space.name() == DEFAULT_SPACE;
            writer.name_space((!unnamed).then(|| space.name())).map_err(&failed)?;
            for pair in space.iter().map_err(in_database)? {
                let (key, value) = pair.map_err(in_database)?;
                writer.write(&key, &value).map_err(&failed)?;
                bar.inc(1);
            }
        }
        Ok(())
    }

    fn format(&self, file: &Path) -> Format {
        match self.format {
            Some(format) => format,
            None if self.json => Format::Jsonl,
            None => Format::of_file(file),
        }
    }

    /// Creates or replaces `file`, unless it is the database itself.
    fn create(&self, file: &Path) -> Result<File> {
        let failed = |error| Error::io(file.display(), error);
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)
            .map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        let pool = fs::metadata(self.path.join(Database::POOL_FILE));
        if pool.is_ok_and(|pool| same(&pool, &metadata)) {
            return Err(Error::input(file.display(), "this is the database; name another file"));
        }
        if metadata.is_file() {
            opened.set_len(0).map_err(failed)?;
        }
        Ok(opened)
    }
}

/// All key spaces, the default one first: lines of TSV name a key space until the next is named, so
/// only the first can go without. `db1` comes before `db1:expires`, as [`WriteSpace`] needs it.
///
/// [`WriteSpace`]: crate::folder::WriteSpace
fn all_spaces(db: &Database) -> halite::Result<Vec<KeySpace>> {
    let mut spaces = db.key_spaces()?;
    spaces.sort_by_key(|space| (space.name() != DEFAULT_SPACE, space.name().to_owned()));
    Ok(spaces)
}
