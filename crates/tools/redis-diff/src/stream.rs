//! A stream of requests, from empty servers to the first difference.

use fastrand::Rng;

use crate::error::Error;
use crate::families::Pattern;
use crate::hasty::is_hasty;
use crate::known;
use crate::pattern;
use crate::report::Report;
use crate::sides::Sides;
use crate::wire::Request;

/// Requests that are sent together, and packs of them that a stream has.
const PACK: usize = 50;
const PACKS: usize = 20;
/// Requests that are shown before one whose replies differ.
const HISTORY: usize = 8;

/// A stream of requests.
pub(crate) struct Stream<'a> {
    random: Rng,
    protocol: u8,
    patterns: &'a [Pattern],
    sent: Vec<Request>,
}

impl<'a> Stream<'a> {
    /// The stream of a seed and a number. Streams speak RESP2 and RESP3 in turn.
    pub(crate) fn new(seed: u64, number: u64, patterns: &'a [Pattern]) -> Self {
        let random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let protocol = if number.is_multiple_of(2) { 2 } else { 3 };
        Self { random, protocol, patterns, sent: Vec::new() }
    }

    /// Sends the requests, up to the first difference.
    pub(crate) fn run(&mut self, sides: &mut Sides, report: &mut Report) -> Result<(), Error> {
        sides.reset()?;
        let hello = vec![b"HELLO".to_vec(), self.protocol.to_string().into_bytes()];
        sides.call(&[hello])?;
        for _ in 0..PACKS {
            let (mut chosen, mut requests) = (Vec::new(), Vec::new());
            while requests.len() < PACK {
                let pattern = self.choose();
                let request = pattern::request(pattern.text, &mut self.random);
                if !is_hasty(&request) {
                    chosen.push(pattern);
                    requests.push(request);
                }
            }
            let replies = sides.call(&requests)?;
            for ((pattern, request), replies) in chosen.iter().zip(requests).zip(replies) {
                report.count(1);
                let [ours, theirs] = &replies;
                if pattern.compare.is_same(ours, theirs) {
                    self.sent.push(request);
                } else if let Some(known) = known::find(&request, ours, theirs) {
                    report.count_known(known.why);
                    self.sent.push(request);
                } else {
                    let history = self.history(&request);
                    report.note(pattern.text, self.protocol, &history, &request, &replies);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> &'a Pattern {
        &self.patterns[self.random.usize(..self.patterns.len())]
    }

    /// The last requests that have a word of this one, apart from its name.
    fn history(&self, request: &Request) -> Vec<&Request> {
        let shares = |before: &&Request| before[1..].iter().any(|word| request[1..].contains(word));
        let mut history: Vec<_> = self.sent.iter().rev().filter(shares).take(HISTORY).collect();
        history.reverse();
        history
    }
}
