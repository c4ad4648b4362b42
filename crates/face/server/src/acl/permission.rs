//! Whether a user may have a request executed.

use super::numbers::{judged, number_of};
use super::patterns::{Access, Channel};
use super::selector::Selector;
use super::user::User;
use crate::commands::{Command, flags, key_access};
use crate::resp::Args;

/// Why a request is not allowed. Of several reasons, a later one of these counts, and of one kind the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    Command,
    /// The word with this index is a key that the user may not use in this way.
    Key(usize),
    /// The word with this index is a channel that the user may not use.
    Channel(usize),
}

impl Denied {
    /// The thing that was refused.
    pub(crate) fn object<'a>(self, command: &'static Command, args: Args<'a>) -> &'a [u8]
    where
        'static: 'a,
    {
        match self {
            Self::Command => judged(command).full_name.as_bytes(),
            Self::Key(index) | Self::Channel(index) => args.get(index).unwrap_or_default(),
        }
    }

    /// The reason as text, for the client.
    pub(crate) fn text(self, user: &User, command: &'static Command) -> Vec<u8> {
        match self {
            Self::Command => {
                let name = judged(command).full_name;
                let behind = format!(" has no permissions to run the '{name}' command");
                [b"User ", &*user.name, behind.as_bytes()].concat()
            }
            Self::Key(_) => b"No permissions to access a key".to_vec(),
            Self::Channel(_) => b"No permissions to access a channel".to_vec(),
        }
    }

    /// The reason as text that names what was refused, for an administrator.
    pub(crate) fn full_text(
        self,
        user: &User,
        command: &'static Command,
        args: Args<'_>,
    ) -> Vec<u8> {
        let kind = match self {
            Self::Command => return self.text(user, command),
            Self::Key(_) => "key",
            Self::Channel(_) => "channel",
        };
        let object = self.object(command, args);
        let behind = format!("' {kind}");
        let parts: [&[u8]; 5] = [
            b"User ",
            &user.name,
            b" has no permissions to access the '",
            object,
            behind.as_bytes(),
        ];
        parts.concat()
    }

    /// The reason for which EXEC does not execute a command that was queued.
    pub(crate) fn exec_text(self) -> &'static str {
        match self {
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key(_) => "no permission to touch the specified keys",
            Self::Channel(_) => {
                "no permission to access one of the channels used as argument to the command"
            }
        }
    }
}

impl User {
    /// Whether the user may have this request executed. `go_on` ends the matching of long patterns: nothing matches then.
    pub(crate) fn check(
        &self,
        command: &'static Command,
        args: Args<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), Denied> {
        let mut denied = Denied::Command;
        for selector in &self.selectors {
            match selector.check(command, args, go_on) {
                Ok(()) => return Ok(()),
                Err(why) => denied = denied.max(why),
            }
        }
        Err(denied)
    }

    /// Whether a selector that allows this request lets it read any key.
    pub(crate) fn reads_any_key(
        &self,
        command: &'static Command,
        args: Args<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> bool {
        let reading = Access { reads: true, writes: false };
        self.selectors.iter().any(|selector| {
            let any =
                selector.has_all_keys || selector.keys.iter().any(|key| key.gives_all(reading));
            any && selector.check(command, args, go_on).is_ok()
        })
    }

    /// Whether the user may receive the messages of a channel.
    pub(crate) fn hears(&self, channel: Channel<'_>, go_on: &dyn Fn() -> bool) -> bool {
        self.selectors.iter().any(|selector| selector.has_channel(channel, go_on))
    }
}

impl Selector {
    fn check(
        &self,
        command: &'static Command,
        args: Args<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), Denied> {
        if !self.has_all_commands
            && !command.is_any(flags::NO_AUTH | flags::ANY_USER)
            && !self.has_command(command, args)
        {
            return Err(Denied::Command);
        }
        if !self.has_all_keys {
            self.check_keys(command, args, go_on)?;
        }
        if !self.has_all_channels && command.is(flags::PUBSUB) {
            for (index, channel) in channels(command, args) {
                if !self.has_channel(channel, go_on) {
                    return Err(Denied::Channel(index));
                }
            }
        }
        Ok(())
    }

    fn has_command(&self, command: &'static Command, args: Args<'_>) -> bool {
        let number = number_of(judged(command));
        let is_first = |(of, word): &(usize, Box<[u8]>)| {
            *of == number && args.get(1).is_some_and(|first| first.eq_ignore_ascii_case(word))
        };
        self.commands.has(number) || self.first_words.iter().any(is_first)
    }

    fn check_keys(
        &self,
        command: &'static Command,
        args: Args<'_>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), Denied> {
        let access = key_access(command, args);
        for index in command.key_indexes(args) {
            let Some(key) = args.get(index) else { continue };
            let (reads, writes) = access(index);
            let access = Access { reads, writes };
            if !self.keys.iter().any(|pattern| pattern.gives(key, access, go_on)) {
                return Err(Denied::Key(index));
            }
        }
        Ok(())
    }

    fn has_channel(&self, channel: Channel<'_>, go_on: &dyn Fn() -> bool) -> bool {
        self.has_all_channels || self.channels.iter().any(|pattern| channel.is_in(pattern, go_on))
    }
}

/// The channels that a request names, and the indexes of these words. A client may end any subscription.
fn channels<'a>(
    command: &Command,
    args: Args<'a>,
) -> impl Iterator<Item = (usize, Channel<'a>)> + use<'a> {
    let (count, is_pattern) = match command.name {
        "publish" | "spublish" => (1, false),
        "subscribe" | "ssubscribe" => (args.len(), false),
        "psubscribe" => (args.len(), true),
        _ => (0, false),
    };
    let words = args.iter().enumerate().skip(1).take(count);
    words.map(move |(index, name)| (index, Channel { name, is_pattern }))
}
