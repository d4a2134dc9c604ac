//! Runs work that blocks outside the event loop, for an answer to a tool. Not here: file work of a call, which stops with
//! the call (`local::local_files`).

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
        .map_err(|panicked| ToolError::internal_error(panicked.to_string()))
}
