//! Which clients may use DEBUG.

use std::fmt;
use std::str::FromStr;

use crate::address::Address;

/// Which clients may use the command DEBUG, with which a client can keep a thread of the server from answering
/// others: the setting `enable-debug-command` of Redis.
///
/// ```
/// use halite_server::DebugCommand;
///
/// let allowed: DebugCommand = "local".parse()?;
/// assert_eq!(allowed, DebugCommand::Local);
/// # Ok::<(), halite_server::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DebugCommand {
    /// No client may.
    #[default]
    No,
    /// Clients on the server's own machine may.
    Local,
    /// All may.
    Yes,
}

impl DebugCommand {
    /// Whether a client at this address may.
    pub(crate) fn allows(self, client: &Address) -> bool {
        match self {
            Self::No => false,
            Self::Local => client.is_local(),
            Self::Yes => true,
        }
    }
}

impl FromStr for DebugCommand {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "no" => Ok(Self::No),
            "local" => Ok(Self::Local),
            "yes" => Ok(Self::Yes),
            _ => Err(crate::Error::DebugCommand { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for DebugCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::Local => "local",
            Self::Yes => "yes",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_its_text_and_allows_whom_it_names() {
        let clients = ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "10.0.0.1:1"];
        let clients = clients.map(|text| Address::Ip(text.parse().unwrap()));
        for (text, allowed) in
            [("no", [false; 3]), ("local", [true, true, false]), ("yes", [true; 3])]
        {
            let choice: DebugCommand = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(clients.each_ref().map(|client| choice.allows(client)), allowed);
        }
        assert!("maybe".parse::<DebugCommand>().is_err());
    }
}
