//! The crates of the workspace, by floor.

use std::fs;
use std::path::{Path, PathBuf};

/// A floor of the house, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Floor {
    Ground,
    Shared,
    Engines,
    Face,
    Tools,
    Cli,
}

impl Floor {
    const FOLDERS: [(Self, &str); 5] = [
        (Self::Ground, "ground"),
        (Self::Shared, "shared"),
        (Self::Engines, "engines"),
        (Self::Face, "face"),
        (Self::Tools, "tools"),
    ];
}

/// A crate, by its manifest.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) floor: Floor,
    pub(crate) path: PathBuf,
    /// The crates of the workspace that it is built from; without those that only its tests need.
    pub(crate) depends_on: Vec<String>,
}

impl Crate {
    /// All crates but those of other people's stores, which are a workspace of their own.
    pub(crate) fn all() -> Vec<Self> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
        let programs = ["cli", "own-engine"].map(|name| crates.join(name));
        let mut all: Vec<_> =
            programs.into_iter().map(|path| Self::read(Floor::Cli, path)).collect();
        for (floor, folder) in Floor::FOLDERS {
            for entry in fs::read_dir(crates.join(folder)).expect("a floor") {
                let path = entry.expect("a crate").path();
                if path.join("Cargo.toml").exists() && !path.ends_with("bench-peers") {
                    all.push(Self::read(floor, path));
                }
            }
        }
        all
    }

    /// The sources of the crate and its manifest, by path.
    pub(crate) fn sources(&self) -> Vec<(PathBuf, String)> {
        let (mut found, mut folders) = (Vec::new(), vec![self.path.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("a file").path();
                let is_source = path.extension().is_some_and(|ext| ext == "rs" || ext == "toml");
                if path.is_dir() {
                    folders.push(path);
                } else if is_source {
                    let text = fs::read_to_string(&path).expect("a source");
                    found.push((path, text));
                }
            }
        }
        found
    }

    fn read(floor: Floor, path: PathBuf) -> Self {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        let (mut name, mut depends_on, mut section) = (String::new(), Vec::new(), "");
        for line in manifest.lines() {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
            } else if section == "package" && name.is_empty() {
                let value = line.strip_prefix("name = ").unwrap_or_default();
                name = value.trim_matches('"').to_owned();
            } else if section.ends_with("dependencies") && !section.contains("dev-") {
                let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
                if key == "halite" || key.starts_with("halite-") {
                    depends_on.push(key.to_owned());
                }
            }
        }
        Self { name, floor, path, depends_on }
    }
}
