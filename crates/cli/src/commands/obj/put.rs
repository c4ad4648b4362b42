//! `halite obj put`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

use clap::Args;
use halite::{Durability, Object, ObjectStore};
use indicatif::ProgressBar;

use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::objects::{ObjectPlace, begin, finish, give_up};
use crate::{Error, Result, progress, size};

const EXAMPLES: &str = "\
Examples:
  halite obj put ./data photos/beach beach.jpg        creates ./data if there is none
  tar c ./site | halite obj put ./data site.tar       from standard input
  halite obj put ./data log part --offset 64MiB       write into an object, and keep the rest of it
  halite obj put ./data 'a\\0b' file -e --store raw

An object that has the name is replaced when all bytes are there, with its metadata: whatever comes between, the name has the
old bytes or the new ones. With --offset, bytes are written in place: if the command is interrupted, some are. Between the end
of the object and there, it has zeros.";

/// Bytes of a write: pieces of up to so many are atomic, if they begin at a multiple of 128 KiB.
const PIECE: usize = 4 << 20;

/// Store a file, or standard input, as an object
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name, at most 65,520 bytes
    #[arg(allow_negative_numbers = true)]
    name: OsString,

    /// The file with the bytes; `-` or none: standard input
    file: Option<PathBuf>,

    /// Write from byte N of the object on, such as 64MiB, in place
    #[arg(long, value_name = "N", value_parser = size::parse)]
    offset: Option<u64>,
}

/// Where the bytes come from.
struct Input {
    name: String,
    reader: Box<dyn Read>,
    len: Option<u64>,
}

impl Put {
    pub(crate) fn run(&self) -> Result<()> {
        let name = self.place.name(&self.name)?;
        let mut input = self.input()?;
        let interrupt = Interrupt::catch()?;
        let (_db, store) = self.place.open_or_create()?;
        let failed = |error| in_database(&self.place.path, error);
        // A name that no object can have is refused before anything is read.
        store.exists(&name).map_err(failed)?;
        let bar = progress::bytes("storing", input.len);
        let quick = store.with_durability(Durability::Deferred);
        let shown = (&bar, &interrupt);
        let done = match self.offset {
            Some(offset) => quick
                .open_or_create(&name)
                .map_err(failed)
                .and_then(|object| self.write(&object, offset, &mut input, shown))
                .and_then(|()| store.sync().map_err(failed)),
            None => self.put_whole((&store, &quick), &name, &mut input, shown),
        };
        bar.finish_and_clear();
        done.map_err(|error| match (interrupt.is_raised(), self.offset) {
            (true, None) => Error::Stopped { left: "there is no new object" },
            (true, Some(_)) => Error::Stopped { left: "the object has a part of the bytes" },
            (false, _) => error,
        })
    }

    fn input(&self) -> Result<Input> {
        let Some(file) = self.file.as_ref().filter(|file| file.as_os_str() != "-") else {
            let reader = Box::new(io::stdin().lock());
            return Ok(Input { name: "standard input".to_owned(), reader, len: None });
        };
        let failed = |error| Error::io(file.display(), error);
        let reader = File::open(file).map_err(failed)?;
        let metadata = reader.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let why = "a folder; name a file, or pack it: `tar c FOLDER | halite obj put ...`";
            return Err(Error::input(file.display(), why));
        }
        let len = metadata.is_file().then_some(metadata.len());
        Ok(Input { name: file.display().to_string(), reader: Box::new(reader), len })
    }

    fn put_whole(
        &self,
        (store, quick): (&ObjectStore, &ObjectStore),
        name: &[u8],
        input: &mut Input,
        shown: (&ProgressBar, &Interrupt),
    ) -> Result<()> {
        let failed = |error| in_database(&self.place.path, error);
        let written = begin(quick)
            .map_err(failed)
            .and_then(|object| self.write(&object, 0, input, shown))
            .and_then(|()| store.sync().map_err(failed))
            .and_then(|()| finish(store, name).map_err(failed));
        if written.is_err() {
            // A hidden object that cannot be deleted is replaced by the next one.
            let _ = give_up(store);
        }
        written
    }

    fn write(
        &self,
        object: &Object,
        mut offset: u64,
        input: &mut Input,
        (bar, interrupt): (&ProgressBar, &Interrupt),
    ) -> Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let len = fill(&mut interrupt.reader(&mut input.reader), &mut piece)
                .map_err(|error| Error::io(&input.name, error))?;
            if len == 0 {
                return Ok(());
            }
            let written = object.write_at(offset, &piece[..len]);
            written.map_err(|error| in_database(&self.place.path, error))?;
            // The write would have failed if there were no such number.
            offset += len as u64;
            bar.inc(len as u64);
        }
    }
}

/// Reads until the buffer is full, or the input ends.
fn fill(input: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < to.len() {
        match input.read(&mut to[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
