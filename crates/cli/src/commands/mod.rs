//! The commands: a file each, with its arguments, its help and its code.

mod backup;
mod bench;
mod check;
mod completions;
mod del;
mod dump;
mod get;
mod lab;
mod load;
mod put;
mod repair;
mod restore;
mod scan;
mod serve;
mod stat;
mod tail;

pub(crate) use backup::Backup;
pub(crate) use bench::Bench;
pub(crate) use check::Check;
pub(crate) use completions::Completions;
pub(crate) use del::Del;
pub(crate) use dump::Dump;
pub(crate) use get::Get;
pub(crate) use lab::Lab;
pub(crate) use load::Load;
pub(crate) use put::Put;
pub(crate) use repair::Repair;
pub(crate) use restore::Restore;
pub(crate) use scan::Scan;
pub(crate) use serve::Serve;
pub(crate) use stat::Stat;
pub(crate) use tail::Tail;
