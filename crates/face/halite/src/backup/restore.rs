//! Making a database from backups.
//!
//! The database is made in a folder of its own, the workshop, within its destination. When it is complete and durable,
//! it gets its names there, as if at once (`naming`), and replaces the old database. A crash before that leaves a
//! workshop, which the next restoring removes.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use halite_contract::{ChangeOp, Direction, Partitioning};

use super::content::Item;
use super::naming::{self, Kind, Naming};
use super::workshop::{Workshop, failed, lock};
use super::{BackupError, BackupInfo, BackupReader};
use crate::engines::{folders_beside, place_beside};
use crate::folder;
use crate::{Builder, Database, Durability, KeyRange, KeySpace};

/// A report on a restoring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// The last of the backups.
    pub info: BackupInfo,
    /// Operations that were read from all of them.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pairs that the database has.
    pub pairs: u64,
}

impl Builder {
    /// Makes the database in the folder `path` from a full backup and those that follow it, in order.
    ///
    /// Where the builder does not set them, the new database has the partitions and the change log of the one that was
    /// backed up, and the first engine. It appears when it is complete. A database that is there already stays in place
    /// until then, and is replaced if `replace` is set; of levels in a folder that was named, only the link is removed.
    ///
    /// # Errors
    /// [`BackupError::Exists`] and [`BackupError::LevelsExist`], unless `replace` is given;
    /// [`BackupError::InUse`], [`BackupError::Restoring`], [`BackupError::SameLevels`]; [`BackupError::InBackup`] with
    /// the defect of one of the backups: if the first is not full, or one does not follow the one before it, the
    /// restoring ends before it changes any file. The errors of [`Builder::open`] and of writes, such as
    /// [`crate::EngineError::Full`]. After an error `path` is unchanged. The one exception is a failure between several names
    /// that a complete database with levels needs, or that go with the old one's: [`BackupError::Folder`] says which
    /// could not be changed, and the next opening changes the rest.
    pub fn restore<R: Read>(
        self,
        path: impl AsRef<Path>,
        backups: Vec<BackupReader<R>>,
        replace: bool,
    ) -> Result<RestoreReport, BackupError> {
        check_chain(&backups)?;
        let place = Place::take(path.as_ref(), replace)?;
        let restored = self.restore_at(&place, backups);
        let named = restored.and_then(|report| place.name().map(|()| report));
        place.leave();
        named
    }

    fn restore_at<R: Read>(
        mut self,
        place: &Place,
        backups: Vec<BackupReader<R>>,
    ) -> Result<RestoreReport, BackupError> {
        place_beside(&mut self.options, |folder, named| place.beside(folder, named))?;
        self.restore_into(&place.workshop.path(), backups)
    }

    fn restore_into<R: Read>(
        mut self,
        folder: &Path,
        backups: Vec<BackupReader<R>>,
    ) -> Result<RestoreReport, BackupError> {
        let of = backups.len();
        let first = backups.first().ok_or(BackupError::NoBackup)?.info().clone();
        self.options.partitioning.get_or_insert(first.partitioning.clone());
        self.options.change_log = self.options.change_log.or(first.change_log);
        let db = self.create(true).open(folder)?;
        let mut restoring = Restoring {
            db: &db,
            spaces: BTreeMap::new(),
            partitioning: first.partitioning.clone(),
            partition: 0,
        };
        let mut report = RestoreReport { info: first, operations: 0, bytes: 0, pairs: 0 };
        for (nth, mut backup) in backups.into_iter().enumerate() {
            let read = restoring.read(&mut backup);
            read.map_err(|source| BackupError::InBackup { nth, of, source: Box::new(source) })?;
            let read = backup.report();
            report.operations += read.operations;
            report.bytes += read.bytes;
            report.info = read.info;
        }
        db.sync()?;
        for space in db.key_spaces()? {
            report.pairs += space.len()?;
        }
        Ok(report)
    }
}

/// Checks that the backups follow each other.
fn check_chain<R: Read>(backups: &[BackupReader<R>]) -> Result<(), BackupError> {
    let of = backups.len();
    let mut before: Option<&BackupInfo> = None;
    for (nth, backup) in backups.iter().enumerate() {
        let info = backup.info();
        let wrong = match (before, info.parent()) {
            (None, None) => None,
            (None, Some(parent)) => Some(BackupError::NotFull { parent }),
            (Some(_), None) => Some(BackupError::FullAgain),
            (Some(before), Some(parent)) if parent == before.id() => None,
            (Some(before), Some(parent)) => Some(BackupError::Gap { parent, before: before.id() }),
        };
        if let Some(source) = wrong {
            return Err(BackupError::InBackup { nth, of, source: Box::new(source) });
        }
        before = Some(info);
    }
    before.map(drop).ok_or(BackupError::NoBackup)
}

/// A database that is being made.
struct Restoring<'a> {
    db: &'a Database,
    /// The key spaces by the ids that they had in the database that was backed up.
    spaces: BTreeMap<u32, KeySpace>,
    partitioning: Partitioning,
    /// The partition whose changes are read.
    partition: usize,
}

impl Restoring<'_> {
    fn read<R: Read>(&mut self, backup: &mut BackupReader<R>) -> Result<(), BackupError> {
        while let Some(item) = backup.next()? {
            match item {
                Item::Partition(number) => self.partition = number,
                Item::Op(op) => self.apply(op)?,
            }
        }
        Ok(())
    }

    /// A change to an unknown key space is of one that was dropped later: the changes of the first partition, which
    /// come first, have already dropped it.
    fn apply(&mut self, op: ChangeOp) -> crate::Result<()> {
        match op {
            ChangeOp::CreateKeySpace { space, name } => {
                let made = self.db.key_space(&name)?;
                self.spaces.insert(space.0, made);
            }
            ChangeOp::DropKeySpace { name } => {
                if let Some(space) = self.db.find_key_space(&name)? {
                    self.db.drop_key_space(&space)?;
                }
                self.spaces.retain(|_, space| space.name() != name);
            }
            ChangeOp::Put { space, key, value } => {
                if let Some(space) = self.spaces.get(&space.0) {
                    space.put_with(key, value, Durability::Deferred)?;
                }
            }
            ChangeOp::Delete { space, key } => {
                if let Some(space) = self.spaces.get(&space.0) {
                    space.delete_with(key, Durability::Deferred)?;
                }
            }
            ChangeOp::DeleteRange { space, start, end } => {
                if let Some(space) = self.spaces.get(&space.0) {
                    self.delete_range(space, &KeyRange::new(start, end))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Deletes the keys of a range that the partition had whose changes are read: those of another come in
    /// their own order.
    fn delete_range(&self, space: &KeySpace, range: &KeyRange) -> crate::Result<()> {
        if self.partitioning.count() == 1 {
            return space.delete_range(range);
        }
        for pair in space.scan(range.clone(), Direction::Forward)? {
            let (key, _) = pair?;
            if self.partitioning.partition_of(&key) == self.partition {
                space.delete_with(&key, Durability::Deferred)?;
            }
        }
        Ok(())
    }
}

/// The folder of a database that is being made, held against others.
struct Place {
    path: PathBuf,
    /// Whether an old database may be replaced.
    replace: bool,
    /// The folders that were made for this, the outermost first.
    made: Vec<PathBuf>,
    /// The database that is to be replaced, locked.
    old: Option<File>,
    workshop: Workshop,
}

impl Place {
    fn take(path: &Path, replace: bool) -> Result<Self, BackupError> {
        naming::finish(path)?;
        let pool = naming::pool_in(path);
        let old = match File::open(&pool) {
            Ok(_) if !replace => return Err(BackupError::Exists { path: path.to_owned() }),
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(failed("open", &pool)(source)),
        };
        if let Some(old) = &old {
            lock(old, &pool, BackupError::InUse { path: path.to_owned() })?;
        }
        folders_beside().iter().try_for_each(|folder| check_old(path, folder, replace))?;
        let made = folder::make(path).map_err(failed("make", path))?;
        let taken = Workshop::take(path).inspect_err(|_| folder::remove(&made));
        let place = Self { path: path.to_owned(), replace, made, old, workshop: taken? };
        if naming::is_interrupted(path) {
            // Another process restored a database meanwhile.
            return Err(BackupError::Restoring { path: path.to_owned() });
        }
        // Left by a crash.
        place.workshop.clear()?;
        Ok(place)
    }

    /// The folder for new files whose destination is `named`; `None`: the `folder` beside the pool.
    fn beside(&self, folder: &str, named: PathBuf) -> Result<Option<PathBuf>, BackupError> {
        let old = self.path.join(folder);
        let absolute = std::path::absolute(&named).map_err(failed("find", &named))?;
        let beside = absolute.parent().and_then(|folder| folder.canonicalize().ok());
        if absolute.file_name() == old.file_name() && beside == self.path.canonicalize().ok() {
            return Ok(None);
        }
        let there = absolute.ancestors().find_map(|path| path.canonicalize().ok());
        match (there, old.canonicalize()) {
            (Some(new), Ok(old)) if new.starts_with(&old) => {
                Err(BackupError::SameLevels { path: named })
            }
            _ => Ok(Some(named)),
        }
    }

    /// Lets the database be the one of the folder, durably.
    fn name(&self) -> Result<(), BackupError> {
        let made = self.workshop.pool();
        let new = File::open(&made).and_then(|file| file.sync_all().map(|()| file));
        let new = new.map_err(failed("sync", &made))?;
        let are_in = |place: &Path| -> Result<Vec<_>, BackupError> {
            let mut found = folders_beside();
            let mut result = Ok(());
            found.retain(|folder| {
                naming::is_there(&place.join(folder)).unwrap_or_else(|error| {
                    result = Err(error);
                    false
                })
            });
            result.map(|()| found)
        };
        let beside = are_in(&self.workshop.path())?;
        let has_old = !are_in(&self.path)?.is_empty();
        if has_old && !self.replace {
            return Err(BackupError::Exists { path: self.path.clone() });
        }
        let is_only_pool = beside.is_empty() && !has_old;
        let beside = beside.into_iter().map(str::to_owned).collect();
        let kind = Kind { beside, replaces: self.old.is_some() };
        if !is_only_pool {
            // A process that finds the pool before the files beside it are in place has to wait.
            lock(&new, &made, BackupError::Restoring { path: self.path.clone() })?;
            let naming = Naming::begin(&self.workshop, kind)?;
            naming.name_pool().inspect_err(|_| drop(naming.give_up()))?;
            naming.name_beside()?;
            naming.end()?;
        } else {
            Naming { workshop: &self.workshop, kind }.name_pool()?;
            folder::sync(&self.path).map_err(failed("sync", &self.path))?;
        }
        folder::sync_names(&self.made).map_err(failed("sync the names above", &self.path))
    }

    fn leave(self) {
        // If the naming was interrupted, the next opening needs the files in the workshop.
        if !naming::is_interrupted(&self.path) {
            self.workshop.leave();
            // The folders stay if there is a database in them.
            folder::remove(&self.made);
        }
    }
}

/// Refuses files beside the pool that may not be replaced, or cannot.
fn check_old(path: &Path, folder: &str, replace: bool) -> Result<(), BackupError> {
    let old = path.join(folder);
    if !naming::is_there(&old)? {
        return Ok(());
    }
    if !replace {
        return Err(BackupError::LevelsExist { path: old });
    }
    let device = |metadata: io::Result<Metadata>| metadata.map(|metadata| metadata.dev());
    let (here, there) = (device(fs::metadata(path)), device(fs::symlink_metadata(&old)));
    match here.and_then(|here| Ok(here == there?)) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let why = "a file system is mounted there; restore to another folder";
            Err(failed("move away", &old)(io::Error::new(ErrorKind::ResourceBusy, why)))
        }
        Err(source) => Err(failed("look at", &old)(source)),
    }
}
