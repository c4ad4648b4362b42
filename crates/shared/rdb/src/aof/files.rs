//! The files of an append-only file.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Manifest, ManifestError};

/// The longest manifest that is read, in bytes.
const MANIFEST_LEN_MAX: u64 = 1 << 20;
/// How the name of a manifest ends.
const MANIFEST: &str = "manifest";

/// The files of an append-only file, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The paths of the files.
    pub paths: Vec<PathBuf>,
}

/// Why the files cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// A file or a folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A manifest is refused.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The reason.
        source: ManifestError,
    },
    /// A folder does not have just one manifest.
    #[error("{}: the folder has {found} manifests of an append-only file; name one", path.display())]
    NotOneManifest {
        /// The folder.
        path: PathBuf,
        /// How many manifests it has.
        found: usize,
    },
}

impl Files {
    /// The files that `path` stands for: those of a manifest if it is one, or if it is a folder with one, such as
    /// `appendonlydir`; else the file itself.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn find(path: &Path) -> Result<Self, FilesError> {
        let failed = |source| FilesError::Io { path: path.to_owned(), source };
        if fs::metadata(path).map_err(failed)?.is_dir() {
            Self::of_manifest(&only_manifest(path)?)
        } else if Self::is_manifest(path) {
            Self::of_manifest(path)
        } else {
            Ok(Self { paths: vec![path.to_owned()] })
        }
    }

    /// Whether `path` is a manifest by its name.
    #[must_use]
    pub fn is_manifest(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == MANIFEST)
    }

    fn of_manifest(path: &Path) -> Result<Self, FilesError> {
        let failed = |source| FilesError::Io { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(MANIFEST_LEN_MAX).read_to_end(&mut text).map_err(failed)?;
        let refused = |source| FilesError::Manifest { path: path.to_owned(), source };
        let manifest = Manifest::parse(&text).map_err(refused)?;
        let paths = manifest.load_order().map(|file| path.with_file_name(&file.name));
        Ok(Self { paths: paths.collect() })
    }
}

/// The one manifest in a folder.
fn only_manifest(folder: &Path) -> Result<PathBuf, FilesError> {
    let failed = |source| FilesError::Io { path: folder.to_owned(), source };
    let mut manifests = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if Files::is_manifest(&path) {
            manifests.push(path);
        }
    }
    let found = manifests.len();
    match manifests.pop() {
        Some(manifest) if found == 1 => Ok(manifest),
        _ => Err(FilesError::NotOneManifest { path: folder.to_owned(), found }),
    }
}
