//! The backend's server: start, stop, and the owner's direct access.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::backend_state::BackendState;
use super::commit_clock::BackendClock;
use super::commits::{CommitNotifier, TopicSet};
use super::connections::{ConnectionHandle, LimitedListener};
use super::failure::FunctionFailure;
use super::faults::FaultInjector;
use super::operator::CallerPermission;
use super::pairing::PairingTerms;
use super::snapshots::SnapshotCache;
use super::store::{BackendStore, StoreError};
use super::wakeups::WakeupRegistry;
use super::{auth, credentials, housekeeping, http, operator, pairing};

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
    pub clock: BackendClock,
    /// Holds calls that ask for it until there is an event, which Convex does not.
    pub holds: bool,
    /// The most connections at once; [`super::MAX_CONNECTIONS`] fits the usual limit of open files.
    pub max_connections: usize,
    /// The faults to inject, if any.
    pub faults: Option<FaultInjector>,
}

/// The reason why a backend did not start or could not answer its owner.
#[derive(Debug, thiserror::Error)]
pub enum DevBackendError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port cannot be listened on.
    #[error("{}", describe_listen_error(*port, cause))]
    Listen {
        /// The port.
        port: u16,
        /// The reason.
        cause: std::io::Error,
    },
    /// The database failed.
    #[error("the backend's database failed: {0}")]
    Database(String),
    /// The system provided no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

fn describe_listen_error(port: u16, cause: &std::io::Error) -> String {
    let advice = "Choose another with --port, or leave it out to take a free one";
    if cause.kind() == std::io::ErrorKind::AddrInUse {
        format!("port {port} of this machine is already in use. {advice}")
    } else {
        format!("cannot listen on port {port} of 127.0.0.1: {cause}. {advice}")
    }
}

impl From<FunctionFailure> for DevBackendError {
    fn from(failure: FunctionFailure) -> Self {
        Self::Database(failure.to_string())
    }
}

impl From<rusqlite::Error> for DevBackendError {
    fn from(failure: rusqlite::Error) -> Self {
        Self::Store(failure.into())
    }
}

/// A running backend. Dropping it stops it without waiting; [`DevBackend::stop_server`] waits.
#[derive(Debug)]
pub struct DevBackend {
    backend: Arc<BackendState>,
    url: String,
    serving: JoinSet<()>,
    _stop_when_dropped: DropGuard,
}

impl DevBackend {
    /// Opens the database and listens. The backend answers calls when this returns.
    ///
    /// # Errors
    /// [`DevBackendError`] if the file, its lock or the port is unavailable.
    #[expect(
        clippy::unused_async,
        reason = "it can only be made within a runtime, and says so"
    )]
    pub async fn start_server(options: DevBackendOptions) -> Result<Self, DevBackendError> {
        let DevBackendOptions {
            db,
            port,
            clock,
            holds,
            max_connections,
            faults,
        } = options;
        let store = BackendStore::open_store(&db)?;
        let snapshots = SnapshotCache::for_database(db);
        let admin_key = ensure_admin_key(&store)?;
        let listen = |cause| DevBackendError::Listen { port, cause };
        let listener = bind_listener(port).map_err(listen)?;
        let url = format!("http://{}", listener.local_addr().map_err(listen)?);
        let listener = LimitedListener::new(listener, max_connections);
        let stopping = CancellationToken::new();
        let backend = Arc::new(BackendState {
            store,
            snapshots,
            wakeups: WakeupRegistry::default(),
            commits: CommitNotifier::default(),
            clock,
            stopping: stopping.clone(),
            sockets: TaskTracker::new(),
            admin_key,
            holds,
            faults,
            caller_reads: Arc::default(),
        });
        let routes = http::build_router(Arc::clone(&backend))
            .into_make_service_with_connect_info::<ConnectionHandle>();
        let served = axum::serve(listener, routes)
            .with_graceful_shutdown(stopping.clone().cancelled_owned());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // Serving ends only with the stop: a failed connection ends by itself.
            drop(served.await);
        });
        serving.spawn(housekeeping::run_periodically(Arc::clone(&backend)));
        serving.spawn(Arc::clone(&backend).evict_snapshots_until_stop());
        Ok(Self {
            backend,
            url,
            serving,
            _stop_when_dropped: stopping.drop_guard(),
        })
    }

    /// Returns the address, without a trailing slash.
    pub fn listen_url(&self) -> &str {
        &self.url
    }

    /// Returns a code with which a device can be paired now: the one that stands, else a new one for one device.
    /// `None` while the operator lets no new device in.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database or the system's random source fails.
    pub fn pairing_code(&self) -> Result<Option<String>, DevBackendError> {
        let now_ms = self.backend.clock.now_ms();
        let code = self
            .backend
            .store
            .run_write_blocking(move |db| pairing::standing_or_new_code(db, now_ms))?;
        Ok(code?)
    }

    /// Creates a pairing code on these terms; the last one ends.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database or the system's random source fails.
    pub fn renew_pairing_code(&self, terms: PairingTerms) -> Result<String, DevBackendError> {
        let now_ms = self.backend.clock.now_ms();
        let renewed = self
            .backend
            .store
            .run_write_blocking(move |db| pairing::renew_code(db, terms, now_ms))?;
        Ok(renewed?.pairing_code)
    }

    /// Returns the admin key, made at the first start.
    pub fn admin_key(&self) -> &str {
        &self.backend.admin_key
    }

    /// Creates the token of a caller with these permissions. It cannot be read again later.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database or the system's random source fails.
    pub fn mint_caller_token(
        &self,
        name: &str,
        may: CallerPermission,
    ) -> Result<String, DevBackendError> {
        let name = name.to_owned();
        let now_ms = self.backend.clock.now_ms();
        let backend = Arc::clone(&self.backend);
        let minted = self.backend.store.run_write_blocking(move |db| {
            let minted = operator::mint_token(db, &name, may, now_ms);
            backend.commits.publish(&TopicSet::All);
            minted
        })?;
        Ok(minted?)
    }

    /// Returns whether a token was minted for this database.
    pub fn caller_token_is_valid(&self, token: &str) -> bool {
        self.backend
            .store
            .run_read(|db| auth::authorize_caller(db, token, auth::CallerAction::Look))
            .is_ok()
    }

    /// Runs the minutely housekeeping now: closes requests whose time is up and deletes old rows. Returns the number of
    /// rows.
    ///
    /// # Errors
    /// [`DevBackendError`] if the database fails.
    pub async fn housekeep(&self) -> Result<usize, DevBackendError> {
        Ok(housekeeping::run_full_pass(&self.backend).await?)
    }

    /// Stops the backend: held polls return at once, running calls finish, and the database is closed.
    pub async fn stop_server(mut self) {
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
        self.stop_server().await;
    }
}

/// Listens on loopback only, with a backlog for thousands of devices that reconnect at once.
fn bind_listener(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // On Windows this would let another process listen on the same port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

/// Returns the database's admin key; creates it if there is none.
fn ensure_admin_key(store: &BackendStore) -> Result<String, DevBackendError> {
    let fresh = credentials::new_admin_key()?;
    let key = store.run_write_blocking(move |db| -> rusqlite::Result<String> {
        db.execute(
            "INSERT INTO admin (only, key) VALUES (1, ?1) ON CONFLICT DO NOTHING",
            [fresh],
        )?;
        db.query_row("SELECT key FROM admin", [], |row| row.get(0))
    })??;
    Ok(key)
}
