//! The proof of an admission.

use crate::commands::Command;
use crate::resp::Args;

/// A request that its client may have executed: its command is known, has as many words as it takes, and is allowed.
/// [`admit`](super::admit) makes one of a request, and a queue or a packet restores the one that it was given
/// ([`Admitted::kept`]): a request is placed and performed only behind all of these checks, which are made once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted<'a> {
    command: &'static Command,
    args: Args<'a>,
}

impl<'a> Admitted<'a> {
    pub(super) fn new(command: &'static Command, args: Args<'a>) -> Self {
        Self { command, args }
    }

    /// A request that was admitted before a transaction's queue or a packet took its command and words.
    pub(crate) fn kept(command: &'static Command, args: Args<'a>) -> Self {
        Self { command, args }
    }

    /// The words of the request.
    #[inline]
    pub(crate) fn command(self) -> &'static Command {
        self.command
    }

    /// The words; the first is the command's name.
    #[inline]
    pub(crate) fn args(self) -> Args<'a> {
        self.args
    }
}
