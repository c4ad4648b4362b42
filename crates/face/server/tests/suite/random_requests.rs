//! Random requests, in random pieces, are answered by any number of threads as by one, and by any engine as by the
//! first.

use crate::common;
use crate::requests;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::Running;
use crate::requests::Choices;
use fastrand::Rng;
use halite::Durable;

/// From a seed that the test prints.
struct Random(Rng);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed =
            std::env::var("HALITE_TEST_SEED").map_or(now, |seed| seed.parse().expect("a number"));
        println!("HALITE_TEST_SEED={seed}");
        Self(Rng::with_seed(seed))
    }
}

impl Choices for Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }
}

/// Sends bytes in pieces that end at these places, and returns all that comes back.
fn replies(addr: SocketAddr, bytes: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut socket = TcpStream::connect(addr).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut replies = Vec::new();
    thread::scope(|scope| {
        let mut writer = socket.try_clone().unwrap();
        scope.spawn(move || {
            let mut start = 0;
            for (index, &end) in ends.iter().chain([&bytes.len()]).enumerate() {
                // The server may have closed the connection after malformed bytes.
                if writer.write_all(&bytes[start..end]).is_err() {
                    return;
                }
                start = end;
                if index % 8 == 7 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
            let _ = writer.shutdown(Shutdown::Write);
        });
        if let Err(error) = socket.read_to_end(&mut replies) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    });
    replies
}

/// Replaces a command whose reply depends on the engine by another one.
fn leave_out_memory(bytes: &mut [u8]) {
    const MEMORY: &[u8] = b"MEMORY";
    for at in 0..bytes.len().saturating_sub(MEMORY.len()) {
        if bytes[at..].starts_with(MEMORY) {
            bytes[at..at + MEMORY.len()].copy_from_slice(b"STRLEN");
        }
    }
}

fn compare_with_one_thread(threads: usize, engine: Option<Durable>) {
    let alone = Running::start();
    common::set_threads(threads);
    engine.into_iter().for_each(common::set_lsm);
    let several = Running::start();
    let mut random = Random::new();
    for case in 0..120 {
        let count = [3, 40, 300][random.below(3) as usize];
        let mut bytes = requests::requests(&mut random, count);
        if engine.is_some() {
            leave_out_memory(&mut bytes);
        }
        let pieces = random.below(40);
        let mut ends: Vec<_> =
            (0..pieces).map(|_| random.below(bytes.len() as u64 + 1) as usize).collect();
        ends.sort_unstable();
        let expected = replies(alone.addr, &bytes, &[]);
        let got = replies(several.addr, &bytes, &ends);
        if got != expected {
            let at = got.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            let show = |bytes: &[u8]| {
                let part = &bytes[at.saturating_sub(200)..bytes.len().min(at + 200)];
                part.escape_ascii().to_string()
            };
            panic!(
                "case {case}, reply byte {at}: got {}\nexpected {}",
                show(&got),
                show(&expected)
            );
        }
    }
}

#[test]
fn two_threads_answer_as_one_does() {
    compare_with_one_thread(2, None);
}

#[test]
fn three_threads_answer_as_one_does() {
    compare_with_one_thread(3, None);
}

#[test]
fn the_engine_lsm_answers_as_the_first_one_does() {
    compare_with_one_thread(1, Some(Durable::Pool));
}

#[test]
fn three_threads_on_the_engine_lsm_answer_as_one_on_the_first_does() {
    compare_with_one_thread(3, Some(Durable::Log));
}
