//! A set of rights: commands, and the keys and channels that they may be used on.

use super::category;
use super::numbers::{CommandSet, all, number_of, parts};
use super::patterns::{Access, KeyPattern};
use crate::commands::Command;

/// A set of rights. A request is allowed that one selector of the user allows as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(super) commands: CommandSet,
    /// It began with all commands: `rules` tells those that are not allowed.
    begins_with_all: bool,
    /// No command was taken out since.
    pub(super) has_all_commands: bool,
    /// First words behind which a command is allowed that is not in `commands`, by its number.
    pub(super) first_words: Vec<(usize, Box<[u8]>)>,
    /// The rules of commands and categories since, in their order: whether each of them allows, and its name.
    rules: Vec<(bool, Box<[u8]>)>,
    pub(super) has_all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) has_all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
}

impl Selector {
    /// No rights.
    pub(super) fn new(has_all_channels: bool) -> Self {
        Self {
            commands: CommandSet::NONE,
            begins_with_all: false,
            has_all_commands: false,
            first_words: Vec::new(),
            rules: Vec::new(),
            has_all_keys: false,
            keys: Vec::new(),
            has_all_channels,
            channels: Vec::new(),
        }
    }

    /// Whether it allows everything.
    pub(super) fn has_all(&self) -> bool {
        self.has_all_commands && self.has_all_keys && self.has_all_channels
    }

    /// Allows all commands, or none.
    pub(super) fn set_all_commands(&mut self, allows: bool) {
        self.commands = if allows { CommandSet::ALL } else { CommandSet::NONE };
        self.begins_with_all = allows;
        self.has_all_commands = allows;
        self.first_words.clear();
        self.rules.clear();
    }

    pub(super) fn set_all_keys(&mut self, allows: bool) {
        self.has_all_keys = allows;
        self.keys.clear();
    }

    pub(super) fn set_all_channels(&mut self, allows: bool) {
        self.has_all_channels = allows;
        self.channels.clear();
    }

    /// Allows a command with its parts, or does not.
    pub(super) fn set_command(&mut self, command: &'static Command, allows: bool) {
        self.change(command, allows);
        self.note_rule(allows, command.full_name.as_bytes());
    }

    /// Allows the commands of a category, or does not.
    pub(super) fn set_category(&mut self, category: &'static str, allows: bool) {
        all().filter(|command| category::has(command, category)).for_each(|command| {
            self.change(command, allows);
        });
        self.note_rule(allows, format!("@{category}").as_bytes());
    }

    fn change(&mut self, command: &'static Command, allows: bool) {
        let number = number_of(command);
        self.commands.put(number, allows);
        self.has_all_commands &= allows;
        self.first_words.retain(|(of, _)| *of != number);
        parts(command).iter().for_each(|part| self.commands.put(number_of(part), allows));
    }

    /// Allows a command where this word follows it.
    pub(super) fn allow_first_word(&mut self, command: &'static Command, word: &[u8]) {
        let number = number_of(command);
        let is_it =
            |(of, known): &(usize, Box<[u8]>)| *of == number && known.eq_ignore_ascii_case(word);
        if !self.first_words.iter().any(is_it) {
            self.first_words.push((number, word.into()));
        }
        let rule = [command.name.as_bytes(), b"|", word].concat();
        self.note_rule(true, &rule);
    }

    /// Notes a rule, in the place of older ones of the same name and of parts of it.
    fn note_rule(&mut self, allows: bool, name: &[u8]) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|(_, known)| match known.strip_prefix(&*name) {
            Some(rest) => !rest.is_empty() && rest[0] != b'|',
            None => true,
        });
        self.rules.push((allows, name.into()));
    }

    /// Adds a pattern of keys.
    pub(super) fn add_keys(&mut self, pattern: &[u8], access: Access) {
        match self.keys.iter_mut().find(|known| &*known.pattern == pattern) {
            Some(known) => {
                known.access.reads |= access.reads;
                known.access.writes |= access.writes;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.into(), access }),
        }
    }

    /// Adds a pattern of channels.
    pub(super) fn add_channels(&mut self, pattern: &[u8]) {
        if !self.channels.iter().any(|known| &**known == pattern) {
            self.channels.push(pattern.into());
        }
    }

    /// The rules of its commands.
    pub(crate) fn command_rules(&self) -> Vec<u8> {
        let mut out = if self.begins_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (allows, name) in &self.rules {
            out.extend_from_slice(if *allows { b" +" } else { b" -" });
            out.extend_from_slice(name);
        }
        out
    }

    /// The rules of its keys.
    pub(crate) fn key_rules(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let rule = |pattern: &KeyPattern| {
            let mut rule = Vec::new();
            pattern.write(&mut rule);
            rule
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules of its channels.
    pub(crate) fn channel_rules(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|name| [b"&", &**name].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, behind which the same words make the same selector of a new one.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut words = vec![self.key_rules()];
        if !self.has_all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.extend([self.channel_rules(), self.command_rules()]);
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}
