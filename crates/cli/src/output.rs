//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::Value;

use crate::{Error, Result};

/// Standard output, buffered; flush it at the end.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// An error of writing to standard output.
pub(crate) fn failed(source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::BrokenPipe {
        Error::OutputClosed
    } else {
        Error::io("standard output", source)
    }
}

/// Prints text as it is.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

/// Prints a JSON value on a line.
pub(crate) fn json(value: &Value) -> Result<()> {
    text(&format!("{value}\n"))
}

/// Tells the person at the terminal; nobody need be there.
pub(crate) fn message(message: impl Display) {
    let _ = writeln!(io::stderr(), "halite: {message}");
}
