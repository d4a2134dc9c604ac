//! Commands that git starts through its settings and the options of its subcommands.

use super::command::{CommandWord, NOT_WRITTEN_OUT, SimpleCommand};
use super::options::{has_short_option, is_long_option, parse_options};
use super::parse_state::Reason;

/// Parts of the names of git settings that run commands, or allow others to be run.
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
/// Settings that are harmless with any value.
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
/// First arguments with which `git config` sets nothing.
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
/// A subcommand that starts commands through these options or words, or these short option letters.
struct StartingSubcommand {
    name: &'static str,
    long: &'static [&'static str],
    short: &'static str,
}

const fn starting(
    name: &'static str,
    long: &'static [&'static str],
    short: &'static str,
) -> StartingSubcommand {
    StartingSubcommand { name, long, short }
}

const STARTING: &[StartingSubcommand] = &[
    starting("submodule", &["foreach"], ""),
    starting("bisect", &["run"], ""),
    starting("rebase", &["exec"], "x"),
    starting("difftool", &["extcmd"], "x"),
    starting("grep", &["open-files-in-pager"], "O"),
    starting("clone", &["upload-pack", "template", "config"], "uc"),
    starting("init", &["template"], ""),
    starting("fetch", &["upload-pack"], ""),
    starting("pull", &["upload-pack"], ""),
    starting("fetch-pack", &["upload-pack", "exec"], ""),
    starting("ls-remote", &["upload-pack", "exec"], ""),
    starting("archive", &["exec"], ""),
    starting("push", &["receive-pack", "exec"], ""),
    starting("send-pack", &["receive-pack", "exec"], ""),
];
const BY_SETTING: Reason = "it sets which command git runs by a name";

/// The index of the first word that may be a command which git starts; `None` if there is none.
///
/// # Errors
/// It starts, or may start, a command that its words do not determine.
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
    let mut settings = options.given.iter().filter(|(option, _)| *option == "c");
    if settings.any(|(_, setting)| names_program(setting, is_unknown)) {
        return Err(BY_SETTING);
    }
    let Some((subcommand, arguments)) = arguments.split_first() else {
        return Ok(None);
    };
    if subcommand.text == "config" {
        return if config_sets_program(arguments, is_unknown) {
            Err(BY_SETTING)
        } else {
            Ok(None)
        };
    }
    if arguments.iter().any(|word| word.text.contains("ext::")) {
        return Err(BY_SETTING);
    }
    if let Some(starting) = StartingSubcommand::find(&subcommand.text, arguments) {
        return if starting.commands_are_words() && !starting.is_unknown(command, arguments) {
            Ok(Some(1))
        } else {
            Err(NOT_WRITTEN_OUT)
        };
    }
    if !subcommand.is_literal {
        return Ok(Some(1));
    }
    if GIT_SUBCOMMANDS.contains(&subcommand.text.as_str()) {
        Ok(None)
    } else {
        Err("a git command that is not known here may be an alias")
    }
}

/// Returns whether a setting `NAME=VALUE` may name a command. After unknown words any setting may,
/// unless it is harmless.
fn names_program(setting: &str, is_unknown: bool) -> bool {
    let name = setting.split('=').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let is_plain = PLAIN_SETTINGS.contains(&name.as_str());
    !is_plain && (is_unknown || GIT_PROGRAMS.iter().any(|part| name.contains(part)))
}

/// Returns whether `git config` with these arguments may set a command.
fn config_sets_program(arguments: &[CommandWord], is_unknown: bool) -> bool {
    let is_scope =
        |word: &&CommandWord| matches!(word.text.as_str(), "--global" | "--local" | "--system");
    let rest = &arguments[arguments.iter().take_while(is_scope).count()..];
    let [first, _, ..] = rest else {
        return false;
    };
    let sets = !READS_SETTINGS.contains(&first.text.as_str());
    let mut words = rest.iter();
    sets && (!first.is_literal || words.any(|word| names_program(&word.text, is_unknown)))
}

impl StartingSubcommand {
    /// Returns whether the commands are the arguments themselves.
    fn commands_are_words(&self) -> bool {
        matches!(self.name, "submodule" | "bisect" | "rebase")
    }

    /// Finds the subcommand if one of its arguments makes it start a command.
    fn find(name: &str, arguments: &[CommandWord]) -> Option<&'static Self> {
        let starting = STARTING.iter().find(|starting| starting.name == name)?;
        let starts = |word: &CommandWord| {
            let mut long = starting.long.iter();
            has_short_option(&word.text, starting.short)
                || long.any(|long| word.text == *long || is_long_option(&word.text, long))
        };
        arguments.iter().any(starts).then_some(starting)
    }

    /// Returns whether the started commands are not literal.
    fn is_unknown(&self, command: &SimpleCommand, arguments: &[CommandWord]) -> bool {
        let is_open = |word: &CommandWord| {
            let is_bundle = has_short_option(&word.text, self.short) && word.text.contains(' ');
            is_bundle || !word.is_literal || word.text.contains(['$', '`'])
        };
        command.is_open_ended || arguments.iter().any(is_open)
    }
}
