//! The two servers, and a connection to each.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::families::Pattern;
use crate::halite::{Halite, Within};
use crate::kills;
use crate::program::{self, Program};
use crate::redis::Redis;
use crate::state::State;
use crate::wire::{Request, Wire, shown};

/// Both servers, and a connection to each.
pub(crate) struct Sides {
    halite: Halite,
    redis: Redis,
    wires: [Wire; 2],
}

/// The names of the servers, in the order of their replies.
pub(crate) const NAMES: [&str; 2] = ["Halite", "Redis"];

impl Sides {
    /// Starts both, Halite within this process.
    pub(crate) fn start(threads: usize, engine: &str, redis: &str) -> Result<Self, Error> {
        Self::of(Halite::Within(Within::start(threads, engine)?), redis)
    }

    /// Starts both, Halite as a program on a new database in a folder.
    pub(crate) fn start_program(
        threads: usize,
        engine: &str,
        redis: &str,
        halite: Option<&Path>,
        folder: &Path,
    ) -> Result<Self, Error> {
        let program = halite.map(Path::to_owned).or_else(program::beside_this);
        let program = program.ok_or(Error::NoProgram)?;
        Self::of(Halite::Program(Program::start(program, folder, threads, engine)?), redis)
    }

    fn of(halite: Halite, redis: &str) -> Result<Self, Error> {
        let redis = Redis::start(redis)?;
        let wires = [Wire::connect(halite.addr())?, Wire::connect(redis.addr)?];
        Ok(Self { halite, redis, wires })
    }

    /// The patterns of commands that Redis has, and the names of the others.
    pub(crate) fn known_to_redis(
        &mut self,
        patterns: Vec<Pattern>,
    ) -> Result<(Vec<Pattern>, Vec<&'static str>), Error> {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let name = pattern.name();
            let reply = self.wires[1].call(&["COMMAND", "INFO", name])?;
            if reply != b"*1\r\n*-1\r\n" && reply != b"*1\r\n$-1\r\n" {
                known.push(pattern);
            } else if !missing.contains(&name) {
                missing.push(name);
            }
        }
        if known.is_empty() { Err(Error::NoPattern) } else { Ok((known, missing)) }
    }

    /// Empties both servers, and connects to them anew.
    pub(crate) fn reset(&mut self, protocol: u8) -> Result<(), Error> {
        self.wires = self.connections()?;
        self.wires.iter_mut().try_for_each(|wire| wire.call(&["FLUSHALL"]).map(drop))?;
        self.connect(protocol)
    }

    fn connections(&self) -> io::Result<[Wire; 2]> {
        Ok([Wire::connect(self.halite.addr())?, Wire::connect(self.redis.addr)?])
    }

    /// Connects to both anew, so that neither knows a state of a connection, and gives both the same settings.
    fn connect(&mut self, protocol: u8) -> Result<(), Error> {
        self.wires = self.connections()?;
        for wire in &mut self.wires {
            // Long values would take most of the time.
            wire.call(&["CONFIG", "SET", "proto-max-bulk-len", "1mb"])?;
            wire.call(&["CONFIG", "SET", "hll-sparse-max-bytes", "3000"])?;
        }
        // Changes of a script that fails stay, as with Redis.
        self.wires[0].call(&["CONFIG", "SET", "script-rollback", "no"])?;
        self.call(&[vec![b"HELLO".to_vec(), protocol.to_string().into_bytes()]])?;
        Ok(())
    }

    /// Sends requests to both, and returns their replies.
    pub(crate) fn call(&mut self, requests: &[Request]) -> Result<Vec<[Vec<u8>; 2]>, Error> {
        for (side, wire) in self.wires.iter_mut().enumerate() {
            wire.send(requests).map_err(|source| failed(side, &requests[0], source))?;
        }
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let [halite, redis] = &mut self.wires;
            let halite = halite.reply().map_err(|source| failed(0, request, source))?;
            let redis = redis.reply().map_err(|source| failed(1, request, source))?;
            replies.push([halite, redis]);
        }
        Ok(replies)
    }

    /// Sends a request to Redis alone.
    pub(crate) fn call_redis(&mut self, request: &Request) -> Result<Vec<u8>, Error> {
        let wire = &mut self.wires[1];
        let reply = wire.send(std::slice::from_ref(request)).and_then(|()| wire.reply());
        reply.map_err(|source| failed(1, request, source))
    }

    /// Sends requests to Halite alone and kills it a short time later; returns the replies that came.
    pub(crate) fn kill(
        &mut self,
        under_way: &[Request],
        wait: Duration,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let wire = &mut self.wires[0];
        if !under_way.is_empty() {
            wire.send(under_way).map_err(|source| failed(0, &under_way[0], source))?;
            kills::wait(wait);
        }
        self.halite.kill()?;
        let wire = &mut self.wires[0];
        Ok(under_way.iter().map_while(|_| wire.reply().ok()).collect())
    }

    /// Starts Halite again behind a kill, maybe killed again after some times.
    pub(crate) fn start_again(&mut self, killed_behind: &[Duration]) -> Result<(), Error> {
        self.halite.start_again(killed_behind)
    }

    /// All that a server stores.
    pub(crate) fn state(&self, side: usize) -> Result<State, Error> {
        let addr = [self.halite.addr(), self.redis.addr][side];
        Ok(Wire::connect(addr).and_then(|mut wire| State::read(&mut wire))?)
    }

    /// Goes on behind a restart of Halite: what it has rightly forgotten, Redis forgets too. These are the states of
    /// connections, the settings, scripts, and how strings are encoded that were changed in place, which Redis forgets
    /// when it loads its data.
    pub(crate) fn go_on(&mut self, protocol: u8) -> Result<(), Error> {
        self.connect(protocol)?;
        self.wires[1].call(&["DEBUG", "RELOAD"])?;
        self.wires[1].call(&["SCRIPT", "FLUSH"])?;
        self.wires[1].call(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"])?;
        Ok(())
    }

    /// Keeps Halite's database behind the end of this, and tells its folder.
    pub(crate) fn keep(&mut self) -> Option<&Path> {
        match &mut self.halite {
            Halite::Within(_) => None,
            Halite::Program(program) => Some(program.keep()),
        }
    }
}

fn failed(side: usize, request: &Request, source: io::Error) -> Error {
    Error::Connection { side: NAMES[side], request: shown(request), source }
}
