//! The differences, and how many requests were compared.

use std::collections::BTreeMap;

use crate::sides::NAMES;
use crate::wire::{Request, shown, shown_reply};

/// The differences that were found.
pub(crate) struct Report {
    /// How many of each pattern are shown.
    shown_max: usize,
    /// How many requests are shown before one whose replies differ.
    pub(crate) history_len: usize,
    requests: u64,
    by_pattern: BTreeMap<&'static str, usize>,
    known: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(crate) fn new(shown_max: usize, history_len: usize) -> Self {
        let (by_pattern, known) = (BTreeMap::new(), BTreeMap::new());
        Self { shown_max, history_len, requests: 0, by_pattern, known }
    }

    /// Counts requests that were compared.
    pub(crate) fn count(&mut self, requests: usize) {
        self.requests += requests as u64;
    }

    /// Counts a difference that is meant to be.
    pub(crate) fn count_known(&mut self, why: &'static str) {
        *self.known.entry(why).or_default() += 1;
    }

    /// Notes a difference, and shows the first ones of each pattern.
    pub(crate) fn note(
        &mut self,
        pattern: &'static str,
        protocol: u8,
        history: &[&Request],
        request: &Request,
        replies: &[Vec<u8>; 2],
    ) {
        let count = self.by_pattern.entry(pattern).or_default();
        *count += 1;
        if *count > self.shown_max {
            return;
        }
        println!("differs, in RESP{protocol}: {pattern}");
        history.iter().for_each(|before| println!("    {}", shown(before)));
        println!("  > {}", shown(request));
        let [ours, theirs] = replies;
        let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
        for (name, reply) in NAMES.iter().zip(replies) {
            println!("  {name:>6}: {}", shown_reply(reply, at));
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.by_pattern.is_empty()
    }

    pub(crate) fn print(&self, missing: &[&str]) {
        println!("{} requests", self.requests);
        if !missing.is_empty() {
            println!("this Redis does not have: {}", missing.join(" "));
        }
        self.known.iter().for_each(|(why, count)| println!("known, {count} times: {why}"));
        for (pattern, count) in &self.by_pattern {
            println!("{count} differences: {pattern}");
        }
    }
}
