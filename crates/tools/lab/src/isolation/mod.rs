//! What transactions saw of each other: an isolation checker.
//!
//! It follows Elle (Kingsbury and Alvaro, VLDB 2020) and names what it finds as Adya does. Transactions append
//! elements to lists and read whole lists. Each element is appended once, so a list that was read says in which
//! order its elements were written and by whom: nothing about the order has to be guessed.
//!
//! A check walks `history` (what each transaction did, saw, and how it ended) → `graph` (who wrote what another
//! read or replaced, and who ended before another began) → `anomalies` (circles in that graph, by what they are
//! made of, and which isolation forbids them).
//!
//! ```
//! use halite_lab::isolation::{Anomaly, History, Level, Op, Outcome, Transaction};
//!
//! // Both read what the other writes, and neither saw the other.
//! let transaction = |ops, begun| Transaction { ops, outcome: Outcome::Committed, begun, ended: begun + 10 };
//! let history = History::from_iter([
//!     transaction(vec![Op::Read(1, vec![]), Op::Append(2, 21)], 0),
//!     transaction(vec![Op::Read(2, vec![]), Op::Append(1, 11)], 1),
//!     transaction(vec![Op::Read(1, vec![11]), Op::Read(2, vec![21])], 20),
//! ]);
//! assert!(history.check(Level::SnapshotIsolation).is_empty());
//! let found = history.check(Level::Serializable);
//! assert_eq!(found[0].anomaly, Anomaly::WriteSkew);
//! ```

mod anomalies;
mod graph;
mod history;

pub use anomalies::{Anomaly, Found, Level};
pub use history::{Element, History, ListKey, Op, Outcome, Recorder, Running, Transaction};
