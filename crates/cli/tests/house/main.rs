//! The house stands: arrows between crates point down, crates below the engines name none of them, modules do not
//! import each other in wide circles, and the program is built by cargo alone.
//!
//! The folders give the floors (`crates/FLOOR/CRATE`). The tests read text: the manifests, and the paths of `use` and
//! of `crate::` and `super::` in the sources, tests left out.

use std::collections::BTreeSet;
use std::process::Command;

mod circles;
mod crates;
mod imports;

use circles::circles;
use crates::{Crate, Floor};
use imports::imports;

/// Files that may import each other in a circle.
const CIRCLE_MAX: usize = 3;

/// Engines whose names are words that sources use in other senses: the names of their crates are looked for instead.
const PLAIN_WORDS: [&str; 1] = ["table"];

#[test]
fn arrows_between_crates_point_down() {
    let crates = Crate::all();
    let floor = |name: &str| crates.iter().find(|of| of.name == name).map(|of| of.floor);
    let mut wrong = Vec::new();
    for from in &crates {
        for to in &from.depends_on {
            let below = floor(to).unwrap_or_else(|| panic!("{to} is no crate of the workspace"));
            let is_down = match (from.floor, below) {
                // An engine knows the contract, and no other engine.
                (Floor::Engines, Floor::Engines) => to == "halite-contract",
                (from, to) => from >= to,
            };
            if !is_down {
                wrong.push(format!("{} ({:?}) -> {to} ({below:?})", from.name, from.floor));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that do not point down:\n{}", wrong.join("\n"));
}

#[test]
fn crates_below_the_engines_name_none_of_them() {
    let crates = Crate::all();
    let is_engine = |of: &&Crate| of.floor == Floor::Engines && of.name != "halite-contract";
    let engines: Vec<_> = crates.iter().filter(is_engine).collect();
    let names: Vec<_> = engines.iter().map(|of| of.name.trim_start_matches("halite-")).collect();
    assert!(names.contains(&"lsm"), "{names:?}");
    let is_below = |of: &&Crate| of.floor < Floor::Engines || of.name == "halite-contract";
    let mut wrong = Vec::new();
    for of in crates.iter().filter(is_below) {
        for (file, text) in of.sources() {
            for (number, line) in (1..).zip(text.lines()) {
                let words = line.split(|at: char| !at.is_ascii_alphanumeric());
                let words: Vec<_> = words.map(str::to_ascii_lowercase).collect();
                let is_named = |name: &&str| match PLAIN_WORDS.contains(name) {
                    true => words.windows(2).any(|pair| pair[0] == "halite" && pair[1] == *name),
                    false => words.iter().any(|word| word == name),
                };
                if names.iter().any(is_named) {
                    wrong.push(format!("{}:{number}: {line}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "an engine is named below the engines:\n{}", wrong.join("\n"));
}

#[test]
fn modules_do_not_import_each_other_in_wide_circles() {
    let mut wrong = Vec::new();
    for of in Crate::all() {
        let found = circles(&imports(&of.path.join("src")));
        let wide = found.iter().filter(|circle| circle.len() > CIRCLE_MAX);
        wrong.extend(wide.map(|circle| format!("{}: {}", of.name, circle.join(" -> "))));
    }
    assert!(wrong.is_empty(), "more than {CIRCLE_MAX} files in a circle:\n{}", wrong.join("\n"));
}

#[test]
fn the_program_needs_no_compiler_but_those_of_rust_and_c() {
    // Lua is in C: its compiler, which links all programs, is the only one.
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "halite-cli",
            "--edges",
            "normal,build",
        ])
        .args(["--prefix", "none", "--format", "{lib}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let crates: BTreeSet<_> = str::from_utf8(&tree.stdout).unwrap().split_whitespace().collect();
    assert!(crates.contains("halite_lsm"), "{crates:?}");
    let compilers = ["bindgen", "cmake"];
    let found: Vec<_> = compilers.iter().filter(|name| crates.contains(**name)).collect();
    assert!(found.is_empty(), "the program is built with {found:?}");
}
