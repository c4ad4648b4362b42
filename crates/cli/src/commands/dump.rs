//! `halite dump`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use halite::{Database, KeySpace};
use indicatif::ProgressBar;

use crate::folder::{find_space, in_database, open};
use crate::formats::{Format, Writer};
use crate::interrupt::Interrupt;
use crate::place::DEFAULT_SPACE;
use crate::target::Target;
use crate::values::Values;
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

    /// The file to write, replaced when all is written; `-` or none: standard output
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

/// The key spaces, and how their values are read.
type Content<'a> = (&'a [KeySpace], &'a Values);

impl Dump {
    pub(crate) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let db = open(&self.path)?;
        let values = Values::of(&db)?;
        let spaces = match &self.space {
            Some(name) => find_space(&db, name)?.into_iter().collect(),
            None => all_spaces(&db).map_err(|error| in_database(&self.path, error))?,
        };
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => self.dump_to_file((&spaces, &values), file, &interrupt),
            None => {
                let mut writer = self.format(Path::new("-")).writer(output::stdout());
                let hidden = ProgressBar::hidden();
                let dump = (&spaces[..], &values);
                self.dump(dump, &mut writer, (&hidden, &interrupt), output::failed)?;
                writer.flush().map_err(output::failed)
            }
        }
    }

    fn dump_to_file(&self, content: Content<'_>, path: &Path, interrupt: &Interrupt) -> Result<()> {
        let mut records = 0;
        for space in content.0 {
            records += space.len().map_err(|error| in_database(&self.path, error))?;
        }
        let target = Target::open(path, &self.path)?;
        interrupt.remove_at_end(&target.part);
        let bar = progress::records("dumping", records);
        let written = self.write_all(content, &target, (&bar, interrupt));
        bar.finish_and_clear();
        let named = written.and_then(|()| target.name());
        if named.is_err() {
            target.give_up();
        }
        interrupt.keep();
        named.map_err(|error| match interrupt.is_raised() {
            true => Error::Stopped { left: "there is no dump" },
            false => error,
        })?;
        let written = size::count(records, "record");
        output::message(format_args!("{}: {written} written", path.display()));
        Ok(())
    }

    fn write_all(
        &self,
        content: Content<'_>,
        target: &Target,
        shown: (&ProgressBar, &Interrupt),
    ) -> Result<()> {
        let failed = |error| Error::io(target.path.display(), error);
        let out = BufWriter::with_capacity(1 << 16, &target.file);
        let mut writer = self.format(&target.path).writer(out);
        self.dump(content, &mut writer, shown, failed)?;
        writer.flush().map_err(failed)
    }

    fn dump(
        &self,
        (spaces, values): Content<'_>,
        writer: &mut Writer<impl Write>,
        (bar, interrupt): (&ProgressBar, &Interrupt),
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        let in_database = |error| in_database(&self.path, error);
        for space in spaces {
            let mut pairs = space.iter().map_err(in_database)?.peekable();
            // Records make a key space where they are loaded.
            if pairs.peek().is_none() {
                continue;
            }
            let unnamed = self.space.is_some() || space.name() == DEFAULT_SPACE;
            writer.name_space((!unnamed).then(|| space.name())).map_err(&failed)?;
            for pair in pairs {
                interrupt.check()?;
                let (key, value) = pair.map_err(in_database)?;
                let value = values.plain(space.name(), &key, &value)?;
                writer.write(&key, value).map_err(&failed)?;
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
