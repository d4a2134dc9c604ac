//! Protected paths inside a workspace, which file tools never write because they can run code later or weaken
//! protections. Not here: the effects of shell commands on them (local::protected_path_watch).

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use punie_tool::{ErrorCode, ToolError};

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
const PACKAGES: &str = "a package manager runs what is configured there";
const TOOLS: &str = "a tool manager runs what is configured there";
const CARGO: &str = "cargo, which an editor starts, runs what is configured there";
/// The reason for git's configuration.
pub(crate) const GIT: &str = "git runs what is configured there";
/// The reason for git's hooks.
pub(crate) const HOOKS: &str = "git runs what is in there";
/// The reason for `.git` itself.
pub(crate) const REPOSITORY: &str = "it says where the repository is";
/// The reason for a folder that git takes for a repository although it is not named `.git`.
const BARE: &str = "git takes a folder with HEAD, objects and refs for a repository, and runs what its config names";

/// The files and folders of a repository by which git runs programs or finds another repository.
pub(crate) const GIT_PATHS: &[(&str, &str)] = &[
    ("config", GIT),
    ("config.worktree", GIT),
    ("commondir", GIT),
    ("info/attributes", GIT),
    ("hooks", HOOKS),
    (
        REBASE_TODO,
        "git runs the commands in it when the rebase continues",
    ),
];
/// The list of steps of a rebase.
pub(crate) const REBASE_TODO: &str = "rebase-merge/git-rebase-todo";

/// The folder in an agent's configuration in which the agent puts working trees, one in each subfolder.
const WORKING_TREES: &str = "worktrees";

/// The folders of agents' configuration, anywhere in the workspace. Working trees in them are no part of it.
const AGENT_FOLDERS: &[(&str, &str)] = &[
    (".claude", AGENT),
    (".codex", AGENT),
    (".cursor", AGENT),
    (".gemini", AGENT),
    (".opencode", AGENT),
    (".kiro", AGENT),
    (".roo", AGENT),
    (".windsurf", AGENT),
    (".continue", AGENT),
    (".amazonq", AGENT),
    (".qwen", AGENT),
    (".trae", AGENT),
    (".junie", AGENT),
    (".augment", AGENT),
    (".cline", AGENT),
];

/// Other folders that are protected with all their content, anywhere in the workspace.
const FOLDERS: &[(&str, &str)] = &[
    (".vscode", EDITOR),
    (".idea", EDITOR),
    (".helix", EDITOR),
    (".zed", EDITOR),
    (".devcontainer", EDITOR),
    (".fleet", EDITOR),
    (".mise", TOOLS),
    (".punie", "it configures this runner"),
];

/// Files that are protected anywhere in the workspace.
const FILES: &[(&str, &str)] = &[
    (".gitmodules", GIT),
    (".gitconfig", GIT),
    (".envrc", "direnv runs it on entering the folder"),
    (".autoenv.zsh", "a shell runs it on entering the folder"),
    (".mcp.json", AGENT),
    ("mcp.json", AGENT),
    ("opencode.json", AGENT),
    ("opencode.jsonc", AGENT),
    ("crush.json", AGENT),
    (".crush.json", AGENT),
    (".aider.conf.yml", AGENT),
    (".exrc", EDITOR),
    (".vimrc", EDITOR),
    (".gvimrc", EDITOR),
    (".nvimrc", EDITOR),
    (".emacs", EDITOR),
    (".nvim.lua", EDITOR),
    (".lazy.lua", EDITOR),
    (".dir-locals.el", EDITOR),
    ("mise.toml", TOOLS),
    (".mise.toml", TOOLS),
    ("mise.local.toml", TOOLS),
    (".mise.local.toml", TOOLS),
    (".devcontainer.json", EDITOR),
    (".yarnrc", PACKAGES),
    (".yarnrc.yml", PACKAGES),
    (".npmrc", PACKAGES),
    (".pnpmfile.cjs", PACKAGES),
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

/// Paths of two or three names.
const NESTED: &[(&str, &str)] = &[
    (".config/fish", SHELL),
    (".config/git", GIT),
    (".config/mise", TOOLS),
    (".sl/config", "Sapling runs what is configured there"),
    (
        ".jj/repo/config.toml",
        "Jujutsu runs what is configured there",
    ),
    (".hg/hgrc", "Mercurial runs what is configured there"),
    (".cargo/config", CARGO),
    (".cargo/config.toml", CARGO),
];

/// The endings of files that are protected anywhere in the workspace.
const SUFFIXES: &[(&str, &str)] = &[(".code-workspace", EDITOR)];

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
        let nested = || {
            let mut depths = 1..=within.len().min(2);
            depths.find_map(|depth| find(NESTED, &format!("{name}/{}", within[..depth].join("/"))))
        };
        let is_in_working_tree =
            within.len() > 1 && within.first().is_some_and(|name| name == WORKING_TREES);
        // A file's name protects also if a parent folder has that name.
        let (rule, why) = find(AGENT_FOLDERS, name)
            .filter(|_| !is_in_working_tree)
            .or_else(|| find(FOLDERS, name))
            .or_else(|| find_repository_rule(name, within))
            .or_else(nested)
            .or_else(|| find(FILES, name))
            .or_else(|| find_suffix(name))?;
        Some(PathProtection { rule, why })
    })
}

/// Returns the folder of working trees in a protected folder, if an agent may put some there.
pub(crate) fn working_trees_in(folder: &Path) -> Option<PathBuf> {
    let is_agents = AGENT_FOLDERS.iter().any(|(name, _)| folder.ends_with(name));
    is_agents.then(|| folder.join(WORKING_TREES))
}

/// Makes the folder of working trees in an agent's configuration in this folder, if a command names it: the command cannot
/// make it, because the configuration around it is covered.
pub(crate) fn make_named_working_trees(folder: &Path, command: &str) {
    for (name, _) in AGENT_FOLDERS {
        let agents = folder.join(name);
        let is_named = command.contains(&format!("{name}/{WORKING_TREES}"));
        if is_named && std::fs::symlink_metadata(&agents).is_ok_and(|found| found.is_dir()) {
            // It may be there already. If it cannot be made, the command will say so.
            let _ = std::fs::create_dir(agents.join(WORKING_TREES));
        }
    }
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
        Some("attributes") if within.len() > 1 => Some((".git/info/attributes", GIT)),
        Some(_) => None,
    }
}

/// Returns the rule for git's own state: all below a `.git` but `info/exclude`.
pub fn find_git_state(rel: &Path) -> Option<PathProtection> {
    let names: Vec<String> = rel.iter().map(fold_name).collect();
    let git = names
        .iter()
        .position(|name| name == ".git" || name == "git~1")?;
    let why = "git keeps its own state there";
    (names[git + 1..] != ["info", "exclude"]).then_some(PathProtection { rule: ".git", why })
}

/// Returns the rule for writing a path by which a folder would become a repository that is not named `.git`, or for
/// changing such a repository. Checks existing paths with `exists`.
pub fn find_bare_repository(rel: &Path, exists: impl Fn(&Path) -> bool) -> Option<PathProtection> {
    const PARTS: &[&str] = &["head", "objects", "refs", "config", "commondir", "hooks"];
    let mut folder = PathBuf::new();
    for part in rel.components() {
        let name = fold_name(part.as_os_str());
        if PARTS.contains(&name.as_str()) {
            let has =
                |other: &str| other.eq_ignore_ascii_case(&name) || exists(&folder.join(other));
            if is_repository(has) {
                return Some(PathProtection {
                    rule: ".git",
                    why: BARE,
                });
            }
        }
        folder.push(part);
    }
    None
}

/// Returns whether git takes a folder with these names for a repository.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

/// Returns whether a change of this path may be a change of a protected path. The list of a rebase's steps does not
/// count: git changes it at each step.
pub(crate) fn may_concern(path: &Path) -> bool {
    let mut names = path.iter().rev().map(fold_name);
    let last = names.next().unwrap_or_default();
    let parent = names.next().unwrap_or_default();
    let is_end = |rule: &str, name: &str| rule.rsplit('/').next() == Some(name);
    let mut git = GIT_PATHS.iter().filter(|(rule, _)| *rule != REBASE_TODO);
    ["head", ".git"].contains(&last.as_str())
        || parent == "hooks"
        || git.any(|(rule, _)| is_end(rule, &last))
        || protected_names().any(|(rule, _)| is_end(rule, &last) || is_end(rule, &parent))
        || find_suffix(&last).is_some()
}

/// Returns the protected names with their reasons, except those within a repository and those of which only the
/// ending is fixed.
pub(crate) fn protected_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let folders = AGENT_FOLDERS.iter().chain(FOLDERS);
    folders.chain(FILES).chain(NESTED).copied()
}

/// Returns the rule for a name that has a protected ending.
pub(crate) fn find_suffix(name: &str) -> Option<(&'static str, &'static str)> {
    SUFFIXES
        .iter()
        .find(|(suffix, _)| name.ends_with(suffix))
        .copied()
}

/// Normalizes a name as the most lenient file system compares it. Removes case, invisible and combining characters, a
/// trailing dot or blank (Windows) and the name of a stream.
pub(crate) fn fold_name(name: &OsStr) -> String {
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
            (".claude/worktrees", ".claude"),
            (".cursor/worktrees.json", ".cursor"),
            (".claude/agents/worktrees/x/y", ".claude"),
            (".claude/worktrees/x/.claude/settings.json", ".claude"),
            (".codex/worktrees/x/sub/.claude/y", ".claude"),
            (".claude/worktrees/x/.git", ".git"),
            (".claude/worktrees/x/.envrc", ".envrc"),
            (".vscode/worktrees/x/y", ".vscode"),
            (".punie/worktrees/x/y", ".punie"),
            (".v\u{17f}code/tasks.json", ".vscode"),
            (".BASHRC", ".bashrc"),
            ("a/.envrc", ".envrc"),
            (".mcp.json", ".mcp.json"),
            (".gitmodules", ".gitmodules"),
            ("bare/repo.git/hooks/post-receive", ".git/hooks"),
            ("repo.GIT/config", ".git/config"),
            (".config/git/config", ".config/git"),
            ("a/.config/fish/config.fish", ".config/fish"),
            (".hg/hgrc", ".hg/hgrc"),
            ("my.code-workspace", ".code-workspace"),
            ("web/.npmrc", ".npmrc"),
            ("mise.local.toml", "mise.local.toml"),
            (".mise/config.toml", ".mise"),
            (".config/mise/config.toml", ".config/mise"),
            (".sl/config", ".sl/config"),
            (".jj/repo/config.toml", ".jj/repo/config.toml"),
            (".qwen/settings.json", ".qwen"),
            (".crush.json", ".crush.json"),
            ("mcp.json", "mcp.json"),
            (".fleet/run.json", ".fleet"),
            (".VIMRC", ".vimrc"),
            ("sub/.cargo/config.toml", ".cargo/config.toml"),
            (".git/info/attributes", ".git/info/attributes"),
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
            ".claude/worktrees/x/src/main.rs",
            ".Codex/Worktrees/1234/project/a",
            "sub/.gemini/worktrees/x/y",
            ".claude/worktrees/x/.codex/worktrees/y/z",
            "hooks/x",
            ".github/workflows/ci.yml",
            "repo.git",
            "repo.git/description",
            ".config/app/x",
            ".hg/store",
            ".jj/repo/store/x",
            ".sl/store",
            ".cargo/registry/x",
            ".config/mise.toml.bak",
            "CLAUDE.md",
            ".env",
            "",
            "profile",
        ] {
            assert_eq!(rule(path), None, "{path}");
        }
    }

    #[test]
    fn of_gits_own_state_only_the_list_of_ignored_files_is_free() {
        let is_state = |path: &str| find_git_state(Path::new(path)).is_some();
        assert!(is_state(".git/HEAD") && is_state("a/.GIT/rebase-merge/git-rebase-todo"));
        assert!(
            !is_state(".git/info/exclude")
                && !is_state("a/repo.git/description")
                && !is_state(".gitignore")
        );
    }

    #[test]
    fn a_folder_becomes_no_repository_by_its_last_part() {
        let rule = |path: &str, there: &[&str]| {
            find_bare_repository(Path::new(path), |other| {
                there.iter().any(|name| Path::new(name) == other)
            })
            .is_some()
        };
        let all = ["a/HEAD", "a/objects", "a/refs"];
        for path in [
            "a/HEAD",
            "a/objects/x",
            "a/refs/x",
            "a/config",
            "a/hooks/x",
            "a/commondir",
        ] {
            assert!(rule(path, &all), "{path}");
        }
        assert!(
            rule("HEAD", &["commondir"])
                && rule("commondir", &["HEAD"])
                && rule("refs/x", &["HEAD", "objects"])
        );
        assert!(
            !rule("a/other", &all) && !rule("b/config", &all) && !rule("a/refs/x", &["a/objects"])
        );
    }
}
