//! Bringing partitions to their threads, as they are recovered.
//!
//! Loader threads wait for one partition after the other, the one first that a request waits for, read the deadlines of
//! its keys, and bring its [`crate::store::Part`] to the thread that owns it.
//!
//! A partition that could not be recovered, or read, has a part as well, which is marked as broken: its requests are
//! refused with the reason, and those of other partitions go on.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::partition_set::PartitionSet;
use crate::shared::{FailsOnPanic, Shared};
use crate::store::Opened;

/// How often the end of the server is looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// The loader of partitions.
pub(crate) struct Loader {
    pub(crate) db: halite::Database,
    /// The databases to open.
    pub(crate) databases: usize,
    /// By partition: the thread that it belongs to.
    pub(crate) homes: Vec<usize>,
    pub(crate) opened: Arc<OnceLock<Opened>>,
    pub(crate) shared: Arc<Shared>,
}

impl Loader {
    /// Brings all parts to their threads, or ends when the server does.
    ///
    /// # Errors
    /// The error of opening the databases.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let Some(opened) = self.open()? else { return Ok(()) };
        // There are as many threads as recover partitions.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..cores.min(self.homes.len()) {
                let builder = thread::Builder::new().name("halite-loader".to_owned());
                // If no more threads can be started, one is enough.
                drop(builder.spawn_scoped(scope, || {
                    let _guard = FailsOnPanic(&self.shared);
                    self.work(opened);
                }));
            }
            self.work(opened);
        });
        self.open_libraries(opened);
        Ok(())
    }

    /// Reads the libraries of functions, once all partitions are recovered. Without them the server can run.
    fn open_libraries(&self, opened: &Opened) {
        if self.shared.ending.has_begun() {
            return;
        }
        let settings = self.shared.common().0.settings;
        let texts = opened.libraries().unwrap_or_else(|error| {
            settings.log(|| format!("the libraries of functions cannot be read: {error}"));
            Vec::new()
        });
        self.shared.scripts.open(&texts, &settings);
    }

    /// Opens the databases as soon as the partitions with their names and their order are recovered.
    fn open(&self) -> Result<Option<&Opened>, Error> {
        let mut needed = PartitionSet::only(0);
        Opened::KEYS.iter().for_each(|key| needed.insert(self.db.partition_of(key)));
        for number in needed.iter() {
            self.db.wait_partition(number, Duration::ZERO)?;
        }
        for number in needed.iter() {
            if !self.wait(number)? {
                return Ok(None);
            }
        }
        if !Opened::exist(&self.db, self.databases)? || !Opened::are_home(&self.db)? {
            // Making a key space, and moving elements, needs all partitions.
            for number in 0..self.homes.len() {
                if !self.wait(number)? {
                    return Ok(None);
                }
            }
        }
        let opened = Opened::open(&self.db, self.databases)?;
        Ok(Some(self.opened.get_or_init(|| opened)))
    }

    /// Waits for a partition. Returns false if the server ends.
    fn wait(&self, number: usize) -> halite::Result<bool> {
        while !self.shared.ending.has_begun() {
            if self.db.wait_partition(number, PAUSE)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn work(&self, opened: &Opened) {
        loop {
            let Some(number) = self.shared.loading.take_wanted() else { return };
            let mut part = opened.part(&self.db, number);
            let loaded = self
                .wait(number)
                .and_then(|is_there| Ok(is_there && opened.read(&mut part, &self.shared.ending)?));
            match loaded {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => part.break_down(&error),
            }
            let home = self.homes[number];
            self.shared.loading.bring(part, home);
            self.shared.ring_one(home);
        }
    }
}
