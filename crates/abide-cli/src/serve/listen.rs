//! Where the server listens: TCP, or a unix socket.
//!
//! A socket file outlives its process when that is killed, so one without a listener is replaced.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use crate::status::UsageError;

/// `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("expected a path behind unix:".to_owned()),
                path if cfg!(unix) => Ok(Self::Unix(path.into())),
                _ => Err("there are no unix sockets on this system".to_owned()),
            };
        }
        // A name may have several addresses, some of them not loopback.
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8410, or unix:PATH".to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that accepts connections. Its file goes with it.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener, SocketAddr),
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Listener {
    pub(crate) async fn bind(place: &Place) -> Result<Self, UsageError> {
        let wrong = |error: &dyn fmt::Display| UsageError(format!("--listen {place}: {error}"));
        match place {
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|error| wrong(&error))?;
                let address = listener.local_addr().map_err(|error| wrong(&error))?;
                Ok(Self::Tcp(listener, address))
            }
            #[cfg(unix)]
            Place::Unix(path) => {
                use std::os::unix::fs::FileTypeExt;
                if let Ok(there) = std::fs::symlink_metadata(path) {
                    if !there.file_type().is_socket() {
                        return Err(wrong(&"expected a socket or nothing there, found something else"));
                    }
                    if UnixStream::connect(path).await.is_ok() {
                        return Err(wrong(&"another process listens there"));
                    }
                    std::fs::remove_file(path).map_err(|error| wrong(&error))?;
                }
                let listener = UnixListener::bind(path).map_err(|error| wrong(&error))?;
                Ok(Self::Unix(listener, path.clone()))
            }
            #[cfg(not(unix))]
            Place::Unix(_) => Err(wrong(&"there are no unix sockets on this system")),
        }
    }

    /// Where it is: of port 0, the port that it got.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Tcp(_, address) => Place::Tcp(*address),
            #[cfg(unix)]
            Self::Unix(_, path) => Place::Unix(path.clone()),
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Stream {
        loop {
            let accepted = match self {
                Self::Tcp(listener, _) => listener.accept().await.map(|(stream, _)| {
                    // Calls are small, and clients wait for each.
                    let _ = stream.set_nodelay(true);
                    Stream::Tcp(stream)
                }),
                #[cfg(unix)]
                Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => return stream,
                // One connection that failed early concerns no other.
                Err(error) if is_of_the_connection(&error) => {}
                // There are no file descriptors left: those of other calls become free.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

impl Drop for Listener {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Self::Unix(_, path) = self {
            // One that is gone already is no concern.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Each call that waits has a connection, and many systems allow 1,024 open files unless a process asks for
/// more.
pub(crate) fn raise_the_limit_of_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // Without it, fewer calls can wait at a time: the others wait for their connection.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}
