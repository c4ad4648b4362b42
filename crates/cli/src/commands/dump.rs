//! `halite dump`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use halite::{Database, KeySpace};
use halite_server::stored::is_of_values;
use indicatif::ProgressBar;

use crate::folder::{find_space, in_database, open};
use crate::formats::{Format, Writer};
use crate::interrupt::Interrupt;
use crate::place::DEFAULT_SPACE;
use crate::rdb::export;
use crate::remote::{Copy, ServerArgs, need};
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
  halite dump ./data --rdb dump.rdb            a file that Redis 7.0 and later read
  halite dump --server 127.0.0.1:6379 all.tsv  what a server has open, as it is at one moment

The formats are those of `halite load --help`, and any bytes come back the same. Records of `db0`
name no key space, nor do those of a dump with --space: `halite load --space` says where they go.

With --rdb, the key spaces of a server, `db0` and so on, are written as the databases of an RDB file, with
the times to live of their keys. Other key spaces have no place there, and are named in a warning.

With --server, the server takes a backup of all its databases, which is restored for a while into the system's folder
for such files (TMPDIR), and dumped from there: --space names the key space of one of them.";

/// Write all records, for `load`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    /// The database's folder; with --server, the FILE
    #[arg(required_unless_present = "server")]
    path: Option<PathBuf>,

    /// The file to write, replaced when all is written; `-` or none: standard output
    #[arg(conflicts_with = "server")]
    file: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// Only this key space; otherwise all of them
    #[arg(long, value_name = "NAME")]
    space: Option<String>,

    /// Write a file of Redis, for 7.0 and later, or 7.4 if fields of hashes expire; the default for *.rdb
    #[arg(long, conflicts_with_all = ["format", "json"])]
    rdb: bool,

    /// How to write; by default JSON lines for *.jsonl, *.ndjson and *.json, else TSV
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Short for --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// The key spaces, and how their values are read.
#[derive(Clone, Copy)]
struct Content<'a> {
    /// The database's folder.
    path: &'a Path,
    db: &'a Database,
    spaces: &'a [KeySpace],
    values: &'a Values,
}

impl Dump {
    pub(crate) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        if let Some(server) = self.server.connect()? {
            let copy = Copy::new(&interrupt)?;
            let restored = copy.fetch(server, &interrupt).and_then(|_| copy.restore(&interrupt));
            let folder = restored.map_err(|error| match interrupt.is_raised() {
                true => Error::Stopped { left: "there is no dump" },
                false => error,
            })?;
            return self.dump_folder(&folder, self.path.as_deref(), &interrupt);
        }
        self.dump_folder(need(self.path.as_ref(), "PATH")?, self.file.as_deref(), &interrupt)
    }

    /// Dumps the database in a folder to a file, or to standard output.
    fn dump_folder(&self, path: &Path, file: Option<&Path>, interrupt: &Interrupt) -> Result<()> {
        let file = file.filter(|file| file.as_os_str() != "-");
        let db = open(path)?;
        let values = Values::of(&db)?;
        let spaces = match &self.space {
            Some(name) => find_space(&db, name)?.into_iter().collect(),
            None => all_spaces(&db).map_err(|error| in_database(path, error))?,
        };
        let is_rdb = self.is_rdb(file);
        if let Some(space) = spaces.iter().find(|_| is_rdb && self.space.is_some())
            && !is_of_values(space.name())
        {
            let name = space.name();
            let why = format!(
                "an RDB file has the databases of a server, and `{name}` is none, as `db0` is; name another with --space, or write text"
            );
            return Err(Error::Usage(why));
        }
        let content = Content { path, db: &db, spaces: &spaces, values: &values };
        match file {
            Some(file) => self.dump_to_file(content, file, interrupt),
            None => {
                let shown = (&ProgressBar::hidden(), interrupt);
                self.write(content, Path::new("-"), output::stdout(), shown, output::failed)
            }
        }
    }

    fn dump_to_file(&self, content: Content<'_>, path: &Path, interrupt: &Interrupt) -> Result<()> {
        let mut records = 0;
        for space in content
            .spaces
            .iter()
            .filter(|space| !self.is_rdb(Some(path)) || is_of_values(space.name()))
        {
            records += space.len().map_err(|error| in_database(content.path, error))?;
        }
        let target = Target::open(path, content.path)?;
        interrupt.remove_at_end(&target.part);
        let bar = progress::records("dumping", records);
        let failed = |error| Error::io(target.path.display(), error);
        let out = BufWriter::with_capacity(1 << 16, &target.file);
        let written = self.write(content, &target.path, out, (&bar, interrupt), failed);
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

    /// Writes everything to `out`, whose name is `file`.
    fn write(
        &self,
        content: Content<'_>,
        file: &Path,
        out: impl Write,
        shown: (&ProgressBar, &Interrupt),
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        if self.is_rdb(Some(file)) {
            return export(content.db, (content.spaces, content.values), out, shown, failed);
        }
        let mut writer = self.format(file).writer(out);
        self.dump(content, &mut writer, shown, &failed)?;
        writer.flush().map_err(failed)
    }

    fn dump(
        &self,
        Content { path, spaces, values, .. }: Content<'_>,
        writer: &mut Writer<impl Write>,
        (bar, interrupt): (&ProgressBar, &Interrupt),
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        let in_database = |error| in_database(path, error);
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

    /// Whether a file of Redis is written.
    fn is_rdb(&self, file: Option<&Path>) -> bool {
        let file = file.filter(|_| self.format.is_none() && !self.json);
        self.rdb || file.and_then(Path::extension).is_some_and(|extension| extension == "rdb")
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
