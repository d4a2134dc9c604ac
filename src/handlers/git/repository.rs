//! Which repository a path belongs to, and that all of it lies in the workspace. Not here: what is asked of it.

use std::io;
use std::path::{Path, PathBuf};

use super::GitDeps;
use super::command::{Answer, Git};
use crate::acp::RawPath;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// A file, or what is gone, below the folder that git runs in.
#[derive(Debug)]
struct Part {
    /// From that folder.
    path: String,
    /// As an answer shows it, where there is nothing now: only the repository can know it.
    gone: Option<String>,
}

/// A repository that may be asked, and the path within it that was asked for.
#[derive(Debug)]
pub(super) struct Repository {
    git: Git,
    /// What was asked for, where it is not the folder that git runs in.
    part: Option<Part>,
    /// What the answer leaves out and why.
    pub(super) notes: Vec<String>,
}

impl Repository {
    /// Finds the repository of a path and disarms it.
    pub(super) async fn open(cx: &ToolCx, deps: &GitDeps, path: &RawPath) -> Result<Self, ToolError> {
        let resolved = deps.workspace.resolve(path)?;
        let root = resolved.root();
        let (folder, part) = split(resolved.absolute(), root, &resolved.shown())?;
        let marker = marker(&folder, root)?;
        let git = Git::new(deps, &folder, root.parent().unwrap_or(root))?;
        let mut repository = Self { git, part, notes: Vec::new() };
        repository.prove_inside(cx, deps, &marker).await?;
        repository.disarm(cx).await?;
        Ok(repository)
    }

    /// Runs a subcommand on what was asked for; its exit code must be 0.
    pub(super) async fn ask(&self, cx: &ToolCx, arguments: &[&str]) -> Result<Answer, ToolError> {
        let mut arguments = arguments.to_vec();
        if let Some(part) = &self.part {
            arguments.extend(["--", &part.path]);
        }
        let answer = self.git.run(cx, &arguments).await?;
        if !answer.cut && answer.exit_code != Some(0) {
            return Err(complaint(&answer));
        }
        if answer.output.is_empty() {
            self.prove_known(cx).await?;
        }
        Ok(answer)
    }

    /// What is gone must have been there: of a path that never was, "no changes" would be misleading.
    async fn prove_known(&self, cx: &ToolCx) -> Result<(), ToolError> {
        let Some(Part { path, gone: Some(shown) }) = &self.part else { return Ok(()) };
        for list in [["ls-files", "--", path].as_slice(), &["ls-tree", "--name-only", "HEAD", "--", path]] {
            // Without a first commit there is no HEAD to list, and so nothing in it.
            if !self.git.run(cx, list).await?.output.is_empty() {
                return Ok(());
            }
        }
        Err(ToolError::not_found(format!(
            "There is nothing at {shown}, and git knows no such path, neither in the index nor in the last commit. \
             git_status on its folder lists what changed."
        )))
    }

    /// What git itself takes for the repository must lie in the workspace: `core.worktree`, a `.git` file and
    /// `commondir` can each lead elsewhere.
    async fn prove_inside(&mut self, cx: &ToolCx, deps: &GitDeps, marker: &Path) -> Result<(), ToolError> {
        let asked = [
            "rev-parse",
            "--show-toplevel",
            "--absolute-git-dir",
            "--path-format=absolute",
            "--git-common-dir",
        ];
        let answer = self.git.run(cx, &asked).await?;
        if answer.exit_code != Some(0) {
            return Err(refusal(&answer, marker));
        }
        let text = answer.text();
        let places: Vec<&str> = text.lines().collect();
        if places.len() != 3 {
            return Err(outside("its folders have names with line breaks"));
        }
        if Path::new(places[0]).join(".gitmodules").symlink_metadata().is_ok() {
            self.notes.push("submodules were not looked into".to_owned());
        }
        for place in places {
            let real = Path::new(place).canonicalize().map_err(|cause| ToolError::io(place, &cause))?;
            if !deps.workspace.roots().any(|root| real.starts_with(root)) {
                return Err(outside(&format!("it uses {place}")));
            }
        }
        Ok(())
    }

    /// Overrides the programs that this repository's settings name, whatever they are called.
    async fn disarm(&mut self, cx: &ToolCx) -> Result<(), ToolError> {
        let answer = self.git.run(cx, &["config", "--list", "-z", "--name-only", "--includes"]).await?;
        if answer.exit_code != Some(0) || answer.cut {
            return Err(complaint(&answer));
        }
        let keys = String::from_utf8(answer.output).map_err(|_| {
            ToolError::new(
                ErrorCode::PolicyDenied,
                "The repository's settings have names that are not valid text; it is not asked.",
            )
        })?;
        let mut filters: Vec<&str> = Vec::new();
        for key in keys.split('\0') {
            let Some((section, name, variable)) = parts(key) else { continue };
            match (section, variable) {
                ("filter", "clean" | "smudge" | "process") => {
                    // Empty is "no filter"; a required filter that does nothing would be an error.
                    self.git.set(key.to_owned(), "");
                    self.git.set(format!("filter.{name}.required"), "false");
                    if !filters.contains(&name) {
                        filters.push(name);
                    }
                }
                ("diff", "command" | "textconv")
                | ("merge", "driver")
                | ("tar", "command")
                | ("remote", "uploadpack" | "receivepack" | "vcs")
                | ("credential", "helper") => self.git.set(key.to_owned(), "false"),
                _ => {}
            }
        }
        if !filters.is_empty() {
            self.notes.push(format!(
                "the filters {} were not run, so files under them may be listed as changed",
                filters.join(", ")
            ));
        }
        Ok(())
    }
}

/// `filter.a.b.clean` as `filter`, `a.b`, `clean`.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (name, variable) = rest.rsplit_once('.')?;
    Some((section, name, variable))
}

/// The folder to run git in, and what below it the path names. For what was deleted that is the deepest folder that
/// is still there.
fn split(path: &Path, root: &Path, shown: &str) -> Result<(PathBuf, Option<Part>), ToolError> {
    let mut gone = false;
    let is_folder = |place: &Path| place.symlink_metadata().map(|meta| meta.is_dir());
    for folder in path.ancestors().take_while(|folder| folder.starts_with(root)) {
        match is_folder(folder) {
            Ok(true) => {
                let rest = path.strip_prefix(folder).unwrap_or(path);
                if rest.as_os_str().is_empty() {
                    return Ok((folder.to_owned(), None));
                }
                let Some(rest) = rest.to_str() else {
                    return Err(ToolError::invalid_args(format!(
                        "{shown} has a name that is not valid text; name its folder."
                    )));
                };
                let part = Part { path: rest.to_owned(), gone: gone.then(|| shown.to_owned()) };
                return Ok((folder.to_owned(), Some(part)));
            }
            Ok(false) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => gone = true,
            Err(cause) => return Err(ToolError::io(shown, &cause)),
        }
    }
    Err(ToolError::invalid_args(format!("{shown} is neither a folder nor a file.")))
}

/// The `.git` that makes the folder part of a repository. Without one inside the workspace git is not even started.
fn marker(folder: &Path, root: &Path) -> Result<PathBuf, ToolError> {
    let found = |dir: &Path| Some(dir.join(".git")).filter(|git| git.symlink_metadata().is_ok());
    if let Some(git) = folder.ancestors().take_while(|dir| dir.starts_with(root)).find_map(found) {
        return Ok(git);
    }
    match root.ancestors().skip(1).find_map(found) {
        Some(above) => Err(outside(&format!("it begins above the workspace, at {}", above.display()))),
        None => Err(not_a_repository()),
    }
}

fn not_a_repository() -> ToolError {
    ToolError::not_found("Error: Not a git repository")
}

fn outside(why: &str) -> ToolError {
    ToolError::new(
        ErrorCode::OutsideWorkspace,
        format!(
            "The repository reaches outside the workspace: {why}. Add that folder to the workspaces to allow it."
        ),
    )
}

/// git would not tell where the repository is, although there is a `.git`.
fn refusal(answer: &Answer, marker: &Path) -> ToolError {
    if let Some(owner) = foreign_owner(marker) {
        return ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "{} belongs to another user ({owner}), and git does not trust such a repository. Its owner can be asked, \
                 or the user can run: git config --global --add safe.directory {}",
                marker.display(),
                marker.parent().unwrap_or(marker).display()
            ),
        );
    }
    let why =
        if answer.complaint.is_empty() { "git gave no reason".to_owned() } else { answer.complaint.clone() };
    ToolError::new(
        ErrorCode::NotFound,
        format!("Error: Not a git repository\n{why}\n{} is there, but git refuses it.", marker.display()),
    )
}

#[cfg(unix)]
fn foreign_owner(marker: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| path.symlink_metadata().ok().map(|meta| meta.uid()).filter(|uid| *uid != own);
    owner(marker).or_else(|| marker.parent().and_then(owner)).map(|uid| format!("uid {uid}"))
}

#[cfg(not(unix))]
fn foreign_owner(_marker: &Path) -> Option<String> {
    None
}

fn complaint(answer: &Answer) -> ToolError {
    let code = answer
        .exit_code
        .map_or_else(|| "without an exit code".to_owned(), |code| format!("with exit code {code}"));
    let why = if answer.complaint.is_empty() { "It gave no reason." } else { &answer.complaint };
    ToolError::new(ErrorCode::Io, format!("git ended {code}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_any_dots_in_its_middle() {
        assert_eq!(parts("filter.a.b=c.clean"), Some(("filter", "a.b=c", "clean")));
        assert_eq!(parts("core.pager"), None);
        assert_eq!(parts(""), None);
    }
}
