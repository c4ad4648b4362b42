//! `halite load`.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{ArgGroup, Args};
use halite::{Database, IndexKind};
use indicatif::ProgressBar;
use serde_json::json;

use crate::engine::EngineArgs;
use crate::folder::{check_folder, with_change_log, with_index};
use crate::formats::{Format, Record};
use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::place::Place;
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

    /// A file of records; `-`: standard input
    file: Option<PathBuf>,

    /// Load every regular file below DIR: relative path → contents
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How FILE is written
    #[arg(long, value_enum, conflicts_with = "dir")]
    format: Option<Format>,

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
                self.load(records, &bar, Some(tree.skipped))
            }
            (None, Some(file)) => {
                let format = self.format(file)?;
                let (name, input, len) =
                    open_input(file, "a folder; load the files below it with --dir")?;
                let bar = progress::bytes("loading", len);
                let input = BufReader::with_capacity(1 << 18, bar.wrap_read(input));
                self.load(format.read(name, input, self.key.as_deref()), &bar, None)
            }
            (None, None) => Err(Error::Usage("name a FILE, or a folder with --dir".into())),
        }
    }

    fn format(&self, file: &Path) -> Result<Format> {
        match (self.format, &self.key) {
            (Some(Format::Tsv), Some(_)) => {
                Err(Error::Usage("--key is for JSON lines, not for --format tsv".into()))
            }
            (Some(format), _) => Ok(format),
            (None, Some(_)) => Ok(Format::Jsonl),
            (None, None) => Ok(Format::of_file(file)),
        }
    }

    fn load(
        &self,
        records: impl Iterator<Item = Result<Record>>,
        bar: &ProgressBar,
        skipped: Option<u64>,
    ) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let builder = with_change_log(Database::builder(), self.change_log);
        let builder = with_index(builder, self.index);
        let asked = index::asked(self.index, self.change_log);
        let db = self.engine.open_or_create(builder, &self.place.path, asked)?;
        let started = Instant::now();
        let mut loader = Loader::new(&db, &self.place.space);
        let mut added = Ok(());
        for record in records {
            added = record.and_then(|record| loader.add(&record));
            if added.is_err() || interrupt.is_raised() {
                break;
            }
        }
        let finished = loader.finish();
        bar.finish_and_clear();
        let kept = || size::count(loader.records, "record");
        added
            .and(finished)
            .map_err(|error| Error::LoadFailed { source: Box::new(error), records: kept() })?;
        if interrupt.is_raised() {
            return Err(Error::Interrupted { records: kept() });
        }
        self.report(&db, &loader, started.elapsed().as_secs_f64(), skipped)
    }

    fn report(
        &self,
        db: &Database,
        loader: &Loader<'_>,
        seconds: f64,
        skipped: Option<u64>,
    ) -> Result<()> {
        if self.json {
            return output::json(&json!({
                "records": loader.records,
                "bytes": loader.bytes,
                "seconds": seconds,
                "skipped": skipped.unwrap_or(0),
                "domain": db.domain().name(),
            }));
        }
        let skipped = skipped.filter(|skipped| *skipped > 0).map_or(String::new(), |skipped| {
            format!(
                "skipped {} (links, devices, sockets)\n",
                size::count(skipped, "irregular file")
            )
        });
        output::text(&format!(
            "loaded {}, {}, in {seconds:.2} s\n{skipped}",
            size::count(loader.records, "record"),
            size::human(loader.bytes),
        ))
    }
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
