//! A run: the state that experiments share, and the rows that they yield.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_pmem::{PoolOptions, Profile};

use crate::row::{Params, Repeats, Row, Sample};
use crate::{Error, Peers, Result};

/// How a run is to be made.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where pools and stores are made.
    pub folder: PathBuf,
    /// Smaller and fewer: to see that it works, not to publish.
    pub quick: bool,
    /// How often everything is measured.
    pub repeats: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// The medium that pools emulate, if not the one that they lie on.
    pub profile: Option<Profile>,
}

impl RunOptions {
    /// The options of pools, without their size.
    #[must_use]
    pub fn pool(&self) -> PoolOptions {
        let mut options = PoolOptions::default();
        options.profile.clone_from(&self.profile);
        options
    }
}

/// The receiver of a run's progress.
pub trait Watch {
    /// `done` of `all` measurements are done; `what` describes the next one.
    fn step(&self, done: u64, all: u64, what: &str);
}

/// A receiver that ignores the progress.
impl Watch for () {
    fn step(&self, _: u64, _: u64, _: &str) {}
}

/// A subject of an experiment.
pub struct Contender<'a> {
    /// As in [`Row::subject`].
    pub name: String,
    /// Measures once.
    pub measure: Box<dyn FnMut() -> Result<Vec<Sample>> + 'a>,
    /// The source's values of metrics.
    pub source: Vec<(&'static str, f64)>,
    /// Its own parameters: those of its rows beside those of the comparison.
    pub params: Params,
}

impl<'a> Contender<'a> {
    /// A subject.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> Result<Vec<Sample>> + 'a) -> Self {
        let params = Params::new();
        let (name, measure) = (name.into(), Box::new(measure));
        Self { name, measure, source: Vec::new(), params }
    }

    /// The subject, and a parameter of its rows alone.
    #[must_use]
    pub fn with_param(mut self, name: &str, value: serde_json::Value) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    /// Sets the source's value of a metric for the subject.
    #[must_use]
    pub fn with_source(mut self, metric: &'static str, value: Option<f64>) -> Self {
        self.source.extend(value.map(|value| (metric, value)));
        self
    }
}

/// The subject whose figures are the limit of the others in the same comparison.
pub const LIMIT: &str = "limit";

/// A contender in one comparison, and its figures.
struct Turn<'a> {
    name: &'a str,
    measure: &'a mut (dyn FnMut() -> Result<Vec<Sample>> + 'a),
    source: &'a [(&'static str, f64)],
    params: &'a Params,
    samples: Vec<Repeats>,
}

impl<'a> Turn<'a> {
    fn of<'c: 'a>(contender: &'a mut Contender<'c>) -> Self {
        Self {
            name: &contender.name,
            measure: &mut *contender.measure,
            source: &contender.source,
            params: &contender.params,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, sample: Sample) {
        match self.samples.iter_mut().find(|repeats| repeats.metric == sample.metric) {
            Some(repeats) => repeats.values.push(sample.value),
            None => self.samples.push(Repeats {
                metric: sample.metric,
                unit: sample.unit,
                values: vec![sample.value],
            }),
        }
    }
}

/// A run in progress.
pub struct Run<'a> {
    /// How it is made.
    pub options: RunOptions,
    watch: &'a dyn Watch,
    interrupted: &'a AtomicBool,
    peers: &'a dyn Peers,
    peer_names: Vec<String>,
    rows: Vec<Row>,
    steps_done: u64,
    steps_planned: u64,
}

impl<'a> Run<'a> {
    /// A run that stops early once `interrupted` is true.
    #[must_use]
    pub fn new(options: RunOptions, watch: &'a dyn Watch, interrupted: &'a AtomicBool) -> Self {
        Self {
            options,
            watch,
            interrupted,
            peers: &(),
            peer_names: Vec::new(),
            rows: Vec::new(),
            steps_done: 0,
            steps_planned: 0,
        }
    }

    /// Lets the peers of these names take part in each comparison that they know.
    #[must_use]
    pub fn with_peers(mut self, peers: &'a dyn Peers, names: Vec<String>) -> Self {
        (self.peers, self.peer_names) = (peers, names);
        self
    }

    /// True once the user asked to stop; measurements that take seconds check it.
    #[must_use]
    pub fn interrupted(&self) -> &'a AtomicBool {
        self.interrupted
    }

    /// Announces measurements, so that the remaining time can be shown: each experiment announces all that
    /// it will make (contenders times repeats) before the first experiment begins.
    pub fn plan(&mut self, measurements: u64) {
        self.steps_planned += measurements;
    }

    /// Compares contenders: in each repeat all of them take turns, each time another one first, so that disturbances of
    /// the machine affect all alike. The figures of the contender called [`LIMIT`] become the limit of the others' rows
    /// of the same metric.
    ///
    /// # Errors
    /// The errors of a contender; [`Error::Interrupted`], and the rows of complete repeats stay.
    pub fn compare(
        &mut self,
        experiment: &str,
        params: &Params,
        contenders: &mut [Contender<'_>],
    ) -> Result<()> {
        let mut peers = self.peers.contenders(experiment, params, &self.options)?;
        peers.retain(|peer| self.peer_names.contains(&peer.name));
        self.steps_planned += peers.len() as u64 * u64::from(self.options.repeats);
        let mut turns: Vec<Turn<'_>> = contenders.iter_mut().map(Turn::of).collect();
        turns.extend(peers.iter_mut().map(Turn::of));

        let outcome = self.repeat(experiment, params, &mut turns);
        let limits = turns.iter().find(|turn| turn.name == LIMIT);
        let limits = limits.map(|turn| turn.samples.clone()).unwrap_or_default();
        for turn in &turns {
            let mut params = params.clone();
            params.extend(turn.params.clone());
            for repeats in &turn.samples {
                let Some(mut row) = Row::of(experiment, turn.name, &params, repeats) else {
                    continue;
                };
                let limit = limits.iter().find(|limit| limit.metric == row.metric);
                row.limit = limit
                    .and_then(|limit| crate::Summary::of(&limit.values))
                    .map(|summary| summary.median);
                let source = turn.source.iter().find(|(metric, _)| *metric == row.metric);
                row.source = source.map(|&(_, value)| value);
                self.rows.push(row);
            }
        }
        outcome
    }

    fn repeat(&mut self, experiment: &str, params: &Params, turns: &mut [Turn<'_>]) -> Result<()> {
        let count = turns.len();
        for repeat in 0..self.options.repeats as usize {
            for place in 0..count {
                let turn = &mut turns[(repeat + place) % count];
                self.step(&describe(experiment, turn.name, params))?;
                for sample in (turn.measure)()? {
                    turn.add(sample);
                }
                self.steps_done += 1;
            }
        }
        Ok(())
    }

    /// Reports the next measurement.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn step(&mut self, what: &str) -> Result<()> {
        self.go_on()?;
        self.watch.step(self.steps_done, self.steps_planned.max(self.steps_done + 1), what);
        Ok(())
    }

    /// Prepares so many bytes, a part after the other.
    ///
    /// # Errors
    /// [`Error::Interrupted`], between two parts.
    pub(crate) fn prepare(&self, bytes: u64, mut part: impl FnMut(Range<u64>)) -> Result<()> {
        const PART: u64 = 64 << 20;
        for at in (0..bytes).step_by(PART as usize) {
            self.go_on()?;
            part(at..bytes.min(at + PART));
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn go_on(&self) -> Result<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// This many measurements, or units that are planned as such, are done.
    pub(crate) fn done(&mut self, count: u64) {
        self.steps_done += count;
    }

    /// The rows so far.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// All rows.
    #[must_use]
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

fn describe(experiment: &str, subject: &str, params: &Params) -> String {
    let mut what = format!("{experiment} {subject}");
    for (name, value) in params {
        what += &match value.as_str() {
            Some(text) => format!(" {name}={text}"),
            None => format!(" {name}={value}"),
        };
    }
    what
}
