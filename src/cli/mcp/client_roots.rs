//! The folders (roots) that an MCP client names, beside the owner's workspaces: they narrow them and never add one.

use std::path::PathBuf;

/// The beginning of a text about the roots.
const CLIENT_FOLDERS: &str = "the client works in";

/// Returns the parts of the workspaces that lie within the roots. The roots are resolved as the workspaces are.
///
/// # Errors
/// A text, if there is none.
pub(super) fn narrow_workspaces(
    workspaces: &[PathBuf],
    roots: &[PathBuf],
) -> Result<Vec<PathBuf>, String> {
    let mut narrowed: Vec<PathBuf> = Vec::new();
    for root in resolve_roots(roots) {
        for workspace in workspaces {
            let part = if root.starts_with(workspace) {
                &root
            } else if workspace.starts_with(&root) {
                workspace
            } else {
                continue;
            };
            if !narrowed.contains(part) {
                narrowed.push(part.clone());
            }
        }
    }
    if narrowed.is_empty() {
        return Err(outside_text(CLIENT_FOLDERS, workspaces, roots));
    }
    Ok(narrowed)
}

/// The folders of a runner that is up.
#[derive(Clone)]
pub(super) struct RunnerFolders {
    /// Its workspaces.
    pub workspaces: Vec<PathBuf>,
    /// The folders that this command's `--workspace` names, if it has any.
    pub named: Vec<PathBuf>,
}

impl RunnerFolders {
    /// Checks that all workspaces lie within the folders that the command names, and within the roots.
    ///
    /// # Errors
    /// A text that says what to do, if one does not.
    pub fn check_roots(&self, roots: Option<&[PathBuf]>) -> Result<(), String> {
        if !self.named.is_empty() {
            self.check_within("--workspace names", &self.named)?;
        }
        roots.map_or(Ok(()), |roots| self.check_within(CLIENT_FOLDERS, roots))
    }

    fn check_within(&self, who: &str, folders: &[PathBuf]) -> Result<(), String> {
        let resolved = resolve_roots(folders);
        let is_within =
            |workspace: &PathBuf| resolved.iter().any(|root| workspace.starts_with(root));
        if self.workspaces.iter().all(is_within) {
            return Ok(());
        }
        Err(format!(
            "{}. A runner that is up cannot be narrowed. Stop it, or start this server with --ignore-roots to work in all \
             of its workspaces, or with a home of its own (--home DIR)",
            outside_text(who, &self.workspaces, folders)
        ))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "workspaces are resolved by config once, and roots must be compared in the same form"
)]
fn resolve_roots(roots: &[PathBuf]) -> Vec<PathBuf> {
    let resolve = |root: &PathBuf| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
    roots.iter().map(resolve).collect()
}

fn outside_text(who: &str, workspaces: &[PathBuf], roots: &[PathBuf]) -> String {
    let list = |paths: &[PathBuf]| {
        let texts: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        texts.join(", ")
    };
    format!(
        "{who} {}, the owner's workspaces are {}",
        list(roots),
        list(workspaces)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn roots_narrow_and_never_widen() {
        let workspaces = paths(&["/w/a", "/w/b"]);
        let narrowed = |roots: &[&str]| narrow_workspaces(&workspaces, &paths(roots)).ok();
        assert_eq!(narrowed(&["/w/a/x"]), Some(paths(&["/w/a/x"])));
        assert_eq!(narrowed(&["/"]), Some(workspaces.clone()));
        assert_eq!(narrowed(&["/w/b", "/w"]), Some(paths(&["/w/b", "/w/a"])));
        assert_eq!(narrowed(&["/w/ab", "/etc"]), None);
        let is_within = |named: &[&str], roots: Option<&[&str]>| {
            let folders = RunnerFolders {
                workspaces: workspaces.clone(),
                named: paths(named),
            };
            folders.check_roots(roots.map(paths).as_deref()).is_ok()
        };
        assert!(is_within(&[], Some(&["/w"])) && is_within(&[], Some(&["/w/a", "/w/b"])));
        assert!(!is_within(&[], Some(&["/w/a"])) && !is_within(&[], Some(&["/w/a/x", "/w/b"])));
        assert!(is_within(&[], None) && is_within(&["/w"], None));
        assert!(!is_within(&["/w/a"], None) && !is_within(&["/w/a"], Some(&["/w"])));
    }
}
