//! `halite obj`.

mod class;
mod get;
mod ls;
mod meta;
mod mv;
mod put;
mod rm;
mod stat;
mod stores;

use clap::{Args, Subcommand};

use crate::Result;
use class::{Migrate, Set};
use get::Get;
use ls::Ls;
use meta::Meta;
use mv::Mv;
use put::Put;
use rm::Rm;
use stat::Stat;
use stores::{DropStore, Stores};

const EXAMPLES: &str = "\
Examples:
  halite obj put ./data photos/beach beach.jpg      a file, of any length
  tar c ./site | halite obj put ./data site.tar     ... or standard input
  halite obj get ./data photos/beach > copy.jpg
  halite obj ls ./data photos/                      sizes, times and names
  halite obj mv ./data photos/beach photos/sea
  halite obj meta set ./data photos/sea camera X100
  halite obj set ./data photos/sea --prefer slowest      the storage class for its bytes
  halite obj rm ./data photos/sea
  halite obj stores ./data                               sets of objects, by name

Objects are byte strings of any length with names, in object stores beside the key spaces: of the engine betree, which a new
database is made by. A name has any bytes; `/` in it means nothing.";

/// Store and read objects of any length
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Obj {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Put(Put),
    Get(Get),
    Ls(Ls),
    Stat(Stat),
    Mv(Mv),
    Rm(Rm),
    Meta(Meta),
    Set(Set),
    Migrate(Migrate),
    Stores(Stores),
    DropStore(DropStore),
}

impl Obj {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Put(put) => put.run(),
            Action::Get(get) => get.run(),
            Action::Ls(ls) => ls.run(),
            Action::Stat(stat) => stat.run(),
            Action::Mv(mv) => mv.run(),
            Action::Rm(rm) => rm.run(),
            Action::Meta(meta) => meta.run(),
            Action::Set(set) => set.run(),
            Action::Migrate(migrate) => migrate.run(),
            Action::Stores(stores) => stores.run(),
            Action::DropStore(drop_store) => drop_store.run(),
        }
    }
}
