//! The unix socket of a server: a file to which clients of the same machine connect.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as Probe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::net::{UnixListener, UnixStream};
use rustix::fs::FlockOperation;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::address::Address;
use crate::listener::BACKLOG;

/// A listening unix socket. Its file goes with it.
pub(crate) struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// The path as its clients' address.
    shown: Arc<str>,
    /// The device and the number of the file: another server may have put its own in its place.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens on a path, with the given mode of its file, or that of the process' mask. A file that a server has left
    /// behind is replaced.
    pub(super) fn bind(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        // Two servers that start find the same file: without the lock, the second would remove that of the first.
        let _lock = lock_folder(path);
        remove_stale(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        let prepared = prepare(path, mode).and_then(|file| {
            // Only from here on can clients connect: the mode is set already.
            net::listen(&socket, BACKLOG)?;
            Ok(file)
        });
        let file = match prepared {
            Ok(file) => file,
            Err(error) => {
                let _ = fs::remove_file(path);
                return Err(error);
            }
        };
        let listener = UnixListener::from_std(socket.into());
        let shown = path.to_string_lossy().into();
        Ok(Self { listener, path: path.to_owned(), shown, file })
    }

    pub(super) fn accept(&self) -> io::Result<(UnixStream, Address)> {
        let (stream, _) = self.listener.accept()?;
        Ok((stream, Address::Unix(Arc::clone(&self.shown))))
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_own {
            // A file that stays is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Sets the mode of a socket's file, and identifies it.
fn prepare(path: &Path, mode: Option<u32>) -> io::Result<(u64, u64)> {
    if let Some(mode) = mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// How long a start waits for another one in the same folder, in steps of 10 ms: who holds the lock for longer is no server.
const LOCK_STEPS: usize = 300;

/// Locks the folder of a socket against other servers that start there, until the result is dropped. Without a lock, as on
/// some file systems, servers must not start at the same time.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..LOCK_STEPS {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(10)),
            _ => break,
        }
    }
    Some(folder)
}

/// Removes the socket of a server that has ended, and refuses if anything else is at its path.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let taken = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !found.file_type().is_socket() {
        return taken("there is a file there that is no socket");
    }
    match Probe::connect(path) {
        Ok(_) => taken("another server listens there"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Such as a socket of another kind, or one of another user.
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener as Foreign;

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        fs::write(&path, "text").unwrap();
        assert!(UnixSocket::bind(&path, None).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"text");
        fs::remove_file(&path).unwrap();

        let foreign = Foreign::bind(&path).unwrap();
        assert!(UnixSocket::bind(&path, None).is_err());
        assert!(path.exists());
        drop(foreign);

        let socket = UnixSocket::bind(&path, Some(0o700)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(UnixSocket::bind(&path, None).is_err(), "it is in use");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_another_server_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = UnixSocket::bind(&path, None).unwrap();
        fs::remove_file(&path).unwrap();
        let second = UnixSocket::bind(&path, None).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn one_of_several_servers_that_start_at_a_time_has_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..50 {
            drop(Foreign::bind(&path).unwrap());
            let start = std::sync::Barrier::new(4);
            let sockets = std::thread::scope(|scope| {
                let bind = || {
                    start.wait();
                    UnixSocket::bind(&path, None)
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads
                    .into_iter()
                    .filter_map(|thread| thread.join().unwrap().ok())
                    .collect::<Vec<_>>()
            });
            assert_eq!(sockets.len(), 1);
            assert!(Probe::connect(&path).is_ok());
        }
    }

    #[test]
    fn a_path_that_is_too_long_or_has_no_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(UnixSocket::bind(&folder.path().join("s".repeat(200)), None).is_err());
        assert!(UnixSocket::bind(&folder.path().join("none/socket"), None).is_err());
    }
}
