//! `halite load`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, ValueEnum};
use halite::{Database, IndexKind};
use halite_rdb::aof::{Files, FilesError};
use indicatif::ProgressBar;
use serde_json::json;

use crate::engine::EngineArgs;
use crate::folder::{check_folder, with_change_log, with_index};
use crate::formats::{Format, Record};
use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::place::{DEFAULT_SPACE, Place};
use crate::rdb::{Extras, load_log, load_rdb};
use crate::tree::Tree;
use crate::{Error, Result, index, output, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite load ./data fruit.tsv
  halite load ./data people.jsonl --key id     the field `id` → the whole object
  halite load ./docs --dir /usr/share/doc      relative path → contents of every file
  zcat backup.tsv.gz | halite load ./data -    what `halite dump` printed
  halite load ./data people.jsonl --key id --space people
  halite load ./new fruit.tsv --engine lsm --levels /ssd/levels
  halite load ./data dump.rdb                  the keys of a Redis server, with their times to live
  halite load ./data appendonlydir             ... from its append-only file

TSV (--format tsv, the default):
  A line is a key, a tab and a value. \\t \\n \\r \\0 \\\\ stand for tab, line feed, carriage return,
  zero byte and backslash, \\xHH for the byte HH; every other byte stands for itself. A line of
  `\\space`, a tab and NAME says that the records below are of the key space NAME.

JSON lines (--format jsonl, the default for *.jsonl, *.ndjson, *.json and with --key):
  With --key FIELD, a line is any object: the key is the text of that field, a string or a
  number, and the value is the object's text as it stands.
  Without, a line is {\"key\": ..., \"value\": ...}: strings are stored as their text, a value of
  any other type as its JSON. `key_base64` and `value_base64` hold bytes that are not UTF-8;
  `space` names the key space.

RDB files of Redis (--format rdb, the default for *.rdb), up to version 12:
  The keys of database N go to the key space `dbN`, as a server has them, and replace those that are
  there. Keys that have expired are passed over, libraries of functions and values of modules too, with
  a warning.

Append-only files of Redis (--format aof, the default for *.aof, *.manifest, and a folder with a manifest):
  A server of this process carries the commands out, and a command that it does not know is refused by
  its name. If the last command of the last file is not whole, as after a crash, the rest is loaded, and a
  warning says up to where.

Records are committed in batches, and made durable now and then and at the end. At wrong input,
and at Ctrl-C, what was read before is kept, and the command says how much that is. If the medium does not
take that within two seconds of Ctrl-C, the command ends without, and some of it may be lost.";

/// Load records from a file, standard input or a folder
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "halite load [OPTIONS] <PATH> <FILE | --dir DIR>",
    group(ArgGroup::new("input").required(true).args(["file", "dir"])),
)]
pub(crate) struct Load {
    #[command(flatten)]
    place: Place,

    /// A file of records, or the folder of an append-only file; `-`: standard input
    file: Option<PathBuf>,

    /// Load every regular file below DIR: relative path → contents
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How FILE is written
    #[arg(long, value_enum, conflicts_with = "dir")]
    format: Option<InputFormat>,

    /// The field of each JSON object that is its key
    #[arg(long, value_name = "FIELD", conflicts_with = "dir")]
    key: Option<String>,

    /// The index of the keys in memory: ordered:BYTES keeps 0, 2, 4 or 8 bytes of each key, ordered is
    /// ordered:8; hash is for point operations. Of the engine indexlog [default: ordered]
    #[arg(long, value_name = "INDEX", value_parser = index::parse)]
    index: Option<IndexKind>,

    /// Make the database, if there is none, with a change log that retains SIZE for `halite tail`. Of the engine
    /// indexlog
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    change_log: Option<u64>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// A form of what is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// A line holds a key, a tab and a value, with escapes
    Tsv,
    /// A line holds a JSON object
    Jsonl,
    /// A file of Redis
    Rdb,
    /// An append-only file of Redis
    Aof,
}

impl InputFormat {
    /// The format by the file's name.
    fn of_file(path: &Path) -> Self {
        let extension = path.extension().and_then(OsStr::to_str);
        match (extension, Format::of_file(path)) {
            (Some("rdb"), _) => Self::Rdb,
            (Some("aof"), _) => Self::Aof,
            _ if Files::is_manifest(path) || path.is_dir() && Files::find(path).is_ok() => {
                Self::Aof
            }
            (_, Format::Tsv) => Self::Tsv,
            (_, Format::Jsonl) => Self::Jsonl,
        }
    }
}

const OF_FOLDER: &str = "a folder; load the files below it with --dir";

impl Load {
    pub(crate) fn run(&self) -> Result<()> {
        check_folder(&self.place.path)?;
        // The input comes first: where it is wrong, no empty database is left behind.
        match (&self.dir, &self.file) {
            (Some(dir), _) => {
                let tree = Tree::walk(dir, &self.place.path)?;
                let bar = progress::bytes("loading", Some(tree.bytes));
                let records = tree.records().inspect(|record| {
                    bar.inc(record.as_ref().map_or(0, |record| record.value.len() as u64));
                });
                let skipped = tree.skipped;
                self.load(&bar, skipped, |_, loader, _, interrupt| {
                    add_all(records, loader, interrupt)
                })
            }
            (None, Some(file)) => match self.format(file)? {
                InputFormat::Tsv => self.load_text(file, Format::Tsv),
                InputFormat::Jsonl => self.load_text(file, Format::Jsonl),
                InputFormat::Rdb => {
                    let (name, input, len) = open_input(file, OF_FOLDER)?;
                    let bar = progress::bytes("loading", len);
                    let input = bar.wrap_read(input);
                    self.load(&bar, 0, |db, loader, extras, interrupt| {
                        load_rdb(&name, input, db, loader, extras, interrupt)
                    })
                }
                InputFormat::Aof => {
                    let (files, len) = log_files(file)?;
                    let bar = progress::bytes("loading", len);
                    self.load(&bar, 0, |db, loader, extras, interrupt| {
                        load_log(files, db, loader, extras, (&bar, interrupt))
                    })
                }
            },
            (None, None) => Err(Error::Usage("name a FILE, or a folder with --dir".into())),
        }
    }

    fn load_text(&self, file: &Path, format: Format) -> Result<()> {
        let (name, input, len) = open_input(file, OF_FOLDER)?;
        let bar = progress::bytes("loading", len);
        let input = BufReader::with_capacity(1 << 18, bar.wrap_read(input));
        let records = format.read(name, input, self.key.as_deref());
        self.load(&bar, 0, |_, loader, _, interrupt| add_all(records, loader, interrupt))
    }

    fn format(&self, file: &Path) -> Result<InputFormat> {
        let format = match (self.format, &self.key) {
            (Some(InputFormat::Jsonl), _) | (None, Some(_)) => return Ok(InputFormat::Jsonl),
            (Some(format), Some(_)) => {
                let name = format.to_possible_value();
                let name = name.as_ref().map_or("", PossibleValue::get_name);
                let why = format!("--key is for JSON lines, not for --format {name}");
                return Err(Error::Usage(why));
            }
            (Some(format), None) => format,
            (None, None) => InputFormat::of_file(file),
        };
        match format {
            InputFormat::Rdb | InputFormat::Aof if self.place.space != DEFAULT_SPACE => {
                let why = "--space: a file of Redis says itself of which databases its keys are; leave it out";
                Err(Error::Usage(why.into()))
            }
            format => Ok(format),
        }
    }

    /// Opens the database, and lets `fill` load into it.
    fn load(
        &self,
        bar: &ProgressBar,
        skipped: u64,
        fill: impl FnOnce(&Database, &mut Loader<'_>, &mut Extras, &Interrupt) -> Result<()>,
    ) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let builder = with_change_log(Database::builder(), self.change_log);
        let builder = with_index(builder, self.index);
        let asked = index::asked(self.index, self.change_log);
        let db = self.engine.open_or_create(builder, &self.place.path, asked)?;
        let started = Instant::now();
        let mut loader = Loader::new(&db, &self.place.space);
        let mut extras = Extras::default();
        let filled = fill(&db, &mut loader, &mut extras, &interrupt);
        let finished = loader.finish();
        bar.finish_and_clear();
        extras.warn();
        let kept = || kept(&loader, &extras);
        filled
            .and(finished)
            .map_err(|error| Error::LoadFailed { source: Box::new(error), records: kept() })?;
        if interrupt.is_raised() {
            return Err(Error::Interrupted { records: kept() });
        }
        self.report(&db, &loader, (skipped, &extras), started.elapsed().as_secs_f64())
    }

    fn report(
        &self,
        db: &Database,
        loader: &Loader<'_>,
        (skipped, extras): (u64, &Extras),
        seconds: f64,
    ) -> Result<()> {
        if self.json {
            let mut report = json!({
                "records": loader.records,
                "bytes": loader.bytes,
                "seconds": seconds,
                "skipped": skipped + extras.skipped(),
                "domain": db.domain().name(),
            });
            if extras.commands > 0 {
                report["commands"] = extras.commands.into();
            }
            return output::json(&report);
        }
        let mut text = format!(
            "loaded {}, {}, in {seconds:.2} s\n",
            kept(loader, extras),
            size::human(loader.bytes),
        );
        if skipped > 0 {
            let files = size::count(skipped, "irregular file");
            text += &format!("skipped {files} (links, devices, sockets)\n");
        }
        if extras.expired > 0 {
            text += &format!("skipped {}\n", size::count(extras.expired, "expired key"));
        }
        output::text(&text)
    }
}

fn add_all(
    records: impl Iterator<Item = Result<Record>>,
    loader: &mut Loader<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    for record in records {
        loader.add(&record?)?;
        if interrupt.is_raised() {
            break;
        }
    }
    Ok(())
}

/// A report of the records that were loaded.
fn kept(loader: &Loader<'_>, extras: &Extras) -> String {
    let records = size::count(loader.records, "record");
    match extras.commands {
        0 => records,
        commands => format!("{records} and {}", size::count(commands, "command")),
    }
}

/// The files of an append-only file, and the length of all if they have one.
fn log_files(path: &Path) -> Result<(Files, Option<u64>)> {
    if path.as_os_str() == "-" {
        return Ok((Files { paths: vec![path.to_owned()] }, None));
    }
    let refused = |error: FilesError| match error {
        FilesError::Io { path, source } => Error::io(path.display(), source),
        FilesError::Manifest { path, source } => Error::input(path.display(), source),
        other => Error::Usage(other.to_string()),
    };
    let files = Files::find(path).map_err(refused)?;
    let mut len = 0;
    for path in &files.paths {
        len += fs::metadata(path).map_err(|error| Error::io(path.display(), error))?.len();
    }
    Ok((files, Some(len)))
}

/// The input, its name in errors, and its length if it has one. `of_folder` is the error of a folder.
pub(super) fn open_input(
    file: &Path,
    of_folder: &str,
) -> Result<(String, Box<dyn Read>, Option<u64>)> {
    if file.as_os_str() == "-" {
        return Ok(("standard input".into(), Box::new(io::stdin().lock()), None));
    }
    let name = file.display().to_string();
    let failed = |error| Error::io(file.display(), error);
    let input = File::open(file).map_err(failed)?;
    let metadata = input.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::input(name, of_folder));
    }
    Ok((name, Box::new(input), metadata.is_file().then_some(metadata.len())))
}
