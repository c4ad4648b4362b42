//! The house stands: arrows between crates point down, crates below the engines name none of them, modules do not
//! import each other in wide circles, and the program is built by cargo alone.
//!
//! The folders say the floors (`crates/FLOOR/CRATE`). What is looked at is text: the manifests, and the paths of `use` and
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

/// Circles that are still wider, each with its crate and its width, which may only shrink.
const WIDE: [(&str, usize); 3] = [("halite-lsm", 17), ("halite-server", 4), ("halite-server", 11)];

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
fn modules_do_not_import_each_other_in_wide_circles() {
    let mut known = WIDE.to_vec();
    let mut wrong = Vec::new();
    for of in Crate::all() {
        for circle in circles(&imports(&of.path.join("src"))) {
            if circle.len() <= CIRCLE_MAX {
                continue;
            }
            let place =
                known.iter().position(|&(name, len)| name == of.name && circle.len() <= len);
            match place {
                Some(place) => drop(known.remove(place)),
                None => wrong.push(format!("{}: {}", of.name, circle.join(" -> "))),
            }
        }
    }
    assert!(wrong.is_empty(), "more than {CIRCLE_MAX} files in a circle:\n{}", wrong.join("\n"));
    assert!(known.is_empty(), "these circles are gone, and their lines may go: {known:?}");
}

#[test]
fn the_program_needs_no_compiler_but_rusts() {
    // So that `cargo build --target x86_64-unknown-linux-musl` works where no C compiler for that target is.
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
    let compilers = ["bindgen", "cc", "cmake", "pkg_config"];
    let found: Vec<_> = compilers.iter().filter(|name| crates.contains(**name)).collect();
    assert!(found.is_empty(), "the program is built with {found:?}");
}
