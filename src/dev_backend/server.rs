//! The backend's server: start, stop, and the owner's direct access.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::clock::Clock;
use super::commits::{Commits, Topics};
use super::failure::Failure;
use super::faults::Faults;
use super::snapshots::{self, Snapshots};
use super::store::{Finished, Store, StoreError};
use super::wakeups::Wakeups;
use super::{auth, housekeeping, http, operator, secrets};

/// The listen backlog. A device that finds it full tries again a second later.
const BACKLOG: u32 = 4096;
/// The time that a stop gives to running calls.
const GRACE: Duration = Duration::from_secs(5);

/// The options of a backend.
#[derive(Debug, Clone)]
pub struct DevBackendOptions {
    /// The database file; created if it does not exist.
    pub db: PathBuf,
    /// The port on 127.0.0.1; 0 chooses a free one.
    pub port: u16,
    /// The wall clock.
    pub clock: Clock,
    /// Hides the text of errors without data, as production deployments do.
    pub production_errors: bool,
    /// Holds calls that ask for it until there is an event, which Convex does not.
    pub holds: bool,
    /// The faults to inject, if any.
    pub faults: Option<Faults>,
}

/// The reason why a backend did not start or could not answer its owner.
#[derive(Debug, thiserror::Error)]
pub enum DevBackendError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port cannot be listened on.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// The reason.
        source: std::io::Error,
    },
    /// The database failed.
    #[error("the backend's database failed: {0}")]
    Database(String),
    /// The system provided no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

impl From<Failure> for DevBackendError {
    fn from(failure: Failure) -> Self {
        Self::Database(failure.to_string())
    }
}

impl From<rusqlite::Error> for DevBackendError {
    fn from(failure: rusqlite::Error) -> Self {
        Self::Store(failure.into())
    }
}

/// The shared state of all calls.
#[derive(Debug)]
pub(super) struct Backend {
    pub store: Store,
    pub snapshots: Snapshots,
    pub wakeups: Wakeups,
    pub commits: Commits,
    pub clock: Clock,
    pub stopping: CancellationToken,
    pub sockets: TaskTracker,
    pub production_errors: bool,
    pub admin_key: String,
    pub holds: bool,
    pub faults: Option<Faults>,
}

impl Backend {
    /// Evicts expired snapshots until the backend stops. Without this, a snapshot without further reads would stay.
    async fn tidy(&self) {
        while timeout(snapshots::KEPT / 3, self.stopping.cancelled()).await.is_err() {
            self.snapshots.forget_old();
        }
        self.snapshots.forget_all();
    }

    /// Returns whether this is the admin key.
    pub fn is_admin(&self, key: &str) -> bool {
        let key = key.split_once(':').map_or(key, |(key, _acting_as)| key);
        secrets::same(key.as_bytes(), self.admin_key.as_bytes())
    }

    /// Notifies waiting calls and subscriptions of a commit. Called on the writer's thread, so notifications keep the
    /// order of commits.
    pub fn tell(&self, finished: Finished) {
        for device in finished.devices {
            self.wakeups.wake(&device);
        }
        if let Some(changed) = finished.changed {
            self.commits.publish(&changed);
        }
    }
}

/// A running backend. Dropping it stops it without waiting; [`DevBackend::stop`] waits.
#[derive(Debug)]
pub struct DevBackend {
    backend: Arc<Backend>,
    url: String,
    pairing: Pairing,
    serving: JoinSet<()>,
    _stop_when_dropped: DropGuard,
}

impl DevBackend {
    /// Opens the database and listens. The backend answers calls when this returns.
    ///
    /// # Errors
    /// [`DevBackendError`] if the file, its lock or the port is unavailable.
    #[expect(clippy::unused_async, reason = "it can only be made within a runtime, and says so")]
    pub async fn start(options: DevBackendOptions) -> Result<Self, DevBackendError> {
        let DevBackendOptions { db, port, clock, production_errors, holds, faults } = options;
        let store = Store::open(&db)?;
        let snapshots = Snapshots::of(db);
        let pairing = pairing(&store)?;
        let admin_key = admin_key(&store)?;
        let listen = |source| DevBackendError::Listen { port, source };
        let listener = listener(port).map_err(listen)?;
        let url = format!("http://{}", listener.local_addr().map_err(listen)?);
        // A reply is two small writes. With Nagle's algorithm the second would wait for a delayed ACK.
        let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        let stopping = CancellationToken::new();
        let backend = Arc::new(Backend {
            store,
            snapshots,
            wakeups: Wakeups::default(),
            commits: Commits::default(),
            clock,
            stopping: stopping.clone(),
            sockets: TaskTracker::new(),
            production_errors,
            admin_key,
            holds,
            faults,
        });
        let served = axum::serve(listener, http::router(Arc::clone(&backend)))
            .with_graceful_shutdown(stopping.clone().cancelled_owned());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // Serving ends only with the stop: a failed connection ends by itself.
            drop(served.await);
        });
        serving.spawn(housekeeping::keep(Arc::clone(&backend)));
        let tidied = Arc::clone(&backend);
        serving.spawn(async move { tidied.tidy().await });
        Ok(Self { backend, url, pairing, serving, _stop_when_dropped: stopping.drop_guard() })
    }

    /// Returns the address, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the pairing code at this start; the operator may have renewed it since.
    pub fn pairing_code(&self) -> &str {
        &self.pairing.code
    }

    /// Returns whether pairing was closed at this start.
    pub fn pairing_is_closed(&self) -> bool {
        self.pairing.closed
    }

    /// Returns the admin key, made at the first start.
    pub fn admin_key(&self) -> &str {
        &self.backend.admin_key
    }

    /// Creates a token with which a caller may send requests. It cannot be read again later.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database or the system's random source fails.
    pub fn mint_caller(&self, name: &str) -> Result<String, DevBackendError> {
        let (name, now_ms) = (name.to_owned(), self.backend.clock.now_ms());
        let backend = Arc::clone(&self.backend);
        let minted = self.backend.store.write_now(move |db| {
            let minted = operator::mint(db, &name, None, now_ms);
            backend.commits.publish(&Topics::All);
            minted
        })?;
        Ok(minted?)
    }

    /// Returns whether a token was minted for this database.
    pub fn caller_token_is_valid(&self, token: &str) -> bool {
        self.backend.store.read(|db| auth::caller(db, token, auth::CallerAction::Look)).is_ok()
    }

    /// Runs the minutely housekeeping now: closes requests whose time is up and deletes old rows. Returns the number of
    /// rows.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database fails.
    pub async fn housekeep(&self) -> Result<usize, DevBackendError> {
        Ok(housekeeping::once(&self.backend).await?)
    }

    /// Stops the backend: held polls return at once, running calls finish, and the database is closed.
    pub async fn stop(mut self) {
        self.backend.stopping.cancel();
        self.backend.sockets.close();
        let ended = async {
            while self.serving.join_next().await.is_some() {}
            self.backend.sockets.wait().await;
        };
        if timeout(GRACE, ended).await.is_err() {
            tracing::warn!("the embedded backend stops with calls under way");
        }
        let backend = Arc::clone(&self.backend);
        let closed = tokio::task::spawn_blocking(move || backend.store.close()).await;
        drop(closed);
    }

    /// Serves until the signal, then stops.
    pub async fn serve_until(self, signal: impl Future<Output = ()>) {
        signal.await;
        self.stop().await;
    }
}

/// Listens on loopback only, with a backlog for thousands of devices that reconnect at once.
fn listener(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // On Windows this would let another process listen on the same port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

/// The state of pairing.
#[derive(Debug)]
struct Pairing {
    code: String,
    closed: bool,
}

/// Returns the database's pairing code; creates it if there is none.
fn pairing(store: &Store) -> Result<Pairing, DevBackendError> {
    let fresh = secrets::new_pairing_code()?;
    let pairing = store.write_now(move |db| -> rusqlite::Result<Pairing> {
        db.execute("INSERT INTO pairing (only, code) VALUES (1, ?1) ON CONFLICT DO NOTHING", [fresh])?;
        db.query_row("SELECT code, closed FROM pairing", [], |row| {
            Ok(Pairing { code: row.get(0)?, closed: row.get(1)? })
        })
    })??;
    Ok(pairing)
}

/// Returns the database's admin key; creates it if there is none.
fn admin_key(store: &Store) -> Result<String, DevBackendError> {
    let fresh = secrets::new_admin_key()?;
    let key = store.write_now(move |db| -> rusqlite::Result<String> {
        db.execute("INSERT INTO admin (only, key) VALUES (1, ?1) ON CONFLICT DO NOTHING", [fresh])?;
        db.query_row("SELECT key FROM admin", [], |row| row.get(0))
    })??;
    Ok(key)
}
