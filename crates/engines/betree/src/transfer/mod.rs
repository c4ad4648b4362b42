//! Sending snapshots, and receiving them in another store, or in another dataset.
//!
//! A stream has a whole snapshot, or what is different from an older one: [`differences`] finds that at a cost in proportion
//! to it, by the parts that the two trees share. The stream is [`chunks`] with checksums, which have a [`header`] and the
//! [`content`], operations on keys in their order.
//!
//! A receiver *stages* the operations in a dataset of the engine's own, which nothing reads, in batches that also note how
//! far it came. When the end of the stream was verified, one commit changes the dataset and makes the snapshot:
//!
//! ```text
//!  stream with ...        staged                                   the last commit
//!  the whole snapshot     as the dataset is to be                  gives the staging dataset the name
//!  changes                puts, deletes, ranges (dataset/grafting) grafts them onto the dataset; the flush merges them
//! ```
//!
//! So a stream that is cut off, damaged, or refused changes no dataset, and neither does a crash. The staged part stays for
//! the rest of the stream ([`ReceiveToken`]), until another stream for the dataset begins, or it is discarded.
//!
//! Each snapshot has an *identity*, a random number that it keeps when it is sent. A receiver takes changes only if the
//! newest snapshot of its dataset has the identity of the one that they are based on, and the dataset has not changed since.
//!
//! | | reads | writes |
//! |---|---|---|
//! | send of a snapshot | its tree, once | the stream |
//! | send of changes | the nodes and runs that only one of both has, and the values of their keys | the stream |
//! | receive | the stream | twice the changes, once a whole snapshot; large values as they come, a piece at a time |

mod chunks;
mod content;
mod differences;
mod error;
mod finish;
mod header;
mod options;
mod receive;
mod send;
mod staging;

pub use error::StreamError;
pub use header::ReceiveToken;
pub use options::ReceiveOptions;
pub(crate) use receive::Receiving;
