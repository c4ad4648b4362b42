//! The part of a trace that is not certainly durable at one point, of the pool and of the files beside it.
//!
//! The pages of files persist by the rules of the page cache, independent of those of the pool. `names` and this module
//! know the possible lengths of a file and the possible contents of the folder.

use std::collections::{BTreeMap, BTreeSet};

use halite_disk::{DiskModel, FileEvent};
use halite_pmem::ModelFile;
use halite_sim::{Trace, What};

use crate::Rules;
use crate::cells::{self, Cells, Choice, Dirty, Part};
use crate::disk::Disk;
use crate::files::{Folder, Names, SPAN, address, place_in_file};
use crate::images::Image;
use crate::names::PendingNames;

/// A sector, in bytes.
const SECTOR: u64 = 512;

/// How many of the lengths between that before an event and that after it are tried.
const LENS_MAX: u64 = 16;

/// The changes that are not certainly durable.
pub(crate) struct Pending<'a> {
    rules: Rules,
    trace: &'a Trace,
    /// The model to which the events of files refer.
    model: &'a DiskModel,
    pool: Cells,
    files: Cells,
    names: PendingNames,
    /// By file, the lengths that it got since it was synced, and since which event.
    lens: BTreeMap<u32, Vec<(u32, u64)>>,
}

/// The possible states at one point.
pub(crate) struct Uncertain<'a> {
    pub(crate) dirty: Vec<Dirty<'a>>,
    /// The states of the pool's file, each with the event since which it is possible. The certain one comes first; so
    /// in the other lists.
    pub(crate) pool_files: Vec<(u32, ModelFile)>,
    /// The possible names in the folder, if they are not certain.
    names: Vec<(u32, Names)>,
    /// By file, the lengths that it may have.
    lens: Vec<(u32, Vec<(u32, u64)>)>,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(rules: Rules, trace: &'a Trace, model: &'a DiskModel) -> Self {
        let (pool, files) = (Cells::new(rules), Cells::new(Rules::PageCache));
        let (names, lens) = (PendingNames::default(), BTreeMap::new());
        Self { rules, trace, model, pool, files, names, lens }
    }

    pub(crate) fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// The file event of an event, if it has one.
    pub(crate) fn file_event(&self, what: What) -> Option<FileEvent> {
        match what {
            What::Disk { number, .. } => {
                Some(self.model.event(number).expect("the events of a trace are known"))
            }
            _ => None,
        }
    }

    /// The beginning of an event: adds the images that it makes possible.
    pub(crate) fn begin(&mut self, number: u32, what: What, disk: &Disk) {
        self.pool.begin(number, what);
        let (What::Disk { bytes, len, .. }, Some(event)) = (what, self.file_event(what)) else {
            return;
        };
        let store = |file, at| {
            let at = address(file, at);
            What::Store { at, len, bytes, streamed: false, in_order: false }
        };
        match event {
            FileEvent::Write { file, at } => {
                self.files.begin(number, store(file, at));
                let end = at + u64::from(len);
                if end > self.len(file, disk) {
                    self.lens.entry(file).or_default().push((number, end));
                }
            }
            FileEvent::Preallocate { file, len } if len > self.len(file, disk) => {
                self.lens.entry(file).or_default().push((number, len));
            }
            FileEvent::Cut { file, len } => {
                self.files.begin(number, store(file, len));
                self.lens.entry(file).or_default().push((number, len));
            }
            FileEvent::SyncFailed { file } => {
                self.files.begin(number, What::SyncFailed { at: address(file, 0), len: SPAN });
            }
            event => self.names.begin(number, event),
        }
    }

    /// The length of a file while there is power.
    fn len(&self, file: u32, disk: &Disk) -> u64 {
        let newest = self.lens.get(&file).and_then(|lens| lens.last());
        newest.map_or(disk.folder.len(file), |(_, len)| *len)
    }

    /// Whether an event shrinks the set of images that a power cut may leave. Before it happens, all of these images
    /// have to be examined.
    pub(crate) fn shrinks(&self, what: What) -> bool {
        match self.file_event(what) {
            None => self.pool.shrinks(what, self.trace),
            Some(FileEvent::Sync { file }) => {
                self.lens.contains_key(&file) || self.files.shrinks(sync_of(file), self.trace)
            }
            Some(FileEvent::SyncFolder { folder }) => self.names.has_some_in(&folder),
            Some(_) => false,
        }
    }

    /// The end of an event: makes its effects certain.
    pub(crate) fn end(&mut self, what: What, disk: &mut Disk) {
        self.pool.end(what, self.trace, disk);
        match self.file_event(what) {
            Some(FileEvent::Sync { file }) => {
                self.files.end(sync_of(file), self.trace, disk);
                if let Some((_, len)) =
                    self.lens.remove(&file).and_then(|lens| lens.last().copied())
                {
                    disk.folder.lens.insert(file, len);
                }
            }
            Some(FileEvent::SyncFolder { folder }) => {
                let mut all = disk.folder.clone();
                self.names.settle(&folder, &mut all.names);
                // Names in other folders are as uncertain as before, and their files are there.
                let named = self.names.reachable(&all.names);
                disk.set_reachable(all, &named);
            }
            _ => {}
        }
    }

    /// The possible states now.
    pub(crate) fn uncertain(&self, disk: &Disk) -> Uncertain<'_> {
        let mut dirty = self.pool.dirty();
        // Files without a possible name are lost anyway.
        let reachable = self.names.reachable(&disk.folder.names);
        dirty.extend(self.files.dirty().into_iter().filter(|dirty| {
            place_in_file(dirty.parts[0].at).is_some_and(|(file, _)| reachable.contains(&file))
        }));
        let lens = self.lens.iter().filter(|(file, _)| reachable.contains(file));
        let lens =
            lens.map(|(&file, newer)| (file, lens_between(disk.folder.len(file), newer))).collect();
        let names = self.names.ways(&disk.folder.names);
        Uncertain { dirty, pool_files: self.pool.files(disk.file), names, lens }
    }

    /// Leaves an image on the disk. Returns the event since which it is possible, as far as `uncertain` decides that.
    pub(crate) fn leave(&self, uncertain: &Uncertain<'_>, image: &Image, disk: &mut Disk) -> u32 {
        let (mut youngest, file) = uncertain.pool_files[image.ways[0]];
        disk.file = file;
        if self.rules == Rules::FailedPlatform {
            disk.file.unsafe_shutdowns = file.unsafe_shutdowns.map(|count| count + 1);
        }
        let (since, folder) = uncertain.folder(image, disk);
        youngest = youngest.max(since);
        for (parts, choice) in uncertain.left(image, &folder) {
            youngest = youngest.max(cells::leave(parts, choice, self.trace, disk));
        }
        if !file.named {
            // A file without a name is gone, and its bytes with it.
            disk.file.len = 0;
            disk.clear_pool();
        }
        disk.set_folder(folder);
        youngest
    }
}

impl<'a> Uncertain<'a> {
    /// The number of possible states of the pool's file, then, if there are files, of the folder and of each file's
    /// length; the newest state is the last.
    pub(crate) fn ways(&self) -> Vec<usize> {
        let mut ways = vec![self.pool_files.len()];
        if !self.names.is_empty() {
            ways.push(self.names.len());
        }
        ways.extend(self.lens.iter().map(|(_, lens)| lens.len()));
        ways
    }

    /// The cells of an image that a name leads to, and that are not behind the end of their file.
    pub(crate) fn left<'b>(
        &'b self,
        image: &'b Image,
        folder: &'b Folder,
    ) -> impl Iterator<Item = (&'a [Part], &'b Choice)> {
        let (_, pool_file) = self.pool_files[image.ways[0]];
        let cells = self.dirty.iter().zip(&image.choices);
        cells.filter_map(move |(&Dirty { parts, .. }, choice)| {
            let is_left = match place_in_file(parts[0].at) {
                Some((file, at)) => at < folder.len(file),
                None => pool_file.named,
            };
            is_left.then_some((parts, choice))
        })
    }

    /// The folder in an image, and the event since which it is possible.
    pub(crate) fn folder(&self, image: &Image, disk: &Disk) -> (u32, Folder) {
        let mut folder = disk.folder.clone();
        let (mut since, mut ways) = (0, image.ways[1..].iter());
        if !self.names.is_empty()
            && let Some(&way) = ways.next()
        {
            let (named_since, names) = &self.names[way];
            since = *named_since;
            folder.names.clone_from(names);
        }
        let named: BTreeSet<u32> = folder.names.values().copied().collect();
        folder.lens.retain(|file, _| named.contains(file));
        for ((file, lens), &way) in self.lens.iter().zip(ways) {
            if named.contains(file) {
                let (grown_since, len) = lens[way];
                since = since.max(grown_since);
                folder.lens.insert(*file, len);
            }
        }
        (since, folder)
    }
}

fn sync_of(file: u32) -> What {
    What::Sync { at: address(file, 0), len: SPAN }
}

/// The lengths that a file may have: any that it got, and, where a write or a preallocation made it longer, any number
/// of sectors in between.
fn lens_between(certain: u64, newer: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut lens = vec![(0, certain)];
    let mut before = certain;
    for &(event, len) in newer {
        let sectors = before / SECTOR + 1..len.div_ceil(SECTOR).max(before / SECTOR + 1);
        let stride = (sectors.end - sectors.start).div_ceil(LENS_MAX).max(1);
        let between = sectors.step_by(stride as usize).map(|sector| (event, sector * SECTOR));
        lens.extend(between);
        lens.push((event, len));
        before = len;
    }
    lens
}
