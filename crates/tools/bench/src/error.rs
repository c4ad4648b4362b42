//! The errors of measurements.

use std::io;
use std::path::PathBuf;

use crate::kv::StoreError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A measurement that could not be made, or whose figure would be meaningless.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store returned an error.
    #[error("{store}: cannot {action}: {source}")]
    Store {
        /// The store's name.
        store: String,
        /// The action that failed.
        action: &'static str,
        /// Its own error.
        source: StoreError,
    },

    /// A store returned another value than was put into it.
    #[error("{store}: wrong answer: {why}; its speed would mean nothing")]
    WrongAnswer {
        /// The store's name.
        store: String,
        /// The defect.
        why: String,
    },

    /// The process that was to be killed could not be run.
    #[error("{store}: the process to be killed: {source}")]
    Child {
        /// The store's name.
        store: String,
        /// The reason.
        source: io::Error,
    },

    /// A server did not start, or did not answer.
    #[error("{server}: cannot serve: {why}")]
    Server {
        /// The server's name.
        server: String,
        /// Its exit status, and its last output.
        why: String,
    },

    /// A connection to a server could not be used.
    #[error("{server}: cannot {action}: {source}")]
    Network {
        /// The server's name.
        server: String,
        /// The action that failed.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },

    /// A server replied with errors, or with replies that do not fit the requests.
    #[error(
        "{server}: {wrong} of {replies} replies were wrong, the first: {first}; \
         its speed would mean nothing"
    )]
    Replies {
        /// The server's name.
        server: String,
        /// Wrong replies.
        wrong: u64,
        /// All replies.
        replies: u64,
        /// The first wrong reply.
        first: String,
    },

    /// A violation was found in a soak.
    #[error("soak: {why}")]
    Soak {
        /// The violation, and where the evidence is kept.
        why: String,
    },

    /// There is no place for the stores.
    #[error("{}: cannot create the folder: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// An unknown name.
    #[error("there is no {kind} `{name}`; there is {known}")]
    Unknown {
        /// The kind of name.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },

    /// A peer that this program was built without.
    #[error(
        "{peer} is not built into this program; \
         `scripts/bench-peers {workload} --peer {peer}` builds and measures it (known peers: {known})"
    )]
    PeerApart {
        /// The peer.
        peer: String,
        /// The subcommand.
        workload: &'static str,
        /// The names of all peers of that subcommand.
        known: String,
    },

    /// A result has no place to go.
    #[error("{}: cannot {action}: {source}; nothing was measured", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },

    /// A result could not be written after the measuring.
    #[error("{thing}: {source}")]
    Write {
        /// The file, or standard output.
        thing: String,
        /// The reason.
        source: io::Error,
    },

    /// The user asked to stop.
    #[error("interrupted; what was measured until then is kept")]
    Interrupted,

    /// A block, or the pool under it, returned an error.
    #[error(transparent)]
    Block(#[from] halite_blocks::Error),

    /// The allocator returned an error.
    #[error(transparent)]
    Alloc(#[from] halite_alloc::Error),

    /// A pool returned an error.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),

    /// An option makes no sense.
    #[error("{option}: {why}")]
    Wrong {
        /// The option.
        option: &'static str,
        /// The defect.
        why: String,
    },
}

impl Error {
    /// A name that is not in `known`.
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self::Unknown { kind, name: name.to_owned(), known }
    }

    /// Turns a store's own error into one that names the store and the action.
    pub(crate) fn of_store(store: &str, action: &'static str) -> impl FnOnce(StoreError) -> Self {
        let store = store.to_owned();
        move |source| Self::Store { store, action, source }
    }
}
