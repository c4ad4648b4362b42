//! The differences, and how many requests were compared.

use std::collections::BTreeMap;

use crate::known::Known;
use crate::sides::NAMES;
use crate::state::Difference;
use crate::wire::{Request, shown, shown_reply};

/// How a difference of states is counted, beside the patterns.
const STATES: &str = "the state behind a restart";

/// Restarts behind a kill.
#[derive(Default)]
struct Restarts {
    kills: u64,
    /// Kills that hit the server as it started.
    while_starting: u64,
    /// Restarts behind which the state was compared, and the keys of these states.
    compared: u64,
    keys: u64,
    /// Requests that were under way at a kill: acknowledged, not acknowledged but there, and not there.
    acknowledged: u64,
    happened: u64,
    lost: u64,
}

/// The differences that were found.
pub(crate) struct Report {
    /// How many of each pattern are shown.
    shown_max: usize,
    /// How many requests are shown before one whose replies differ.
    pub(crate) history_len: usize,
    /// The seed, and the number of the stream of which differences are noted.
    pub(crate) stream: (u64, u64),
    pub(crate) requests: u64,
    /// Whether there was a known difference behind which the servers store different things, and the stream ends.
    pub(crate) has_parted: bool,
    restarts: Restarts,
    by_pattern: BTreeMap<&'static str, usize>,
    known: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(crate) fn new(shown_max: usize, history_len: usize) -> Self {
        let (by_pattern, known) = (BTreeMap::new(), BTreeMap::new());
        let (stream, requests, has_parted) = ((0, 0), 0, false);
        let restarts = Restarts::default();
        Self { shown_max, history_len, stream, requests, has_parted, restarts, by_pattern, known }
    }

    /// Counts a kill, and those behind it that hit the server as it started.
    pub(crate) fn count_kill(&mut self, while_starting: usize) {
        self.restarts.kills += 1 + while_starting as u64;
        self.restarts.while_starting += while_starting as u64;
    }

    /// Counts a restart behind which both servers had the same keys, and the requests that were under way at the kill.
    pub(crate) fn count_restart(
        &mut self,
        keys: usize,
        acknowledged: usize,
        happened: usize,
        unknown: usize,
    ) {
        let restarts = &mut self.restarts;
        restarts.compared += 1;
        restarts.keys += keys as u64;
        restarts.acknowledged += acknowledged as u64;
        restarts.happened += happened as u64;
        restarts.lost += (unknown - happened) as u64;
    }

    /// Counts requests that were compared.
    pub(crate) fn count(&mut self, requests: usize) {
        self.requests += requests as u64;
    }

    /// Counts a difference that is meant to be.
    pub(crate) fn count_known(&mut self, known: &'static Known) {
        *self.known.entry(known.why).or_default() += 1;
        self.has_parted |= known.parts;
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
        let (seed, stream) = self.stream;
        println!("differs, in RESP{protocol}, seed {seed}, stream {stream}: {pattern}");
        history.iter().for_each(|before| println!("    {}", shown(before)));
        println!("  > {}", shown(request));
        let [ours, theirs] = replies;
        let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
        for (name, reply) in NAMES.iter().zip(replies) {
            println!("  {name:>6}: {}", shown_reply(reply, at));
        }
    }

    /// Notes that the state behind a restart is none of those that Redis has had while it executed the requests that were
    /// under way, from before the first one to behind the last one; shows the first ones.
    pub(crate) fn note_state(
        &mut self,
        protocol: u8,
        history: &[&Request],
        under_way: &[Request],
        found: &[Vec<Difference>],
    ) {
        let count = self.by_pattern.entry(STATES).or_default();
        *count += 1;
        if *count > self.shown_max {
            return;
        }
        let (seed, stream) = self.stream;
        println!("differs, in RESP{protocol}, seed {seed}, stream {stream}: {STATES}");
        history.iter().for_each(|before| println!("    {}", shown(before)));
        under_way.iter().for_each(|request| println!("  ? {}", shown(request)));
        for (happened, differences) in found.iter().enumerate() {
            println!("  if {happened} of {} have happened:", under_way.len());
            for Difference { database, key, values } in differences {
                println!("    key {} of database {database}", key.escape_ascii());
                for (name, value) in NAMES.iter().zip(values) {
                    println!("  {name:>6}: {}", value.as_deref().unwrap_or("nothing"));
                }
            }
        }
    }

    /// Notes that a restart has changed the state of Halite, with no request under way.
    pub(crate) fn note_changed(&mut self, protocol: u8) {
        *self.by_pattern.entry(STATES).or_default() += 1;
        let (seed, stream) = self.stream;
        println!(
            "differs, in RESP{protocol}, seed {seed}, stream {stream}: a restart has changed {STATES}"
        );
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.by_pattern.is_empty()
    }

    pub(crate) fn print(&self, missing: &[&str]) {
        println!(
            "{} requests, seed {}, streams up to {}",
            self.requests, self.stream.0, self.stream.1
        );
        let Restarts { kills, while_starting, compared, keys, acknowledged, happened, lost } =
            self.restarts;
        if kills > 0 {
            println!(
                "{kills} kills, {while_starting} of them while it started; {compared} states of {keys} keys"
            );
            println!(
                "under way: {acknowledged} acknowledged, {happened} not but there, {lost} not there"
            );
        }
        if !missing.is_empty() {
            println!("this Redis does not have: {}", missing.join(" "));
        }
        self.known.iter().for_each(|(why, count)| println!("known, {count} times: {why}"));
        for (pattern, count) in &self.by_pattern {
            println!("{count} differences: {pattern}");
        }
    }
}
