//! An isolation checker: which effects of others each transaction observed.
//!
//! It follows Elle (Kingsbury and Alvaro, VLDB 2020) and names anomalies as Adya does. Transactions append elements to
//! lists and read whole lists. Each element is appended once, so a list that was read shows in which order its elements
//! were appended and by which transactions: the order need not be guessed.
//!
//! A check goes from `history` (the operations and the outcome of each transaction) through `graph` (dependencies by
//! reads and writes, and the real-time order) to `anomalies` (cycles in that graph, by the kinds of their edges, and
//! the isolations that forbid them).
//!
//! ```
//! use halite_lab::isolation::{Anomaly, History, Level, Op, Outcome, Transaction};
//!
//! // Each of the first two reads the key that the other writes, and neither saw the other.
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
