//! Giving a restored database its names.
//!
//! Where neither the new database nor the one that it replaces has files beside the pool, naming the pool is the only
//! step. Otherwise there are several names to change, and a marker in the workshop states that the new database is
//! complete and durable. Of an engine that has its files in a folder `levels`:
//!
//! ```text
//! .restoring/pool.halite   becomes   pool.halite                    in place of the old one, or if there is none
//! levels                   becomes   .restoring/replaced-levels     if there are old ones
//! .restoring/levels        becomes   levels                         if there are new ones
//! ```
//!
//! From the marker on, the new database is the database of the folder. The next opening or restoring first finishes the
//! interrupted naming: each step is skipped if it is already done, so all steps may be repeated. Without a marker, the
//! contents of the workshop may be removed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::BackupError;
use super::workshop::{self, Workshop, failed, lock};
use crate::engines::folders_beside;
use crate::{Database, Error, folder};

/// The marker's name.
const MARKER: &str = "complete";

/// The name of the marker until it is completely written.
pub(super) const UNFINISHED_MARKER: &str = "complete.tmp";

/// A database that is complete, and about to get its names.
pub(super) struct Naming<'a> {
    pub(super) workshop: &'a Workshop,
    pub(super) kind: Kind,
}

/// Which names have to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// The folders beside the new pool.
    pub(super) beside: Vec<String>,
    /// Whether there is an old pool, which goes.
    pub(super) replaces: bool,
}

impl Kind {
    /// The text of the marker.
    fn text(&self) -> String {
        let beside: String =
            self.beside.iter().map(|folder| format!("beside {folder}\n")).collect();
        format!("{beside}replaces {}\n", self.replaces)
    }

    /// Whether each folder beside the pool is one of an engine that there is.
    fn is_known(&self) -> bool {
        let known = folders_beside();
        self.beside.iter().all(|folder| known.contains(&&**folder))
    }

    fn of_text(text: &str) -> Option<Self> {
        let folder = |line: &str| line.strip_prefix("beside ").map(str::to_owned);
        let beside: Vec<_> = text.lines().map_while(folder).collect();
        let kinds = [false, true].map(|replaces| Self { beside: beside.clone(), replaces });
        kinds.into_iter().find(|kind| kind.text() == text)
    }
}

/// Whether the naming of a database in the folder `home` was interrupted, or goes on.
pub(crate) fn is_interrupted(home: &Path) -> bool {
    marker_in(home).exists()
}

/// Finishes the naming of a database in the folder `home` if it was interrupted.
pub(super) fn finish(home: &Path) -> Result<(), BackupError> {
    if !is_interrupted(home) {
        return Ok(());
    }
    let Some(workshop) = Workshop::take_existing(home)? else { return Ok(()) };
    // Another process may have finished the naming first.
    if let Some(naming) = Naming::read(&workshop)? {
        let held = naming.hold_pools()?;
        match naming.name_pool() {
            // Another database came there before, and has the name.
            Err(BackupError::Exists { .. }) => naming.give_up()?,
            named => named.and_then(|()| naming.name_beside()).and_then(|()| naming.end())?,
        }
        drop(held);
    }
    workshop.leave();
    Ok(())
}

/// [`finish`] for an opening of the database, with the errors of one.
pub(crate) fn finish_before_opening(home: &Path) -> crate::Result<()> {
    finish(home).map_err(|error| match error {
        BackupError::Folder { action, path, source } => {
            halite_pmem::Error::Io { path, action, source }.into()
        }
        BackupError::InUse { path } => {
            halite_pmem::Error::Locked { path: path.join(Database::POOL_FILE) }.into()
        }
        _ => Error::Restoring,
    })
}

impl<'a> Naming<'a> {
    /// Records, durably, that the database in the workshop is the folder's from now on. Its pool and the files beside
    /// it are durable.
    pub(super) fn begin(workshop: &'a Workshop, kind: Kind) -> Result<Self, BackupError> {
        let naming = Self { workshop, kind };
        naming.sync()?;
        let (marker, unfinished) = (naming.marker(), workshop.path().join(UNFINISHED_MARKER));
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(naming.kind.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &marker)?;
            folder::sync(&workshop.path())
        };
        // Whether it is durable is not known then.
        write().map_err(failed("write", &marker)).inspect_err(|_| drop(naming.give_up()))?;
        Ok(naming)
    }

    /// The naming that a marker in the workshop describes, if there is a marker.
    fn read(workshop: &'a Workshop) -> Result<Option<Self>, BackupError> {
        let marker = marker_in(workshop.home());
        let unknown = || {
            io::Error::new(
                ErrorKind::InvalidData,
                "a newer version wrote it, or one with another engine; open the database with that",
            )
        };
        match fs::read_to_string(&marker) {
            Ok(text) => match Kind::of_text(&text).filter(Kind::is_known) {
                Some(kind) => Ok(Some(Self { workshop, kind })),
                None => Err(failed("understand", &marker)(unknown())),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("read", &marker)(source)),
        }
    }

    fn marker(&self) -> PathBuf {
        marker_in(self.workshop.home())
    }

    /// Locks the old pool and the new one, so that no process has one of them open with the other's files.
    fn hold_pools(&self) -> Result<Vec<File>, BackupError> {
        let mut held: Vec<File> = Vec::new();
        for path in [self.workshop.pool(), pool_in(self.workshop.home())] {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(failed("open", &path)(source)),
            };
            // The new one may have both names.
            let known = held.iter().any(|other| is_same(other, &file).unwrap_or(false));
            if !known {
                let home = self.workshop.home().to_owned();
                lock(&file, &path, BackupError::InUse { path: home })?;
                held.push(file);
            }
        }
        Ok(held)
    }

    /// Names the pool. If that fails, no name is changed.
    pub(super) fn name_pool(&self) -> Result<(), BackupError> {
        let (made, pool) = (self.workshop.pool(), pool_in(self.workshop.home()));
        if !is_there(&made)? {
            return Ok(());
        }
        if self.kind.replaces {
            return fs::rename(&made, &pool).map_err(failed("name", &pool));
        }
        // Unlike a rename, a hard link cannot replace a pool that another process made meanwhile.
        match fs::hard_link(&made, &pool) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let is_named = File::open(&made)
                    .and_then(|made| is_same(&made, &File::open(&pool)?))
                    .map_err(failed("open", &pool))?;
                let home = self.workshop.home();
                if is_named { Ok(()) } else { Err(BackupError::Exists { path: home.to_owned() }) }
            }
            Err(error) if lacks_links(&error) => match rename_if_free(&made, &pool) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    Err(BackupError::Exists { path: self.workshop.home().to_owned() })
                }
                named => named.map_err(failed("name", &pool)),
            },
            named => named.map_err(failed("name", &pool)),
        }
    }

    /// Puts the new files beside the pool, if there are any, in the place of the old ones.
    pub(super) fn name_beside(&self) -> Result<(), BackupError> {
        folders_beside().iter().try_for_each(|folder| self.name_folder(folder))
    }

    fn name_folder(&self, folder: &str) -> Result<(), BackupError> {
        let (made, named) = (self.workshop.beside(folder), self.workshop.home().join(folder));
        let has_new = self.kind.beside.iter().any(|of| of == folder);
        let is_to_come = has_new && is_there(&made)?;
        let is_old = is_to_come || !has_new;
        if is_old && is_there(&named)? {
            let replaced = self.workshop.replaced(folder);
            fs::rename(&named, replaced).map_err(failed("move away", &named))?;
        }
        if is_to_come {
            fs::rename(&made, &named).map_err(failed("name", &named))?;
        }
        Ok(())
    }

    /// Notes that all names are as they should be.
    pub(super) fn end(&self) -> Result<(), BackupError> {
        self.sync()?;
        self.give_up()
    }

    /// Removes the marker. The files that are left in the workshop may then be removed.
    pub(super) fn give_up(&self) -> Result<(), BackupError> {
        let (marker, path) = (self.marker(), self.workshop.path());
        match fs::remove_file(&marker) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed("remove", &marker)(error))
            }
            _ => folder::sync(&path).map_err(failed("sync", &path)),
        }
    }

    /// Makes names durable, here and in the workshop.
    fn sync(&self) -> Result<(), BackupError> {
        let folders = [self.workshop.path(), self.workshop.home().to_owned()];
        folders.iter().try_for_each(|path| folder::sync(path).map_err(failed("sync", path)))
    }
}

fn marker_in(home: &Path) -> PathBuf {
    workshop::path_in(home).join(MARKER)
}

pub(super) fn pool_in(home: &Path) -> PathBuf {
    home.join(Database::POOL_FILE)
}

pub(super) fn is_there(path: &Path) -> Result<bool, BackupError> {
    folder::is_there(path).map_err(failed("look at", path))
}

/// Whether a file system has no hard links.
fn lacks_links(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Gives a file a name that no other has, on a file system without hard links.
fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot: a name that another process makes right now would be replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if folder::is_there(to)? => {
            Err(ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_link_is_given_if_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let [made, other, pool] = ["made", "other", "pool"].map(|name| folder.path().join(name));
        fs::write(&made, "made").unwrap();
        fs::write(&other, "other").unwrap();
        rename_if_free(&made, &pool).unwrap();
        assert!(!made.exists() && fs::read_to_string(&pool).unwrap() == "made");
        let refused = rename_if_free(&other, &pool).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert!(other.exists() && fs::read_to_string(&pool).unwrap() == "made");
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        for beside in [vec![], vec!["levels".to_owned()], vec!["a b".to_owned(), "c".to_owned()]] {
            for replaces in [false, true] {
                let kind = Kind { beside: beside.clone(), replaces };
                assert_eq!(Kind::of_text(&kind.text()), Some(kind));
            }
        }
        assert_eq!(Kind::of_text("beside levels\n"), None);
        assert_eq!(Kind::of_text("replaces true\nbeside levels\n"), None);
        assert_eq!(Kind::of_text(""), None);
    }
}
