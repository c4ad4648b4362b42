//! A stream of requests, from empty servers to the first difference.

use fastrand::Rng;

use crate::compare::{Compare, items};
use crate::error::Error;
use crate::families::Pattern;
use crate::hasty::is_hasty;
use crate::kills::Kills;
use crate::known;
use crate::pattern;
use crate::report::Report;
use crate::sides::Sides;
use crate::wire::Request;

/// Requests that are sent together.
const PACK: usize = 50;

/// A stream of requests.
pub(crate) struct Stream<'a> {
    random: Rng,
    protocol: u8,
    patterns: &'a [Pattern],
    kills: Kills,
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
    known.iter().for_each(|known| report.count_known(known));
    known.is_some()
}

/// A request, and the pattern that it was made of.
type Made<'a> = (&'a Pattern, Request);

fn requests(made: &[Made<'_>]) -> Vec<Request> {
    made.iter().map(|(_, request)| request.clone()).collect()
}

impl<'a> Stream<'a> {
    /// The stream of a seed and a number. Streams speak RESP2 and RESP3 in turn.
    pub(crate) fn new(
        seed: u64,
        number: u64,
        patterns: &'a [Pattern],
        kill_every: usize,
        threads: usize,
    ) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        let kills = Kills::new(seed.rotate_left(32), kill_every, threads);
        let random = Rng::with_seed(seed);
        let protocol = if number.is_multiple_of(2) { 2 } else { 3 };
        let (sent, queued, culprit) = (Vec::new(), Vec::new(), None);
        Self { random, protocol, patterns, kills, sent, queued, culprit }
    }

    /// Sends so many packs of requests, up to the first difference.
    pub(crate) fn run(
        &mut self,
        sides: &mut Sides,
        report: &mut Report,
        packs: usize,
    ) -> Result<(), Error> {
        sides.reset(self.protocol)?;
        for _ in 0..packs {
            let mut pack = Vec::new();
            while pack.len() < PACK {
                let pattern = self.choose();
                let request = pattern::request(pattern.text, &mut self.random);
                if !is_hasty(&request) {
                    pack.push((pattern, request));
                }
            }
            let is_alone = |made: &Made<'_>| is_about_all_threads(&made.1);
            for part in pack.chunk_by(|a, b| !is_alone(a) && !is_alone(b)) {
                if !self.send(part, sides, report)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends requests, with kills between them; returns whether there was no difference.
    fn send(
        &mut self,
        mut left: &[Made<'_>],
        sides: &mut Sides,
        report: &mut Report,
    ) -> Result<bool, Error> {
        while !left.is_empty() {
            let (sent, behind) = left.split_at(self.kills.before(left.len()));
            if !sent.is_empty() {
                let replies = sides.call(&requests(sent))?;
                if !self.compare(sent, replies, report) {
                    return Ok(false);
                }
            }
            if behind.is_empty() {
                break;
            }
            let (under_way, behind) = behind.split_at(self.kills.under_way(behind.len()));
            if !self.kill(under_way, sides, report)? {
                return Ok(false);
            }
            left = behind;
        }
        Ok(true)
    }

    /// Compares replies; returns whether there was no difference.
    fn compare(
        &mut self,
        sent: &[Made<'_>],
        replies: Vec<[Vec<u8>; 2]>,
        report: &mut Report,
    ) -> bool {
        for ((pattern, request), replies) in sent.iter().zip(replies) {
            report.count(1);
            if !self.is_same(pattern, request, &replies, report) {
                let history = self.history(request, report.history_len);
                report.note(pattern.text, self.protocol, &history, request, &replies);
                return false;
            }
            self.sent.push(request.clone());
            if report.has_parted {
                break;
            }
        }
        !std::mem::take(&mut report.has_parted)
    }

    /// Kills Halite while requests are under way and starts it again; then Redis gets those of them that have happened.
    /// Returns whether both have the same state, and have given the same replies.
    fn kill(
        &mut self,
        under_way: &[Made<'_>],
        sides: &mut Sides,
        report: &mut Report,
    ) -> Result<bool, Error> {
        let before = if under_way.is_empty() { Some(sides.state(0)?) } else { None };
        let ours = sides.kill(&requests(under_way), self.kills.wait())?;
        let (acknowledged, unknown) = under_way.split_at(ours.len());
        let mut replies = Vec::new();
        for ((_, request), ours) in acknowledged.iter().zip(ours) {
            replies.push([ours, sides.call_redis(request)?]);
        }
        if !self.compare(acknowledged, replies, report) {
            // The next stream needs a server.
            sides.start_again(&[])?;
            return Ok(false);
        }
        let killed_behind = self.kills.while_starting();
        sides.start_again(&killed_behind)?;
        report.count_kill(killed_behind.len());

        let ours = sides.state(0)?;
        if before.is_some_and(|before| !ours.is_still(&before)) {
            report.note_changed(self.protocol);
            return Ok(false);
        }
        let mut found = Vec::new();
        for happened in 0..=unknown.len() {
            if let Some((_, request)) = happened.checked_sub(1).map(|last| &unknown[last]) {
                sides.call_redis(request)?;
            }
            found.push(ours.differences(&sides.state(1)?));
            if found.last().is_some_and(Vec::is_empty) {
                report.count_restart(ours.len(), acknowledged.len(), happened, unknown.len());
                self.sent.extend(requests(&unknown[..happened]));
                self.queued.clear();
                sides.go_on(self.protocol)?;
                return Ok(true);
            }
        }
        let keys = found.iter().flatten().map(|found| &found.key);
        let history = self.with_words(&keys.cloned().collect::<Vec<_>>(), report.history_len);
        report.note_state(self.protocol, &history, &requests(unknown), &found);
        Ok(false)
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
        self.with_words(&request[1..], len)
    }

    /// The last requests that have one of some words.
    fn with_words(&self, words: &[Vec<u8>], len: usize) -> Vec<&Request> {
        let shares = |before: &&Request| before[1..].iter().any(|word| words.contains(word));
        let mut history: Vec<_> = self.sent.iter().rev().filter(shares).take(len).collect();
        history.reverse();
        // Within EXEC, the last one shown is the one itself.
        history.extend(&self.culprit);
        history
    }
}
