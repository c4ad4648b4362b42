//! Files of backups, and folders of them.
//!
//! In a folder, the name of a backup is its number, and that of the one that it follows: `0001.full`,
//! `0002.since-0001`. The files themselves record which one each follows; the names are for people.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use halite::{BackupError, BackupInfo, BackupReader};

use crate::{Error, Result};

/// An error of a backup in a file.
pub(crate) fn in_file(path: &Path, source: BackupError) -> Error {
    Error::Backup { path: path.to_owned(), source }
}

/// Opens a backup, which is read through the reader that `wrap` makes of the file.
pub(crate) fn open_backup<R: Read>(
    path: &Path,
    wrap: impl FnOnce(File) -> R,
) -> Result<BackupReader<BufReader<R>>> {
    let failed = |error| Error::io(path.display(), error);
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Error::input(path.display(), "a folder; name the files in it, or it alone"));
    }
    let input = BufReader::with_capacity(1 << 18, wrap(file));
    BackupReader::new(input).map_err(|error| in_file(path, error))
}

/// The identity of a backup.
pub(crate) fn info_of(path: &Path) -> Result<BackupInfo> {
    Ok(open_backup(path, |file| file)?.info().clone())
}

/// The files of a folder whose names begin with a number, ascending.
fn numbered(folder: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let failed = |error| Error::io(folder.display(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        found.extend(number_of(&path).map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

/// `12` of `0012.full` and of `0012.since-0011`.
fn number_of(path: &Path) -> Option<u32> {
    let (number, kind) = path.file_name()?.to_str()?.split_once('.')?;
    let is_backup = kind == "full" || kind.starts_with("since-") && !kind.ends_with(".part");
    number.parse().ok().filter(|_| is_backup)
}

/// The name of the next backup in a folder, which follows that in `previous`.
pub(crate) fn new_name(folder: &Path, previous: Option<&Path>) -> Result<PathBuf> {
    let last = numbered(folder)?.last().map_or(0, |(number, _)| *number);
    let kind = match previous {
        None => "full".to_owned(),
        Some(previous) => match number_of(previous) {
            Some(number) => format!("since-{number:04}"),
            None => "since-other".to_owned(),
        },
    };
    Ok(folder.join(format!("{:04}.{kind}", last.saturating_add(1))))
}

/// The newest backup of a folder.
pub(crate) fn newest(folder: &Path) -> Result<(PathBuf, BackupInfo)> {
    match numbered(folder)?.pop() {
        Some((_, path)) => info_of(&path).map(|info| (path, info)),
        None => Err(none_in(folder)),
    }
}

/// The newest full backup of a folder, and those that follow it.
pub(crate) fn chain_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut chain: Vec<PathBuf> = Vec::new();
    for (_, path) in numbered(folder)? {
        if path.extension().is_some_and(|kind| kind == "full") {
            chain.clear();
        }
        chain.push(path);
    }
    if chain.is_empty() { Err(none_in(folder)) } else { Ok(chain) }
}

fn none_in(folder: &Path) -> Error {
    Error::input(
        folder.display(),
        "there is no backup in this folder; take one with `halite backup`, or name a file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_chains() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        let names = |paths: Vec<PathBuf>| -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            paths.iter().map(name).collect()
        };
        assert!(chain_of(folder.path()).is_err());
        assert_eq!(names(vec![new_name(folder.path(), None).unwrap()]), ["0001.full"]);
        for name in ["0001.full", "0002.since-0001", "0003.full", "0010.since-0003", "notes.txt"] {
            add(name);
        }
        add("0011.since-0010.part");
        assert_eq!(names(chain_of(folder.path()).unwrap()), ["0003.full", "0010.since-0003"]);
        let previous = folder.path().join("0010.since-0003");
        let next = new_name(folder.path(), Some(&previous)).unwrap();
        assert_eq!(names(vec![next]), ["0011.since-0010"]);
    }
}
