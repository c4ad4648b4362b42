//! A request does not allocate once the buffers have grown, on one thread and between threads.
//!
//! The remaining allocations are the engine's: two lists for each time that it makes writes durable, and lists of the
//! records that its collector moves, for which the writes that made the garbage pay in steps.

#[allow(unused_macros, reason = "one test for all numbers of threads")]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Client, Running, request};

/// Counts the allocations of all threads but those of clients.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_CLIENT: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !IS_CLIENT.try_with(Cell::get).unwrap_or(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does everything; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, new_size) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends pipelines and reads their replies, of which it knows the length.
fn run(client: &mut Client, pipeline: &[u8], reply_len: usize, rounds: usize) {
    let mut replies = vec![0; reply_len];
    for _ in 0..rounds {
        client.send(pipeline);
        std::io::Read::read_exact(&mut client.socket, &mut replies).unwrap();
    }
}

/// How often writes were made durable.
fn syncs(client: &mut Client) -> u64 {
    let info = client.ask("INFO stats");
    let (_, rest) = info.split_once("total_syncs:").unwrap();
    rest.split('\\').next().unwrap().parse().unwrap()
}

#[test]
fn a_request_allocates_nothing() {
    IS_CLIENT.set(true);
    for threads in [1, 2, 3] {
        common::set_threads(threads);
        let server = Running::start();
        let mut client = server.client();
        let value = "v".repeat(100);
        for (pipeline, rounds) in [(1, 1000), (16, 200), (500, 20)] {
            for (name, reply) in [("SET", "+OK\r\n"), ("GET", &format!("$100\r\n{value}\r\n"))] {
                let requests: Vec<_> = (0..pipeline)
                    .flat_map(|number| match name {
                        "SET" => request(&["SET", &format!("key:{number}"), &value]),
                        _ => request(&["GET", &format!("key:{number}")]),
                    })
                    .collect();
                let reply_len = pipeline * reply.len();
                run(&mut client, &requests, reply_len, rounds);
                let synced = syncs(&mut client);
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                run(&mut client, &requests, reply_len, rounds);
                let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
                let synced = syncs(&mut client) - synced;
                let sent = pipeline * rounds;
                println!(
                    "{threads} threads, {name}, pipeline {pipeline}: {count} for {sent}, {synced} syncs"
                );
                let collected = if name == "SET" { sent as u64 / 2 } else { 0 };
                let allowed = 2 * synced + collected + sent as u64 / 100;
                assert!(count <= allowed, "{count} allocations for {sent} requests");
            }
        }
    }
}
