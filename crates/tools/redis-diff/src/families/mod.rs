//! The commands that are sent, family by family.
//!
//! To add a family, add a file with a table of its patterns, and its row in [`FAMILIES`]. A pattern is the syntax of a
//! command ([`crate::pattern`]), and maybe how its replies are compared. A frequent command has several rows. Commands
//! whose effect a later one does not show need none that reads it.

mod bitmaps;
mod fields;
mod hashes;
mod hyperloglogs;
mod keys;
mod lists;
mod places;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

use crate::compare::Compare;
use crate::error::Error;

/// The syntax of a command, and how its replies are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) text: &'static str,
    pub(crate) compare: Compare,
}

impl Pattern {
    /// The name of the command, in upper case.
    pub(crate) fn name(self) -> &'static str {
        let first = self.text.split(' ').next().unwrap_or_default();
        first.trim_matches(['{', '}']).split('|').next().unwrap_or_default()
    }

    /// The names of the commands that it makes, in upper case: of several, all have the same words.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let first = self.text.split(' ').next().unwrap_or_default();
        first.trim_matches(['{', '}']).split('|')
    }
}

/// A pattern whose replies are the same bytes.
const fn exact(text: &'static str) -> Pattern {
    Pattern { text, compare: Compare::Exact }
}

/// A pattern whose replies are compared in another way.
const fn by(compare: Compare, text: &'static str) -> Pattern {
    Pattern { text, compare }
}

/// Differences of times, in seconds: both servers read their clocks at different moments.
const SECONDS: Compare = Compare::About(2);

/// Differences of times, in milliseconds.
const MILLISECONDS: Compare = Compare::About(2000);

/// The families, by name.
const FAMILIES: &[(&str, &[Pattern])] = &[
    ("bitmaps", bitmaps::PATTERNS),
    ("fields", fields::PATTERNS),
    ("hashes", hashes::PATTERNS),
    ("hyperloglogs", hyperloglogs::PATTERNS),
    ("keys", keys::PATTERNS),
    ("lists", lists::PATTERNS),
    ("places", places::PATTERNS),
    ("scripting", scripting::PATTERNS),
    ("server", server::PATTERNS),
    ("sets", sets::PATTERNS),
    ("sorted-sets", sorted_sets::PATTERNS),
    ("streams", streams::PATTERNS),
    ("strings", strings::PATTERNS),
];

/// The patterns of some families, or of all if none is named; of these commands, if some are named.
pub(crate) fn patterns(families: &[String], commands: &[String]) -> Result<Vec<Pattern>, Error> {
    for name in families {
        if !FAMILIES.iter().any(|(known, _)| known == name) {
            let known: Vec<_> = FAMILIES.iter().map(|(known, _)| *known).collect();
            return Err(Error::Family { name: name.clone(), known: known.join(", ") });
        }
    }
    let is_wanted =
        |name: &str| families.is_empty() || families.iter().any(|wanted| wanted == name);
    let chosen = FAMILIES.iter().filter(|(name, _)| is_wanted(name));
    let patterns = chosen.flat_map(|(_, patterns)| patterns.iter().copied());
    let is_named = |pattern: &Pattern| {
        commands.is_empty()
            || pattern.names().any(|name| commands.iter().any(|of| of.eq_ignore_ascii_case(name)))
    };
    Ok(patterns.filter(is_named).collect())
}
