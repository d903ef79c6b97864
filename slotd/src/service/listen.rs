//! The socket: made here, or handed over by whoever started us.
#![allow(unsafe_code, reason = "a descriptor that was handed over has to be taken by its number")]

use std::{
    env,
    fs::{self, File, Permissions, TryLockError},
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    process,
};

use rustix::net::sockopt::socket_acceptconn;
use thiserror::Error;

/// The first descriptor that a service manager hands over.
const FIRST_HANDED: i32 = 3;

/// A socket that listens. One that was made here is removed in the end.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    path: PathBuf,
    /// Held as long as the socket is ours.
    _lock: File,
}

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another slotd has it.
    #[error("another slotd listens at {}: stop it first, or use --socket", .0.display())]
    Taken(PathBuf),
    /// Something else is where the socket is to be.
    #[error("{} is no socket: move it away, or use --socket", .0.display())]
    NotASocket(PathBuf),
    /// What was handed over is no listening socket.
    #[error("descriptor 3, which LISTEN_FDS promises, is no listening socket")]
    NoSocket(#[source] io::Error),
    /// A call of the system failed.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Listener {
    /// The socket that was handed over, else a new one at `path`.
    pub fn new(path: &Path) -> Result<Self, ListenError> {
        let socket = match handed_over() {
            Some(fd) => {
                let listens = socket_acceptconn(&fd).map_err(io::Error::from);
                let listens = listens.map_err(ListenError::NoSocket)?;
                if !listens {
                    return Err(ListenError::NoSocket(io::ErrorKind::InvalidInput.into()));
                }
                Self { socket: fd.into(), made: None }
            }
            None => Self::bind(path)?,
        };
        let nonblocking = socket.socket.set_nonblocking(true);
        nonblocking.map_err(fail("set up the socket", path))?;
        Ok(socket)
    }

    /// Binds under a lock, so that a socket left behind by a crash can be told from a living one.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(fail("make the folder", folder))?;
        }
        let lock_path = path.with_added_extension("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(fail("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(ListenError::Taken(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(fail("lock", &lock_path)(error)),
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                fs::remove_file(path).map_err(fail("remove the old socket", path))?;
            }
            Ok(_) => return Err(ListenError::NotASocket(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => return Err(fail("look at", path)(error)),
        }
        let socket = UnixListener::bind(path).map_err(fail("listen at", path))?;
        let made = Some(Made { path: path.to_owned(), _lock: lock });
        let listener = Self { socket, made };
        let mode = fs::set_permissions(path, Permissions::from_mode(0o660));
        mode.map_err(fail("set the rights of", path))?;
        listener.socket.set_nonblocking(true).map_err(fail("set up the socket", path))?;
        Ok(listener)
    }

    pub(super) fn socket(&self) -> &UnixListener {
        &self.socket
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // Gone already is as good.
            let _ = fs::remove_file(&made.path);
        }
    }
}

fn fail(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ListenError {
    let path = path.to_owned();
    move |source| ListenError::Io { operation, path, source }
}

/// Descriptor 3, where `LISTEN_PID` and `LISTEN_FDS` say that it is for this process.
fn handed_over() -> Option<OwnedFd> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(process::id()) || number("LISTEN_FDS")? == 0 {
        return None;
    }
    // SAFETY: whoever set these variables for this very process opened the descriptor for it, and
    // it is taken once, at start, before anything else could have.
    let fd = unsafe { OwnedFd::from_raw_fd(FIRST_HANDED) };
    // Processes started later must not have it.
    let _ = rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC);
    Some(fd)
}
