//! A modelled machine: its power, and the events of its devices.
//!
//! A device reports each event to the machine before the event counts. The machine decides whether there
//! still is power for it, and records it in the [`Trace`], with the place in the code that asked for it.
//! From a trace `halite-lab` derives the images that a power cut may leave on the devices.
//!
//! The lab can cut the power ([`Machine::cut_power`]: no later store counts), let a sync fail
//! ([`Machine::fail_sync_after`]), or disregard the requests of one place in the code
//! ([`Machine::disregard`]).

use std::any::Any;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::trace::{Request, Site, Trace, What};

/// A modelled machine. Cloning makes another handle.
#[derive(Clone, Default)]
pub struct Machine(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    files: OnceLock<Arc<dyn Any + Send + Sync>>,
}

struct State {
    trace: Trace,
    disregarded: Option<(Site, Request)>,
    powered: bool,
    /// Events until the power is cut by itself.
    events_left: Option<u32>,
    failing: Failing,
}

/// Whether a sync fails.
enum Failing {
    /// None does.
    Never,
    /// The sync after so many others.
    After(u32),
    /// One did.
    Failed,
}

/// The outcome of an event of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The event happens, and the trace has it.
    Yes,
    /// The event seems to happen, and has no effect: [`Machine::disregard`].
    Disregarded,
    /// The sync fails, and the trace has that: [`Machine::fail_sync_after`].
    Failed,
    /// There is no power.
    PowerCut,
}

impl Default for State {
    fn default() -> Self {
        let (trace, failing) = (Trace::default(), Failing::Never);
        Self { trace, disregarded: None, powered: true, events_left: None, failing }
    }
}

/// The lab's operations.
impl Machine {
    /// Swaps the trace recorded since the last call with `trace`, which is emptied.
    pub fn take_trace(&self, trace: &mut Trace) {
        trace.clear();
        std::mem::swap(&mut self.0.state.lock().trace, trace);
    }

    /// Writes a note to the trace.
    #[track_caller]
    pub fn mark(&self, note: u64) {
        self.0.state.lock().trace.push(What::Mark(note), Location::caller());
    }

    /// Disregards from now on one kind of request of one place in the code.
    pub fn disregard(&self, request: Option<(Site, Request)>) {
        self.0.state.lock().disregarded = request;
    }

    /// Cuts the power: from now on no store counts, and every fence fails.
    pub fn cut_power(&self) {
        self.0.state.lock().powered = false;
    }

    /// Lets so many more events happen before [`Machine::cut_power`] takes effect by itself.
    pub fn cut_power_after(&self, events: u32) {
        self.0.state.lock().events_left = Some(events);
    }

    /// Ends the outage: stores count again, of another process.
    #[track_caller]
    pub fn restore_power(&self) {
        let mut state = self.0.state.lock();
        state.powered = true;
        state.events_left = None;
        state.trace.push(What::Kill, Location::caller());
    }

    /// Whether stores arrive.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.0.state.lock().powered
    }

    /// Lets one sync of pages, of a file or of names fail, after so many others; without a number, none
    /// from now on. The bytes or names to be synced are then partly durable, and the kernel marks all of
    /// them clean.
    pub fn fail_sync_after(&self, syncs: Option<u32>) {
        self.0.state.lock().failing = syncs.map_or(Failing::Never, Failing::After);
    }

    /// Whether a sync failed since [`Machine::fail_sync_after`].
    #[must_use]
    pub fn has_failed_to_sync(&self) -> bool {
        matches!(self.0.state.lock().failing, Failing::Failed)
    }
}

/// The devices' reports.
impl Machine {
    /// The machine's files, always the same ones; the first call makes them with `T`'s default.
    ///
    /// # Panics
    /// If they were asked for as another type.
    #[must_use]
    pub fn files<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let files = Arc::clone(self.0.files.get_or_init(|| Arc::<T>::default()));
        files.downcast().expect("a machine's files are of one type")
    }

    /// Reports an event of the machine's files. The caller identifies it by the number; `bytes` are the
    /// ones that it writes.
    pub fn happen_to_files(
        &self,
        number: u32,
        bytes: &[u8],
        is_sync: bool,
        site: Site,
    ) -> Happened {
        let mut state = self.0.state.lock();
        if !state.spend_event() {
            return Happened::PowerCut;
        }
        let request = is_sync.then_some((site, Request::Sync));
        if request.is_some() && request == state.disregarded {
            return Happened::Disregarded;
        }
        let fails = is_sync && state.fails_to_sync(Request::Sync, site);
        state.trace.push_disk(number, bytes, is_sync && !fails, site);
        if fails { Happened::Failed } else { Happened::Yes }
    }

    /// Lets a store happen, as one event, which `store` records in the trace. Returns `None` without power.
    pub fn store<R>(&self, store: impl FnOnce(&mut Trace) -> R) -> Option<R> {
        let mut state = self.0.state.lock();
        state.spend_event().then(|| store(&mut state.trace))
    }

    /// Records that bytes are marked dirty again. That takes no power.
    pub fn rewrite(&self, at: u64, len: u64, site: Site) {
        let mut state = self.0.state.lock();
        if state.powered {
            state.trace.push(What::Rewrite { at, len }, site);
        }
    }

    /// Records an event that makes bytes durable, or helps to, unless it is disregarded; `change` makes the
    /// changes that go with it. Returns whether there is power.
    pub fn wait(&self, what: What, site: Site, change: impl FnOnce()) -> bool {
        let mut state = self.0.state.lock();
        if !state.spend_event() {
            return false;
        }
        change();
        let request = what.request().map(|request| (site, request));
        if request.is_none() || request != state.disregarded {
            state.trace.push(what, site);
        }
        true
    }

    /// Records a fence of ranges, each an offset and a length, unless it is disregarded. Returns whether
    /// there is power.
    pub fn fence(&self, ranges: impl Iterator<Item = (u64, u64)>, site: Site) -> bool {
        let mut state = self.0.state.lock();
        if !state.spend_event() {
            return false;
        }
        if state.disregarded != Some((site, Request::Fence)) {
            state.trace.push_fence(ranges, site);
        }
        true
    }

    /// Whether one more sync, requested at a place in the code, fails.
    #[must_use]
    pub fn fails_to_sync(&self, request: Request, site: Site) -> bool {
        self.0.state.lock().fails_to_sync(request, site)
    }

    /// Records an event that takes no power.
    pub fn note(&self, what: What, site: Site) {
        self.0.state.lock().trace.push(what, site);
    }
}

impl State {
    /// Whether there is power for one more event.
    fn spend_event(&mut self) -> bool {
        match &mut self.events_left {
            Some(0) => self.powered = false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.powered
    }

    /// Whether one more sync, which is not disregarded, fails.
    fn fails_to_sync(&mut self, request: Request, site: Site) -> bool {
        let is_disregarded = self.disregarded == Some((site, request));
        match self.failing {
            Failing::After(_) if !self.powered || is_disregarded => false,
            Failing::After(0) => {
                self.failing = Failing::Failed;
                true
            }
            Failing::After(left) => {
                self.failing = Failing::After(left - 1);
                false
            }
            Failing::Never | Failing::Failed => false,
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("has_power", &self.has_power()).finish_non_exhaustive()
    }
}
