//! Redis as a child process, without a key at the start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::wire::Wire;

/// How often a server that was started is looked for, and how long between two looks.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);

/// Redis as a child process, which ends with this.
pub(crate) struct Redis {
    child: Child,
    pub(crate) addr: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start(program: &str) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        // The port is free again once the listener is dropped.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
        // It looks at clients that wait only so many times a second.
        command.args(["--enable-debug-command", "yes", "--bind", "127.0.0.1", "--hz", "500"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|source| Error::Start { program: program.to_owned(), source })?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let redis = Self { child, addr, _folder: folder };
        for _ in 0..LOOKS {
            if Wire::connect(addr).and_then(|mut wire| wire.call(&["PING"])).is_ok() {
                return Ok(redis);
            }
            thread::sleep(LOOK);
        }
        Err(Error::Silent { program: program.to_owned(), port })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
