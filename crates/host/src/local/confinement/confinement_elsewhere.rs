//! Confinement where a process does not take it on by itself: macOS has a wrapper, other systems have nothing.

use std::path::Path;

use super::Confinement;
use punie_tool::ToolError;

#[cfg(not(target_os = "macos"))]
impl Confinement {
    /// Returns no wrapper: confinement is not implemented on this system.
    ///
    /// # Errors
    /// None.
    #[expect(
        clippy::unused_async,
        reason = "as where there is something to wait for"
    )]
    pub async fn wrapper_arguments(&self, _cwd: &Path) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }
}

impl Confinement {
    /// Does nothing: on this system, only the wrapper's arguments confine a program, if anything does.
    ///
    /// # Errors
    /// None.
    #[expect(
        clippy::unused_async,
        reason = "as where there is something to wait for"
    )]
    pub async fn apply_confinement(
        &self,
        _command: &mut tokio::process::Command,
        _writes: bool,
        _temp: Option<&Path>,
    ) -> Result<(), ToolError> {
        Ok(())
    }
}
