//! The next request of a thread.

use fastrand::Rng;

use super::{Clients, Operations, Pace, Workload};
use crate::kv::distribution::Chooser;
use crate::kv::{Distribution, Kind, Mix};
use crate::mix::mix;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// The value of the record of this number.
    Get(u64),
    /// A new value of it.
    Put(u64),
    /// A scan of this many keys.
    Scan(u64),
}

/// A stream of requests.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    stream: Stream,
    random: Rng,
    /// Requests that are left.
    left: u64,
}

#[derive(Debug, Clone)]
enum Stream {
    Insert { next: u64, end: u64, step: u64 },
    Mix { mix: Mix, chooser: Chooser, records: u64 },
    Scan { count: u64 },
}

impl Source {
    pub(crate) fn new(workload: &Workload) -> Self {
        let records = workload.records;
        let stream = match &workload.operations {
            Operations::Insert { from } => Stream::Insert { next: *from, end: records, step: 1 },
            Operations::Mix { mix, distribution } => {
                let skew = Distribution::default_skew(*distribution);
                let chooser = Chooser::new(*distribution, skew, records, 0, true);
                Stream::Mix { mix: mix.clone(), chooser, records }
            }
            Operations::Scan { count } => Stream::Scan { count: *count },
        };
        Self { stream, random: Rng::with_seed(mix(workload.seed)), left: u64::MAX }
    }

    /// The share of one of several threads.
    pub(crate) fn of_thread(&self, thread: usize, clients: Clients, pace: Pace) -> Self {
        let mut source = self.clone();
        let (thread, threads) = (thread as u64, clients.threads as u64);
        if let Stream::Insert { next, step, .. } = &mut source.stream {
            (*next, *step) = (*next + thread, threads);
        }
        if let Pace::Operations(operations) = pace {
            source.left = operations / threads + u64::from(thread < operations % threads);
        }
        source.random = Rng::with_seed(source.random.u64(..) ^ mix(thread));
        source
    }

    /// The next request; `None` after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.stream {
            Stream::Insert { next, end, step } => {
                let number = *next;
                (number < *end).then(|| {
                    *next += *step;
                    Request::Put(number)
                })
            }
            Stream::Mix { mix, chooser, records } => {
                let kind = mix.choose(&mut self.random);
                let number = chooser.next(&mut self.random, *records);
                Some(if kind == Kind::Read { Request::Get(number) } else { Request::Put(number) })
            }
            Stream::Scan { count } => Some(Request::Scan(*count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn workload(operations: Operations) -> Workload {
        Workload { records: 1000, value_len: 100, operations, seed: 3 }
    }

    fn clients(threads: usize) -> Clients {
        Clients { threads, connections: 8, pipeline: 1 }
    }

    const ALL: Pace = Pace::Operations(u64::MAX);

    fn mixed(text: &str, distribution: Distribution) -> Vec<Request> {
        let mix = text.parse().unwrap();
        let source = Source::new(&workload(Operations::Mix { mix, distribution }));
        let mut source = source.of_thread(0, clients(1), Pace::Operations(100_000));
        std::iter::from_fn(|| source.next()).collect()
    }

    #[test]
    fn the_mix_has_the_ratio_that_it_says() {
        for (text, share) in
            [("read=90,update=10", 0.9), ("read=50,update=50", 0.5), ("read=10,update=90", 0.1)]
        {
            let requests = mixed(text, Distribution::Uniform);
            assert_eq!(requests.len(), 100_000);
            let gets = requests.iter().filter(|request| matches!(request, Request::Get(_)));
            let found = gets.count() as f64 / 1e5;
            assert!((found - share).abs() < 0.01, "{text}: {found}");
        }
    }

    #[test]
    fn a_seed_repeats_and_threads_differ() {
        let both = || mixed("read=50,update=50", Distribution::Zipfian);
        assert_eq!(both(), both());
        let mix: Mix = "read=50,update=50".parse().unwrap();
        let operations = Operations::Mix { mix, distribution: Distribution::Zipfian };
        let source = Source::new(&workload(operations));
        let of = |thread| {
            let mut source = source.of_thread(thread, clients(2), Pace::Operations(200));
            std::iter::from_fn(|| source.next()).collect::<Vec<_>>()
        };
        assert_eq!(of(0).len(), 100);
        assert_ne!(of(0), of(1));
    }

    #[test]
    fn threads_insert_every_record_once() {
        let source = Source::new(&workload(Operations::Insert { from: 10 }));
        let mut numbers = Vec::new();
        for thread in 0..3 {
            let mut source = source.of_thread(thread, clients(3), ALL);
            numbers.extend(std::iter::from_fn(|| source.next()));
        }
        let distinct: BTreeSet<_> = numbers
            .iter()
            .map(|request| match request {
                Request::Put(number) => *number,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(numbers.len(), 990);
        assert!(distinct.into_iter().eq(10..1000));
    }
}
