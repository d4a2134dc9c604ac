//! The number of bytes being sent, stored in the journal for `status`.

use std::sync::Arc;
use std::time::Duration;

use crate::runner::handles::Handles;

/// The journal key of the number of bytes being sent, for `status`.
const SENDING_KEY: &str = "sending_bytes";
/// Posts that end within this time are not reported.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// Stores the number of bytes being sent, for `status`, which runs in another process. Short sends are not recorded.
pub async fn record_sending(handles: Arc<Handles>) {
    let mut sending = handles.outbox.subscribe_sending();
    // An earlier process may have left a number.
    let mut told = None;
    loop {
        let now = *sending.borrow_and_update();
        if told != Some(now) {
            let stored = handles.journal.store_fact(SENDING_KEY, now.to_string());
            match stored.await {
                Ok(()) => told = Some(now),
                Err(error) => tracing::warn!(%error, "how much is being sent could not be noted"),
            }
        }
        let later = async {
            // The sender exists as long as the runner's components.
            let _ = sending.changed().await;
            tokio::time::sleep(REPORT_DELAY).await;
        };
        tokio::select! {
            () = later => {}
            () = handles.phases.over.cancelled() => return,
        }
    }
}
