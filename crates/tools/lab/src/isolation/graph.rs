//! The dependencies between transactions.
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the transaction that appended an element | the transaction that appended the next one |
//! | wr | the transaction that appended the last element of a list | the transaction that read the list |
//! | rw | the transaction that read a list | the transaction that appended the element behind it |
//! | rt | the transaction that had ended | the transaction that began after that |
//!
//! The real-time edges go through a chain of moments, so that their number is proportional to that of the transactions
//! and not to its square. A cycle with real-time edges is an anomaly only if transactions must see the commits from
//! before they began.

use std::collections::{HashMap, VecDeque};

use super::history::{Element, History, ListKey, Op, Outcome, Transaction};

/// The dependency that an edge stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Overwrites.
    Ww(ListKey),
    /// Reads from.
    Wr(ListKey),
    /// Is overwritten: an anti-dependency.
    Rw(ListKey),
    /// Ended before.
    Realtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
}

/// The dependencies of a history. Nodes up to the number of transactions are those, the others moments.
pub(super) struct Graph {
    edges: Vec<Vec<Edge>>,
}

/// The order in which the elements of each list were appended, as far as it was read.
pub(super) type Orders = HashMap<ListKey, Vec<Element>>;

/// The part of a list that a transaction did not append itself before it read it.
pub(super) fn external<'a>(list: &'a [Element], key: ListKey, earlier: &[Op]) -> &'a [Element] {
    let own = earlier.iter().filter(|op| matches!(op, Op::Append(of, _) if *of == key)).count();
    &list[..list.len().saturating_sub(own)]
}

/// Whether a transaction happened: it was committed, or one that did read its appends.
pub(super) fn happened(history: &History, orders: &Orders) -> Vec<bool> {
    let (writers, _) = history.writers();
    let mut happened: Vec<_> =
        history.iter().map(|transaction| transaction.outcome == Outcome::Committed).collect();
    for (key, order) in orders {
        for element in order {
            if let Some(&writer) = writers.get(&(*key, *element)) {
                happened[writer] |= history.transactions[writer].outcome == Outcome::Unknown;
            }
        }
    }
    happened
}

impl Graph {
    /// The dependencies of those transactions that happened; with `realtime`, the order of those that do not
    /// overlap too.
    pub(super) fn of(history: &History, orders: &Orders, realtime: bool) -> Self {
        let (writers, _) = history.writers();
        let happened = happened(history, orders);
        let transactions = &history.transactions;
        let mut graph = Self { edges: vec![Vec::new(); transactions.len()] };
        for (&key, order) in orders {
            for pair in order.windows(2) {
                let [from, to] = [pair[0], pair[1]].map(|element| writers.get(&(key, element)));
                if let (Some(&from), Some(&to)) = (from, to) {
                    graph.add(Edge { from, to, kind: Kind::Ww(key) });
                }
            }
        }
        let places: HashMap<_, _> = orders
            .iter()
            .flat_map(|(&key, order)| {
                order.iter().enumerate().map(move |(at, of)| ((key, *of), at))
            })
            .collect();
        for (reader, transaction) in transactions.iter().enumerate().filter(|(at, _)| happened[*at])
        {
            for (at, op) in transaction.ops.iter().enumerate() {
                let Op::Read(key, list) = op else { continue };
                let list = external(list, *key, &transaction.ops[..at]);
                if let Some(&writer) = list.last().and_then(|last| writers.get(&(*key, *last))) {
                    graph.add(Edge { from: writer, to: reader, kind: Kind::Wr(*key) });
                }
                let next =
                    list.last().map_or(Some(0), |last| places.get(&(*key, *last)).map(|at| at + 1));
                let next = next.and_then(|next| orders.get(key)?.get(next));
                if let Some(&writer) = next.and_then(|next| writers.get(&(*key, *next))) {
                    graph.add(Edge { from: reader, to: writer, kind: Kind::Rw(*key) });
                }
            }
        }
        if realtime {
            graph.add_realtime(transactions, &happened);
        }
        graph
    }

    fn add(&mut self, edge: Edge) {
        if edge.from != edge.to && !self.edges[edge.from].contains(&edge) {
            self.edges[edge.from].push(edge);
        }
    }

    /// Adds a moment for each end of a transaction, with edges to the moment after it and to the transactions that
    /// begin before that one.
    fn add_realtime(&mut self, transactions: &[Transaction], happened: &[bool]) {
        let mut ends: Vec<_> = (0..transactions.len())
            .filter(|&at| transactions[at].outcome == Outcome::Committed)
            .map(|at| (transactions[at].ended, at))
            .collect();
        ends.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + ends.len(), Vec::new());
        let kind = Kind::Realtime;
        for (at, (_, of)) in ends.iter().enumerate() {
            self.add(Edge { from: *of, to: first + at, kind });
            if at > 0 {
                self.add(Edge { from: first + at - 1, to: first + at, kind });
            }
        }
        for (number, transaction) in transactions.iter().enumerate().filter(|(at, _)| happened[*at])
        {
            let before = ends.partition_point(|(ended, _)| *ended < transaction.begun);
            if let Some(moment) = before.checked_sub(1) {
                self.add(Edge { from: first + moment, to: number, kind });
            }
        }
    }

    /// Each edge by itself.
    pub(super) fn single(&self) -> Vec<Vec<Edge>> {
        self.edges.iter().flatten().map(|edge| vec![*edge]).collect()
    }

    /// All pairs of anti-dependencies that follow each other.
    pub(super) fn adjacent_rw(&self) -> Vec<Vec<Edge>> {
        let is_rw = |edge: &&Edge| matches!(edge.kind, Kind::Rw(_));
        let pairs = |first: &Edge| {
            let first = *first;
            self.edges[first.to].iter().filter(is_rw).map(move |second| vec![first, *second])
        };
        self.edges.iter().flatten().filter(is_rw).flat_map(pairs).collect()
    }

    /// A shortest cycle of edges that begins with one of `heads`. `step` returns the state that an edge leads to, from
    /// the state of the edge before it, or `None` if the edge may not follow. States are numbers below `states`; a
    /// cycle returns to the state that it began in.
    pub(super) fn circle(
        &self,
        states: usize,
        heads: Vec<Vec<Edge>>,
        step: impl Fn(usize, Kind) -> Option<usize>,
    ) -> Option<Vec<Edge>> {
        let components = self.components(states, &step);
        let mut shortest: Option<Vec<Edge>> = None;
        for (head, state) in
            heads.iter().flat_map(|head| (0..states).map(move |state| (head, state)))
        {
            let left = head.iter().try_fold(state, |state, edge| step(state, edge.kind));
            let (Some(left), Some(first), Some(last)) = (left, head.first(), head.last()) else {
                continue;
            };
            let (from, to) = (first.from * states + state, last.to * states + left);
            if components[from] != components[to] {
                continue;
            }
            let limit = shortest.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(path) = self.path(to, from, states, &components, &step, limit) {
                let circle = [&head[..], &path].concat();
                if circle.len() < limit {
                    shortest = Some(circle);
                }
            }
        }
        shortest
    }

    /// A shortest path within a component.
    fn path(
        &self,
        from: usize,
        to: usize,
        states: usize,
        components: &[usize],
        step: &impl Fn(usize, Kind) -> Option<usize>,
        limit: usize,
    ) -> Option<Vec<Edge>> {
        let mut came_by: HashMap<usize, Option<(usize, Edge)>> = HashMap::from([(from, None)]);
        let mut ahead = VecDeque::from([(from, 0)]);
        while let Some((at, len)) = ahead.pop_front() {
            if at == to {
                let mut path = Vec::new();
                let mut at = at;
                while let Some(Some((before, edge))) = came_by.get(&at) {
                    path.push(*edge);
                    at = *before;
                }
                path.reverse();
                return Some(path);
            }
            if len + 1 >= limit {
                return None;
            }
            for edge in &self.edges[at / states] {
                let Some(state) = step(at % states, edge.kind) else { continue };
                let next = edge.to * states + state;
                if components[next] == components[from] && !came_by.contains_key(&next) {
                    came_by.insert(next, Some((at, *edge)));
                    ahead.push_back((next, len + 1));
                }
            }
        }
        None
    }

    /// The strongly connected component of each node in each state (Tarjan, without recursion).
    fn components(
        &self,
        states: usize,
        step: &impl Fn(usize, Kind) -> Option<usize>,
    ) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        let nodes = self.edges.len() * states;
        let (mut index, mut low, mut of) = (vec![NONE; nodes], vec![0; nodes], vec![NONE; nodes]);
        let (mut stack, mut next_index, mut components) = (Vec::new(), 0, 0);
        for root in 0..nodes {
            if index[root] != NONE {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((node, edge)) = calls.pop() {
                if edge == 0 {
                    (index[node], low[node]) = (next_index, next_index);
                    next_index += 1;
                    stack.push(node);
                }
                match self.edges[node / states].get(edge) {
                    Some(taken) => {
                        calls.push((node, edge + 1));
                        let Some(state) = step(node % states, taken.kind) else { continue };
                        let next = taken.to * states + state;
                        if index[next] == NONE {
                            calls.push((next, 0));
                        } else if of[next] == NONE {
                            low[node] = low[node].min(index[next]);
                        }
                    }
                    None => {
                        if low[node] == index[node] {
                            while let Some(member) = stack.pop() {
                                of[member] = components;
                                if member == node {
                                    break;
                                }
                            }
                            components += 1;
                        }
                        if let Some((caller, _)) = calls.last() {
                            low[*caller] = low[*caller].min(low[node]);
                        }
                    }
                }
            }
        }
        of
    }
}
