//! The end of the runner in the background: when the last client, the last call and the last background command have ended
//! and some time has passed, or when a newer program takes over and nothing runs.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use punie_editor::AttachedEditors;
use punie_engine::journal::{Journal, JournalError, JournalShellState};
use punie_home::{ClientPresence, Home, SuccessorProgram};

/// The longest interval between two looks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The clients and the work of a runner in the background.
pub(super) struct IdleWatch<'a> {
    pub home: &'a Home,
    pub journal: Journal,
    pub editors: AttachedEditors,
    /// The time for which it stays up without any.
    pub limit: Duration,
}

impl IdleWatch<'_> {
    /// Completes once nobody needs the runner. While a client is there, the journal is read only for a newer program.
    pub async fn wait_until_unneeded(&self) {
        let interval = CHECK_INTERVAL.min(self.limit / 4);
        let mut needed_at = Instant::now();
        loop {
            sleep(interval.max(Duration::from_millis(10))).await;
            let successor = SuccessorProgram::find(self.home);
            let has_editor = *self.editors.subscribe_open_turns().borrow() > 0;
            let has_client = has_editor || ClientPresence::is_announced(self.home);
            if (has_client && successor.is_none()) || self.is_working().await {
                needed_at = Instant::now();
            } else if let Some(next) = successor {
                tracing::info!(version = next.version, "a newer program takes over");
                return;
            } else if needed_at.elapsed() >= self.limit {
                tracing::info!("nobody has used the runner for a while; it ends");
                return;
            }
        }
    }

    /// Returns whether a call or a background command runs. If that cannot be found out, one does.
    async fn is_working(&self) -> bool {
        let journal = self.journal.clone();
        let look = move || {
            let reader = journal.open_reader()?;
            let shells = reader.list_shell_rows()?;
            let has_shell = shells
                .iter()
                .any(|shell| shell.state == JournalShellState::Running);
            Ok::<_, JournalError>(has_shell || reader.count_open_requests()?.started > 0)
        };
        let looked = tokio::task::spawn_blocking(look).await;
        !matches!(looked, Ok(Ok(false)))
    }
}
