//! Commands that a program may start although it is no wrapper that is known here: what follows in its words may be one,
//! and so may a text that it hands to a shell. Not here: wrappers, whose command is certain.

use super::interpreters::{NOT_WRITTEN_OUT, Program, is_shell, program};
use super::names::known_name;
use super::reader::Found;
use super::unfold::{nested, walked};
use super::{Simple, Word, quoted};
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
    "man",
    "info",
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
    if name == "git" {
        git(found, simple, depth, &mut inner);
    } else {
        simple.starts_from =
            Some(if WITH_SUBCOMMANDS.contains(&name) { after_subcommand(&simple.words) } else { 1 });
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
    for at in simple.starts_from.unwrap_or(simple.words.len())..simple.words.len() {
        let word = &simple.words[at];
        if !word.literal {
            continue;
        }
        let inner_name = known_name(&word.text, FOLDS_CASE);
        if !is_launcher && !is_shell(&inner_name) && inner_name != "eval" {
            continue;
        }
        let words = simple.words[at..].iter().take(SHELL_WORDS).cloned().collect();
        match program(&inner_name, &Simple { words, open_end: simple.open_end, ..Simple::default() }) {
            Program::Script(text, _) => inner.extend(nested(found, &text, depth)),
            Program::Opaque(why) if is_launcher => simple.opaque = Some(why),
            _ => {}
        }
    }
    if !inner.is_empty() {
        simple.perhaps = walked(found, inner);
    }
}

fn is_system(path: &str) -> bool {
    path.starts_with("/bin/") || path.starts_with("/usr/bin/")
}

/// The place after the first word that is no option.
fn after_subcommand(words: &[Word]) -> usize {
    words.iter().skip(1).position(|word| !word.text.starts_with('-')).map_or(words.len(), |at| at + 2)
}

/// The commands of git that start others.
fn git(found: &mut Found, simple: &mut Simple, depth: u32, inner: &mut Vec<(Simple, u32)>) {
    let place = |wanted: &str| simple.words.iter().position(|word| word.text == wanted);
    let mut texts = Vec::new();
    let starting = [("submodule", "foreach"), ("bisect", "run")];
    for (command, action) in starting {
        let Some(at) = place(command).and_then(|_| place(action)) else { continue };
        let rest = simple.words.get(at + 1..).unwrap_or_default();
        let rest: Vec<&Word> = rest.iter().skip_while(|word| word.text.starts_with('-')).collect();
        if simple.open_end || rest.iter().any(|word| !word.literal) {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
        // One word is a command line, more are words of one.
        texts.push(match rest.as_slice() {
            [one] => one.text.clone(),
            more => more.iter().map(|word| quoted(&word.text)).collect::<Vec<_>>().join(" "),
        });
        texts.push(rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
    }
    if place("rebase").is_some() {
        let mut words = simple.words.iter();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let attached = text.strip_prefix("--exec=").or_else(|| text.strip_prefix("-x"));
            let script = match attached {
                Some(text) if !text.is_empty() => Some((text.to_owned(), word.literal)),
                _ if text == "--exec" || text == "-x" => {
                    words.next().map(|script| (script.text.clone(), script.literal))
                }
                // A beginning of the long option is one, too.
                _ if text.starts_with("--ex") => Some((String::new(), false)),
                _ => None,
            };
            if let Some((text, literal)) = script {
                if !literal {
                    simple.opaque = Some(NOT_WRITTEN_OUT);
                }
                texts.push(text);
            }
        }
    }
    for text in texts {
        inner.extend(nested(found, &text, depth));
    }
}
