//! Which files of a crate import which: by `use`, and by paths that begin with `crate` or `super`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module, by the names on the way to it: `["sst", "table"]`.
pub(crate) type Module = Vec<String>;

/// The modules of a crate's sources, each with those that it imports; its own submodules are left out.
pub(crate) fn imports(src: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut sources = BTreeMap::new();
    read(src, &mut Vec::new(), &mut sources);
    let known: BTreeSet<Module> = sources.keys().cloned().collect();
    let imported = |(module, text): (Module, String)| {
        let targets = paths(&text).into_iter().filter_map(|path| {
            let mut target = absolute(&module, &path)?;
            while !target.is_empty() && !known.contains(&target) {
                target.pop();
            }
            let is_other = !target.is_empty() && target != module && !target.starts_with(&module);
            is_other.then_some(target)
        });
        let targets = targets.collect();
        (module, targets)
    };
    sources.into_iter().map(imported).collect()
}

fn read(folder: &Path, at: &mut Module, sources: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            at.push(stem);
            read(&path, at, sources);
            at.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut module = at.clone();
            if !["mod", "lib", "main"].contains(&&*stem) {
                module.push(stem.clone());
            }
            if ["tests", "loom_tests"].contains(&&*stem) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source is text");
            sources.insert(module, without_tests(&text));
        }
    }
}

/// The code that ships: without the tests at the end, and without comments.
fn without_tests(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    shipped.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The paths in a source that lead to its own crate, with the groups of `use` taken apart.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for statement in text.split("use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        if ["crate", "super", "self"].iter().any(|root| statement.starts_with(root)) {
            expand(&[], statement, &mut found);
        }
    }
    for root in ["crate::", "super::"] {
        for (at, _) in text.match_indices(root) {
            let is_name = |char: char| char.is_alphanumeric() || char == '_';
            let is_begun =
                text[..at].chars().next_back().is_some_and(|char| is_name(char) || char == ':');
            if !is_begun {
                let path = text[at..].split(|char: char| !is_name(char) && char != ':').next();
                found.push(names(path.unwrap_or_default()));
            }
        }
    }
    found
}

fn names(path: &str) -> Vec<String> {
    let first_word = |name: &str| name.split_whitespace().next().unwrap_or_default().to_owned();
    path.split("::").map(first_word).filter(|name| !name.is_empty()).collect()
}

/// Takes `a::{b, c::{d}}` apart into `a::b` and `a::c::d`.
fn expand(prefix: &[String], rest: &str, found: &mut Vec<Vec<String>>) {
    let Some((head, body)) = rest.split_once('{') else {
        found.push([prefix, &names(rest)].concat());
        return;
    };
    let prefix = [prefix, &names(head)].concat();
    let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
    let (mut depth, mut begin) = (0, 0);
    for (at, char) in body.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &body[begin..at], found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &body[begin..], found);
}

/// A path as it is from the crate's root.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut base = if first == "crate" { Vec::new() } else { module.clone() };
    let mut rest = if first == "crate" { rest } else { path };
    while let Some((name, further)) = rest.split_first()
        && ["super", "self"].contains(&&**name)
    {
        if name == "super" {
            base.pop()?;
        }
        rest = further;
    }
    base.extend_from_slice(rest);
    Some(base)
}
