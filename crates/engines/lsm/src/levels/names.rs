//! Names of files.

use std::collections::BTreeMap;

/// The file that says which manifest is the store's.
pub(crate) const CURRENT: &str = "CURRENT";

/// The ending of the name of an unfinished file.
pub(crate) const UNFINISHED: &str = ".tmp";

/// The ending of the name of a file that is set aside.
const ASIDE: &str = ".damaged";

pub(crate) fn table(number: u64) -> String {
    format!("{number:06}.sst")
}

/// The file of a large value.
pub(crate) fn value_name(number: u64) -> String {
    format!("{number:06}.val")
}

pub(crate) fn manifest(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Table(u64),
    Value(u64),
    Manifest(u64),
    Current,
    /// One of these that is not whole.
    Unfinished,
}

/// The kind of a file; `None` if it is none of the levels'.
pub(crate) fn parse(name: &str) -> Option<Name> {
    if let Some(name) = name.strip_suffix(UNFINISHED) {
        return parse(name).map(|_| Name::Unfinished);
    }
    if name == CURRENT {
        return Some(Name::Current);
    }
    // Only the canonical form is accepted, so that `+1.sst` is no table.
    let number = |digits: &str| digits.parse().ok();
    let found = match name.strip_prefix("MANIFEST-") {
        Some(digits) => Name::Manifest(number(digits)?),
        None => match name.strip_suffix(".val") {
            Some(digits) => Name::Value(number(digits)?),
            None => Name::Table(number(name.strip_suffix(".sst")?)?),
        },
    };
    let written = match found {
        Name::Table(number) => table(number),
        Name::Value(number) => value_name(number),
        Name::Manifest(number) => manifest(number),
        _ => unreachable!("a number was found"),
    };
    (written == name).then_some(found)
}

/// Whether a file may be one of the levels'.
pub(crate) fn is_of_levels(name: &str) -> bool {
    parse(name).is_some()
}

/// A name that no file has, for one that is set aside.
pub(crate) fn aside(list: &BTreeMap<String, u64>, name: &str) -> String {
    let names = (2_u64..).map(|number| format!("{name}.{number}{ASIDE}"));
    let mut names = std::iter::once(format!("{name}{ASIDE}")).chain(names);
    names.find(|name| !list.contains_key(name)).expect("more names than files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_takes_no_name_of_another() {
        let mut list = BTreeMap::new();
        for wanted in ["CURRENT.damaged", "CURRENT.2.damaged", "CURRENT.3.damaged"] {
            let name = aside(&list, CURRENT);
            assert_eq!((&*name, parse(&name)), (wanted, None));
            list.insert(name, 0);
        }
    }

    #[test]
    fn names_are_what_they_were_made_for() {
        assert_eq!(parse(&table(7)), Some(Name::Table(7)));
        assert_eq!(parse(&table(u64::MAX)), Some(Name::Table(u64::MAX)));
        assert_eq!(parse(&manifest(12_345_678)), Some(Name::Manifest(12_345_678)));
        assert_eq!(parse(&value_name(7)), Some(Name::Value(7)));
        assert_eq!(parse("000007.sst.tmp"), Some(Name::Unfinished));
        assert_eq!(parse("000007.val.tmp"), Some(Name::Unfinished));
        assert_eq!(parse("CURRENT.tmp"), Some(Name::Unfinished));
        for other in
            ["7.sst", "+00007.sst", "notes.txt.tmp", "MANIFEST-", "wal-000001", "0000007.sst"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
