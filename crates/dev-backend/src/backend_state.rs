//! The state that all calls, sockets and the housekeeping share.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::commit_clock::BackendClock;
use super::commit_transaction::FinishedCommit;
use super::commits::CommitNotifier;
use super::credentials;
use super::faults::FaultInjector;
use super::permissions::caller_reads::CallerReads;
use super::snapshots::{self, SnapshotCache};
use super::store::BackendStore;
use super::wakeups::WakeupRegistry;

/// The shared state of all calls.
#[derive(Debug)]
pub(super) struct BackendState {
    pub store: BackendStore,
    pub snapshots: SnapshotCache,
    pub wakeups: WakeupRegistry,
    pub commits: CommitNotifier,
    pub clock: BackendClock,
    pub stopping: CancellationToken,
    pub sockets: TaskTracker,
    pub admin_key: String,
    pub holds: bool,
    pub faults: Option<FaultInjector>,
    pub caller_reads: Arc<CallerReads>,
}

impl BackendState {
    /// Evicts expired snapshots until the backend stops. Without this, a snapshot without further reads would stay.
    pub async fn evict_snapshots_until_stop(self: Arc<Self>) {
        while timeout(snapshots::SNAPSHOT_TTL / 3, self.stopping.cancelled())
            .await
            .is_err()
        {
            self.snapshots.evict_expired();
        }
        self.snapshots.evict_all();
    }

    pub fn is_admin_key(&self, key: &str) -> bool {
        let key = key.split_once(':').map_or(key, |(key, _acting_as)| key);
        credentials::equals_in_constant_time(key.as_bytes(), self.admin_key.as_bytes())
    }

    /// Notifies waiting calls and subscriptions of a commit. Called on the writer's thread, so notifications keep the
    /// order of commits.
    pub fn announce_commit(&self, finished: FinishedCommit) {
        for device in finished.devices {
            self.wakeups.wake_device(&device);
        }
        if let Some(changed) = finished.changed {
            self.commits.publish(&changed);
        }
    }
}
