//! A stream of requests, from empty servers to the first difference.

use fastrand::Rng;

use crate::compare::{Compare, items};
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

/// A stream of requests.
pub(crate) struct Stream<'a> {
    random: Rng,
    protocol: u8,
    patterns: &'a [Pattern],
    sent: Vec<Request>,
    /// The requests since MULTI.
    queued: Vec<(Compare, Request)>,
    /// The request whose reply within that of EXEC differs.
    culprit: Option<Request>,
}

const QUEUED: &[u8] = b"+QUEUED\r\n";

/// Whether a request changes a setting: it is sent alone, since requests of a pipeline that travel to other threads of
/// Halite's server may meet the setting before it or behind it.
fn is_about_all_threads(request: &Request) -> bool {
    request[0].eq_ignore_ascii_case(b"CONFIG")
}

/// Whether two replies to a request are the same, or differ as they are meant to.
fn is_same_item(
    compare: Compare,
    request: &Request,
    ours: &[u8],
    theirs: &[u8],
    report: &mut Report,
) -> bool {
    if compare.is_same(ours, theirs) {
        return true;
    }
    let known = known::find(request, ours, theirs);
    known.iter().for_each(|known| report.count_known(known.why));
    known.is_some()
}

impl<'a> Stream<'a> {
    /// The stream of a seed and a number. Streams speak RESP2 and RESP3 in turn.
    pub(crate) fn new(seed: u64, number: u64, patterns: &'a [Pattern]) -> Self {
        let random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let protocol = if number.is_multiple_of(2) { 2 } else { 3 };
        Self { random, protocol, patterns, sent: Vec::new(), queued: Vec::new(), culprit: None }
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
            let mut replies = Vec::with_capacity(PACK);
            for part in
                requests.chunk_by(|a, b| !is_about_all_threads(a) && !is_about_all_threads(b))
            {
                replies.extend(sides.call(part)?);
            }
            for ((pattern, request), replies) in chosen.iter().zip(requests).zip(replies) {
                report.count(1);
                if !self.is_same(pattern, &request, &replies, report) {
                    let history = self.history(&request, report.history_len);
                    report.note(pattern.text, self.protocol, &history, &request, &replies);
                    return Ok(());
                }
                self.sent.push(request);
            }
        }
        Ok(())
    }

    /// Whether two replies are the same, or differ as they are meant to. EXEC's are compared item by item, each as the
    /// pattern of its request says.
    fn is_same(
        &mut self,
        pattern: &Pattern,
        request: &Request,
        replies: &[Vec<u8>; 2],
        report: &mut Report,
    ) -> bool {
        let [ours, theirs] = replies;
        if ours == QUEUED && theirs == QUEUED {
            self.queued.push((pattern.compare, request.clone()));
            return true;
        }
        let ends = [&b"EXEC"[..], b"DISCARD", b"RESET"];
        let queued = match ends.iter().any(|name| request[0].eq_ignore_ascii_case(name)) {
            true => std::mem::take(&mut self.queued),
            false => Vec::new(),
        };
        match [items(ours), items(theirs)] {
            [Some(ours), Some(theirs)]
                if request[0].eq_ignore_ascii_case(b"EXEC")
                    && ours.len() == queued.len()
                    && theirs.len() == queued.len() =>
            {
                let mut items = queued.iter().zip(ours.iter().zip(theirs));
                let differs = items.find(|((compare, request), (ours, theirs))| {
                    !is_same_item(*compare, request, ours, theirs, report)
                });
                // Its history is that of the request whose reply differs.
                self.sent.extend(queued.iter().map(|(_, request)| request.clone()));
                self.culprit = differs.map(|((_, request), _)| request.clone());
                differs.is_none()
            }
            _ => is_same_item(pattern.compare, request, ours, theirs, report),
        }
    }

    fn choose(&mut self) -> &'a Pattern {
        &self.patterns[self.random.usize(..self.patterns.len())]
    }

    /// The last requests that have a word of this one, apart from its name.
    fn history(&self, request: &Request, len: usize) -> Vec<&Request> {
        let request = self.culprit.as_ref().unwrap_or(request);
        let shares = |before: &&Request| before[1..].iter().any(|word| request[1..].contains(word));
        let mut history: Vec<_> = self.sent.iter().rev().filter(shares).take(len).collect();
        history.reverse();
        // Within EXEC, the last one shown is the one itself.
        history.extend(&self.culprit);
        history
    }
}
