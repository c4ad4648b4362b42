//! `halite table dump`.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use halite_table::Column;

use super::csv;
use super::store::{Selection, Store};
use crate::interrupt::Interrupt;
use crate::target::Target;
use crate::{Error, Result, output, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite table dump ./bank account accounts.csv
  halite table load ./other account accounts.csv     ... and back
  halite table dump ./bank account | gzip > accounts.csv.gz

The format is that of `halite table load --help`, and `table load` makes the same rows of it. The rows are in the order of
the primary key, as of one moment.";

/// Write all rows of a table as comma-separated values, for `table load`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Dump {
    /// The store's folder
    path: PathBuf,

    /// The table
    table: String,

    /// The file to write, replaced when all is written; `-` or none: standard output
    file: Option<PathBuf>,
}

impl Dump {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let store = Store::open(&self.path)?;
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => self.write_file(&store, file, &interrupt),
            None => {
                let check = |_| interrupt.check();
                write(&store, &self.table, output::stdout(), check, output::failed).map(drop)
            }
        }
    }

    fn write_file(&self, store: &Store, path: &Path, interrupt: &Interrupt) -> Result<()> {
        // Before there is a file.
        store.schema(&self.table)?;
        let target = Target::open(path, &self.path)?;
        interrupt.remove_at_end(&target.part);
        let bar = progress::rows("dumping");
        let out = BufWriter::with_capacity(1 << 16, &target.file);
        let each = |rows| {
            bar.set_position(rows);
            interrupt.check()
        };
        let written =
            write(store, &self.table, out, each, |error| Error::io(path.display(), error));
        bar.finish_and_clear();
        let named = written.and_then(|rows| target.name().map(|()| rows));
        if named.is_err() {
            target.give_up();
        }
        interrupt.keep();
        let rows = named.map_err(|error| match interrupt.is_raised() {
            true => Error::Stopped { left: "there is no dump" },
            false => error,
        })?;
        output::message(format_args!("{}: {} written", path.display(), size::count(rows, "row")));
        Ok(())
    }
}

/// Writes the names of the columns, and the rows. `each` gets the number of rows so far. Returns that of all.
pub(super) fn write(
    store: &Store,
    table: &str,
    mut out: impl Write,
    each: impl Fn(u64) -> Result<()>,
    failed: impl Fn(io::Error) -> Error,
) -> Result<u64> {
    let schema = store.schema(table)?;
    let names = schema.columns().iter().map(Column::name);
    csv::write(&mut out, names.map(Into::into)).map_err(&failed)?;
    let mut rows = 0;
    store.visit(&Selection::all(table), |row| {
        each(rows)?;
        csv::write(&mut out, store.done(row.values())?).map_err(&failed)?;
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush().map_err(&failed)?;
    Ok(rows)
}
