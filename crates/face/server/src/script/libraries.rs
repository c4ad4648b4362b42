//! All libraries, and changes of them.
//!
//! A [`Draft`] gathers a change and checks it against the libraries that are there, which it does not copy: so a change
//! costs as much as the libraries that it is about.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::library::{FunctionInfo, Library};

/// All libraries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// By name of a function in lower case, as all are found: its library, and its place there.
    functions: HashMap<String, (Arc<Library>, usize)>,
    /// Bytes of the texts.
    body_len: usize,
}

impl Libraries {
    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// The library of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The function of this name, with its library.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &FunctionInfo)> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (library, index) = self.functions.get(&name)?;
        Some((library, library.functions.get(*index)?))
    }

    /// Adds a library; `Err`: a function that another library has.
    pub(crate) fn add(&mut self, library: Arc<Library>) -> Result<(), String> {
        let mut draft = Draft::of(self);
        draft.insert(library)?;
        draft.finish().apply(self);
        Ok(())
    }

    fn insert(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for (index, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (Arc::clone(&library), index));
        }
        self.body_len += library.body.len();
        self.by_name.insert(library.name.clone(), library);
    }

    fn remove(&mut self, name: &str) {
        let Some(library) = self.by_name.remove(name) else { return };
        self.body_len -= library.body.len();
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
    }
}

/// A change that is being made.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    before: &'a Libraries,
    change: Change,
    /// By name of a function in lower case: the name of the library that is added with it.
    functions: HashMap<String, String>,
    /// Bytes of the texts behind the change.
    body_len: usize,
}

/// A change of the libraries: first some go, and then others come.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) removed: BTreeSet<String>,
    pub(crate) added: BTreeMap<String, Arc<Library>>,
}

impl<'a> Draft<'a> {
    /// No change yet.
    pub(crate) fn of(before: &'a Libraries) -> Self {
        let (change, functions) = (Change::default(), HashMap::new());
        Self { before, change, functions, body_len: before.body_len }
    }

    /// The library of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Library>> {
        let kept = || Some(self.before.get(name)?).filter(|_| !self.change.removed.contains(name));
        self.change.added.get(name).or_else(kept)
    }

    /// Bytes of the texts.
    pub(crate) fn body_len(&self) -> usize {
        self.body_len
    }

    /// Adds a library in the place of one of the same name; `Err`: a function that another library has.
    pub(crate) fn insert(&mut self, library: Arc<Library>) -> Result<(), String> {
        let mut own = HashSet::new();
        let mut is_taken = |function: &&FunctionInfo| {
            let name = function.name.to_ascii_lowercase();
            let owner = self.functions.get(&name).map(String::as_str);
            let kept = self.before.functions.get(&name).map(|(owner, _)| owner.name.as_str());
            let kept = kept.filter(|owner| !self.change.removed.contains(*owner));
            owner.or(kept).is_some_and(|owner| owner != library.name) || !own.insert(name)
        };
        if let Some(taken) = library.functions.iter().find(&mut is_taken) {
            return Err(taken.name.clone());
        }
        self.remove(&library.name);
        for function in &library.functions {
            self.functions.insert(function.name.to_ascii_lowercase(), library.name.clone());
        }
        self.body_len += library.body.len();
        self.change.added.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; false: there is none of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.get(name).map(Arc::clone) else { return false };
        self.body_len -= library.body.len();
        if self.change.added.remove(name).is_some() {
            for function in &library.functions {
                self.functions.remove(&function.name.to_ascii_lowercase());
            }
        }
        if self.before.get(name).is_some() {
            self.change.removed.insert(name.to_owned());
        }
        true
    }

    /// Removes all libraries.
    pub(crate) fn clear(&mut self) {
        self.change.removed = self.before.by_name.keys().cloned().collect();
        self.change.added.clear();
        self.functions.clear();
        self.body_len = 0;
    }

    /// The change.
    pub(crate) fn finish(self) -> Change {
        self.change
    }
}

impl Change {
    /// Makes the change.
    pub(crate) fn apply(self, libraries: &mut Libraries) {
        self.removed.iter().for_each(|name| libraries.remove(name));
        self.added.into_values().for_each(|library| libraries.insert(library));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::flags::ScriptFlags;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let info = |name: &&str| FunctionInfo {
            name: (*name).to_owned(),
            description: None,
            flags: ScriptFlags::default(),
        };
        let functions = functions.iter().map(info).collect();
        Arc::new(Library::new(name.to_owned(), name.into(), functions, 0))
    }

    #[test]
    fn a_function_belongs_to_one_library() {
        let mut all = Libraries::default();
        all.add(library("a", &["f", "G"])).unwrap();
        assert_eq!(all.add(library("b", &["h", "g"])), Err("g".to_owned()));
        assert_eq!(all.add(library("b", &["h", "H"])), Err("H".to_owned()));
        let mut draft = Draft::of(&all);
        assert!(draft.remove("a") && !draft.remove("a"));
        assert_eq!(draft.body_len(), 0);
        draft.insert(library("b", &["g"])).unwrap();
        assert_eq!(draft.insert(library("a", &["G"])), Err("G".to_owned()));
        draft.insert(library("a", &["i"])).unwrap();
        draft.insert(library("a", &["j"])).unwrap();
        assert_eq!(draft.insert(library("c", &["J"])), Err("J".to_owned()));
        draft.insert(library("c", &["I"])).unwrap();
        assert_eq!(draft.body_len(), 3);
        draft.finish().apply(&mut all);
        assert_eq!((all.iter().len(), all.function_count(), all.body_len), (3, 3, 3));
        assert_eq!(all.function(b"G").unwrap().0.name, "b");
        assert!(all.function(b"f").is_none());
        let mut draft = Draft::of(&all);
        draft.insert(library("b", &["k"])).unwrap();
        draft.clear();
        draft.insert(library("a", &["g"])).unwrap();
        draft.finish().apply(&mut all);
        assert_eq!((all.iter().len(), all.function_count(), all.body_len), (1, 1, 1));
    }
}
