//! Checks whether a file of git's may run programs or lead git to another repository. A configuration with only plain
//! keys does not, each on its own line; nor does one that adds only such keys to the one before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The keys that neither run a program nor lead git to another place.
const PLAIN_KEYS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "sparsecheckout",
            "sparsecheckoutcone",
        ],
    ),
    (
        "extensions",
        &[
            "worktreeconfig",
            "objectformat",
            "refstorage",
            "relativeworktrees",
            "partialclone",
        ],
    ),
    ("user", &["name", "email"]),
    (
        "remote",
        &[
            "url",
            "fetch",
            "pushurl",
            "tagopt",
            "promisor",
            "partialclonefilter",
        ],
    ),
    (
        "branch",
        &[
            "remote",
            "merge",
            "rebase",
            "pushremote",
            "description",
            "vscode-merge-base",
        ],
    ),
    // Not `update`: it may name a command.
    (
        "submodule",
        &["path", "url", "active", "branch", "ignore", "shallow"],
    ),
];

/// Returns whether a file in or beside a repository runs no program that its content before did not run; false for
/// every file by which this cannot be said.
pub(super) fn is_harmless(
    path: &Path,
    text: &str,
    before: Option<&str>,
    roots: &[PathBuf],
) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_below = |folder: &str| path.iter().any(|part| part == folder);
    match &*name {
        "config" | "config.worktree" | ".gitmodules" => {
            let is_module = is_below("modules");
            let old = before
                .map(|before| harmful_lines(before, is_module))
                .unwrap_or_default();
            harmful_lines(text, is_module).is_subset(&old)
        }
        "commondir" => is_below("worktrees") && text.trim_end() == "../..",
        "git-rebase-todo" => text
            .lines()
            .all(|line| !matches!(line.split_whitespace().next(), Some("exec" | "x"))),
        "HEAD" => is_head(text),
        ".git" => is_inner_repository(path, text, roots),
        _ => false,
    }
}

/// Returns whether git creates a file of this name empty and then writes it. An empty one is no repository; what is written
/// is a change of its own.
pub(super) fn is_created_empty(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == "commondir" || name == "HEAD" || name == ".git")
}

/// Returns whether git takes this for the content of HEAD.
pub(super) fn is_head(text: &str) -> bool {
    let text = text.trim_end();
    let is_id =
        || matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.strip_prefix("ref:")
        .is_some_and(|name| name.trim_start().starts_with("refs/"))
        || is_id()
}

/// Returns whether the `.git` file of a working tree or a submodule names a repository within another one of the
/// workspaces, where its configuration is checked.
fn is_inner_repository(path: &Path, text: &str, roots: &[PathBuf]) -> bool {
    let (Some(folder), Some(target)) = (path.parent(), text.strip_prefix("gitdir: ")) else {
        return false;
    };
    let target = folder.join(target.trim_end_matches('\n')).canonicalize();
    target.is_ok_and(|target| {
        let parts: Vec<_> = target.iter().collect();
        roots.iter().any(|root| target.starts_with(root))
            && parts
                .windows(2)
                .any(|pair| pair[0] == ".git" && (pair[1] == "worktrees" || pair[1] == "modules"))
    })
}

/// Returns a configuration without the lines that make it harmful; `None` for every other file.
pub(super) fn without_harmful_lines(
    path: &Path,
    text: &str,
    before: Option<&str>,
) -> Option<String> {
    if !["config", "config.worktree", ".gitmodules"]
        .iter()
        .any(|name| path.ends_with(name))
    {
        return None;
    }
    let is_module = path.iter().any(|part| part == "modules");
    let old = harmful_lines(before.unwrap_or_default(), is_module);
    let lines = split_lines(text, is_module).into_iter();
    let kept = lines.filter(|(_, harmful)| harmful.as_ref().is_none_or(|line| old.contains(line)));
    Some(kept.map(|(raw, _)| raw + "\n").collect())
}

/// Returns the lines of a configuration that have other than plain keys, each with the line of its section.
fn harmful_lines(text: &str, is_module: bool) -> BTreeSet<(String, String)> {
    split_lines(text, is_module)
        .into_iter()
        .filter_map(|(_, harmful)| harmful)
        .collect()
}

/// Splits a configuration into its lines, each as it is written, and with its section where its key is not plain.
fn split_lines(text: &str, is_module: bool) -> Vec<(String, Option<(String, String)>)> {
    let mut keys: &[&str] = &[];
    let mut section = String::new();
    let mut is_core = false;
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let mut raw = first.to_owned();
        let is_comment = first.trim().is_empty() || first.trim_start().starts_with(['#', ';']);
        // A continued line is one with the next, whatever that looks like.
        while !is_comment && raw.trim_end().ends_with('\\') {
            raw.push('\n');
            match lines.next() {
                Some(next) => raw.push_str(next),
                None => break,
            }
        }
        let line = raw.trim().to_owned();
        let (key, value) = line.split_once('=').unwrap_or((&line, ""));
        let key = key.trim().to_ascii_lowercase();
        let harmful = if is_comment {
            None
        } else if line.starts_with('[') {
            let name = section_name(&line).unwrap_or_default().to_ascii_lowercase();
            let known = PLAIN_KEYS.iter().find(|(section, _)| *section == name);
            keys = known.map_or(&[], |(_, keys)| keys);
            is_core = name == "core";
            section.clone_from(&line);
            // A key may follow on the same line.
            section_name(&line)
                .is_none()
                .then(|| (String::new(), line.clone()))
        } else {
            let is_known =
                keys.contains(&key.as_str()) || is_module && is_core && key == "worktree";
            // Transports like `ext::` name a program.
            let is_plain =
                is_known && line.contains('=') && !value.contains("::") && !value.contains('\n');
            (!is_plain).then(|| (section.clone(), line.clone()))
        };
        found.push((raw, harmful));
    }
    found
}

/// Returns the name of `[name]` or `[name "part"]`, or `None` if anything follows it. Git never writes a key or a
/// comment on the line of its section.
fn section_name(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?;
    let (name, rest) = inner.split_at(inner.find([' ', '\t', '"', ']'])?);
    let rest = rest.trim_start_matches([' ', '\t']);
    let rest = match rest.strip_prefix('"') {
        None => rest,
        Some(part) => {
            let mut escaped = false;
            let end = part.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })?;
            &part[end + 1..]
        }
    };
    (rest == "]").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_plain_while_it_runs_nothing() {
        let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n# note\n[user]\n\tname = a\n\
                     [remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                     [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
        let is_plain = |text: &str| harmful_lines(text, false).is_empty();
        assert!(is_plain(fresh) && is_plain(""));
        assert!(is_plain(
            "[remote \"a \\\"]b\"]\n\turl = x\n[branch\t\"]\"]\n\tmerge = y"
        ));
        for more in [
            "[core]\n\thooksPath = x",
            "[core]\n\tFSMonitor = x",
            "[Core] sshCommand = x",
            "[core] fsmonitor = \"x\" #]",
            "[core]fsmonitor = x;]",
            "[remote \"o\"] proxy = \"]",
            "[remote \"o\\\"]\"] uploadpack = x #]",
            "[remote \"o",
            "[remote o]",
            "[core",
            "[remote \"o\"]\n\tuploadpack = x",
            "[remote \"o\"]\n\turl = ext::sh -c x",
            "[user]\n\tname = a\\\n\tpager",
            "[filter \"x\"]\n\tclean = x",
            "[include]\n\tpath = x",
            "[user]\n\tname",
            "pager = x",
        ] {
            assert!(!is_plain(&format!("{fresh}{more}\n")), "{more}");
        }
        assert!(!is_plain("pager = x\n"), "before any section");
    }

    #[test]
    fn a_file_is_harmless_that_adds_nothing_to_the_one_before() {
        let is_harmless = |path: &str, text: &str, before: Option<&str>| {
            is_harmless(Path::new(path), text, before, &[])
        };
        let owners = "[alias]\n\tx = !f \\\n[core]\n\tpager = less\n";
        let more = format!("{owners}[remote \"o\"]\n\turl = https://x.example/y\n");
        assert!(
            is_harmless("a/.git/config", &more, Some(owners))
                && !is_harmless("a/.git/config", &more, None)
        );
        assert!(
            !is_harmless("a/.git/config", "[core]\n\tpager = less\n", Some(owners)),
            "it was a part of the alias"
        );
        let evil =
            format!("{more}[core] fsmonitor = x\n\tpager = y\n[user]\n\tname = n\n\tpager = z\n");
        let stripped = without_harmful_lines(Path::new(".git/config"), &evil, Some(owners));
        assert_eq!(stripped, Some(format!("{more}[user]\n\tname = n\n")));
        let module = "[core]\n\tworktree = ../../../sub\n";
        assert!(
            is_harmless(".git/modules/sub/config", module, None)
                && !is_harmless(".git/config", module, None)
        );
        assert!(!is_harmless(
            ".gitmodules",
            "[submodule \"x\"]\n\tupdate = !evil\n",
            None
        ));
        assert!(is_harmless(".git/worktrees/x/commondir", "../..\n", None));
        assert!(!is_harmless(".git/commondir", "../..\n", None));
        assert!(is_harmless(
            ".git/rebase-merge/git-rebase-todo",
            "pick 1 x\n# exec y\n",
            None
        ));
        assert!(!is_harmless(
            ".git/rebase-merge/git-rebase-todo",
            "pick 1\n x evil\n",
            None
        ));
        assert!(
            is_head("ref: refs/heads/x\n")
                && is_head(&"a".repeat(40))
                && !is_head("garbage\n")
                && !is_head("")
        );
        assert!(!is_harmless(".git/hooks/pre-commit", "", None));
    }
}
