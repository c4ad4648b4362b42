//! `halite snapshot`.

mod receive;
mod send;
mod stream;

use clap::{Args, Subcommand};
use halite::{Database, KeySpace, SnapshotInfo};
use serde_json::json;

use crate::folder::{in_database, need_space, open};
use crate::place::Place;
use crate::values::{check_companions, check_form, check_not_note};
use crate::{Error, Result, escape, output};
use receive::Receive;
use send::Send;

const EXAMPLES: &str = "\
Examples:
  halite snapshot create ./data monday --space people
  halite snapshot ls ./data --space people
  halite get ./data user:7 --space people --snapshot monday
  halite snapshot clone ./data monday experiment --space people     a key space that begins as it
  halite snapshot rollback ./data monday --space people             what was written since is gone
  halite snapshot send ./data monday --space people | ssh host halite snapshot receive ./copy
  halite snapshot rm ./data monday --space people

A snapshot is of one key space, the server's `db0` if none is named, and stays until it is removed. It takes one commit, and
then the room of what changes. Of a server's key space, it has the values; times to live are in `db0:expires`. Snapshots are
of the engine betree.";

const CREATE_EXAMPLES: &str = "\
Examples:
  halite snapshot create ./data monday
  halite snapshot create ./data monday --space people";

const LS_EXAMPLES: &str = "\
Examples:
  halite snapshot ls ./data --space people          the oldest first, with the key spaces that began as them
  halite snapshot ls ./data --json | jq -r .name";

const RM_EXAMPLES: &str = "\
Examples:
  halite snapshot rm ./data monday --space people

Its space is free behind the next two checkpoints. A snapshot that a key space began as stays until that is removed.";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  halite snapshot rollback ./data monday --space people
  halite snapshot rollback ./data monday --space people --force      newer snapshots of it go, too";

const CLONE_EXAMPLES: &str = "\
Examples:
  halite snapshot clone ./data monday experiment --space people
  halite snapshot clone ./data monday db7                       what a server served as database 0, as database 7

They share what neither changes.";

const TOKEN_EXAMPLES: &str = "\
Examples:
  token=$(halite snapshot token ./copy --space people) || echo none      exit code 3
  halite snapshot send ./data monday --space people --resume $token | halite snapshot receive ./copy

The token says what the database lacks of a stream whose receipt was interrupted.";

const DISCARD_EXAMPLES: &str = "\
Examples:
  halite snapshot discard ./copy --space people      frees its space; another stream for the key space does, too";

/// Keep a key space as it is, go back to that, and send it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Keep a key space as it is now
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        #[command(flatten)]
        place: Place,

        /// The snapshot's name, unique in its key space
        name: String,
    },
    /// List the snapshots of a key space
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        place: Place,

        /// Print JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Remove a snapshot
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        #[command(flatten)]
        place: Place,

        /// The snapshot
        name: String,
    },
    /// Make a key space what it was
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback {
        #[command(flatten)]
        place: Place,

        /// The snapshot
        name: String,

        /// Remove newer snapshots
        #[arg(long)]
        force: bool,
    },
    /// Make a key space that begins as a snapshot
    #[command(after_help = CLONE_EXAMPLES)]
    Clone {
        #[command(flatten)]
        place: Place,

        /// The snapshot
        name: String,

        /// The name of the new key space
        new: String,
    },
    Send(Send),
    Receive(Receive),
    /// Print the token of a stream whose receipt was interrupted
    #[command(after_help = TOKEN_EXAMPLES)]
    Token {
        #[command(flatten)]
        place: Place,
    },
    /// Discard the received part of a stream that was interrupted
    #[command(after_help = DISCARD_EXAMPLES)]
    Discard {
        #[command(flatten)]
        place: Place,
    },
}

impl Snapshot {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Create { place, name } => {
                with_space(place, |_, space| done(place, space.keep_snapshot(name)))
            }
            Action::Ls { place, json } => with_space(place, |_, space| {
                let snapshots = done(place, space.kept_snapshots())?;
                snapshots.iter().try_for_each(|snapshot| print(snapshot, *json))
            }),
            Action::Rm { place, name } => {
                with_space(place, |_, space| done(place, space.delete_snapshot(name)))
            }
            Action::Rollback { place, name, force } => with_space(place, |db, space| {
                check_companions(db, space, "the snapshot")?;
                done(place, space.rollback(name, *force))
            }),
            Action::Clone { place, name, new } => with_space(place, |db, space| {
                check_form(space.name(), new)?;
                check_companions(db, space, "the new key space")?;
                done(place, space.clone_snapshot(name, new).map(drop))
            }),
            Action::Send(send) => send.run(),
            Action::Receive(receive) => receive.run(),
            Action::Token { place } => {
                let token = done(place, open(&place.path)?.receive_token(&place.space))?;
                let (path, space) = (place.path.clone(), place.space.clone());
                let token = token.ok_or(Error::NoToken { path, space })?;
                output::text(&format!("{token}\n"))
            }
            Action::Discard { place } => {
                match done(place, open(&place.path)?.discard_received(&place.space))? {
                    true => Ok(()),
                    false => {
                        let (path, space) = (place.path.clone(), place.space.clone());
                        Err(Error::NoToken { path, space })
                    }
                }
            }
        }
    }
}

/// Opens a key space that exists, and is no note of the server's.
fn with_space<T>(place: &Place, act: impl FnOnce(&Database, &KeySpace) -> Result<T>) -> Result<T> {
    let db = open(&place.path)?;
    let space = need_space(&db, &place.space)?;
    check_not_note(&place.space)?;
    act(&db, &space)
}

fn done<T>(place: &Place, result: halite::Result<T>) -> Result<T> {
    result.map_err(|error| in_database(&place.path, error))
}

fn print(snapshot: &SnapshotInfo, as_json: bool) -> Result<()> {
    let SnapshotInfo { name, number, identity, clones } = snapshot;
    if as_json {
        let identity = format!("{identity:032x}");
        let fields =
            json!({ "name": name, "number": number, "identity": identity, "clones": clones });
        return output::json(&fields);
    }
    let mut line = escape::to_text(name.as_bytes());
    if !clones.is_empty() {
        let clones: Vec<_> = clones.iter().map(|clone| escape::to_text(clone.as_bytes())).collect();
        line = format!("{line}\tkept by {}", clones.join(", "));
    }
    output::text(&format!("{line}\n"))
}
