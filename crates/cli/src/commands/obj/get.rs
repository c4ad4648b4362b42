//! `halite obj get`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use halite::Object;
use indicatif::ProgressBar;

use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::objects::ObjectPlace;
use crate::target::Target;
use crate::{Error, Result, escape, output, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite obj get ./data photos/beach copy.jpg        a file, which appears when it is complete
  halite obj get ./data site.tar | tar x             to standard output
  halite obj get ./data log --offset 64MiB --length 1KiB
  halite obj get ./data log || echo none             exit code 3: there is no such object

A range that ends behind the object's end ends there; one that begins behind it is an error.";

/// Bytes of a read.
const PIECE: u64 = 4 << 20;

/// Write the bytes of an object to a file, or to standard output
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    name: OsString,

    /// The file to write; `-` or none: standard output
    file: Option<PathBuf>,

    /// From byte N on, such as 64MiB
    #[arg(long, value_name = "N", value_parser = size::parse, default_value = "0")]
    offset: u64,

    /// At most N bytes
    #[arg(long, value_name = "N", value_parser = size::parse)]
    length: Option<u64>,
}

impl Get {
    pub(crate) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let (_db, object) = self.place.object(&self.name)?;
        let info = object.info().map_err(|error| in_database(&self.place.path, error))?;
        let left = info.size.checked_sub(self.offset).ok_or_else(|| {
            let name = escape::to_text(&self.place.name(&self.name).unwrap_or_default());
            let why = format!(
                "the object has {}, and the range begins at byte {}; choose an offset up to that",
                size::count(info.size, "byte"),
                self.offset
            );
            Error::input(name, why)
        })?;
        let len = self.length.map_or(left, |length| length.min(left));
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => self.write_file(&object, len, file, &interrupt),
            None => {
                let mut out = output::stdout();
                let hidden = ProgressBar::hidden();
                self.copy(&object, len, &mut out, (&hidden, &interrupt), output::failed)?;
                out.flush().map_err(output::failed)
            }
        }
    }

    fn write_file(
        &self,
        object: &Object,
        len: u64,
        file: &Path,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let target = Target::open(file, &self.place.path)?;
        interrupt.remove_at_end(&target.part);
        let bar = progress::bytes("reading", Some(len));
        let failed = |error| Error::io(file.display(), error);
        let written = self.copy(object, len, &mut &target.file, (&bar, interrupt), failed);
        bar.finish_and_clear();
        let named = written.and_then(|()| target.name());
        if named.is_err() {
            target.give_up();
        }
        interrupt.keep();
        named.map_err(|error| match interrupt.is_raised() {
            true => Error::Stopped { left: "there is no file" },
            false => error,
        })
    }

    fn copy(
        &self,
        object: &Object,
        mut len: u64,
        out: &mut impl Write,
        (bar, interrupt): (&ProgressBar, &Interrupt),
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<()> {
        let mut piece = vec![0; len.min(PIECE) as usize];
        let mut offset = self.offset;
        while len > 0 {
            interrupt.check()?;
            let asked = len.min(PIECE) as usize;
            let read = object.read_at(offset, &mut piece[..asked]);
            let read = read.map_err(|error| in_database(&self.place.path, error))?;
            if read == 0 {
                break;
            }
            out.write_all(&piece[..read]).map_err(&failed)?;
            offset += read as u64;
            len -= read as u64;
            bar.inc(read as u64);
        }
        Ok(())
    }
}
