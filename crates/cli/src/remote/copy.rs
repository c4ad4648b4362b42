//! A copy of all that a server has, at one moment: a backup that the server takes, restored into a folder that goes with
//! it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use halite::{BackupError, BackupInfo, BackupReport, Database};

use super::{Client, Server};
use crate::backups::{in_file, open_backup};
use crate::interrupt::Interrupt;
use crate::{Error, Result, progress};

/// A folder for a while.
pub(crate) struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// A folder that goes at the end, also if the command is interrupted.
    pub(crate) fn new(interrupt: &Interrupt) -> Result<Self> {
        let name = format!("halite-server-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).map_err(|error| Error::io(folder.display(), error))?;
        let kept = folder.clone();
        // No other process knows its name.
        interrupt.at_end(move || drop(fs::remove_dir_all(kept)));
        Ok(Self { folder })
    }

    /// Lets a server write a backup into the folder, and checks that it is whole.
    pub(crate) fn fetch(&self, server: Server, interrupt: &Interrupt) -> Result<BackupReport> {
        let file = self.backup();
        let out = File::create_new(&file).map_err(|error| Error::io(file.display(), error))?;
        fetch(server.into_client(), interrupt, &file, &out, &file, None)
    }

    /// Restores the backup, and returns the folder of the database.
    pub(crate) fn restore(&self, interrupt: &Interrupt) -> Result<PathBuf> {
        let (file, path) = (self.backup(), self.folder.join("data"));
        let reader = open_backup(&file, |file| interrupt.reader(file))?;
        let restored = Database::builder().restore(&path, vec![reader], false);
        restored.map_err(|error| in_file(&file, error))?;
        Ok(path)
    }

    fn backup(&self) -> PathBuf {
        self.folder.join("backup")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // The system's folder for such files is emptied some time.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes a server's backup to `part`, which is open as `out` and will be `file`, and checks that it is whole.
pub(crate) fn fetch(
    mut client: Client,
    interrupt: &Interrupt,
    part: &Path,
    out: &File,
    file: &Path,
    previous: Option<&BackupInfo>,
) -> Result<BackupReport> {
    let since = previous.map(BackupInfo::encode);
    let mut begin = vec![&b"HALITE.BACKUP"[..], b"BEGIN"];
    if let Some(since) = &since {
        begin.extend([&b"SINCE"[..], since]);
    }
    client.call(&begin)?;
    let bar = progress::bytes("backing up", None);
    let mut writer = bar.wrap_write(interrupt.writer(out));
    while let Some(piece) = client.call(&[b"HALITE.BACKUP", b"NEXT"])? {
        writer.write_all(&piece).map_err(|error| in_file(file, BackupError::Write(error)))?;
    }
    bar.finish_and_clear();
    let bar = progress::bytes("checking", None);
    let checked = open_backup(part, |file| interrupt.reader(bar.wrap_read(file)))?.verify();
    bar.finish_and_clear();
    checked.map_err(|error| in_file(file, error))
}
