//! Snapshots, clones and rollback of datasets, and copies of ranges.
//!
//! A snapshot is a root pointer that is kept: trees are never changed in place, so the tree below it stays as it is as
//! long as its extents are not freed. Extents that a dataset does not need any more are freed, unless a snapshot has
//! them, and births tell that: extents get the number of the epoch in which a tree came to lead to them, and each snapshot
//! ends an epoch. An extent that was born no later than the newest snapshot's epoch is in that snapshot, so it goes to a
//! *deadlist* instead (OpenZFS, `dsl_deadlist.c`).
//!
//! ```text
//!  births   origin's  │    P's     │    S's     │    N's     │ later         the epochs that snapshots have ended
//!  ─────────────────────────────────────────────────────────────────▶
//!  lists              (P) dropped   (S) dropped   (N) dropped
//!                     behind P, P   behind S, S   behind N, N
//!                     has it        has it        has it
//! ```
//!
//! The list of a snapshot has what it has and what its successor, or the live tree, does not have. Deleting S: of its
//! list, what was born behind P's epoch only S had, and it is freed; the rest P has, too, and goes to P's list. Extents
//! that a clone has from its origin are in no list of the clone: they are not its own.
//!
//! | operation | commit | flush |
//! |---|---|---|
//! | create | one record | writes the nodes that changed since the last checkpoint, which writes fewer then |
//! | delete | one record | reads its list, and writes as many entries |
//! | rollback | one record | reads the nodes that were born since |
//! | clone | one record, also of a snapshot that waits for its flush | nothing |
//! | copy of a range | one record | reads the range, and writes it |
//! | receipt of changes | one record | reads what was staged, and writes it, and what a create does |
//!
//! Files, from the ground up: [`command`] is what the log says, [`history`] the snapshots of a dataset and where an
//! extent goes, [`deadlist`] the lists, [`histories`] all that as the root tree has it, [`effect`] what a flush does for a
//! command, [`handle`] a snapshot's reader, [`api`] the calls, `preference` those for storage classes; [`grafting`] and
//! [`copy`] are the copies of ranges.

pub(crate) mod api;
pub(crate) mod command;
pub(crate) mod copy;
pub(crate) mod deadlist;
pub(crate) mod effect;
pub(crate) mod grafting;
mod handle;
pub(crate) mod histories;
pub(crate) mod history;
mod preference;
#[cfg(test)]
mod tests;
