//! The most memory that the server takes under any requests: measured by the allocator, which also sees memory that
//! the server does not account for.

#[macro_use]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use common::{Client, Running, request};

on_threads! {
    a_reply_is_made_up_to_what_its_client_may_have
    replies_of_another_thread_are_made_as_they_are_taken
}

/// Counts the bytes of all threads.
struct Measuring;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let before = LIVE.fetch_add(bytes, Ordering::Relaxed);
    PEAK.fetch_max(before + bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed to the system's allocator; measuring does not allocate.
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

fn replies_of_another_thread_are_made_as_they_are_taken() {
    const CLIENTS: usize = 40;
    const VALUE_LEN: usize = 4 << 20;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Running::start_with(|config| config.client_memory_max = Some(32 << 20));
    let threads = common::threads();
    // A key of the last thread, and clients of the first.
    let mut names = (0..).map(|number| format!("big:{number}"));
    let big = names.find(|name| server.db.partition_of(name.as_bytes()) == threads - 1);
    let big = big.expect("names do not end");
    let mut clients: Vec<_> = (0..CLIENTS * threads).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.check(&[("PING", "+PONG")]));
    let mut number = 0..;
    clients.retain(|_| number.next().is_some_and(|number| number % threads == 0));
    assert_eq!(clients[0].call(&["SET", &big, &"v".repeat(VALUE_LEN)]), "+OK");
    let peak = peak_of(|| {
        // All ask meanwhile, so that their requests travel in one packet.
        clients[0].send(b"DEBUG SLEEP 0.2\r\n");
        clients[1..].iter_mut().for_each(|client| client.send_words(&["GET", &big]));
        assert_eq!(clients[0].reply(), "+OK");
        let mut other = server.client();
        // Each of them gets its reply, or is evicted.
        let asked = CLIENTS as u64 - 1;
        common::eventually("the end of all requests", || {
            let info = other.ask("INFO all");
            let field = |name: &str| {
                let (_, rest) = info.split_once(name).unwrap_or(("", "0,"));
                rest.split([',', '\\']).next().unwrap().parse::<u64>().unwrap()
            };
            field("cmdstat_get:calls=") + field("evicted_clients:") >= asked
        });
    });
    assert!(peak < CLIENTS * VALUE_LEN / 2, "{peak}");
}
