//! Packages: skills, themes, canvases and plugins that an agent installs in the home, and removes. Published only where
//! the owner switched them on. Not here: the packages themselves (home::packages).

mod install_canvas_package;
mod install_plugin_package;
mod install_skill_package;
mod install_theme_package;
mod uninstall_package;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use punie_core::ids::to_hex;
use punie_home::{
    InstallResult, InstalledPackage, NewPackage, PackageError, PackageStore, sort_keys,
};
use punie_tool::{ErrorCode, ToolDeps, ToolEntry, ToolError, ToolReply, ToolSet};

/// The dependencies of the tools for packages.
#[derive(Debug, Clone)]
pub struct StoreDeps {
    /// The packages of the home.
    pub packages: PackageStore,
}

impl ToolDeps for StoreDeps {}

/// Returns the tools for packages.
pub fn tools(deps: StoreDeps) -> Vec<ToolEntry> {
    ToolSet::new("store", deps)
        .with_tool::<install_skill_package::InstallSkillPackage>()
        .with_tool::<install_theme_package::InstallThemePackage>()
        .with_tool::<install_canvas_package::InstallCanvasPackage>()
        .with_tool::<install_plugin_package::InstallPluginPackage>()
        .with_tool::<uninstall_package::UninstallPackage>()
        .into_entries()
}

impl StoreDeps {
    /// Runs a change of the packages on a thread that may block.
    async fn change_packages<T: Send + 'static>(
        &self,
        change: impl FnOnce(&PackageStore) -> Result<T, PackageError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let packages = self.packages.clone();
        let changed = tokio::task::spawn_blocking(move || change(&packages)).await;
        changed
            .map_err(|panicked| ToolError::internal(panicked.to_string()))?
            .map_err(|error| package_error(&error))
    }

    /// Installs a package, if the arguments have the hash that is expected of them.
    async fn install_package(
        &self,
        arguments: &impl Serialize,
        expected: Option<&str>,
        package: Result<NewPackage, PackageError>,
    ) -> Result<ToolReply, ToolError> {
        let sha256 = hash_arguments(arguments);
        if let Some(expected) = expected.filter(|expected| !expected.eq_ignore_ascii_case(&sha256))
        {
            let shown: String = expected.chars().take(80).collect();
            return Err(ToolError::invalid_args(format!(
                "the arguments have the sha256 {sha256}, and {shown:?} is expected. Nothing was installed. It is that of the \
                 arguments as JSON without sha256, keys sorted, no blanks"
            )));
        }
        let package = package.map_err(|error| package_error(&error))?;
        let hash = sha256.clone();
        let InstalledPackage { result, path } = self
            .change_packages(move |packages| packages.install_package(&package, &hash))
            .await?;
        let result = match result {
            InstallResult::Installed => "installed",
            InstallResult::Updated => "updated",
            InstallResult::Unchanged => "unchanged",
        };
        let path = path.display().to_string();
        let reply = json!({"installed": true, "result": result, "path": path, "sha256": sha256});
        Ok(reply.into())
    }
}

/// Returns the SHA-256 of a call's arguments as JSON: without `sha256` and absent ones, keys sorted at every depth, no
/// blanks.
fn hash_arguments(arguments: &impl Serialize) -> String {
    let mut arguments = serde_json::to_value(arguments).expect("arguments came from JSON");
    if let Some(map) = arguments.as_object_mut() {
        map.remove("sha256");
        map.retain(|_, value| !value.is_null());
    }
    to_hex(&Sha256::digest(sort_keys(arguments).to_string()))
}

fn package_error(error: &PackageError) -> ToolError {
    let code = match error {
        PackageError::Invalid(_) => ErrorCode::InvalidArgs,
        PackageError::Conflict(_) => ErrorCode::Stale,
        PackageError::Missing(_) => ErrorCode::NotFound,
        PackageError::Home(_) => {
            let text = format!("packages cannot be changed: {error}");
            return ToolError::new(ErrorCode::Io, text);
        }
    };
    ToolError::new(code, error.to_string())
}
