//! The anomalies by name, and which isolation forbids each of them.
//!
//! | anomaly | pattern | snapshot isolation | serializable |
//! |---|---|---|---|
//! | G0 | a cycle of overwrites | forbids | forbids |
//! | G1a | a read of an aborted append | forbids | forbids |
//! | G1b | a read of a list that its writer went on to append to | forbids | forbids |
//! | G1c | a cycle of overwrites and reads | forbids | forbids |
//! | G-single | a cycle with one anti-dependency; lost update is one on one key | forbids | forbids |
//! | G-nonadjacent | a cycle in which no two anti-dependencies follow each other | forbids | forbids |
//! | G2-item | a cycle in which two do; write skew is one of two transactions | | forbids |
//!
//! The strict levels also forbid cycles with real-time edges: a transaction that begins after another has ended sees
//! its effects. No isolation allows lists that no order of appends explains, elements that no transaction appended, or
//! a transaction that does not see its own appends, or sees a list change.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::graph::{Edge, Graph, Kind, Orders, external, happened};
use super::history::{History, ListKey, Op, Outcome, Transaction};

/// The isolation that a history is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Each transaction reads one state, and of two that overlap and write the same, one commits.
    SnapshotIsolation,
    /// Snapshot isolation, and the state has all commits from before the transaction began.
    StrictSnapshotIsolation,
    /// Some order of all transactions, one after the other, explains everything.
    Serializable,
    /// Serializable, and a transaction that ended before another began comes before it.
    StrictSerializable,
}

impl Level {
    fn is_strict(self) -> bool {
        matches!(self, Self::StrictSnapshotIsolation | Self::StrictSerializable)
    }

    fn forbids(self, anomaly: Anomaly) -> bool {
        let is_serializable = matches!(self, Self::Serializable | Self::StrictSerializable);
        is_serializable || !matches!(anomaly, Anomaly::G2Item | Anomaly::WriteSkew)
    }
}

/// The name of an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// An element was read that no transaction appended.
    Garbage,
    /// An element is in a list twice, or was appended twice.
    Duplicate,
    /// Two lists of one key, of which neither is the beginning of the other.
    IncompatibleOrder,
    /// A transaction did not see its own append, or saw two states of a list.
    Internal,
    /// A committed append is missing in a list that a transaction read that must see it.
    LostAppend,
    /// Dirty write: a cycle of overwrites.
    G0,
    /// Aborted read.
    G1a,
    /// Intermediate read.
    G1b,
    /// Circular information flow.
    G1c,
    /// Two transactions read one state of a list, and both appended to it.
    LostUpdate,
    /// A cycle with exactly one anti-dependency: read skew.
    GSingle,
    /// A cycle with several anti-dependencies, none behind another.
    GNonadjacent,
    /// Two transactions each read a list before the other wrote it.
    WriteSkew,
    /// A cycle with anti-dependencies behind each other.
    G2Item,
}

/// An anomaly that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub anomaly: Anomaly,
    /// Whether it is an anomaly only because of the real-time order.
    pub realtime: bool,
    /// The transactions that show it.
    pub story: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let realtime = if self.realtime { ", by real time" } else { "" };
        write!(f, "{:?}{realtime}: {}", self.anomaly, self.story)
    }
}

impl History {
    /// The anomalies that a level forbids and the history has: one example of each.
    #[must_use]
    pub fn check(&self, level: Level) -> Vec<Found> {
        let found = self.find().into_iter();
        found
            .filter(|found| level.forbids(found.anomaly) && (level.is_strict() || !found.realtime))
            .collect()
    }

    /// All anomalies of the history: of each one example.
    #[must_use]
    pub fn find(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let orders = self.orders(&mut found);
        self.find_in_reads(&orders, &mut found);
        for realtime in [false, true] {
            let graph = Graph::of(self, &orders, realtime);
            for circle in circles(&graph) {
                let anomaly = name(&circle);
                let is_realtime = circle.iter().any(|edge| edge.kind == Kind::Realtime);
                let is_known = found.iter().any(|known: &Found| known.anomaly == anomaly);
                if is_realtime == realtime && !(realtime && is_known) {
                    found.push(Found { anomaly, realtime, story: self.tell(&circle) });
                }
            }
        }
        let mut seen = HashSet::new();
        found.retain(|found| seen.insert((found.anomaly, found.realtime)));
        found.sort_by_key(|found| found.anomaly);
        found
    }

    /// The longest list of each key that was read, of which all others have to be the beginning.
    ///
    /// A transaction with an unknown outcome counts once its appends are read by one that counts: it happened. What the
    /// others read may never have been: appends of transactions that ended with them.
    fn orders(&self, found: &mut Vec<Found>) -> Orders {
        let mut note = |anomaly, story| found.push(Found { anomaly, realtime: false, story });
        let (writers, twice) = self.writers();
        for element in twice {
            note(Anomaly::Duplicate, format!("{element} was appended twice"));
        }
        for transaction in self.transactions.iter().filter(|of| of.outcome != Outcome::Aborted) {
            for op in &transaction.ops {
                let Op::Read(key, list) = op else { continue };
                let mut seen = HashSet::new();
                for element in list {
                    if !writers.contains_key(&(*key, *element)) {
                        let story = format!("list {key} has {element}, which nobody appended");
                        note(Anomaly::Garbage, story);
                    }
                    if !seen.insert(*element) {
                        let story = format!("list {key} has {element} twice: {list:?}");
                        note(Anomaly::Duplicate, story);
                    }
                }
            }
        }
        let (mut orders, mut readers) = (Orders::new(), HashMap::new());
        let mut counted = vec![false; self.transactions.len()];
        loop {
            let happened = happened(self, &orders);
            let next = (0..happened.len()).filter(|&at| happened[at] && !counted[at]);
            let next: Vec<_> = next.collect();
            if next.is_empty() {
                return orders;
            }
            for number in next {
                counted[number] = true;
                for op in &self.transactions[number].ops {
                    let Op::Read(key, list) = op else { continue };
                    let order = orders.entry(*key).or_default();
                    let same = order.iter().zip(list).take_while(|(a, b)| a == b).count();
                    if same < order.len().min(list.len()) {
                        let story = format!(
                            "list {key} is, behind {same} elements, {:?} for {} and {:?} for {}",
                            &order[same..],
                            self.with_outcome(readers[key]),
                            &list[same..],
                            self.with_outcome(number),
                        );
                        note(Anomaly::IncompatibleOrder, story);
                    }
                    if list.len() > order.len() {
                        order.clone_from(list);
                        readers.insert(*key, number);
                    }
                }
            }
        }
    }

    /// Checks each read by itself.
    fn find_in_reads(&self, orders: &Orders, found: &mut Vec<Found>) {
        let (writers, _) = self.writers();
        let happened = happened(self, orders);
        let mut note = |anomaly, realtime, story| found.push(Found { anomaly, realtime, story });
        // The elements of each list, for reads that must see them.
        let last_of = |writer: usize, key: ListKey| {
            self.transactions[writer].ops.iter().rev().find_map(|op| match op {
                Op::Append(of, element) if *of == key => Some(*element),
                _ => None,
            })
        };
        for (number, transaction) in self.transactions.iter().enumerate() {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            let mut externals: HashMap<ListKey, &[u64]> = HashMap::new();
            for (at, op) in transaction.ops.iter().enumerate() {
                let Op::Read(key, list) = op else { continue };
                let before = &transaction.ops[..at];
                let from_others = external(list, *key, before);
                let own = before.iter().filter_map(|op| match op {
                    Op::Append(of, element) if of == key => Some(element),
                    _ => None,
                });
                let same = externals.entry(*key).or_insert(from_others);
                if !list[from_others.len()..].iter().eq(own) || *same != from_others {
                    let ops = &transaction.ops[..=at];
                    note(Anomaly::Internal, false, format!("transaction {number} saw {ops:?}"));
                }
                for element in from_others {
                    let Some(&writer) = writers.get(&(*key, *element)) else { continue };
                    if self.transactions[writer].outcome == Outcome::Aborted {
                        let story = format!(
                            "transaction {number} read {element} of {writer}, which gave up"
                        );
                        note(Anomaly::G1a, false, story);
                    }
                }
                if let Some(last) = from_others.last()
                    && let Some(&writer) = writers.get(&(*key, *last))
                    && writer != number
                    && last_of(writer, *key) != Some(*last)
                {
                    let story = format!(
                        "transaction {number} read {last}, behind which {writer} appended more"
                    );
                    note(Anomaly::G1b, false, story);
                }
            }
        }
        self.find_lost(orders, &happened, &mut note);
    }

    /// Appends that are missing in a list although the transaction that read it saw another append of the same
    /// transaction, or began after that had ended.
    fn find_lost(
        &self,
        orders: &Orders,
        happened: &[bool],
        note: &mut impl FnMut(Anomaly, bool, String),
    ) {
        let (writers, _) = self.writers();
        let placed: HashSet<_> = orders
            .iter()
            .flat_map(|(key, order)| order.iter().map(move |element| (*key, *element)))
            .collect();
        let mut lost: HashMap<usize, Vec<(ListKey, u64)>> = HashMap::new();
        for (&(key, element), &writer) in &writers {
            if happened[writer] && !placed.contains(&(key, element)) {
                lost.entry(writer).or_default().push((key, element));
            }
        }
        for (reader, transaction) in self.transactions.iter().enumerate() {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            let lists = || {
                transaction.ops.iter().filter_map(|op| match op {
                    Op::Read(key, list) => Some((key, list)),
                    Op::Append(..) => None,
                })
            };
            let seen: HashSet<_> = lists()
                .flat_map(|(key, list)| {
                    list.iter().filter_map(|element| writers.get(&(*key, *element)))
                })
                .collect();
            for (writer, elements) in &lost {
                let before = self.transactions[*writer].outcome == Outcome::Committed
                    && self.transactions[*writer].ended < transaction.begun;
                if *writer == reader || !(before || seen.contains(writer)) {
                    continue;
                }
                for (key, element) in elements {
                    if lists().any(|(read, _)| read == key) {
                        let story = format!(
                            "transaction {reader} read list {key} without {element} of {writer}"
                        );
                        note(Anomaly::LostAppend, !seen.contains(writer), story);
                    }
                }
            }
        }
    }

    fn with_outcome(&self, number: usize) -> String {
        let Transaction { outcome, begun, ended, .. } = &self.transactions[number];
        format!("transaction {number} ({outcome:?}, from {begun} to {ended})")
    }

    fn tell(&self, circle: &[Edge]) -> String {
        let mut story = String::new();
        // The edges from one transaction to the next, without the moments between them.
        let of_transactions: Vec<_> =
            circle.iter().filter(|edge| edge.from < self.transactions.len()).collect();
        for edge in &of_transactions {
            let why = match edge.kind {
                Kind::Ww(key) => format!("appended to list {key} before"),
                Kind::Wr(key) => format!("was read in list {key} by"),
                Kind::Rw(key) => format!("read list {key} before it was appended to by"),
                Kind::Realtime => "had ended before the beginning of".to_owned(),
            };
            story += &format!("{} {why} ", edge.from);
        }
        if let Some(first) = of_transactions.first() {
            story += &first.from.to_string();
        }
        for edge in of_transactions {
            let ops = &self.transactions[edge.from].ops;
            story += &format!("\n    {}: {ops:?}", edge.from);
        }
        story
    }
}

fn is_rw(kind: Kind) -> bool {
    matches!(kind, Kind::Rw(_))
}

/// Cycles of each kind, from those that the fewest isolations allow on.
fn circles(graph: &Graph) -> impl Iterator<Item = Vec<Edge>> {
    let of_writes = |_, kind| matches!(kind, Kind::Ww(_) | Kind::Realtime).then_some(0);
    let dirty = graph.circle(1, graph.single(), of_writes);
    let of_reads = |_, kind| (!is_rw(kind)).then_some(0);
    let reads = graph.single().into_iter().filter(|head| matches!(head[0].kind, Kind::Wr(_)));
    let circular = graph.circle(1, reads.collect(), of_reads);
    // The state is whether the edge before was an anti-dependency.
    let nonadjacent = |state, kind| match is_rw(kind) {
        true => (state == 0).then_some(1),
        false => Some(0),
    };
    let anti = graph.single().into_iter().filter(|head| is_rw(head[0].kind));
    let single = graph.circle(2, anti.collect(), nonadjacent);
    let adjacent = graph.circle(1, graph.adjacent_rw(), |_, _| Some(0));
    [dirty, circular, single, adjacent].into_iter().flatten()
}

/// The name of a cycle.
fn name(circle: &[Edge]) -> Anomaly {
    let anti = circle.iter().filter(|edge| is_rw(edge.kind)).count();
    let next = circle.iter().cycle().skip(1);
    let are_adjacent = circle.iter().zip(next).any(|(a, b)| is_rw(a.kind) && is_rw(b.kind));
    match (anti, circle) {
        (0, _) if circle.iter().any(|edge| matches!(edge.kind, Kind::Wr(_))) => Anomaly::G1c,
        (0, _) => Anomaly::G0,
        (1, [Edge { kind: Kind::Rw(a), .. }, Edge { kind: Kind::Ww(b), .. }]) if a == b => {
            Anomaly::LostUpdate
        }
        (1, _) => Anomaly::GSingle,
        (2, [_, _]) => Anomaly::WriteSkew,
        _ if are_adjacent => Anomaly::G2Item,
        _ => Anomaly::GNonadjacent,
    }
}
