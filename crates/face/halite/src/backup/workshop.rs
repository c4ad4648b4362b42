//! The folder in which a database is restored, within the one that it is to be in.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::BackupError;
use super::naming::UNFINISHED_MARKER;
use crate::engines::{discard_beside, folders_beside};
use crate::{Database, folder};

/// Its name.
const WORKSHOP: &str = ".restoring";

/// The beginning of the names of the replaced database's folders beside the pool, until they are removed.
const REPLACED: &str = "replaced-";

/// A workshop, locked against others.
pub(super) struct Workshop {
    /// The folder that the database is to be in.
    home: PathBuf,
    _held: File,
}

impl Workshop {
    /// Takes the workshop in the folder `home`, and makes the folder if it does not exist.
    pub(super) fn take(home: &Path) -> Result<Self, BackupError> {
        let path = path_in(home);
        folder::make(&path).map_err(failed("make", &path))?;
        let held = File::open(&path).map_err(failed("open", &path))?;
        Self::hold(home, held)
    }

    /// Takes the workshop if there is one.
    pub(super) fn take_existing(home: &Path) -> Result<Option<Self>, BackupError> {
        let path = path_in(home);
        match File::open(&path) {
            Ok(held) => Self::hold(home, held).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("open", &path)(source)),
        }
    }

    fn hold(home: &Path, held: File) -> Result<Self, BackupError> {
        lock(&held, &path_in(home), BackupError::Restoring { path: home.to_owned() })?;
        Ok(Self { home: home.to_owned(), _held: held })
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn path(&self) -> PathBuf {
        path_in(&self.home)
    }

    pub(super) fn pool(&self) -> PathBuf {
        self.path().join(Database::POOL_FILE)
    }

    /// The files beside the pool that are made here: a folder, or a link to one that was named.
    pub(super) fn beside(&self, folder: &str) -> PathBuf {
        self.path().join(folder)
    }

    /// The place of a folder beside the pool of the database that was replaced.
    pub(super) fn replaced(&self, folder: &str) -> PathBuf {
        self.path().join(format!("{REPLACED}{folder}"))
    }

    /// Removes the files that a restoring left. None of them may have a name in `home`, nor be about to get one.
    pub(super) fn clear(&self) -> Result<(), BackupError> {
        let folders = folders_beside();
        if folders.iter().any(|folder| self.beside(folder).is_symlink()) {
            // Only the pool knows which files of that folder are its own. If it does not open, they stay.
            let _ = discard_beside(&Database::builder().create(false).engine_options(&self.path()));
        }
        let beside = folders.iter().flat_map(|folder| [self.beside(folder), self.replaced(folder)]);
        let mut made: Vec<_> = beside.collect();
        made.extend([self.pool(), self.path().join(UNFINISHED_MARKER)]);
        made.iter().try_for_each(|path| remove(path).map_err(failed("remove", path)))
    }

    /// Removes the workshop. Files that cannot be removed are left to the next restoring.
    pub(super) fn leave(self) {
        let _ = self.clear();
        let _ = fs::remove_dir(self.path());
    }
}

pub(super) fn path_in(home: &Path) -> PathBuf {
    home.join(WORKSHOP)
}

/// Removes a file, a folder with its contents, or a link, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

pub(super) fn lock(file: &File, path: &Path, held: BackupError) -> Result<(), BackupError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => held,
        TryLockError::Error(source) => failed("lock", path)(source),
    })
}

pub(super) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> BackupError + 'a {
    move |source| BackupError::Folder { action, path: path.to_owned(), source }
}
