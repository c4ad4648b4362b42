//! Where the rows of a run go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::row::Row;
use crate::{Error, Result, html, table};

/// The places for rows. They are opened before the measuring, so that no hour of it is lost to a
/// folder that cannot be written.
pub(crate) struct Outputs {
    json: Option<Json>,
    report: Option<PathBuf>,
}

enum Json {
    StandardOutput,
    File(PathBuf, File),
}

impl Outputs {
    /// Opens the file for JSON (`-` is standard output), and makes the folder for the HTML report.
    pub(crate) fn open(json: Option<&Path>, report: Option<&Path>) -> Result<Self> {
        report.map(html::check).transpose()?;
        let json = json.map(|path| -> Result<Json> {
            if path == Path::new("-") {
                return Ok(Json::StandardOutput);
            }
            // The output of an earlier run stays until there is new output to replace it.
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            let file = file.map_err(|source| Error::Unwritable {
                path: path.to_owned(),
                action: "open it to write JSON",
                source,
            })?;
            Ok(Json::File(path.to_owned(), file))
        });
        Ok(Self { json: json.transpose()?, report: report.map(Path::to_owned) })
    }

    /// Writes all rows; a table on `out` unless JSON goes there.
    pub(crate) fn write(&mut self, rows: &[Row], out: &mut dyn Write) -> Result<()> {
        let standard_output = |source| Error::Write { thing: "standard output".into(), source };
        if let Some(folder) = &self.report {
            html::write(rows, folder)?;
        }
        match &mut self.json {
            Some(Json::StandardOutput) => {
                return out.write_all(json(rows).as_bytes()).map_err(standard_output);
            }
            Some(Json::File(path, file)) => replace(file, json(rows).as_bytes())
                .map_err(|source| Error::Write { thing: path.display().to_string(), source })?,
            None => {}
        }
        out.write_all(table(rows).as_bytes()).map_err(standard_output)
    }
}

fn replace(file: &mut File, contents: &[u8]) -> io::Result<()> {
    // A pipe or a device has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(contents)
}

/// An array with a row on each line.
fn json(rows: &[Row]) -> String {
    let lines: Vec<_> = rows.iter().map(|row| row.to_json().to_string()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
