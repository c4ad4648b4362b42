//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::thread;
use std::time::Duration;

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

/// Prints a message for the person at the terminal, and ignores a missing terminal.
pub(crate) fn message(message: impl Display) {
    let _ = writeln!(io::stderr(), "halite: {message}");
}

/// Does as [`message`], for a fifth of a second at most: a process that ends does not wait for a reader of its errors.
pub(crate) fn brief_message(text: &'static str) {
    let telling = thread::Builder::new().spawn(move || message(text));
    let Ok(telling) = telling else { return };
    for _ in 0..40 {
        if telling.is_finished() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
