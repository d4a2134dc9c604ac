//! What git is told to run, by its settings and by the options of its subcommands. Not here: other programs.

use super::interpreters::NOT_WRITTEN_OUT;
use super::tools::{has_letter, is_long};
use super::{Simple, Word, quoted};

/// Parts of the names of git's settings by which it runs commands, or lets others be run.
const GIT_PROGRAMS: &[&str] = &[
    "alias.",
    "pager",
    "editor",
    "command",
    "helper",
    "external",
    "textconv",
    "cmd",
    "hook",
    "fsmonitor",
    "program",
    "filter.",
    "driver",
    "askpass",
    "proxy",
    "uploadpack",
    "receivepack",
    "include",
    "autocorrect",
    "protocol.",
    ".update",
    "insteadof",
    ".vcs",
    "browser",
    "difffilter",
    "tool.",
    "tunnel",
    "smtpserver",
    "instaweb.",
    "templatedir",
];

/// Options of git's own whose value follows.
const VALUED: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--attr-source",
];

/// Subcommands whose words are no subcommand of git's again, or are looked at here.
const KNOWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "index-pack",
    "init",
    "instaweb",
    "interpret-trailers",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "maintenance",
    "merge",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mergetool",
    "mktag",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-email",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-objects",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

/// Subcommands, and the options of theirs by which they run a program: long ones, and the letters of short ones.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    ("difftool", &["extcmd"], "x"),
    ("grep", &["open-files-in-pager"], "O"),
    ("clone", &["upload-pack", "template"], "u"),
    ("init", &["template"], ""),
    ("fetch", &["upload-pack"], ""),
    ("pull", &["upload-pack"], ""),
    ("fetch-pack", &["upload-pack", "exec"], ""),
    ("ls-remote", &["upload-pack", "exec"], ""),
    ("archive", &["exec"], ""),
    ("push", &["receive-pack", "exec"], ""),
    ("send-pack", &["receive-pack", "exec"], ""),
    ("send-email", &["sendmail-cmd", "smtp-server", "to-cmd", "cc-cmd", "header-cmd"], ""),
    ("instaweb", &["httpd", "browser"], "db"),
];
const BY_OPTION: &str = "one of its options starts a command";

/// Whether words of git's set what it runs: an alias, a pager, a helper.
pub(super) fn sets_git_program(words: &[Word]) -> bool {
    let runs = |text: &str| {
        let name = text.split('=').next().unwrap_or_default().to_ascii_lowercase();
        GIT_PROGRAMS.iter().any(|part| name.contains(part))
    };
    let is_unclear = |word: &Word| {
        let name = word.raw.split('=').next().unwrap_or_default().trim_start_matches(['"', '\'']);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_/:".contains(c);
        !word.literal && (!word.text.contains('=') || !name.chars().all(is_plain))
    };
    // `clone` knows this one in a bundle of others, too; and its long one by its beginning.
    let clones = words.iter().any(|word| word.text == "clone");
    let bundled = |text: &str| -> Option<String> {
        let letters = text.strip_prefix('-').filter(|letters| clones && !letters.starts_with('-'))?;
        letters.split_once('c').map(|(_, rest)| rest.to_owned())
    };
    let is_setting = |text: &str| {
        let is_whole = text == "-c" || (!text.contains('=') && is_long(text, "config"));
        is_whole || bundled(text).is_some_and(|rest| rest.is_empty())
    };
    let value = |pair: &[Word]| is_setting(&pair[0].text) && (is_unclear(&pair[1]) || runs(&pair[1].text));
    let attached = |word: &Word| {
        let long = word.text.split_once('=').filter(|_| is_long(&word.text, "config")).map(|(_, rest)| rest);
        let rest = long.or_else(|| word.text.strip_prefix("-c")).map(str::to_owned);
        rest.or_else(|| bundled(&word.text)).is_some_and(|rest| rest.contains('.') && runs(&rest))
    };
    words.windows(2).any(value)
        || words.iter().any(attached)
        || words.iter().position(|word| word.text == "config").is_some_and(|at| {
            let words = &words[at + 1..];
            let renames =
                |word: &Word| word.text == "rename-section" || is_long(&word.text, "rename-section");
            words.iter().any(renames)
                || (sets(words) && words.iter().any(|word| word.text.contains('.') && runs(&word.text)))
        })
        || words.iter().any(|word| {
            let text = word.text.to_ascii_lowercase();
            text.contains("alias.") || text.contains("--config-env")
        })
}

/// Whether `git config` with these words may set something: not with a name alone, nor where an option or a word that
/// says so stands before the name.
fn sets(words: &[Word]) -> bool {
    const ALONE: &[&str] = &[
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--bool",
        "--int",
        "--path",
        "--null",
        "-z",
        "--all",
        "--name-only",
        "--includes",
        "--no-includes",
        "--show-scope",
        "--show-origin",
        "--fixed-value",
    ];
    if words.iter().filter(|word| !word.text.starts_with('-')).count() < 2 {
        return false;
    }
    if words.first().is_some_and(|word| matches!(word.text.as_str(), "get" | "list" | "unset")) {
        return false;
    }
    let mut at = 0;
    while let Some(text) = words.get(at).filter(|word| word.literal).map(|word| word.text.as_str()) {
        at += match text {
            "-l" | "--list" | "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "--unset"
            | "--unset-all" => return false,
            "--file" | "-f" | "--blob" | "--type" | "--default" => 2,
            // Any other may be followed by a value of its own.
            text if ALONE.contains(&text) || (text.starts_with("--") && text.contains('=')) => 1,
            _ => return true,
        };
    }
    true
}

/// The texts that a git command runs as command lines. Where it runs something that is not written out, it says so in
/// the command.
pub(super) fn scripts(simple: &mut Simple) -> Vec<String> {
    let mut texts = Vec::new();
    for (command, action) in [("submodule", "foreach"), ("bisect", "run")] {
        let Some(at) = place(simple, command).and_then(|_| place(simple, action)) else { continue };
        let rest = simple.words.get(at + 1..).unwrap_or_default();
        let rest: Vec<&Word> = rest.iter().skip_while(|word| word.text.starts_with('-')).collect();
        let is_unclear = simple.open_end || rest.iter().any(|word| !word.literal);
        // One word is a command line, more are words of one.
        texts.push(match rest.as_slice() {
            [one] => one.text.clone(),
            more => more.iter().map(|word| quoted(&word.text)).collect::<Vec<_>>().join(" "),
        });
        texts.push(rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
        if is_unclear {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
    }
    if place(simple, "rebase").is_some() {
        texts.extend(rebased(simple));
    }
    let is_started = |(command, long, short): &(&str, &[&str], &str)| {
        let is_it = |word: &Word| {
            long.iter().any(|option| is_long(&word.text, option)) || has_letter(&word.text, short)
        };
        place(simple, command).is_some() && simple.words[1..].iter().any(is_it)
    };
    let elsewhere = |word: &Word| word.text.contains("ext::") || word.text.starts_with("--exec-path=");
    if OPTIONS.iter().any(is_started)
        || place(simple, "filter-branch").is_some()
        || simple.words.iter().any(elsewhere)
    {
        simple.opaque = Some(BY_OPTION);
    }
    texts
}

/// A subcommand that is not known here may start another one, which then is among its words: the place of these, and the
/// command that they may be.
pub(super) fn unknown(simple: &Simple) -> Option<(usize, Simple)> {
    let mut at = 1;
    while let Some(word) = simple.words.get(at).filter(|word| word.text.starts_with('-')) {
        at += if VALUED.contains(&word.text.as_str()) { 2 } else { 1 };
    }
    let command = simple.words.get(at)?;
    if command.literal && KNOWN.contains(&command.text.as_str()) {
        return None;
    }
    let rest = simple.words.get(at + 1..).unwrap_or_default();
    let words = std::iter::once(Word::literally("git")).chain(rest.iter().cloned()).collect();
    Some((at + 1, Simple { words, open_end: simple.open_end, ..Simple::default() }))
}

fn place(simple: &Simple, wanted: &str) -> Option<usize> {
    simple.words.iter().position(|word| word.text == wanted)
}

/// What `git rebase --exec TEXT` runs.
fn rebased(simple: &mut Simple) -> Vec<String> {
    let mut texts = Vec::new();
    let mut unclear = false;
    let mut words = simple.words.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        // In a bundle the rest of it is the text, if there is one.
        let bundled = if has_letter(text, "x") { text.split_once('x').map(|(_, rest)| rest) } else { None };
        let attached = text.strip_prefix("--exec=").or(bundled);
        match attached {
            Some(text) if !text.is_empty() => {
                texts.push(text.to_owned());
                unclear |= !word.literal;
            }
            _ if text == "--exec" || attached.is_some() => {
                if let Some(script) = words.next() {
                    texts.push(script.text.clone());
                    unclear |= !script.literal;
                }
            }
            // A beginning of the long option is one, too.
            _ => unclear |= text.starts_with("--ex"),
        }
    }
    if unclear {
        simple.opaque = Some(NOT_WRITTEN_OUT);
    }
    texts
}
