//! Commands that a program may start although it is no wrapper that is known here: what follows in its words may be one,
//! and so may a text that it hands to a shell. Not here: wrappers, whose command is certain.

use super::found::Found;
use super::interpreters::{NOT_WRITTEN_OUT, Program, is_shell, program};
use super::languages::{NOT_READ, is_interpreter};
use super::names::known_name;
use super::tools::{has_letter, is_long};
use super::unfold::{nested, walked};
use super::{Simple, Word, git};
use crate::policy::rule::FOLDS_CASE;

/// Programs and builtins that start nothing that is named in their words.
const QUIET: &[&str] = &[
    "echo",
    "printf",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "cat",
    "bat",
    "head",
    "tail",
    "less",
    "more",
    "wc",
    "ls",
    "tree",
    "stat",
    "file",
    "du",
    "df",
    "cd",
    "pushd",
    "popd",
    "mkdir",
    "rmdir",
    "cp",
    "mv",
    "rm",
    "ln",
    "touch",
    "chmod",
    "chown",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "which",
    "whereis",
    "whatis",
    "type",
    "info",
    "man",
    "help",
    "hash",
    "test",
    "[",
    "true",
    "false",
    ":",
    "pwd",
    "sort",
    "uniq",
    "cut",
    "tr",
    "tee",
    "diff",
    "cmp",
    "comm",
    "paste",
    "seq",
    "date",
    "sleep",
    "kill",
    "pgrep",
    "pkill",
    "killall",
    "export",
    "unset",
    "declare",
    "typeset",
    "local",
    "readonly",
    "read",
    "set",
    "shift",
    "shopt",
    "return",
    "exit",
    "break",
    "continue",
    "alias",
    "unalias",
    "jq",
    "yq",
    "sed",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "make",
    "ninja",
    "just",
    "wait",
    "jobs",
    "trap",
    "umask",
    "ulimit",
    "source",
    ".",
    "command",
    "let",
];
/// Programs whose first word is theirs, whatever else it is the name of.
const WITH_SUBCOMMANDS: &[&str] = &[
    "cargo",
    "npm",
    "yarn",
    "pnpm",
    "docker",
    "podman",
    "kubectl",
    "apt",
    "apt-get",
    "brew",
    "pip",
    "pip3",
    "go",
    "gh",
    "rustup",
    "systemctl",
    "dotnet",
    "terraform",
    "poetry",
    "uv",
    "bundle",
    "rails",
    "helm",
    "svn",
    "hg",
    "jj",
];
/// Subcommands of them that start what follows, which may be a program that takes whole command lines.
const STARTING: &[(&str, &[&str])] = &[
    ("cargo", &["watch"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("bundle", &["exec"]),
    ("poetry", &["run"]),
    ("uv", &["run"]),
];
/// Those of them whose words are names of packages where they are told to do this.
const PACKAGERS: &[&str] = &["apt", "apt-get", "brew", "pip", "pip3"];
const WITH_PACKAGES: &[&str] = &[
    "install",
    "reinstall",
    "remove",
    "uninstall",
    "purge",
    "upgrade",
    "show",
    "search",
    "info",
    "download",
    "list",
];
/// Programs that are there to start others.
const LAUNCHERS: &[&str] = &[
    "setpriv",
    "taskset",
    "unshare",
    "nsenter",
    "fakeroot",
    "dbus-run-session",
    "bwrap",
    "firejail",
    "prlimit",
    "chrt",
    "numactl",
    "setarch",
    "linux32",
    "linux64",
    "unbuffer",
    "rlwrap",
    "xvfb-run",
    "valgrind",
    "entr",
    "eatmydata",
    "proxychains",
    "torsocks",
    "pkexec",
    "gosu",
    "su-exec",
    "capsh",
    "cpulimit",
    "npx",
    "bunx",
    "start-stop-daemon",
    "systemd-inhibit",
    "runcon",
    "cgexec",
    "dtach",
    "faketime",
    "ts",
    "env-cmd",
    "direnv",
    "mise",
    "nix-shell",
];
/// How many words of a shell's are looked at.
const SHELL_WORDS: usize = 12;

/// Whether it plainly starts nothing that its words name.
pub(super) fn is_quiet(name: &str) -> bool {
    QUIET.contains(&name)
}

/// Notes what a program may start.
pub(super) fn note(found: &mut Found, name: &str, simple: &mut Simple, depth: u32) {
    let is_elsewhere = simple.words[0].text.contains(['/', '\\']);
    if is_quiet(name) && (!is_elsewhere || is_system(&simple.words[0].text)) {
        return;
    }
    let mut inner = Vec::new();
    let texts = scripts(name, simple);
    for text in texts {
        inner.extend(nested(found, &text, depth));
    }
    if name == "git" {
        if let Some((from, other)) = git::unknown(simple) {
            simple.starts_from = Some(from);
            inner.push((other, depth + 1));
        }
    } else {
        let from = if WITH_SUBCOMMANDS.contains(&name) { after_subcommand(&simple.words) } else { 1 };
        let command = simple.words.get(from - 1).filter(|_| PACKAGERS.contains(&name));
        let is_list = command.is_some_and(|word| word.literal && WITH_PACKAGES.contains(&word.text.as_str()));
        let starts = |word: &Word| {
            STARTING.iter().any(|(of, words)| *of == name && words.contains(&word.text.as_str()))
        };
        let is_all_of_it = simple.words.get(from - 1).is_some_and(starts);
        simple.starts_from = (!is_list).then_some(if is_all_of_it { 1 } else { from });
    }
    if let Some(command) = name.strip_prefix("git-") {
        let words = [Word::literally("git"), Word::literally(command)];
        let words = words.into_iter().chain(simple.words[1..].iter().cloned()).collect();
        inner.push((Simple { words, open_end: simple.open_end, ..Simple::default() }, depth + 1));
    }
    let is_launcher = LAUNCHERS.contains(&name);
    if is_launcher {
        let none = simple.words[1..].iter().all(|word| word.text.starts_with('-'));
        if none || simple.open_end || simple.words.iter().any(|word| !word.literal) {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
    }
    // By such a word a shell may be given a text.
    let gives_text = |word: &Word| !word.literal || has_letter(&word.text, "c");
    let last_text = simple.words.iter().rposition(gives_text);
    let is_given_text =
        |name: &str, at: usize| !is_interpreter(name) && last_text.is_some_and(|last| last > at);
    for at in simple.starts_from.unwrap_or(simple.words.len())..simple.words.len() {
        let word = &simple.words[at];
        if !word.literal {
            continue;
        }
        if found.steps(1).is_err() {
            simple.opaque = Some(NOT_WRITTEN_OUT);
            break;
        }
        let inner_name = known_name(&word.text, FOLDS_CASE);
        if !is_launcher && !is_shell(&inner_name) && !is_interpreter(&inner_name) && inner_name != "eval" {
            continue;
        }
        let words = simple.words[at..].iter().take(SHELL_WORDS).cloned().collect();
        match program(&inner_name, &Simple { words, open_end: simple.open_end, ..Simple::default() }) {
            Program::Script(text, _) => inner.extend(nested(found, &text, depth)),
            Program::Opaque(why) if is_launcher || why == NOT_READ || is_given_text(&inner_name, at) => {
                simple.opaque = Some(why);
            }
            _ => {}
        }
    }
    if !inner.is_empty() {
        simple.perhaps = walked(found, inner);
    }
}

/// The texts among a program's words that it runs as command lines.
fn scripts(name: &str, simple: &mut Simple) -> Vec<String> {
    match name {
        "git" => git::scripts(simple),
        "npx" | "npm" | "pnpm" | "pnpx" | "yarn" | "bunx" => called(simple),
        _ => Vec::new(),
    }
}

/// What `npm exec -c TEXT` and its kin run.
fn called(simple: &mut Simple) -> Vec<String> {
    let mut texts = Vec::new();
    if let Some(at) = simple.words.iter().position(|word| word.text == "explore") {
        let rest = simple.words.get(at + 2..).unwrap_or_default().iter().filter(|word| word.text != "--");
        let texts_of_it: Vec<&Word> = rest.collect();
        if texts_of_it.iter().any(|word| !word.literal) {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
        texts.push(texts_of_it.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
    }
    for at in 1..simple.words.len() {
        let word = &simple.words[at];
        let attached =
            word.text.strip_prefix("--").and_then(|text| text.split_once('=')).map(|(_, text)| text);
        let is_call = is_long(&word.text, "call") || is_long(&word.text, "shell-mode");
        let value = match attached {
            _ if !is_call && !has_letter(&word.text, "c") => continue,
            Some(text) => Some((text.to_owned(), word.literal)),
            None => simple.words.get(at + 1).map(|word| (word.text.clone(), word.literal)),
        };
        let Some((text, literal)) = value else { continue };
        if !literal {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
        texts.push(text);
    }
    texts
}

fn is_system(path: &str) -> bool {
    let name = path.strip_prefix("/usr").unwrap_or(path).strip_prefix("/bin/");
    name.is_some_and(|name| !name.contains('/'))
}

/// The place after the first word that is no option.
fn after_subcommand(words: &[Word]) -> usize {
    words.iter().skip(1).position(|word| !word.text.starts_with('-')).map_or(words.len(), |at| at + 2)
}
