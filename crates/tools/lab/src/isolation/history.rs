//! Histories: the operations and outcomes of transactions.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The name of a list.
pub type ListKey = u64;

/// An element of a list, which is appended once in a history.
pub type Element = u64;

/// An operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Appended an element to a list.
    Append(ListKey, Element),
    /// Read a list, with this content; a list that does not exist is empty.
    Read(ListKey, Vec<Element>),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The commit was acknowledged.
    Committed,
    /// The commit failed, or the transaction was rolled back.
    Aborted,
    /// The outcome was not observed, as when its process is killed: it happened whole or not at all.
    Unknown,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Its operations, in order.
    pub ops: Vec<Op>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it began, by a clock that all transactions of the history have in common.
    pub begun: u64,
    /// When it had ended; later than it began.
    pub ended: u64,
}

/// Transactions of several threads.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(super) transactions: Vec<Transaction>,
}

impl FromIterator<Transaction> for History {
    fn from_iter<T: IntoIterator<Item = Transaction>>(transactions: T) -> Self {
        Self { transactions: transactions.into_iter().collect() }
    }
}

impl History {
    /// The number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Whether there is no transaction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// The transactions.
    pub fn iter(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.iter()
    }

    /// Adds a transaction.
    pub fn push(&mut self, transaction: Transaction) {
        self.transactions.push(transaction);
    }

    /// Which transaction appended each element, and the elements that more than one did.
    pub(super) fn writers(&self) -> (HashMap<(ListKey, Element), usize>, Vec<Element>) {
        let (mut writers, mut twice) = (HashMap::new(), Vec::new());
        for (number, transaction) in self.transactions.iter().enumerate() {
            for op in &transaction.ops {
                let Op::Append(key, element) = *op else { continue };
                if writers.insert((key, element), number).is_some() {
                    twice.push(element);
                }
            }
        }
        (writers, twice)
    }
}

/// A line of text, for a history that has to outlive the process that it is of.
impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "unknown",
        };
        write!(f, "{outcome} {} {}", self.begun, self.ended)?;
        for op in &self.ops {
            match op {
                Op::Append(key, element) => write!(f, " a{key}:{element}")?,
                Op::Read(key, list) => {
                    write!(f, " r{key}:")?;
                    for (at, element) in list.iter().enumerate() {
                        write!(f, "{}{element}", if at > 0 { "," } else { "" })?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The error of a malformed line of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATransaction;

impl FromStr for Transaction {
    type Err = NotATransaction;

    fn from_str(line: &str) -> Result<Self, NotATransaction> {
        let number =
            |word: Option<&str>| word.and_then(|word| word.parse().ok()).ok_or(NotATransaction);
        let mut words = line.split(' ');
        let outcome = match words.next() {
            Some("committed") => Outcome::Committed,
            Some("aborted") => Outcome::Aborted,
            Some("unknown") => Outcome::Unknown,
            _ => return Err(NotATransaction),
        };
        let (begun, ended) = (number(words.next())?, number(words.next())?);
        let op = |word: &str| {
            let (kind, rest) = word.split_at_checked(1).ok_or(NotATransaction)?;
            let (key, rest) = rest.split_once(':').ok_or(NotATransaction)?;
            let key = number(Some(key))?;
            let mut elements = rest.split(',').filter(|word| !word.is_empty());
            match kind {
                "a" => Ok(Op::Append(key, number(elements.next())?)),
                "r" => Ok(Op::Read(
                    key,
                    elements.map(|word| number(Some(word))).collect::<Result<_, _>>()?,
                )),
                _ => Err(NotATransaction),
            }
        };
        Ok(Self { ops: words.map(op).collect::<Result<_, _>>()?, outcome, begun, ended })
    }
}

/// Records the transactions of several threads.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    transactions: Mutex<Vec<Transaction>>,
}

/// A transaction that is being recorded.
#[derive(Debug, Clone)]
pub struct Running {
    begun: u64,
    /// Its operations so far.
    pub ops: Vec<Op>,
}

impl Recorder {
    /// A recorder whose clock begins at `time`.
    #[must_use]
    pub fn from_time(time: u64) -> Self {
        Self { clock: AtomicU64::new(time), ..Self::default() }
    }

    /// The time, which advances with each call.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes that a transaction begins; to be called before it does.
    pub fn begin(&self) -> Running {
        Running { begun: self.now(), ops: Vec::new() }
    }

    /// Records that a transaction has ended; to be called after it has. Returns the recorded transaction.
    pub fn end(&self, running: Running, outcome: Outcome) -> Transaction {
        let Running { begun, ops } = running;
        let transaction = Transaction { ops, outcome, begun, ended: self.now() };
        let mut transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
        transactions.push(transaction.clone());
        transaction
    }

    /// The history recorded so far.
    #[must_use]
    pub fn history(&self) -> History {
        let transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
        transactions.iter().cloned().collect()
    }
}

impl Running {
    /// Its line in a history while its outcome is unknown.
    #[must_use]
    pub fn unknown(&self) -> Transaction {
        let Self { begun, ops } = self.clone();
        Transaction { ops, outcome: Outcome::Unknown, begun, ended: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all() {
        let ops = vec![Op::Read(1, vec![]), Op::Append(1, 7), Op::Read(2, vec![5, 6])];
        let line = Transaction { ops, outcome: Outcome::Unknown, begun: 3, ended: u64::MAX };
        assert_eq!(line.to_string().parse(), Ok(line));
        for wrong in
            ["", "unknown", "committed 1", "aborted 1 2 x", "aborted 1 2 a1", "aborted 1 2 a1:"]
        {
            assert_eq!(wrong.parse::<Transaction>(), Err(NotATransaction), "{wrong}");
        }
    }
}
