//! The messages between threads.

use crate::partition_set::PartitionSet;
use crate::report::{Details, Report};
use crate::shard::packet::Packet;
use crate::store::{Key, Part, Watch};
use crate::wait::Ended;

/// A message. Its ring identifies the sender.
pub(crate) enum Message {
    /// Requests for keys of the receiver's partitions.
    Requests(Box<Packet>),
    /// The same packet, with the replies.
    Replies(Box<Packet>),
    /// A client of the sender has room for this many bytes of replies more.
    Room { client_id: u64, bytes: usize },
    /// The sender requests parts, for its cross-shard operation of this number.
    Ask { operation: u64, parts: PartitionSet },
    /// The receiver has borrowed these parts.
    Lend { operation: u64, parts: Vec<Part> },
    /// The receiver has its parts back.
    Return(Vec<Part>),
    /// The sender requests a report on the receiver, for its cross-shard operation of this number.
    Inquire { operation: u64, details: Details },
    /// The report on the sender.
    Tell { operation: u64, report: Box<Report> },
    /// The receiver disconnects these of its clients.
    Kill(Vec<u64>),
    /// A key was changed that this client of the receiver waits for.
    Wake { place: usize, client_id: u64 },
    /// Waits for the receiver's keys that have ended, with their numbers.
    EndWaits(Vec<(Key, u64)>),
    /// A client has ended the wait of one of the receiver's clients.
    Unblock { client_id: u64, ended: Ended },
    /// Watches of the receiver's keys that have ended.
    Forget(Vec<Watch>),
    /// There are connections that the receiver serves from now on.
    Welcome,
}
