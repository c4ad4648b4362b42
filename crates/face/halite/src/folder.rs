//! Folders that are made on the way to a file, and whose names have to be durable with it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Makes a folder, and those above it that are missing. Returns the ones that were made, the outermost
/// first. [`sync_names`] makes their names durable.
///
/// # Errors
/// Why the folder cannot be made; no folder is made then.
pub(crate) fn make(path: &Path) -> io::Result<Vec<PathBuf>> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => made.push(folder.to_owned()),
            // Another process made it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                remove(&made);
                return Err(error);
            }
        }
    }
    match path.is_dir() {
        true => Ok(made),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Makes the names of folders durable: each is in the one above it.
///
/// # Errors
/// That of the first that cannot be synced.
pub(crate) fn sync_names(made: &[PathBuf]) -> io::Result<()> {
    made.iter().try_for_each(|folder| match folder.parent() {
        // The parent of a name alone is an empty path.
        Some(above) if above.as_os_str().is_empty() => sync(Path::new(".")),
        Some(above) => sync(above),
        None => Ok(()),
    })
}

/// Makes the names in a folder durable.
///
/// # Errors
/// Why it cannot be synced.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether a file, a folder or a link, even a dangling one, has this name.
///
/// # Errors
/// Why the name cannot be looked up.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes folders that were made, the innermost first; folders that are not empty stay.
pub(crate) fn remove(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_made_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        fs::create_dir(folder.path().join("a")).unwrap();
        let made = make(&path).unwrap();
        assert_eq!(made, [folder.path().join("a/b"), path.clone()]);
        sync_names(&made).unwrap();
        assert_eq!(make(&path).unwrap(), [] as [PathBuf; 0]);
        fs::write(path.join("file"), "").unwrap();
        assert!(make(&path.join("file")).is_err() && make(&path.join("file/d")).is_err());
        remove(&made);
        assert!(path.is_dir(), "there is something in it");
        fs::remove_file(path.join("file")).unwrap();
        remove(&made);
        assert!(!folder.path().join("a/b").exists() && folder.path().join("a").is_dir());
    }
}
