//! `halite obj ls`.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Args;
use halite::ObjectInfo;

use crate::folder::in_database;
use crate::formats::write_json_bytes;
use crate::interrupt::Interrupt;
use crate::objects::ObjectPlace;
use crate::{Result, escape, output, time};

const EXAMPLES: &str = "\
Examples:
  halite obj ls ./data
  halite obj ls ./data photos/                     those whose names begin so
  halite obj ls ./data --limit 10 --store raw
  halite obj ls ./data --json | jq -r .name

A line is the size in bytes, a tab, the time of the last change, a tab, and the name, with the escapes of `halite load
--help`. With --json, a line is an object; a name that is not UTF-8 is `name_base64`.";

/// List objects in the order of their names
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ls {
    #[command(flatten)]
    place: ObjectPlace,

    /// Only objects whose names begin with P
    #[arg(value_name = "P", allow_negative_numbers = true)]
    prefix: Option<OsString>,

    /// At most N objects
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn run(&self) -> Result<()> {
        let prefix = self.prefix.as_ref().map(|prefix| self.place.escapes.key(prefix));
        let prefix = prefix.transpose()?.unwrap_or_default();
        let interrupt = Interrupt::catch()?;
        let (_db, store) = self.place.find()?;
        let failed = |error| in_database(&self.place.path, error);
        let objects = store.map(|store| store.iter(&prefix)).transpose().map_err(failed)?;
        let objects = objects.into_iter().flatten().take(self.limit.unwrap_or(usize::MAX));
        let mut out = output::stdout();
        for object in objects.take_while(|_| !interrupt.is_raised()) {
            let (name, info) = object.map_err(failed)?;
            self.print(&mut out, &name, &info).map_err(output::failed)?;
        }
        out.flush().map_err(output::failed)?;
        interrupt.check()
    }

    fn print(&self, out: &mut impl Write, name: &[u8], info: &ObjectInfo) -> io::Result<()> {
        if self.json {
            out.write_all(b"{")?;
            write_json_bytes(out, "name", name)?;
            let mtime = time::to_nanosecond(info.mtime);
            return writeln!(
                out,
                ",\"size\":{},\"mtime\":\"{mtime}\",\"id\":{}}}",
                info.size, info.id
            );
        }
        write!(out, "{}\t{}\t", info.size, time::to_second(info.mtime))?;
        escape::write(out, name)?;
        out.write_all(b"\n")
    }
}
