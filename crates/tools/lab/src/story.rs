//! The story of a crash, for people: the steps, and which store of which line of the source the power cut took away.

use std::fmt::Debug;

use halite_disk::FileEvent;
use halite_pmem::ModelFile;
use halite_sim::{Site, Trace, What};

use crate::cells::Part;
use crate::disk::Disk;
use crate::files::place_in_file;
use crate::images::Image;
use crate::pending::{Pending, Uncertain};
use crate::subject::Action;

/// The most cells that are listed one by one; of more, only the number is given.
const TOLD_MAX: usize = 24;

/// The steps of the store.
pub(crate) fn of_history<S: Debug>(actions: &[Action<S>]) -> Vec<String> {
    let told = actions.iter().enumerate().map(|(number, action)| match action {
        Action::Step(step) => format!("  {number:>3}  {step:?}"),
        Action::Reopen => format!("  {number:>3}  closes and opens again"),
        Action::Kill => format!("  {number:>3}  is killed and starts again"),
        Action::KillWithin(Some(step), events) => {
            format!("  {number:>3}  is killed after {events} events of {step:?}, and starts again")
        }
        Action::FailWithin(Some(step), syncs) => {
            format!("  {number:>3}  {step:?}; after {syncs} syncs one fails")
        }
        Action::FailWithin(None, syncs) => {
            format!("  {number:>3}  closes and opens again; after {syncs} syncs one fails")
        }
        Action::FailOpening(syncs) => {
            format!("  {number:>3}  is killed and starts again; after {syncs} syncs one fails")
        }
        Action::KillWithin(None, events) => {
            format!("  {number:>3}  closes and opens again, is killed after {events} events of that, and starts again")
        }
    });
    std::iter::once("The store".to_owned()).chain(told).collect()
}

/// The stores that a power cut took, and those that it left.
pub(crate) fn of_crash(
    point: u32,
    pending: &Pending<'_>,
    uncertain: &Uncertain<'_>,
    image: &Image,
    disk: &Disk,
) -> Vec<String> {
    let trace = pending.trace();
    let next = match trace.events.get(point as usize) {
        Some(event) => {
            let what = pending.file_event(event.what);
            let what = what.map_or(name(event.what).to_owned(), |what| name_of_file_event(&what));
            format!("{what} at {}", place(event.site))
        }
        None => "the end".to_owned(),
    };
    let mut story = vec![format!("The power is cut before event {point}, {next}:")];
    if uncertain.pool_files.len() > 1 {
        let (_, ModelFile { named, len, .. }) = uncertain.pool_files[image.ways[0]];
        let name = if named { "its name" } else { "no name, and is lost" };
        story.push(format!("  the file: it has {len} bytes and {name}"));
    }
    let (_, folder) = uncertain.folder(image, disk);
    if image.ways.len() > 1 {
        let file = |(name, &file)| format!("{name} is file {file} of {} bytes", folder.len(file));
        let files: Vec<_> = folder.names.iter().map(file).collect();
        story.push(format!("  the folder: {}", files.join(", ")));
    }
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    for (parts, choice) in uncertain.left(image, &folder) {
        for (number, part) in parts.iter().enumerate() {
            match choice.words(number, part) {
                0 => taken.push(tell(part, trace, point, "")),
                words if words.count_ones() == part.words() => {
                    left.push(tell(part, trace, point, ""));
                }
                words => {
                    let torn =
                        format!(", torn: of its {} words {words:#b} are there", part.words());
                    taken.push(tell(part, trace, point, &torn));
                }
            }
        }
    }
    for (what, stores) in [("missing", taken), ("there, though not certain", left)] {
        let count = stores.len();
        story.extend(stores.into_iter().take(TOLD_MAX).map(|store| format!("  {what}: {store}")));
        if count > TOLD_MAX {
            story.push(format!("  {what}: {} more stores", count - TOLD_MAX));
        }
    }
    story.push("It comes back from that.".to_owned());
    story
}

fn tell(part: &Part, trace: &Trace, point: u32, more: &str) -> String {
    let store = &trace.events[part.event as usize];
    let (start, end) = (part.at, part.at + part.len());
    // The store may be the very event that the power cut interrupts.
    let later = trace.events.get(part.event as usize + 1..point as usize).unwrap_or_default();
    let flush = later.iter().find(|event| match event.what {
        What::Flush { at, len } => at < end && start < at + len,
        _ => false,
    });
    let flushed = match flush {
        Some(event) => format!("flushed at {} and not fenced", place(event.site)),
        None => "not flushed".to_owned(),
    };
    let (bytes, site) = (part.len(), place(store.site));
    if let Some((file, at)) = place_in_file(start) {
        return format!(
            "{bytes} bytes at {at:#x} of file {file}, written at {site}, not synced{more}"
        );
    }
    format!("{bytes} bytes at {start:#x}, stored at {site}, {flushed}{more}")
}

/// A place in the code, for people: `crates/x/src/y.rs:12`.
#[must_use]
pub fn place(site: Site) -> String {
    let file = site.file();
    let from = file.find("crates/").unwrap_or(0);
    format!("{}:{}", &file[from..], site.line())
}

fn name_of_file_event(event: &FileEvent) -> String {
    match event {
        FileEvent::Create { file, name } => format!("the making of {name}, file {file},"),
        FileEvent::Write { file, .. } => format!("the write to file {file}"),
        FileEvent::Preallocate { file, .. } => format!("the preallocation of file {file}"),
        FileEvent::Cut { file, .. } => format!("the cut of file {file}"),
        FileEvent::Sync { file } => format!("the sync of file {file}"),
        FileEvent::SyncFailed { file } => format!("the sync of file {file} that fails"),
        FileEvent::Rename { from, to, .. } => format!("the renaming of {from} to {to}"),
        FileEvent::Remove { name } => format!("the removal of {name}"),
        FileEvent::SyncFolder { folder } => format!("the sync of the folder of files {folder:?}"),
        FileEvent::SyncFolderFailed => "the sync of the folder of files that fails".to_owned(),
    }
}

fn name(what: What) -> &'static str {
    match what {
        What::Store { .. } => "the store",
        What::Flush { .. } => "the flush",
        What::Fence { .. } => "the fence",
        What::Sync { .. } | What::SyncFile => "the sync of the file",
        What::Length { .. } => "the change of the file's length",
        What::Link => "the naming of the file",
        What::SyncFolder => "the sync of the folder",
        What::SyncFailed { .. } => "the sync that fails",
        What::Rewrite { .. } => "the second writing",
        What::Publish { .. } => "the publication",
        What::Disk { .. } => "something beside the pool",
        What::Mark(_) => "a note",
        What::Kill => "the kill",
    }
}
