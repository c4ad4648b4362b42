//! Page stores as subjects of the lab.
//!
//! The world has a name for each line that is not zero. A step holds the whole content of the page that it flushes, so
//! that the model needs only the step. The space had another store before, and a word of the pool says whether the new
//! one is in place, which every owner of space has to note.
//!
//! In a store that is not failure-atomic, the page that is being flushed may be torn, if the store reports that. A step
//! of its own announces this: between it and the flush, the page's only name is that of a torn page.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use halite_blocks::Error;
use halite_blocks::page::{
    ChecksummedPages, CopyOnWrite, Hybrid, MicroLog, PageBuffer, PageSize, PageStore,
    SealedMicroLog, Shape,
};
use halite_pmem::{Fresh, Medium, Pool, PoolOptions, UNIT};

use crate::job::{Exploration, Job};
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};
use crate::{Random, Rules};

/// A page store.
pub struct Pages<S> {
    name: &'static str,
    is_atomic: bool,
    store: PhantomData<fn() -> S>,
}

impl<S: PageStore> Pages<S> {
    /// A store whose flushes happen whole or not at all.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, is_atomic: true, store: PhantomData }
    }

    /// A store that tells which page is torn.
    #[must_use]
    pub fn that_tells(name: &'static str) -> Self {
        Self { is_atomic: false, ..Self::new(name) }
    }
}

/// A step of a page store.
#[derive(Debug, Clone)]
pub enum PagesStep {
    /// The next flush may tear its page.
    Announce {
        /// The page.
        page: u32,
    },
    /// A page is flushed.
    Flush {
        /// The page.
        page: u32,
        /// The lines that are not zero, and the byte that fills each.
        lines: Vec<(u32, u8)>,
        /// Whether its other lines are not in DRAM.
        is_partial: bool,
    },
}

const POOL: &str = "pool";
const PAGES: u32 = 3;
const PAGE: u64 = PageSize::MIN_BYTES;
const LINE: usize = halite_pmem::LINE as usize;
/// Where the store begins; before it is the word that says that it is there.
const STORE: u64 = 4096;
const IN_PLACE: u64 = 1;

fn shape() -> Shape {
    Shape { page_size: PageSize::new(PAGE).expect("a page size"), pages: PAGES }
}

fn line_name(page: u32, line: u32) -> Vec<u8> {
    format!("page {page} line {line:02}").into_bytes()
}

fn torn_name(page: u32) -> Vec<u8> {
    format!("page {page} torn").into_bytes()
}

/// Takes everything of a page out of a world.
fn clear(world: &mut World, page: u32) {
    let prefix = format!("page {page} ").into_bytes();
    world.retain(|name, _| !name.starts_with(&prefix));
}

/// An open store, and its pages in DRAM.
pub struct OpenPages<S> {
    store: S,
    /// The bytes of each page, or `None` if it is torn.
    pages: Vec<Option<Vec<u8>>>,
    /// Keeps the note that the store is there.
    _note: Fresh,
}

impl<S: PageStore> Pages<S> {
    fn flush(&self, random: &mut Random) -> Vec<PagesStep> {
        let page = random.below(PAGES.into()) as u32;
        let count = if random.percent(8) { 40 } else { random.below(4) };
        let mut lines: Vec<(u32, u8)> = (0..count)
            .map(|_| (random.below(PAGE / LINE as u64) as u32, random.next() as u8 | 1))
            .collect();
        // A few lines are drawn often, so that steps change lines that other steps wrote.
        lines.iter_mut().filter(|(line, _)| line % 2 == 0).for_each(|(line, _)| *line /= 16);
        lines.sort_unstable();
        lines.dedup_by_key(|(line, _)| *line);
        let flush = PagesStep::Flush { page, lines, is_partial: random.percent(50) };
        let announce = PagesStep::Announce { page };
        if self.is_atomic { vec![flush] } else { vec![announce, flush] }
    }

    fn enter(mut note: Fresh, space: Fresh) -> halite_blocks::Result<OpenPages<S>> {
        let store = if note.bytes()[..8] == IN_PLACE.to_le_bytes() {
            S::open(space)?
        } else {
            let store = S::create(space, shape())?;
            note.write_words(0, &[IN_PLACE]);
            note.pool().fence([note.flush(0..8)])?;
            store
        };
        let pages = (0..PAGES).map(|page| {
            let mut buffer = PageBuffer::new(shape().page_size);
            match store.read(page, &mut buffer) {
                Ok(()) => Ok(Some(buffer.bytes().to_vec())),
                Err(Error::TornPage { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let pages = pages.collect::<halite_blocks::Result<_>>()?;
        Ok(OpenPages { store, pages, _note: note })
    }

    /// Makes a pool whose space had another store before, with other pages.
    fn create(options: &PoolOptions) -> halite_blocks::Result<Pool> {
        let pool = Pool::create(Path::new(POOL), options)?;
        let mut old = S::create(pool.claim(STORE, UNIT - STORE)?, shape())?;
        let mut buffer = PageBuffer::new(shape().page_size);
        for flush in 0..2 * PAGES {
            buffer.write(0, &vec![0xee ^ flush as u8; PAGE as usize]);
            old.flush(flush % PAGES, &mut buffer)?;
        }
        drop(old);
        pool.install()?;
        Ok(pool)
    }

    fn open_pool(medium: &Medium) -> halite_blocks::Result<OpenPages<S>> {
        let mut options = PoolOptions::default();
        (options.size_max, options.medium) = (UNIT, Some(medium.clone()));
        let path = Path::new(POOL);
        let pool = if Pool::exists(path, &options) {
            Pool::open(path, &options)?
        } else {
            Self::create(&options)?
        };
        Self::enter(pool.claim(0, STORE)?, pool.claim(STORE, UNIT - STORE)?)
    }
}

impl<S: PageStore + 'static> Subject for Pages<S> {
    type Step = PagesStep;
    type Open = OpenPages<S>;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<PagesStep>> {
        let count = 1 + random.below(8);
        let mut actions = Vec::new();
        for _ in 0..count {
            match random.below(100) {
                0..10 => actions.push(Action::Reopen),
                10..16 => actions.push(Action::Kill),
                16..22 => actions.push(Action::KillWithin(None, random.below(16) as u32)),
                chance => {
                    let mut steps = self.flush(random);
                    let last = steps.pop().expect("there is a flush");
                    actions.extend(steps.into_iter().map(Action::Step));
                    actions.push(if chance < 40 {
                        Action::KillWithin(Some(last), random.below(20) as u32)
                    } else {
                        Action::Step(last)
                    });
                }
            }
        }
        actions
    }

    fn afterlife(&self, random: &mut Random) -> Vec<PagesStep> {
        (0..random.below(3)).flat_map(|_| self.flush(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<OpenPages<S>, Refusal> {
        Self::open_pool(medium).map_err(|error| {
            let what = error.to_string();
            match error {
                Error::Pool(_) => Refusal::Failed(what),
                _ => Refusal::Named(what),
            }
        })
    }

    fn apply(&self, open: &mut OpenPages<S>, step: &PagesStep) -> Result<(), String> {
        let PagesStep::Flush { page, lines, is_partial } = step else { return Ok(()) };
        let mut wanted = vec![0; PAGE as usize];
        for &(line, fill) in lines {
            wanted[line as usize * LINE..][..LINE].fill(fill);
        }
        let size = shape().page_size;
        let known = &mut open.pages[*page as usize];
        let mut buffer =
            if *is_partial { PageBuffer::partial(size) } else { PageBuffer::new(size) };
        match known {
            None => buffer.write(0, &wanted),
            Some(known) => {
                if !is_partial {
                    open.store.read(*page, &mut buffer).map_err(|error| error.to_string())?;
                }
                for (line, (old, new)) in known.chunks(LINE).zip(wanted.chunks(LINE)).enumerate() {
                    if old != new {
                        buffer.write((line * LINE) as u64, new);
                    }
                }
            }
        }
        open.store.flush(*page, &mut buffer).map_err(|error| error.to_string())?;
        *known = Some(wanted);
        Ok(())
    }

    fn model(&self, world: &mut World, step: &PagesStep) -> bool {
        match step {
            PagesStep::Announce { page } => {
                clear(world, *page);
                world.insert(torn_name(*page), Digest::of(&[]));
                false
            }
            PagesStep::Flush { page, lines, .. } => {
                clear(world, *page);
                for &(line, fill) in lines {
                    world.insert(line_name(*page, line), Digest::of(&[fill; LINE]));
                }
                true
            }
        }
    }

    fn world(&self, open: &mut OpenPages<S>) -> Result<World, Refusal> {
        let mut world = World::new();
        for page in 0..PAGES {
            let mut buffer = PageBuffer::new(shape().page_size);
            match open.store.read(page, &mut buffer) {
                Ok(()) => {}
                Err(Error::TornPage { .. }) if !self.is_atomic => {
                    world.insert(torn_name(page), Digest::of(&[]));
                    continue;
                }
                Err(error) => return Err(Refusal::Named(error.to_string())),
            }
            for (line, bytes) in (0..).zip(buffer.bytes().chunks(LINE)) {
                if bytes.iter().any(|byte| *byte != 0) {
                    world.insert(line_name(page, line), Digest::of(bytes));
                }
            }
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut OpenPages<S>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn verify(&self, _: &mut OpenPages<S>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The part of the time that each technique has.
const SHARE: u64 = 1;

/// The jobs for the page stores.
pub(super) fn jobs(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for &rules in rules {
        add(&mut jobs, Pages::<CopyOnWrite>::new("page-cow"), rules);
        add(&mut jobs, Pages::<MicroLog>::new("page-micro-log"), rules);
        add(&mut jobs, Pages::<SealedMicroLog>::new("page-micro-log-sealed"), rules);
        add(&mut jobs, Pages::<Hybrid>::new("page-hybrid"), rules);
        add(&mut jobs, Pages::<ChecksummedPages>::that_tells("page-checksum"), rules);
    }
    jobs
}

fn add<S: PageStore + 'static>(jobs: &mut Vec<Arc<dyn Job>>, subject: Pages<S>, rules: Rules) {
    jobs.push(Arc::new(Exploration::new(subject, rules, SHARE)));
}
