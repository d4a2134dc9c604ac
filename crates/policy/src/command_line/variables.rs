//! Variables through which programs run others.

use super::command::CommandWord;

/// Variables whose value a shell or a program runs, or reads commands from.
const PROGRAM_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "BASH_CMDS",
    "BASH_ALIASES",
    "SHELLOPTS",
    "BASHOPTS",
    // A shell expands substitutions in its prompts; `set -x` prints one for every command.
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "LESSOPEN",
    "LESSCLOSE",
    "PERL5OPT",
    "PERL5DB",
    "TAR_OPTIONS",
    "RSYNC_CONNECT_PROG",
    "FCEDIT",
    "MANOPT",
    "ZIPOPT",
    "ZDOTDIR",
    "EXINIT",
    "VIMINIT",
    "LESSKEYIN",
    "LESSKEY_CONTENT",
    "RIPGREP_CONFIG_PATH",
    "LUA_INIT",
    "PYTHONSTARTUP",
    "PYTHONBREAKPOINT",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "RUSTC",
    "RUSTDOC",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTDOC",
];
/// Variables that contain options, with the prefixes of options that run nothing.
const OPTION_VARIABLES: &[(&str, &[&str])] = &[
    (
        "NODE_OPTIONS",
        &[
            "--max-old-space-size",
            "--max_old_space_size",
            "--max-semi-space-size",
            "--max-http-header-size",
            "--stack-trace-limit",
            "--no-warnings",
            "--no-deprecation",
            "--trace-",
            "--enable-source-maps",
            "--experimental-vm-modules",
            "--experimental-strip-types",
            "--openssl-legacy-provider",
            "--unhandled-rejections",
            "--dns-result-order",
        ],
    ),
    ("RUBYOPT", &["-W", "-w", "--enable", "--disable", "--yjit"]),
    ("LESS", &["-"]),
    (
        "GOFLAGS",
        &[
            "-mod=",
            "-tags=",
            "-v",
            "-race",
            "-count=",
            "-trimpath",
            "-buildvcs=",
            "-ldflags=",
            "-p=",
        ],
    ),
    ("JAVA_TOOL_OPTIONS", &["-X", "-D", "-XX:"]),
    ("_JAVA_OPTIONS", &["-X", "-D", "-XX:"]),
    ("JDK_JAVA_OPTIONS", &["-X", "-D", "-XX:"]),
];
/// Prefixes of further such names.
const PROGRAM_PREFIXES: &[&str] = &["GIT_", "LD_", "DYLD_", "BASH_FUNC_", "CARGO_ALIAS_"];
/// Endings of further such names.
const PROGRAM_SUFFIXES: &[&str] = &[
    "BROWSER",
    "ASKPASS",
    "SHELL",
    "_shell",
    "_COMMAND",
    "_WRAPPER",
    "_LAUNCHER",
    "_RSH",
    "_SSH",
];
/// Programs that only show a file or leave it unchanged.
const HARMLESS: &[&str] = &["", "cat", "true", ":", "less", "more"];
/// Harmless variables of git.
const PLAIN_GIT: &[&str] = &["GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"];

/// Returns whether a word `NAME=VALUE`, possibly with unknown parts, sets a variable through which
/// programs run others.
pub(super) fn sets_program_variable(word: &CommandWord) -> bool {
    let Some((name, value)) = word.text.split_once('=') else {
        return false;
    };
    let name = bare_name(name);
    if !word.is_literal {
        return is_program_variable(name);
    }
    if names_viewer(name) {
        return !HARMLESS.contains(&value);
    }
    if let Some((_, harmless)) = OPTION_VARIABLES.iter().find(|(known, _)| *known == name) {
        let is_harmless = |option: &str| harmless.iter().any(|known| option.starts_with(known));
        return !value.split_whitespace().all(is_harmless)
            || value.contains("OnError")
            || value.contains("OnOutOf");
    }
    is_program_variable(name)
}

/// Returns whether a variable of this name contains a pager or an editor, which is often a harmless one.
fn names_viewer(name: &str) -> bool {
    name.ends_with("PAGER") || name.ends_with("EDITOR") || name == "VISUAL"
}

/// Returns whether programs run others through the variable of this name.
pub(super) fn is_program_variable(name: &str) -> bool {
    let is_harmless = PLAIN_GIT.contains(&name)
        || name.starts_with("GIT_AUTHOR_")
        || name.starts_with("GIT_COMMITTER_");
    !is_harmless
        && (PROGRAM_VARIABLES.contains(&name)
            || names_viewer(name)
            || (name.starts_with("CARGO_TARGET_")
                && (name.ends_with("_RUNNER") || name.ends_with("_LINKER")))
            || PROGRAM_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
            || PROGRAM_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

/// Returns whether a builtin that sets variables sets such a variable with this word. In the word
/// the name may follow an option's letters.
pub(super) fn names_program_variable(word: &CommandWord) -> bool {
    const MOST_LETTERS: usize = 8;
    let is_name = |text: &str| !text.contains('=') && is_program_variable(bare_name(text));
    let letters = if word.text.starts_with('-') {
        MOST_LETTERS
    } else {
        0
    };
    sets_program_variable(word)
        || (0..=letters)
            .filter_map(|at| word.text.get(at..))
            .any(is_name)
}

/// The name in `NAME`, `NAME+` or `NAME[INDEX]`.
fn bare_name(text: &str) -> &str {
    text.split(['[', '+']).next().unwrap_or(text)
}
