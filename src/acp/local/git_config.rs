//! Checks whether a git configuration may run programs: one with only plain keys, each on its own line, does not. Not
//! here: the choice of configurations to check (the watch of protected paths).

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The longest configuration that is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 64 << 10;

/// Reads a small regular file. Never blocks on a FIFO.
fn read_small_file(path: &Path) -> Option<String> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    if !file
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() < MAX_CONFIG_BYTES)
    {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_CONFIG_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns whether a file is a configuration by which git runs no program; false if unknown.
pub(super) fn runs_no_programs(path: &Path) -> bool {
    read_small_file(path).is_some_and(|text| has_only_plain_keys(&text))
}

/// Returns whether a configuration has only keys that neither run a program nor lead git to another place.
fn has_only_plain_keys(text: &str) -> bool {
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
            ],
        ),
        ("user", &["name", "email"]),
        ("remote", &["url", "fetch"]),
        ("branch", &["remote", "merge", "rebase"]),
    ];
    let mut keys: &[&str] = &[];
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .all(|line| {
            if line.starts_with('[') {
                let name = section_name(line).unwrap_or_default().to_ascii_lowercase();
                let known = PLAIN_KEYS.iter().find(|(section, _)| *section == name);
                keys = known.map_or(&[], |(_, keys)| keys);
                return known.is_some();
            }
            let Some((key, value)) = line.split_once('=') else {
                return false;
            };
            let key = key.trim().to_ascii_lowercase();
            // Transports like `ext::` name a program, and a continued line could hold anything.
            keys.contains(&key.as_str()) && !value.contains("::") && !value.ends_with('\\')
        })
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
        assert!(has_only_plain_keys(fresh) && has_only_plain_keys(""));
        assert!(has_only_plain_keys(
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
            assert!(!has_only_plain_keys(&format!("{fresh}{more}\n")), "{more}");
        }
        assert!(!has_only_plain_keys("pager = x\n"), "before any section");
    }
}
