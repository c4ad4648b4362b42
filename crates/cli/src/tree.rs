//! Files below a folder, as records: relative path → contents.

use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::formats::{Record, read_value};
use crate::{Error, Result};

/// The regular files below a folder, and the other entries.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: PathBuf,
    files: Vec<PathBuf>,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Symbolic links, devices, sockets and pipes, which are not followed or read.
    pub(crate) skipped: u64,
}

impl Tree {
    /// Walks `root`; the folder `except`, the database's own, is left out.
    pub(crate) fn walk(root: &Path, except: &Path) -> Result<Self> {
        let except = fs::metadata(except).ok();
        let mut tree = Self { root: root.to_owned(), ..Self::default() };
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in
                fs::read_dir(&folder).map_err(|error| Error::io(folder.display(), error))?
            {
                let entry = entry.map_err(|error| Error::io(folder.display(), error))?;
                let path = entry.path();
                // The metadata are those of a symbolic link itself, not of its target.
                let metadata =
                    entry.metadata().map_err(|error| Error::io(path.display(), error))?;
                if metadata.is_dir() {
                    if !except.as_ref().is_some_and(|except| same(except, &metadata)) {
                        folders.push(path);
                    }
                } else if metadata.is_file() {
                    tree.bytes += metadata.len();
                    tree.files.push(path);
                } else {
                    tree.skipped += 1;
                }
            }
        }
        tree.files.sort();
        Ok(tree)
    }

    /// The files' records, read one at a time.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record>> + '_ {
        self.files.iter().map(|path| self.record(path))
    }

    fn record(&self, path: &Path) -> Result<Record> {
        let failed = |error| Error::io(path.display(), error);
        let value = File::open(path).and_then(read_value).map_err(failed)?;
        let key = path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_bytes().to_vec();
        let record = Record { space: None, key, value };
        record.check().map_err(|why| Error::input(path.display(), why))?;
        Ok(record)
    }
}

/// Whether both are the same file or folder.
pub(crate) fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_regular_file_is_a_record_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join("data")).unwrap();
        fs::write(root.join("data/pool.halite"), "own").unwrap();
        fs::write(root.join("a/b/deep"), b"\0\xff").unwrap();
        fs::write(root.join("empty"), "").unwrap();
        fs::write(root.join(OsStr::from_bytes(b"not \xff UTF-8")), "x").unwrap();
        symlink("/dev/zero", root.join("link")).unwrap();
        symlink("..", root.join("a/loop")).unwrap();

        let tree = Tree::walk(root, &root.join("data")).unwrap();
        assert_eq!((tree.bytes, tree.skipped), (3, 2));
        let records: Vec<_> = tree.records().map(|record| record.unwrap()).collect();
        let pairs: Vec<_> =
            records.iter().map(|record| (&record.key[..], &record.value[..])).collect();
        assert_eq!(
            pairs,
            [(&b"a/b/deep"[..], &b"\0\xff"[..]), (b"empty", b""), (b"not \xff UTF-8", b"x")]
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        fs::write(&gone, "x").unwrap();
        let tree = Tree::walk(folder.path(), Path::new("/nowhere")).unwrap();
        fs::remove_file(&gone).unwrap();
        let error = tree.records().next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with(&gone.display().to_string()), "{error}");
    }
}
