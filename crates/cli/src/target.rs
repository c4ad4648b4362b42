//! Files that appear when they are complete.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use halite::Database;

use crate::tree::same;
use crate::{Error, Result};

/// The destination of a command's output: a file that appears when it is complete, or a special file, which is written
/// directly.
pub(crate) struct Target {
    /// The path as the user named it.
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// The file's name until it is complete.
    pub(crate) part: PathBuf,
    /// The final name; `None` for a special file.
    whole: Option<PathBuf>,
}

impl Target {
    /// Makes the file, unless it would replace the database in `folder`.
    pub(crate) fn open(path: &Path, folder: &Path) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let there = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            there => Some(there.map_err(failed)?),
        };
        if let Some(there) = &there {
            let pool = fs::metadata(folder.join(Database::POOL_FILE));
            if pool.is_ok_and(|pool| same(&pool, there)) {
                return Err(Error::input(
                    path.display(),
                    "this is the database; name another file",
                ));
            }
            if !there.is_file() {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                let (path, part) = (path.to_owned(), PathBuf::new());
                return Ok(Self { path, file, part, whole: None });
            }
        }
        // A link stays one.
        let whole = match &there {
            Some(_) => fs::canonicalize(path).map_err(failed)?,
            None => path.to_owned(),
        };
        let mut name = whole.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = whole.with_file_name(name);
        let file = File::create(&part).map_err(failed)?;
        if let Some(there) = there {
            file.set_permissions(there.permissions()).map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file, part, whole: Some(whole) })
    }

    /// Gives the file its name.
    pub(crate) fn name(&self) -> Result<()> {
        let failed = |error| Error::io(self.path.display(), error);
        let Some(whole) = &self.whole else { return Ok(()) };
        self.file.sync_all().map_err(failed)?;
        fs::rename(&self.part, whole).map_err(failed)
    }

    pub(crate) fn give_up(&self) {
        if self.whole.is_some() {
            // A file that cannot be removed is replaced by the next command.
            let _ = fs::remove_file(&self.part);
        }
    }
}
