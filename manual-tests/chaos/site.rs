//! One backend of a round: it can be stopped, and started again on the same file and port. Not here: when that happens.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendError, DevBackendOptions, FaultInjector,
    InjectedFault, MAX_CONNECTIONS, PairingTerms,
};

use crate::caller::Caller;
use crate::dice::Dice;

/// How long a stopped backend's port is waited for, which another round may have been given meanwhile.
const PORT_WAIT: Duration = Duration::from_secs(10);

pub struct Site {
    db: PathBuf,
    port: u16,
    pub url: String,
    pub pairing_code: String,
    pub faults: FaultInjector,
    pub caller: Caller,
    running: Option<DevBackend>,
}

impl Site {
    /// Starts a backend with its database in this file.
    pub async fn start(db: &Path) -> anyhow::Result<Self> {
        let faults = FaultInjector::new();
        let backend = start_backend(db, 0, &faults).await?;
        let url = backend.listen_url().to_owned();
        let port = url
            .rsplit(':')
            .next()
            .context("a port")?
            .trim_end_matches('/')
            .parse()?;
        let caller = Caller::new(
            &url,
            backend.mint_caller_token("chaos", CallerPermission::Both)?,
        )?;
        Ok(Self {
            db: db.to_owned(),
            port,
            pairing_code: backend.renew_pairing_code(PairingTerms::LARGEST)?,
            url,
            faults,
            caller,
            running: Some(backend),
        })
    }

    /// Stops the backend; whether it ran.
    pub async fn stop(&mut self) -> bool {
        let Some(backend) = self.running.take() else {
            return false;
        };
        backend.stop_server().await;
        true
    }

    /// Starts it again where it is stopped.
    pub async fn ensure_started(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + PORT_WAIT;
        while self.running.is_none() {
            match start_backend(&self.db, self.port, &self.faults).await {
                Ok(backend) => self.running = Some(backend),
                Err(error) if Instant::now() > until => {
                    return Err(error).with_context(|| format!("port {}", self.port));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        Ok(())
    }

    /// Plans a fault for one of the calls that the device makes.
    pub fn plan_fault(&self, dice: &mut Dice) {
        let functions = [
            "events:listForDevice",
            "events:appendResult",
            "events:claim",
            "events:listOpenIds",
            "devices:openSession",
            "devices:heartbeat",
        ];
        let function = functions[dice.index(functions.len())];
        let fault = match dice.below(9) {
            0 => InjectedFault::Unheard,
            1 | 2 => InjectedFault::Drop,
            3 => InjectedFault::Cut(dice.index(200)),
            4 => InjectedFault::Half,
            5 => InjectedFault::Html,
            6 => InjectedFault::Duplicate,
            7 => InjectedFault::Rewind,
            _ => InjectedFault::Status {
                status: 503,
                code: "Overloaded".into(),
                retry_after: None,
            },
        };
        self.faults.plan(
            function,
            1 + u32::try_from(dice.below(3)).unwrap_or_default(),
            fault,
        );
    }
}

async fn start_backend(
    db: &Path,
    port: u16,
    faults: &FaultInjector,
) -> Result<DevBackend, DevBackendError> {
    DevBackend::start_server(DevBackendOptions {
        db: db.to_owned(),
        port,
        clock: BackendClock::from_system(),
        holds: true,
        max_connections: MAX_CONNECTIONS,
        faults: Some(faults.clone()),
    })
    .await
}
