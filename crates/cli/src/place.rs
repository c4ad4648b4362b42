//! Arguments that the data commands share.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use halite::KeyRange;

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

impl Place {
    /// The first argument where there is no folder: with a server.
    pub(crate) fn first(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

/// The keys of a range that begin alike.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// Only keys that begin with P
    #[arg(long, value_name = "P")]
    prefix: Option<OsString>,

    /// Only keys from K on
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    from: Option<OsString>,

    /// Only keys before K
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    to: Option<OsString>,
}

impl Keys {
    /// The beginning of the keys.
    pub(crate) fn prefix(&self, escapes: &Escapes) -> Result<Vec<u8>> {
        Ok(escapes.optional(&self.prefix)?.unwrap_or_default())
    }

    /// The range of the keys.
    pub(crate) fn range(&self, escapes: &Escapes) -> Result<KeyRange> {
        let prefix = KeyRange::prefix(&self.prefix(escapes)?);
        let start = escapes.optional(&self.from)?.unwrap_or_default().max(prefix.start().to_vec());
        let ends = escapes.optional(&self.to)?.into_iter().chain(prefix.end().map(<[u8]>::to_vec));
        Ok(KeyRange::new(start, ends.min()))
    }
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
    pub(crate) fn key(&self, argument: &OsStr) -> Result<Vec<u8>> {
        let text = argument.as_bytes();
        if self.escaped {
            let key = escape::read(text).map_err(|why| Error::input(escape::to_text(text), why))?;
            Ok(key.into_owned())
        } else {
            Ok(text.to_vec())
        }
    }

    /// The key that an argument stands for, if there is one.
    pub(crate) fn optional(&self, argument: &Option<OsString>) -> Result<Option<Vec<u8>>> {
        argument.as_ref().map(|argument| self.key(argument)).transpose()
    }
}
