//! How much memory the server takes at most, whatever it is asked for: by the allocator, which sees what nobody counts.

#[macro_use]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use common::{Client, Running, request};

on_threads! {
    a_reply_is_made_up_to_what_its_client_may_have
}

/// Counts the bytes of all threads.
struct Measuring;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let before = LIVE.fetch_add(bytes, Ordering::Relaxed);
    PEAK.fetch_max(before + bytes, Ordering::Relaxed);
}

// SAFETY: the system's allocator does everything; measuring allocates nothing.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        grow(new_size);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, new_size) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// The tests of this file measure one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// Bytes that are allocated at a time during some work, beyond those before it.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

fn is_closed(client: &mut Client) -> bool {
    !matches!(client.socket.read(&mut [0]), Ok(1..))
}

fn a_reply_is_made_up_to_what_its_client_may_have() {
    const WORDS: usize = 50_000;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Running::start_with(|config| config.limits.output.hard = 4 << 20);
    // Thirteen bytes of a request for two kilobytes of a reply, and more.
    for subcommand in ["INFO", "DOCS"] {
        let words = [&["COMMAND", subcommand], &["cluster"; WORDS][..]].concat();
        let (mut client, request) = (server.client(), request(&words));
        let peak = peak_of(|| {
            client.send(&request);
            assert!(is_closed(&mut client), "{subcommand}");
        });
        assert!(peak < 48 << 20, "{subcommand}: {peak}");
    }
}
