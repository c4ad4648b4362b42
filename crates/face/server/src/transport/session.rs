//! TLS on a connection of TCP.
//!
//! The event loop reads and writes plain bytes; the records between go through the library's buffers here, which hold
//! a record or two, and 64 KiB of replies. The handshake is a part of reading: it is finished, or fails, as its bytes
//! come.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// Bytes that a client may send before its handshake is complete: a chain of large certificates fits.
const HANDSHAKE_LEN_MAX: usize = 128 << 10;
/// Reads in a row that may bring no byte of a request.
const FRUITLESS_MAX: usize = 64;
/// Bytes that leave with one call: encrypting them takes time of the turn.
const WRITE_LEN_MAX: usize = 1 << 20;
/// Bytes of memory of a session, about: its state, and a record each way.
const MEMORY: usize = 40 << 10;

/// A connection of TCP with TLS.
pub(crate) struct Session {
    pub(super) socket: TcpStream,
    tls: ServerConnection,
    /// Bytes that came before the handshake was complete.
    shaken: usize,
    /// The client has said, or the socket, that no more will come.
    pub(super) has_ended: bool,
}

impl Session {
    pub(super) fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self { socket, tls, shaken: 0, has_ended: false })
    }

    /// Whether the handshake is not complete.
    pub(super) fn is_shaking_hands(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether there are records that the socket has not taken.
    pub(super) fn is_pending(&self) -> bool {
        self.tls.wants_write()
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        MEMORY
    }

    /// Tells the client that no more will come.
    pub(super) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
        // The client may be gone already.
        let _ = self.send_records();
    }

    /// Hands records to the socket, as many as it takes.
    fn send_records(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes records from the socket once; returns false at the end of the connection.
    fn receive_records(&mut self) -> io::Result<bool> {
        let len = loop {
            match self.tls.read_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if self.tls.is_handshaking() {
            self.shaken += len;
            if self.shaken > HANDSHAKE_LEN_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        let processed = self.tls.process_new_packets();
        // Of the handshake, or the alert that says what is wrong.
        let sent = self.send_records();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        sent?;
        Ok(len > 0)
    }
}

impl Read for Session {
    /// Reads until there is no more room, or the socket is empty.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (mut len, mut fruitless) = (0, 0);
        while len < bytes.len() {
            match self.tls.reader().read(&mut bytes[len..]) {
                // A client that closes the connection need not say so first.
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.has_ended = true;
                    break;
                }
                Ok(read) => {
                    (len, fruitless) = (len + read, 0);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            fruitless += 1;
            if fruitless > FRUITLESS_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            match self.receive_records() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock && len > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

impl Write for Session {
    /// Takes bytes as long as their records go to the socket.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_records()?;
        if self.is_pending() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..bytes.len().min(WRITE_LEN_MAX)];
        let mut len = 0;
        while len < bytes.len() && !self.is_pending() {
            len += self.tls.writer().write(&bytes[len..])?;
            self.send_records()?;
        }
        Ok(len)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut len = 0;
        for slice in slices {
            if len >= WRITE_LEN_MAX || len > 0 && self.is_pending() {
                break;
            }
            let written = self.write(slice)?;
            len += written;
            if written < slice.len() {
                break;
            }
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_records()
    }
}
