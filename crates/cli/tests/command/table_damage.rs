//! Stores of tables whose files are damaged, cut, of another program, or of another place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Ended, Home};
use crate::tables::{create, load};

/// The methods that have files beside the pool.
const WITH_FILES: [&str; 3] = ["inp", "cow", "log"];

/// The words about a file that is of another store, of no program that is known, or not there.
const SAID: [&str; 4] = [
    "is not of this store",
    "no file of copy-on-write trees",
    "there is no such file",
    "has no checkpoint",
];

/// Makes a store of two partitions with rows in it.
fn fill(home: &Home, method: &str) {
    create(home, &["--method", method, "--partitions", "2"]);
    let rows: String = (0..200).map(|id| format!("{id},owner {id},{id}.00,\\x00\n")).collect();
    load(home, &format!("id,owner,balance,key\n{rows}"), &[]).ok();
}

fn dump(home: &Home) -> Ended {
    home.run(&["table", "dump", "bank", "account"])
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.file_name().unwrap() != "LOCK").collect();
    files.sort();
    files
}

#[test]
fn a_damaged_file_is_damage_or_the_rows_that_were_there() {
    for method in WITH_FILES {
        let home = Home::in_memory();
        fill(&home, method);
        let expected = dump(&home).ok();
        for file in files(&home.path("bank/tables/1")) {
            let whole = fs::read(&file).unwrap();
            let mut named = 0;
            let mut see = |bytes: Option<&[u8]>| {
                fs::remove_file(&file).unwrap();
                bytes.map_or(Ok(()), |bytes| fs::write(&file, bytes)).unwrap();
                let ended = dump(&home);
                match ended.code {
                    Some(0) => assert!(ended.out == expected, "{}", file.display()),
                    Some(4) => named += 1,
                    // It is not even a file of the method, or not there.
                    Some(1) if SAID.iter().any(|said| ended.err.contains(said)) => named += 1,
                    _ => panic!("{}: {ended:?}", file.display()),
                }
                fs::write(&file, &whole).unwrap();
            };
            see(None);
            let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if used == 0 {
                // The log has reserved the file, and goes on in it later.
                continue;
            }
            for part in 0..16 {
                let mut damaged = whole.clone();
                damaged[used * part / 16] ^= 1 << (part % 8);
                see(Some(&damaged));
            }
            [0, used / 2, used - 1].into_iter().for_each(|len| see(Some(&whole[..len])));
            see(Some(&vec![b'x'; whole.len()]));
            assert!(named > 0, "{}", file.display());
            assert_eq!(dump(&home).ok(), expected);
        }
    }
}

#[test]
fn folders_of_partitions_that_were_exchanged_are_refused() {
    for method in WITH_FILES {
        let home = Home::in_memory();
        fill(&home, method);
        let expected = dump(&home).ok();
        let (one, other) = (home.path("bank/tables/0"), home.path("bank/tables/1"));
        let exchange = || {
            fs::rename(&one, home.path("aside")).unwrap();
            fs::rename(&other, &one).unwrap();
            fs::rename(home.path("aside"), &other).unwrap();
        };
        exchange();
        let ended = dump(&home);
        assert!(ended.err.contains("of another store or partition"), "{}", ended.err);
        ended.failed(1, "bank");
        exchange();
        assert_eq!(dump(&home).ok(), expected);
    }
}
