//! A log as a subject of the lab: appends, resets and formats in a space that is used again and again.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use halite_blocks::Error;
use halite_blocks::log::{Algorithm, Classic, Header, Layout, Life, Log, PopLog, Rawl, Salted};
use halite_pmem::{Fresh, LINE, Medium, Pool, PoolOptions, UNIT};

use crate::job::Exploration;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};
use crate::{Job, Random, Rules};

/// The jobs for all algorithms under each set of rules, each with a log that is soon full, packed and
/// aligned, and with one whose entries are composed in several parts.
pub fn jobs(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    rules.iter().flat_map(|rules| of_rules(*rules)).collect()
}

fn of_rules(rules: Rules) -> Vec<Arc<dyn Job>> {
    let all = [
        of::<Classic>(rules),
        of::<Header<1>>(rules),
        of::<Header<64>>(rules),
        of::<Rawl>(rules),
        of::<PopLog>(rules),
        of::<Salted>(rules),
    ];
    all.into_iter().flatten().collect()
}

fn of<A: Algorithm + 'static>(rules: Rules) -> [Arc<dyn Job>; 3] {
    let job = |what, layout, lines, len_max| -> Arc<dyn Job> {
        let name = format!("log-{}{what}", A::NAME);
        let subject = Logs::<A> { name, layout, lines, len_max, algorithm: PhantomData };
        Arc::new(Exploration::new(subject, rules, 1))
    };
    [
        job("", Layout::Lines, 20, 300),
        job("-naive", Layout::Packed, 20, 300),
        job("-long", Layout::Lines, 220, 9000),
    ]
}

/// A log of the algorithm `A`.
struct Logs<A> {
    name: String,
    layout: Layout,
    /// Lines for entries.
    lines: u64,
    /// The longest entries.
    len_max: u64,
    algorithm: PhantomData<fn() -> A>,
}

/// A step of a log.
#[derive(Debug, Clone, Copy)]
enum LogStep {
    /// Appends an entry, if there is room.
    Append { len: u64, kind: Content },
    /// Empties the log.
    Reset,
    /// Formats the space.
    Format,
}

/// The kind and the lengths of an entry.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// One byte, again and again: without its lines, an entry of zeros is as it was.
    Same(u8),
    /// Words that look like a header of PopLog with an empty entry.
    Headers,
    /// Random bytes. There are few seeds, so entries share lines.
    Random(u64),
}

impl Content {
    fn bytes(self, len: u64) -> Vec<u8> {
        let word = |random: &mut Random| match self {
            Self::Same(byte) => [byte; 8],
            Self::Headers => (1_u64 << 32).to_le_bytes(),
            Self::Random(_) => random.next().to_le_bytes(),
        };
        let mut random = Random::of(&[if let Self::Random(seed) = self { seed } else { 0 }]);
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| word(&mut random)).collect();
        bytes.truncate(len as usize);
        bytes
    }
}

const POOL: &str = "pool";
/// Where the log is in its pool.
const AT: u64 = 4096;
fn entry_name(number: usize) -> Vec<u8> {
    format!("entry {number:04}").into_bytes()
}

impl<A: Algorithm> Logs<A> {
    fn claim(&self, pool: &Pool) -> Result<Fresh, Refusal> {
        let len = (1 + A::CONTROL_LINES + self.lines) * LINE;
        pool.claim(AT, len).map_err(|error| Refusal::Failed(error.to_string()))
    }

    /// Bytes that entries take.
    fn footprint(&self, lens: impl Iterator<Item = u64>) -> u64 {
        let life = Life { salt: 0, number: 0, validity: true };
        let algorithm = A::begin(&life, self.layout);
        lens.map(|len| algorithm.footprint(len)).sum()
    }

    fn step(&self, random: &mut Random) -> LogStep {
        match random.below(100) {
            0..72 => {
                let len = match random.below(4) {
                    0 => random.below(60),
                    1 => random.below(self.len_max),
                    // Lengths that come again put entries where there were some.
                    _ => self.len_max / 6 * (1 + random.below(3)),
                };
                let kind = match random.below(6) {
                    0 => Content::Same([0, 0xff][random.below(2) as usize]),
                    1 => Content::Headers,
                    _ => Content::Random(random.below(4)),
                };
                LogStep::Append { len, kind }
            }
            72..90 => LogStep::Reset,
            _ => LogStep::Format,
        }
    }
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::LogDamaged { .. } => Refusal::Named(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

/// An open log; formatting takes its space out for a moment.
struct Open<A> {
    log: Option<Log<A>>,
}

impl<A: Algorithm> Open<A> {
    fn log(&mut self) -> Result<&mut Log<A>, String> {
        self.log.as_mut().ok_or_else(|| "formatting it failed".to_owned())
    }
}

impl<A: Algorithm> Subject for Logs<A> {
    type Step = LogStep;
    type Open = Open<A>;

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<LogStep>> {
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..16 => Action::Kill,
            16..20 => Action::KillWithin(None, random.below(12) as u32),
            20..36 => Action::KillWithin(Some(self.step(random)), random.below(8) as u32),
            _ => Action::Step(self.step(random)),
        };
        (0..1 + random.below(12)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<LogStep> {
        (0..random.below(4)).map(|_| self.step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open<A>, Refusal> {
        let mut options = PoolOptions::default();
        (options.size_initial, options.size_max) = (UNIT, UNIT);
        options.medium = Some(medium.clone());
        let path = Path::new(POOL);
        let failed = |error: halite_pmem::Error| Refusal::Failed(error.to_string());
        let log = if Pool::exists(path, &options) {
            let pool = Pool::open(path, &options).map_err(failed)?;
            match Log::open(self.claim(&pool)?) {
                // A format was interrupted.
                Err(Error::NotALog { .. }) => Log::format(self.claim(&pool)?, self.layout),
                opened => opened,
            }
        } else {
            let pool = Pool::create(path, &options).map_err(failed)?;
            let log = Log::format(self.claim(&pool)?, self.layout);
            pool.install().map_err(failed)?;
            log
        };
        Ok(Open { log: Some(log.map_err(|error| refusal(&error))?) })
    }

    fn apply(&self, open: &mut Open<A>, step: &LogStep) -> Result<(), String> {
        let done = match *step {
            LogStep::Append { len, kind } => {
                let log = open.log()?;
                if log.footprint(len) > log.remaining() {
                    return Ok(());
                }
                log.append(&kind.bytes(len))
            }
            LogStep::Reset => open.log()?.reset(),
            LogStep::Format => {
                let space = open.log.take().ok_or("it has no space")?.into_space();
                Log::format(space, self.layout).map(|log| open.log = Some(log))
            }
        };
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &LogStep) -> bool {
        match *step {
            LogStep::Append { len, kind } => {
                let lens = world.values().map(|digest| digest.len).chain([len]);
                if self.footprint(lens) <= self.lines * LINE {
                    world.insert(entry_name(world.len()), Digest::of(&kind.bytes(len)));
                }
            }
            LogStep::Reset | LogStep::Format => world.clear(),
        }
        true
    }

    fn world(&self, open: &mut Open<A>) -> Result<World, Refusal> {
        let log = open.log().map_err(Refusal::Failed)?;
        let entries = log.entries().enumerate();
        Ok(entries.map(|(number, entry)| (entry_name(number), Digest::of(&entry))).collect())
    }

    fn look_up(&self, open: &mut Open<A>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn verify(&self, open: &mut Open<A>) -> Result<(), Refusal> {
        let log = open.log().map_err(Refusal::Failed)?;
        let lens = log.entries().map(|entry| entry.len() as u64);
        let (taken, room) = (self.footprint(lens), self.lines * LINE);
        if taken + log.remaining() != room || log.layout() != self.layout {
            let what = format!("{taken} and {} of {room} bytes", log.remaining());
            return Err(Refusal::Failed(what));
        }
        Ok(())
    }
}
