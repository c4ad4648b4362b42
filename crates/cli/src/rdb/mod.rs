//! Redis' files: `load` of RDB and append-only files, and `dump --rdb`.
//!
//! `import` puts the keys of an RDB file into a database, and `export` goes the same way back; both have the server's own
//! functions put and read them ([`halite_server::Keys`]). `replay` goes through an append-only file: the RDB file that it begins with takes the way of `import`,
//! and a server in this process carries the commands out. [`halite_rdb`] reads and writes the files.

mod export;
mod import;
mod replay;

pub(crate) use export::export;
pub(crate) use import::{Extras, load_rdb};
pub(crate) use replay::load_log;
