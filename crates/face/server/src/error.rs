//! The errors of a server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a server does not start, or has stopped. Errors of a client are replies to that client, and are not here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {addr}: {source}; choose another address or port")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The reason.
        source: io::Error,
    },

    /// The unix socket cannot be listened on.
    #[error("cannot listen on the unix socket {}: {source}; choose another path", path.display())]
    UnixSocket {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// TLS cannot be set up.
    #[error("cannot set up TLS: {why}")]
    Tls {
        /// The reason.
        why: String,
    },

    /// The config file cannot be used.
    #[error("{at}: {why}")]
    ConfigFile {
        /// The file, and the line.
        at: String,
        /// The reason.
        why: String,
    },

    /// There is no address to listen on.
    #[error("there is no address to listen on; give at least one")]
    NoAddress,

    /// There would be no database to use.
    #[error("a server has at least one database, not 0")]
    NoDatabase,

    /// The file of the users cannot be read, or has wrong lines.
    #[error("{why}")]
    Users {
        /// The wrong lines with their numbers, or the reason.
        why: String,
    },

    /// A text names no [`crate::SyncPolicy`].
    #[error("`{text}` is no sync policy; say always, interval=<ms> or never")]
    SyncPolicy {
        /// The text.
        text: String,
    },

    /// A text names no [`crate::DebugCommand`].
    #[error("`{text}` does not say which clients may use DEBUG; say no, local or yes")]
    DebugCommand {
        /// The text.
        text: String,
    },

    /// The database has values that no server wrote.
    #[error(
        "the values in the key space `{space}` have no tags of a server: take them out with `halite dump`, \
         and `halite load` them into a new database"
    )]
    Untagged {
        /// The key space.
        space: String,
    },

    /// The database has values of a form that this version does not know.
    #[error(
        "the database was written by a newer version of Halite: its values are of form {found}, and this version \
         reads form {known}; use the newer one"
    )]
    NewerForm {
        /// The version of the form.
        found: u64,
        /// The highest known version.
        known: u64,
    },

    /// The operating system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },

    /// Writes could not be made durable. None was acknowledged since, and the server refused further ones.
    #[error("writes could not be made durable, and none was acknowledged since: {0}")]
    Sync(#[source] Arc<halite::Error>),

    /// A value of Redis' files cannot be stored, or one that is stored cannot be read.
    #[error("{why}")]
    Value {
        /// The reason.
        why: String,
    },

    /// The database failed.
    #[error(transparent)]
    Database(#[from] halite::Error),
}
