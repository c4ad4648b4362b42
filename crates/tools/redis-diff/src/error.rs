//! Why requests cannot be compared.

use std::io;

/// Why requests cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A program cannot be started.
    #[error("cannot start `{program}`: {source}; install it, or name another one with --redis")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The server of Redis takes no connections.
    #[error("`{program}` takes no connections on port {port}")]
    Silent {
        /// The program.
        program: String,
        /// Its port.
        port: u16,
    },
    /// There is no program to serve a database.
    #[error(
        "there is no program `halite` beside this one: build it (package halite-cli), or name one with --halite"
    )]
    NoProgram,
    /// The program that serves Halite's database does not answer.
    #[error("`{program}` does not serve its database; it says:\n{log}")]
    NotServed {
        /// The program.
        program: String,
        /// What it has printed.
        log: String,
    },
    /// Halite's database cannot be opened.
    #[error(transparent)]
    Database(#[from] halite::Error),
    /// Halite's server cannot be started.
    #[error(transparent)]
    Server(#[from] halite_server::Error),
    /// The connection to a server failed.
    #[error("the connection to {side} failed behind `{request}`: {source}")]
    Connection {
        /// The server.
        side: &'static str,
        /// The request that it did not answer.
        request: String,
        /// The reason.
        source: io::Error,
    },
    /// Another operation of the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no such family of commands.
    #[error("there is no family `{name}`; there are {known}")]
    Family {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// No pattern is left to be sent.
    #[error("no command is left to be sent")]
    NoPattern,
}
