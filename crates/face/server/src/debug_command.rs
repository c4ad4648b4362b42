//! Which clients may use DEBUG.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

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
    pub(crate) fn allows(self, client: IpAddr) -> bool {
        match self {
            Self::No => false,
            Self::Local => client.to_canonical().is_loopback(),
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
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_choice_is_its_text_and_allows_whom_it_names() {
        let (here, there) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::from([10, 0, 0, 1]));
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        for (text, allowed) in
            [("no", [false; 3]), ("local", [true, true, false]), ("yes", [true; 3])]
        {
            let choice: DebugCommand = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!([here, mapped, there].map(|client| choice.allows(client)), allowed);
        }
        assert!("maybe".parse::<DebugCommand>().is_err());
    }
}
