//! The text form of a topology.
//!
//! ```text
//! topology = class { ";" class }
//! class    = [ "prefer=random" | "prefer=sequential" ] { vdevs }
//! vdevs    = { leaf } | "single" { leaf } | ("mirror" | "parity1" | "parity2" | "parity3") { leaf }
//! leaf     = [ "file:" | "pmem:" ] path [ "@" size ] | "memory:" size
//! size     = digits [ "K" | "M" | "G" | "T" ]
//! ```
//!
//! Leaves behind `single`, and those before any such word, are vdevs of one leaf each. Words are separated by spaces.
//! Any part of a word may be in quotation marks, in which `\"` and `\\` stand for these two; a path that is not quoted
//! has neither spaces nor `;`, `@`, `"` and `\`. A path without `file:` begins with `/` or `.`, so that a misspelt word
//! is not taken for one.

use std::fmt;

use super::{Class, LeafPlace, PreferredAccess, Topology, TopologyError, VdevTopology, size};
use crate::Arrangement;

/// A character, and whether it was quoted: then it has no meaning of its own.
type Char = (char, bool);

/// Reads classes, of which nothing else is checked.
pub(super) fn read(text: &str) -> Result<Vec<Class>, TopologyError> {
    let words = words(text)?;
    if words.is_empty() {
        return Ok(Vec::new());
    }
    words.split(|word| word[..] == [(';', false)]).map(read_class).collect()
}

/// The words, and each `;` that is not quoted as one.
fn words(text: &str) -> Result<Vec<Vec<Char>>, TopologyError> {
    let mut words: Vec<Vec<Char>> = Vec::new();
    // The word that is being read; `""` is one, too.
    let mut word: Option<Vec<Char>> = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            ';' => {
                words.extend(word.take());
                words.push(vec![(';', false)]);
            }
            '"' => quoted(&mut chars, word.get_or_insert_default())?,
            char if char.is_whitespace() => words.extend(word.take()),
            char => word.get_or_insert_default().push((char, false)),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the end of a quotation.
fn quoted(chars: &mut std::str::Chars<'_>, word: &mut Vec<Char>) -> Result<(), TopologyError> {
    let begin = || chars.clone().take(20).collect();
    let open = TopologyError::OpenQuotation { begin: begin() };
    loop {
        match chars.next() {
            Some('"') => return Ok(()),
            Some('\\') => word.push((chars.next().ok_or(open.clone())?, true)),
            Some(char) => word.push((char, true)),
            None => return Err(open),
        }
    }
}

fn plain(word: &[Char]) -> String {
    word.iter().map(|(char, _)| *char).collect()
}

/// The rest of a word behind `prefix`, if it begins so, unquoted.
fn behind<'a>(word: &'a [Char], prefix: &str) -> Option<&'a [Char]> {
    let mut rest = word;
    for expected in prefix.chars() {
        let (first, behind) = rest.split_first()?;
        if *first != (expected, false) {
            return None;
        }
        rest = behind;
    }
    Some(rest)
}

fn arrangement(word: &[Char]) -> Option<Arrangement> {
    const ALL: [Arrangement; 5] = [
        Arrangement::Single,
        Arrangement::Mirror,
        Arrangement::Parity(1),
        Arrangement::Parity(2),
        Arrangement::Parity(3),
    ];
    ALL.into_iter().find(|all| behind(word, &all.to_string()).is_some_and(<[_]>::is_empty))
}

fn read_class(mut words: &[Vec<Char>]) -> Result<Class, TopologyError> {
    let mut class = Class::default();
    if let Some((first, rest)) = words.split_first()
        && let Some(name) = behind(first, "prefer=")
    {
        let access = PreferredAccess::of_name(&plain(name));
        let access = access.ok_or_else(|| TopologyError::Preference { word: plain(first) })?;
        (class.preferred_access, words) = (Some(access), rest);
    }
    // Single leaves that are open to more.
    let mut now = VdevTopology { arrangement: Arrangement::Single, leaves: Vec::new() };
    let mut was_named = false;
    for word in words {
        if let Some(arrangement) = arrangement(word) {
            close(&mut class, &mut now, was_named);
            (now.arrangement, was_named) = (arrangement, true);
        } else {
            now.leaves.push(read_leaf(word)?);
        }
    }
    close(&mut class, &mut now, was_named);
    Ok(class)
}

/// Ends a list of leaves; one that was named is a vdev even without any, which is an error then.
fn close(class: &mut Class, now: &mut VdevTopology, was_named: bool) {
    let arrangement = now.arrangement;
    let leaves = std::mem::take(&mut now.leaves);
    if arrangement == Arrangement::Single && !leaves.is_empty() {
        let alone = |leaf| VdevTopology { arrangement, leaves: vec![leaf] };
        class.vdevs.extend(leaves.into_iter().map(alone));
    } else if was_named {
        class.vdevs.push(VdevTopology { arrangement, leaves });
    }
}

fn read_leaf(word: &[Char]) -> Result<LeafPlace, TopologyError> {
    if let Some(size) = behind(word, "memory:") {
        return Ok(LeafPlace::Memory { size: size::read(&plain(size))? });
    }
    let (is_pmem, rest) = match (behind(word, "pmem:"), behind(word, "file:")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) if matches!(word.first(), Some(('/' | '.', _))) => (false, word),
        (None, None) if behind(word, "prefer=").is_some() => {
            return Err(TopologyError::Preference { word: plain(word) });
        }
        (None, None) => return Err(TopologyError::UnknownWord { word: plain(word) }),
    };
    let at = rest.iter().rposition(|char| *char == ('@', false));
    let (path, size) = match at {
        Some(at) => (plain(&rest[..at]), Some(size::read(&plain(&rest[at + 1..]))?)),
        None => (plain(rest), None),
    };
    Ok(if is_pmem { LeafPlace::Pmem { path, size } } else { LeafPlace::File { path, size } })
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for Class { preferred_access, vdevs } in self.classes() {
            f.write_str(separator)?;
            separator = " ; ";
            let mut space = "";
            if let Some(access) = preferred_access {
                write!(f, "prefer={}", access.name())?;
                space = " ";
            }
            let mut is_open = true;
            for vdev in vdevs {
                f.write_str(space)?;
                space = " ";
                let is_single = vdev.arrangement == Arrangement::Single;
                if is_single && !is_open {
                    f.write_str("single ")?;
                }
                is_open = is_single;
                write!(f, "{vdev}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for VdevTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.arrangement != Arrangement::Single {
            write!(f, "{}", self.arrangement)?;
        }
        for (number, leaf) in self.leaves.iter().enumerate() {
            let is_first = number == 0 && self.arrangement == Arrangement::Single;
            write!(f, "{}{leaf}", if is_first { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Display for LeafPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::File { .. } => "file:",
            Self::Pmem { .. } => "pmem:",
            Self::Memory { size } => return write!(f, "memory:{}", size::write(*size)),
        };
        let path = self.path().unwrap_or_default();
        f.write_str(kind)?;
        let is_plain =
            |char: char| !char.is_whitespace() && !matches!(char, ';' | '@' | '"' | '\\');
        if path.chars().all(is_plain) {
            f.write_str(path)?;
        } else {
            write!(f, "\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))?;
        }
        match self.size() {
            Some(size) => write!(f, "@{}", size::write(size)),
            None => Ok(()),
        }
    }
}
