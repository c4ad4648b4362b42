//! The threads of a server and their messages to each other: each thread has a shard of the keys, and no other thread
//! touches them.
//!
//! A request is executed where its keys are. [`route`] finds that from the command's partitions
//! ([`command_partitions`]). A request for keys of one other thread travels there in a [`packet`], which comes back
//! with the replies; [`peers`] fills, executes and returns packets, and [`flow_control`] bounds the replies that are on
//! their way to a client. A request for keys of several threads is a cross-shard operation: the [`lender`] borrows the
//! parts of the store that it needs, and it is executed here. All of that travels as a [`message`] through the rings of
//! the [`mailbox`], whose receiver a [`bell`] wakes.

pub(crate) mod bell;
pub(crate) mod command_partitions;
pub(crate) mod flow_control;
pub(crate) mod lender;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod peers;
pub(crate) mod route;
