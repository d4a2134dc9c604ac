//! Runs work that blocks outside the event loop, for an answer to a tool.

use punie_tool::ToolError;

/// Runs work on a blocking thread.
///
/// # Errors
/// `internal` if the work panicked.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|panicked| ToolError::internal(panicked.to_string()))
}
