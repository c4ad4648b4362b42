//! `halite dataset`.

mod class;
mod copy;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use halite::{Database, KeySpace, Preference};
use serde_json::json;

use crate::classes::name_of;
use crate::folder::{in_database, need_space, open};
use crate::size::count;
use crate::values::{check_companions, check_form, check_not_note, companion, prepare};
use crate::{Result, escape, output};
use class::{Migrate, Set};
use copy::Copy;

const EXAMPLES: &str = "\
Examples:
  halite dataset ls ./data
  halite dataset create ./data people
  halite dataset rename ./data people persons
  halite dataset copy ./data persons more --prefix user:
  halite dataset set ./data persons --prefer slowest
  halite dataset migrate ./data persons --to 1
  halite dataset rm ./data persons
  halite dataset rm ./data persons --snapshots      with its snapshots, which are refused otherwise

A dataset is a key space: the one that --space names for `get`, `put` and `scan`. The engine betree keeps each in a tree of
its own, and has snapshots of it, see `halite snapshot --help`, other names, copies and storage classes; all engines have the
rest.";

const LS_EXAMPLES: &str = "\
Examples:
  halite dataset ls ./data
  halite dataset ls ./data --json | jq -r .name

A line is a name, with the number of its snapshots, the snapshot that it began as and the storage class that it prefers, if
there are any. With --json, a line is an object.";

const CREATE_EXAMPLES: &str = "\
Examples:
  halite dataset create ./data people      one that is there stays as it is";

const RENAME_EXAMPLES: &str = "\
Examples:
  halite dataset rename ./data people persons

It moves no bytes, and snapshots and clones stay. Values of a server's `db0`, `db1`, ... have another form than others: such a
name is changed to another one of these only.";

const RM_EXAMPLES: &str = "\
Examples:
  halite dataset rm ./data people
  halite dataset rm ./data people --snapshots

It takes one commit, whatever the size. A snapshot that a clone began as keeps its dataset: remove the clone first.";

/// List, create, copy, rename, move and remove key spaces
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dataset {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List key spaces
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// The database's folder
        path: PathBuf,

        /// Print JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Create a key space
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The database's folder
        path: PathBuf,

        /// The name
        name: String,
    },
    /// Give a key space another name
    #[command(after_help = RENAME_EXAMPLES)]
    Rename {
        /// The database's folder
        path: PathBuf,

        /// The name
        old: String,

        /// The new name
        new: String,
    },
    /// Remove a key space with all that is in it
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        /// The database's folder
        path: PathBuf,

        /// The name
        name: String,

        /// Remove its snapshots, too
        #[arg(long)]
        snapshots: bool,
    },
    Copy(Copy),
    Set(Set),
    Migrate(Migrate),
}

impl Dataset {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Ls { path, json } => list(&open(path)?, *json),
            Action::Create { path, name } => {
                let db = open(path)?;
                prepare(&db, name)?;
                db.key_space(name).map(drop).map_err(|error| in_database(path, error))
            }
            Action::Rename { path, old, new } => {
                let db = open(path)?;
                let space = need_space(&db, old)?;
                check_not_note(old)?;
                check_not_note(new)?;
                check_form(old, new)?;
                check_companions(&db, &space, "another name")?;
                db.rename_key_space(old, new).map_err(|error| in_database(path, error))
            }
            Action::Rm { path, name, snapshots } => {
                let db = open(path)?;
                let space = need_space(&db, name)?;
                check_not_note(name)?;
                remove(&db, &space, *snapshots).map_err(|error| in_database(path, error))
            }
            Action::Copy(copy) => copy.run(),
            Action::Set(set) => set.run(),
            Action::Migrate(migrate) => migrate.run(),
        }
    }
}

/// Removes a key space; first the deadlines of its keys, which would end the lives of other keys of the same names.
fn remove(db: &Database, space: &KeySpace, with_snapshots: bool) -> halite::Result<()> {
    for space in companion(db, space)?.iter().chain([space]) {
        match with_snapshots {
            true => db.destroy_key_space(space)?,
            false => db.drop_key_space(space)?,
        }
    }
    Ok(())
}

fn list(db: &Database, as_json: bool) -> Result<()> {
    let failed = |error| in_database(db.path(), error);
    let mut all = Vec::new();
    let mut origins = BTreeMap::new();
    for space in db.key_spaces().map_err(failed)? {
        let snapshots = match space.kept_snapshots() {
            Err(halite::Error::Lacks { .. }) => None,
            snapshots => Some(snapshots.map_err(failed)?),
        };
        for snapshot in snapshots.iter().flatten() {
            let origin = format!("{}@{}", space.name(), snapshot.name);
            let clones = snapshot.clones.iter();
            origins.extend(clones.map(|clone| (clone.clone(), origin.clone())));
        }
        let preference = match space.preference() {
            Err(halite::Error::Lacks { .. }) => None,
            preference => Some(preference.map_err(failed)?),
        };
        all.push((space, snapshots.map(|snapshots| snapshots.len() as u64), preference));
    }
    for (space, snapshots, preference) in all {
        let origin = origins.get(space.name());
        if as_json {
            output::json(&json!({
                "name": space.name(),
                "id": space.id().0,
                "snapshots": snapshots,
                "origin": origin,
                "preference": preference.map(name_of),
            }))?;
            continue;
        }
        let mut line = escape::to_text(space.name().as_bytes());
        if let Some(number) = snapshots.filter(|number| *number > 0) {
            line = format!("{line}\t{}", count(number, "snapshot"));
        }
        if let Some(origin) = origin {
            line = format!("{line}\tbegan as {}", escape::to_text(origin.as_bytes()));
        }
        if let Some(preference) = preference.filter(|prefers| *prefers != Preference::None) {
            line = format!("{line}\tprefers {}", name_of(preference));
        }
        output::text(&format!("{line}\n"))?;
    }
    Ok(())
}
