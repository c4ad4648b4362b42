//! Arguments that the data commands share.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use crate::{Error, Result, escape};

/// The key space of the server's database 0.
pub(crate) const DEFAULT_SPACE: &str = "db0";

/// The place of data: a database and a key space in it.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The database's folder
    pub(crate) path: PathBuf,

    /// The key space; the server serves `db0` as database 0
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SPACE)]
    pub(crate) space: String,
}

/// How keys are written on the command line.
#[derive(Debug, Args)]
pub(crate) struct Escapes {
    /// Keys are written with escapes, as `scan` prints them: \t \n \r \0 \\ \xHH
    #[arg(short = 'e', long)]
    escaped: bool,
}

impl Escapes {
    /// The key that an argument stands for.
    pub(crate) fn key(&self, argument: &OsString) -> Result<Vec<u8>> {
        let text = argument.as_bytes();
        if self.escaped {
            let key = escape::read(text).map_err(|why| Error::input(escape::to_text(text), why))?;
            Ok(key.into_owned())
        } else {
            Ok(text.to_vec())
        }
    }
}
