//! Commands, and parts of commands, by numbers: a set of them is a bitmap.

use std::sync::LazyLock;

use crate::commands::{self, Command, flags};

/// How many numbers a set has room for; a test says that there are not more commands.
const NUMBERS_MAX: usize = 1024;

/// The number of each command of the table; those of its parts follow it.
static FIRST: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let mut next = 0;
    let number = |command: &Command| {
        let number = next;
        next += 1 + command.subcommands.len();
        number
    };
    commands::all().iter().map(number).collect()
});

/// The parts of a command that have rights of their own. The words behind a command that does more than its parts in
/// the table, such as DEBUG, are like first words of any other command.
pub(crate) fn parts(command: &Command) -> &'static [Command] {
    if command.is(flags::HAS_OTHERS) { &[] } else { command.subcommands }
}

/// The command by whose rights a request is judged.
pub(super) fn judged(command: &'static Command) -> &'static Command {
    let Some((whole, _)) = command.full_name.split_once('|') else { return command };
    commands::find(whole.as_bytes()).filter(|whole| whole.is(flags::HAS_OTHERS)).unwrap_or(command)
}

/// The number of a command that is judged by itself.
pub(super) fn number_of(command: &'static Command) -> usize {
    if let Some(place) = commands::number(command) {
        return FIRST[place];
    }
    let (whole, part) = command.full_name.split_once('|').unwrap_or((command.full_name, ""));
    let Some(whole) = commands::find(whole.as_bytes()) else { return NUMBERS_MAX };
    let first = commands::number(whole).map_or(NUMBERS_MAX, |place| FIRST[place]);
    let place = whole.subcommands.iter().position(|command| command.name == part);
    place.map_or(NUMBERS_MAX, |place| first + 1 + place)
}

/// The command that a rule names: `config`, or `config|get`.
pub(super) fn named(name: &[u8]) -> Option<&'static Command> {
    let Some(bar) = name.iter().position(|&byte| byte == b'|') else { return commands::find(name) };
    let (whole, part) = (commands::find(&name[..bar])?, &name[bar + 1..]);
    parts(whole).iter().find(|command| crate::call::is(part, command.name))
}

/// All commands and parts that have rights of their own.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    commands::all().iter().flat_map(|whole| std::iter::once(whole).chain(parts(whole)))
}

/// A set of commands and parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommandSet([u64; NUMBERS_MAX / 64]);

impl CommandSet {
    pub(super) const NONE: Self = Self([0; NUMBERS_MAX / 64]);
    pub(super) const ALL: Self = Self([u64::MAX; NUMBERS_MAX / 64]);

    pub(super) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn put(&mut self, number: usize, is_in: bool) {
        let Some(word) = self.0.get_mut(number / 64) else { return };
        let bit = 1 << (number % 64);
        *word = if is_in { *word | bit } else { *word & !bit };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_command_has_a_number_of_its_own() {
        let with_parts =
            commands::all().iter().flat_map(|c| std::iter::once(c).chain(c.subcommands));
        let numbers: Vec<_> = with_parts.map(number_of).collect();
        assert!(numbers.iter().all(|number| *number < NUMBERS_MAX));
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
    }

    #[test]
    fn commands_are_found_by_the_names_of_rules() {
        assert_eq!(named(b"CONFIG|Get").unwrap().full_name, "config|get");
        assert_eq!(named(b"get").unwrap().name, "get");
        for name in ["config|", "config|nope", "get|x", "debug|object", "|", "config|get|x"] {
            assert!(named(name.as_bytes()).is_none(), "{name}");
        }
        let part = &commands::find(b"debug").unwrap().subcommands[0];
        assert_eq!(judged(part).name, "debug");
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let mut set = CommandSet::NONE;
        set.put(77, true);
        set.put(NUMBERS_MAX, true);
        assert!(set.has(77) && !set.has(76) && !set.has(NUMBERS_MAX));
        set.put(77, false);
        assert_eq!(set, CommandSet::NONE);
    }
}
