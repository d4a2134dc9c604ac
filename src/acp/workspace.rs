//! The folders that the tools may touch, and the proof that a path lies in one of them.
#![expect(clippy::disallowed_methods, reason = "this room resolves paths")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::request::ErrorCode;
use crate::tool::ToolError;

/// A path as the model wrote it: absolute, relative to the first workspace, or beginning with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RawPath(String);

impl RawPath {
    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RawPath {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The folders in which the tools work.
#[derive(Debug, Clone)]
pub struct Workspace {
    roots: Arc<[PathBuf]>,
}

impl Workspace {
    /// Opens the folders; each must exist.
    pub fn open(roots: &[PathBuf]) -> std::io::Result<Self> {
        let roots = roots.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { roots: roots.into() })
    }

    /// The folders, the first of which relative paths are resolved against.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(PathBuf::as_path)
    }

    /// The first folder.
    pub fn first(&self) -> &Path {
        &self.roots[0]
    }

    /// Resolves a path and proves that it lies in a workspace; it need not exist.
    ///
    /// # Errors
    /// `outside_workspace` naming the workspaces, or `invalid_args`.
    pub fn resolve(&self, raw: &RawPath) -> Result<WorkspacePath, ToolError> {
        let joined = self.first().join(raw.as_str());
        let real = std::fs::canonicalize(&joined).unwrap_or(joined);
        if self.roots().any(|root| real.starts_with(root)) {
            return Ok(WorkspacePath { absolute: real });
        }
        Err(ToolError::new(ErrorCode::OutsideWorkspace, format!("{} is outside the workspace", raw.as_str())))
    }
}

/// A path that lies in a workspace.
#[derive(Debug, Clone)]
pub struct WorkspacePath {
    absolute: PathBuf,
}

impl WorkspacePath {
    /// The absolute path, for showing and for walking.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }
    /// The path as an answer shows it.
    pub fn shown(&self) -> String {
        self.absolute.display().to_string()
    }
}
