//! The workspaces of callers with rights of their own.

use std::path::{Path, PathBuf};

use super::effective_config::Config;
use super::error::ConfigError;
use super::sources::{self, ProcessEnvironment, ValueOrigin};
use punie_sandbox::follow_links;

impl Config {
    /// Resolves the workspaces of callers, and keeps those that are workspaces of the device. A nested workspace is none:
    /// git shows all of a repository around it.
    pub(super) fn resolve_caller_workspaces(
        &mut self,
        environment: &ProcessEnvironment,
    ) -> Result<(), ConfigError> {
        let folder = self.file.parent();
        let origin = self.origin_or_default("callers");
        let workspaces_origin = self.value_origin("workspaces.paths");
        let is_from_file = matches!(workspaces_origin, Some(ValueOrigin::File { .. }));
        let all = &self.workspaces;
        let is_usable = |real: &Path| {
            let is_around = |root: &PathBuf| root != real && real.starts_with(root);
            all.is_empty() || (all.iter().any(|root| root == real) && !all.iter().any(is_around))
        };
        for (name, table) in &mut self.callers {
            let Some(paths) = &mut table.workspaces else {
                continue;
            };
            for path in &mut *paths {
                let full = environment.expand_path(path, folder);
                let full = full.as_deref().unwrap_or(path);
                let real = sources::canonical_folder(full).unwrap_or_else(|_| follow_links(full));
                if is_from_file && !is_usable(&real) {
                    let why = format!(
                        "callers.{name}.workspaces has {}, which is none of workspaces.paths, or lies in another of them. \
                         Name whole workspaces of the device",
                        path.display()
                    );
                    return Err(ConfigError::Value { origin, why });
                }
                *path = real;
            }
            paths.retain(|path| is_usable(path));
        }
        Ok(())
    }
}
