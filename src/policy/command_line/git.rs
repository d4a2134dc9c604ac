//! Commands that git starts, by its settings and by the options of its subcommands.

use super::command::{CommandWord, NOT_WRITTEN_OUT, SimpleCommand};
use super::options::{has_short_option, is_long_option, parse_options};
use super::parse_state::Reason;

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
    "rename-section",
    "templatedir",
];

const GIT_SUBCOMMANDS: &[&str] = &[
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
    "interpret-trailers",
    "log",
    "flow",
    "lfs",
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

const GIT_OPTIONS: &str = "C: c: p P git-dir: work-tree: namespace: super-prefix: attr-source: no-pager paginate \
                           no-replace-objects no-lazy-fetch no-optional-locks no-advice bare literal-pathspecs \
                           glob-pathspecs noglob-pathspecs icase-pathspecs version help";
/// Settings of which the value may be anything.
const PLAIN_SETTINGS: &[&str] = &[
    "user.name",
    "user.email",
    "commit.gpgsign",
    "core.quotepath",
    "color.ui",
    "http.extraheader",
    "init.defaultbranch",
    "safe.directory",
];
/// First words by which `git config` sets nothing.
const READS_SETTINGS: &[&str] = &[
    "get",
    "list",
    "unset",
    "-l",
    "--list",
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--unset",
    "--unset-all",
];
/// Subcommands, the options or words by which they start commands, and the letters of such options. Behind the first
/// three, the commands stand in the words.
const STARTING: &[(&str, &[&str], &str)] = &[
    ("submodule", &["foreach"], ""),
    ("bisect", &["run"], ""),
    ("rebase", &["exec"], "x"),
    ("difftool", &["extcmd"], "x"),
    ("grep", &["open-files-in-pager"], "O"),
    ("clone", &["upload-pack", "template", "config"], "uc"),
    ("init", &["template"], ""),
    ("fetch", &["upload-pack"], ""),
    ("pull", &["upload-pack"], ""),
    ("fetch-pack", &["upload-pack", "exec"], ""),
    ("ls-remote", &["upload-pack", "exec"], ""),
    ("archive", &["exec"], ""),
    ("push", &["receive-pack", "exec"], ""),
    ("send-pack", &["receive-pack", "exec"], ""),
];
const BY_SETTING: Reason = "it sets which command git runs by a name";

/// The place of the first word that may be a command which git starts; none where none is.
///
/// # Errors
/// It starts a command that its words do not tell, or may.
pub(super) fn first_word_git_runs(command: &SimpleCommand) -> Result<Option<usize>, Reason> {
    let words = &command.words[1..];
    let options = match parse_options(GIT_OPTIONS, words) {
        Err(NOT_WRITTEN_OUT) if !words.iter().any(|word| word.text.starts_with("-c")) => {
            return Ok(Some(1));
        }
        parsed => parsed?,
    };
    let (before, arguments) = words.split_at(options.operands);
    let is_unknown = before.iter().any(|word| !word.is_literal);
    let is_program = |setting: &str| {
        let name = setting
            .split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_plain = PLAIN_SETTINGS.contains(&name.as_str());
        !is_plain && (is_unknown || GIT_PROGRAMS.iter().any(|part| name.contains(part)))
    };
    if options
        .given
        .iter()
        .any(|(option, setting)| *option == "c" && is_program(setting))
    {
        return Err(BY_SETTING);
    }
    let Some((subcommand, arguments)) = arguments.split_first() else {
        return Ok(None);
    };
    if subcommand.text == "config" {
        let is_scope =
            |word: &&CommandWord| matches!(word.text.as_str(), "--global" | "--local" | "--system");
        let rest = &arguments[arguments.iter().take_while(is_scope).count()..];
        let first = rest.first().filter(|_| rest.len() > 1);
        let sets = first.is_some_and(|word| !READS_SETTINGS.contains(&word.text.as_str()));
        let may_be_program = first.is_some_and(|word| !word.is_literal)
            || rest.iter().any(|word| is_program(&word.text));
        return if sets && may_be_program {
            Err(BY_SETTING)
        } else {
            Ok(None)
        };
    }
    if arguments.iter().any(|word| word.text.contains("ext::")) {
        return Err(BY_SETTING);
    }
    let starts = |(name, long, short): &&(&str, &[&str], &str)| {
        let is_it = |word: &CommandWord| {
            has_short_option(&word.text, short)
                || long
                    .iter()
                    .any(|long| word.text == *long || is_long_option(&word.text, long))
        };
        *name == subcommand.text && arguments.iter().any(is_it)
    };
    if let Some((name, _, short)) = STARTING.iter().find(starts) {
        let is_open = |word: &CommandWord| {
            let is_bundle = has_short_option(&word.text, short) && word.text.contains(' ');
            is_bundle || !word.is_literal || word.text.contains(['$', '`'])
        };
        let is_unknown = command.is_open_ended || arguments.iter().any(is_open);
        let names_it = matches!(*name, "submodule" | "bisect" | "rebase");
        return if names_it && !is_unknown {
            Ok(Some(1))
        } else {
            Err(NOT_WRITTEN_OUT)
        };
    }
    if !subcommand.is_literal {
        return Ok(Some(1));
    }
    let is_known = GIT_SUBCOMMANDS.contains(&subcommand.text.as_str());
    if is_known {
        Ok(None)
    } else {
        Err("a git command that is not known here may be an alias")
    }
}
