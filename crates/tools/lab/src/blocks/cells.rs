//! Arrays of small cells as subjects of the lab.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use halite_blocks::Error;
use halite_blocks::cell::{Cells, Cow, Fam, Logged, Packing, Shape};
use halite_pmem::{Medium, Pool, PoolOptions, UNIT};

use crate::job::Exploration;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};
use crate::{Job, Random, Rules};

/// The lengths of the values under test, in bytes.
const LENGTHS: [u64; 4] = [16, 32, 64, 128];

/// Cells: so few that each is updated again and again.
const CELLS: u64 = 3;

/// Where the cells lie in their pool, in bytes.
const SPACE_AT: u64 = 4096;

const POOL: &str = "cells";

/// The jobs of all techniques and lengths. The owner of the pool has to notice failures of the platform, not cells.
#[must_use]
pub fn jobs(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for &rules in rules.iter().filter(|rules| **rules != Rules::FailedPlatform) {
        for cell_len in LENGTHS {
            for packing in [Packing::Lines, Packing::Dense] {
                let shape = Shape { cell_len, count: CELLS, packing };
                jobs.push(job::<Cow>("cow", shape, rules));
                jobs.push(job::<Logged>("log", shape, rules));
                jobs.push(job::<Fam>("fam", shape, rules));
            }
        }
    }
    jobs
}

fn job<C: Cells + 'static>(technique: &str, shape: Shape, rules: Rules) -> Arc<dyn Job> {
    Arc::new(Exploration::new(CellArray::<C>::new(technique, shape), rules, 1))
}

/// A few cells of one technique.
pub struct CellArray<C> {
    name: String,
    shape: Shape,
    technique: PhantomData<fn() -> C>,
}

impl<C: Cells> CellArray<C> {
    /// Cells of a shape; reports call them by the technique, the length and how they lie.
    #[must_use]
    pub fn new(technique: &str, shape: Shape) -> Self {
        let packing = if shape.packing == Packing::Lines { "lines" } else { "dense" };
        let name = format!("cells-{technique}-{}-{packing}", shape.cell_len);
        Self { name, shape, technique: PhantomData }
    }

    fn step(&self, random: &mut Random) -> CellStep {
        if random.percent(4) {
            return CellStep::Format;
        }
        // Mostly the same one, so that its versions come round.
        let index = if random.percent(60) { 0 } else { random.below(self.shape.count) };
        CellStep::Write { index, seed: random.next() }
    }

    fn value(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..self.shape.cell_len).map(|_| random.next() as u8).collect()
    }

    /// The cells that were written since they were made: a new array is an empty world.
    fn world_of(&self, cells: &C) -> World {
        let value = |index| {
            let mut value = vec![0; self.shape.cell_len as usize];
            cells.read(index, &mut value);
            let is_written = value.iter().any(|&byte| byte != 0);
            is_written.then(|| (cell_name(index), Digest::of(&value)))
        };
        (0..self.shape.count).filter_map(value).collect()
    }
}

fn cell_name(index: u64) -> Vec<u8> {
    format!("cell {index}").into_bytes()
}

/// A step of cells.
#[derive(Debug, Clone)]
pub enum CellStep {
    /// Gives a cell a value.
    Write {
        /// Which.
        index: u64,
        /// The seed of the value.
        seed: u64,
    },
    /// Makes all of them anew.
    Format,
}

/// Cells on a pool.
pub struct OpenCells<C> {
    /// `None` after a format that failed.
    cells: Option<C>,
    pool: Pool,
}

impl<C: Cells> OpenCells<C> {
    fn cells(&mut self) -> Result<&mut C, Refusal> {
        self.cells.as_mut().ok_or_else(|| Refusal::Failed("there are no cells".into()))
    }

    fn format(&mut self, shape: Shape) -> Result<(), Error> {
        self.cells = None;
        self.cells = Some(C::format(self.pool.claim(SPACE_AT, C::space_len(shape))?, shape)?);
        Ok(())
    }

    fn open(&mut self, shape: Shape) -> Result<(), Error> {
        self.cells = None;
        match C::open(self.pool.claim(SPACE_AT, C::space_len(shape))?) {
            // A format that was interrupted ends like this.
            Err(Error::Foreign { .. }) => self.format(shape),
            opened => {
                self.cells = Some(opened?);
                Ok(())
            }
        }
    }
}

fn refusal(error: Error) -> Refusal {
    let what = error.to_string();
    match error {
        Error::Damaged { .. } | Error::Foreign { .. } => Refusal::Named(what),
        _ => Refusal::Failed(what),
    }
}

impl<C: Cells> Subject for CellArray<C> {
    type Step = CellStep;
    type Open = OpenCells<C>;

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<CellStep>> {
        let steps = 2 + random.below(14);
        let action = |random: &mut Random| match random.below(100) {
            0..6 => Action::Reopen,
            6..10 => Action::Kill,
            10..14 => Action::KillWithin(None, random.below(4) as u32),
            14..24 => Action::KillWithin(Some(self.step(random)), random.below(8) as u32),
            // Its header is written late, and a later power cut may take it back.
            24..30 => Action::KillWithin(Some(CellStep::Format), random.below(20) as u32),
            _ => Action::Step(self.step(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<CellStep> {
        (0..random.below(6)).map(|_| self.step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<OpenCells<C>, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        let path = Path::new(POOL);
        let opened = if Pool::exists(path, &options) {
            Pool::open(path, &options)
        } else {
            Pool::create(path, &options).and_then(|pool| {
                pool.install()?;
                Ok(pool)
            })
        };
        let pool = opened.map_err(|error| refusal(error.into()))?;
        let mut open = OpenCells { cells: None, pool };
        open.open(self.shape).map_err(refusal)?;
        Ok(open)
    }

    fn apply(&self, open: &mut OpenCells<C>, step: &CellStep) -> Result<(), String> {
        let done = match *step {
            CellStep::Write { index, seed } => {
                let cells = open.cells().map_err(|refusal| refusal.to_string())?;
                cells.write(index, &self.value(seed))
            }
            CellStep::Format => open.format(self.shape),
        };
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &CellStep) -> bool {
        match *step {
            CellStep::Write { index, seed } => {
                world.insert(cell_name(index), Digest::of(&self.value(seed)));
            }
            CellStep::Format => world.clear(),
        }
        true
    }

    fn world(&self, open: &mut OpenCells<C>) -> Result<World, Refusal> {
        Ok(self.world_of(open.cells()?))
    }

    fn look_up(&self, open: &mut OpenCells<C>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    /// Opens them once more, which checks every one.
    fn verify(&self, open: &mut OpenCells<C>) -> Result<(), Refusal> {
        let before = self.world(open)?;
        open.open(self.shape).map_err(refusal)?;
        if self.world(open)? != before {
            return Err(Refusal::Failed("opened again, cells have other values".into()));
        }
        Ok(())
    }
}
