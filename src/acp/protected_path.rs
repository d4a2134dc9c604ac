//! Protected paths inside a workspace, which file tools never write because they can run code later or weaken
//! protections. Not here: the effects of shell commands on them (local::protected_path_watch).

use std::ffi::OsStr;
use std::path::{Component, Path};

use crate::tool::{ErrorCode, ToolError};

/// The rule that protects a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathProtection {
    /// The protected path, such as `.git/hooks`.
    pub rule: &'static str,
    /// The harm that writing it could do.
    pub why: &'static str,
}

impl PathProtection {
    /// Builds the error for a path, given as it is displayed.
    pub fn denial_error(self, shown: &str) -> ToolError {
        let Self { rule, why } = self;
        ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "{shown} is not written: the rule protected-path `{rule}` forbids it, because {why}. \
                 Nothing was changed. Ask the user to make this change by hand."
            ),
        )
    }
}

const EDITOR: &str = "an editor runs what is configured there";
const SHELL: &str = "a shell runs it at its start";
const AGENT: &str = "it configures an agent";
/// The reason for git's configuration.
pub(in crate::acp) const GIT: &str = "git runs what is configured there";
/// The reason for git's hooks.
pub(in crate::acp) const HOOKS: &str = "git runs what is in there";
/// The reason for `.git` itself.
pub(in crate::acp) const REPOSITORY: &str = "it says where the repository is";

/// Folders that are protected with all their content, anywhere in the workspace.
const FOLDERS: &[(&str, &str)] = &[
    (".vscode", EDITOR),
    (".idea", EDITOR),
    (".claude", AGENT),
    (".codex", AGENT),
    (".cursor", AGENT),
    (".gemini", AGENT),
    (".punie", "it configures this runner"),
];

/// Files that are protected anywhere in the workspace.
const FILES: &[(&str, &str)] = &[
    (".gitmodules", GIT),
    (".gitconfig", GIT),
    (".envrc", "direnv runs it on entering the folder"),
    (".mcp.json", AGENT),
    (".ripgreprc", "it can make a search run a program"),
    (".profile", SHELL),
    (".bashrc", SHELL),
    (".bash_profile", SHELL),
    (".bash_login", SHELL),
    (".bash_logout", SHELL),
    (".bash_aliases", SHELL),
    (".zshrc", SHELL),
    (".zshenv", SHELL),
    (".zprofile", SHELL),
    (".zlogin", SHELL),
    (".zlogout", SHELL),
    (".kshrc", SHELL),
    (".cshrc", SHELL),
    (".tcshrc", SHELL),
    (".login", SHELL),
];

/// Folders in a user's `.config`.
const CONFIGS: &[(&str, &str)] = &[(".config/fish", SHELL), (".config/git", GIT)];

/// Returns the rule for a path relative to a workspace folder; the path need not exist.
pub fn find_protection(rel: &Path) -> Option<PathProtection> {
    let names: Vec<String> = rel
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(fold_name(name)),
            _ => None,
        })
        .collect();
    names.iter().enumerate().find_map(|(at, name)| {
        let within = &names[at + 1..];
        let find = |rules: &'static [(&str, &str)], path: &str| {
            rules.iter().find(|(rule, _)| *rule == path).copied()
        };
        let below_config = || {
            let first = within.first().filter(|_| name == ".config")?;
            find(CONFIGS, &format!(".config/{first}"))
        };
        // A file's name protects also if a parent folder has that name.
        let (rule, why) = find(FOLDERS, name)
            .or_else(|| find_repository_rule(name, within))
            .or_else(below_config)
            .or_else(|| find(FILES, name))?;
        Some(PathProtection { rule, why })
    })
}

/// Returns the rule and reason for a path that leads into a repository: the repository's folder, and the path within.
fn find_repository_rule(name: &str, within: &[String]) -> Option<(&'static str, &'static str)> {
    let is_bare = name
        .strip_suffix(".git")
        .is_some_and(|stem| !stem.is_empty());
    if name != ".git" && name != "git~1" && !is_bare {
        return None;
    }
    // Also below modules and worktrees, which contain whole repositories.
    if within.iter().any(|name| name == "hooks") {
        return Some((".git/hooks", HOOKS));
    }
    match within.last().map(String::as_str) {
        None => (!is_bare).then_some((".git", REPOSITORY)),
        Some("config" | "config.worktree") => Some((".git/config", GIT)),
        // These files name other folders for configuration and hooks.
        Some("commondir" | "gitdir") => Some((".git/commondir", GIT)),
        Some(_) => None,
    }
}

/// Returns the protected names with their reasons, except those within a repository.
pub(in crate::acp) fn protected_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    FOLDERS.iter().chain(FILES).chain(CONFIGS).copied()
}

/// Normalizes a name as the most lenient file system compares it. Removes case, invisible and combining characters, a
/// trailing dot or blank (Windows) and the name of a stream.
pub(in crate::acp) fn fold_name(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    let text = text.split(':').next().unwrap_or_default();
    let folded: String = text
        .chars()
        .filter(|c| !is_ignored_char(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .filter(|c| !is_ignored_char(*c))
        .collect();
    folded.trim_end_matches(['.', ' ']).to_owned()
}

/// Returns whether some file systems ignore this character when they compare names, or whether it is a mark that makes
/// a lookalike of a name.
fn is_ignored_char(c: char) -> bool {
    matches!(
        c,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{0300}'..='\u{036F}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFF8}'
            | '\u{E0000}'..='\u{E0FFF}'
    ) || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str) -> Option<&'static str> {
        find_protection(Path::new(path)).map(|protection| protection.rule)
    }

    #[test]
    fn protected_paths_are_known_in_every_disguise() {
        for (path, expect) in [
            (".git/hooks/pre-commit", ".git/hooks"),
            (".git/commondir", ".git/commondir"),
            (".Git/worktrees/x/gitdir", ".git/commondir"),
            (".GIT/hooks/x", ".git/hooks"),
            (".gi\u{200c}t/config", ".git/config"),
            (".gi\u{301}t/config", ".git/config"),
            (".git /config", ".git/config"),
            (".git::$INDEX_ALLOCATION/config", ".git/config"),
            (
                "vendor/lib/.git/modules/x/hooks/post-checkout",
                ".git/hooks",
            ),
            (".git", ".git"),
            (".claude/settings.json", ".claude"),
            ("sub/.Claude/x", ".claude"),
            (".v\u{17f}code/tasks.json", ".vscode"),
            (".BASHRC", ".bashrc"),
            ("a/.envrc", ".envrc"),
            (".mcp.json", ".mcp.json"),
            (".gitmodules", ".gitmodules"),
            ("bare/repo.git/hooks/post-receive", ".git/hooks"),
            ("repo.GIT/config", ".git/config"),
            (".config/git/config", ".config/git"),
            ("a/.config/fish/config.fish", ".config/fish"),
        ] {
            assert_eq!(rule(path), Some(expect), "{path}");
        }
    }

    #[test]
    fn other_paths_are_free() {
        for path in [
            ".git/info/exclude",
            ".gitignore",
            "src/config",
            "hooks/x",
            ".github/workflows/ci.yml",
            "repo.git",
            "repo.git/description",
            ".config/app/x",
            "",
            "profile",
        ] {
            assert_eq!(rule(path), None, "{path}");
        }
    }
}
