//! Names that matter: variables by which programs run others, and how a program's name is compared. Not here: what the
//! programs do.

use super::Word;

/// Variables whose value a shell or a program runs, or takes commands from.
const PROGRAM_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "BASH_CMDS",
    "BASH_ALIASES",
    "SHELLOPTS",
    "BASHOPTS",
    // A shell makes substitutions in its prompts; `set -x` shows one for every command.
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
    "RSYNC_RSH",
    "RSYNC_CONNECT_PROG",
    "SVN_SSH",
    "CVS_RSH",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "SVN_EDITOR",
    "HGEDITOR",
    "FCEDIT",
    "BROWSER",
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
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTDOC",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
];
/// Variables that hold options, and the beginnings of those that run nothing.
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
        &["-mod=", "-tags=", "-v", "-race", "-count=", "-trimpath", "-buildvcs=", "-ldflags=", "-p="],
    ),
    ("JAVA_TOOL_OPTIONS", &["-X", "-D", "-XX:"]),
    ("_JAVA_OPTIONS", &["-X", "-D", "-XX:"]),
    ("JDK_JAVA_OPTIONS", &["-X", "-D", "-XX:"]),
];
/// Beginnings of the names of more of them.
const PROGRAM_PREFIXES: &[&str] = &["GIT_", "LD_", "DYLD_", "BASH_FUNC_"];
/// Variables that hold a program's name, which is often a harmless one.
const PAGERS: &[&str] =
    &["PAGER", "EDITOR", "VISUAL", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "MANPAGER"];
/// Programs that do no more than show or leave a file as it is.
const HARMLESS: &[&str] = &["", "cat", "true", ":", "less", "more"];
/// Variables of git that only say who and how.
const PLAIN_GIT: &[&str] = &["GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"];

/// Whether `NAME=VALUE` sets a variable by which programs run others.
pub(super) fn sets_program(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let name = name.split(['[', '+']).next().unwrap_or(name);
    if PAGERS.contains(&name) {
        return !HARMLESS.contains(&value);
    }
    if let Some((_, harmless)) = OPTION_VARIABLES.iter().find(|(known, _)| *known == name) {
        let is_harmless = |option: &str| harmless.iter().any(|known| option.starts_with(known));
        return !value.split_whitespace().all(is_harmless)
            || value.contains("OnError")
            || value.contains("OnOutOf");
    }
    names_program(name)
}

/// The same for a word, of which not all may be known.
pub(super) fn word_sets_program(word: &Word) -> bool {
    let name = word.text.split(['=', '[', '+']).next().unwrap_or_default();
    sets_program(&word.text) || (!word.literal && word.text.contains('=') && names_program(name))
}

/// Whether a variable of this name is one by which programs run others.
pub(super) fn names_program(name: &str) -> bool {
    let harmless =
        PLAIN_GIT.contains(&name) || name.starts_with("GIT_AUTHOR_") || name.starts_with("GIT_COMMITTER_");
    !harmless
        && (PROGRAM_VARIABLES.contains(&name)
            || PAGERS.contains(&name)
            || (name.starts_with("CARGO_TARGET_")
                && (name.ends_with("_RUNNER") || name.ends_with("_LINKER")))
            || PROGRAM_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether a text names bash's own lists of what a command's name stands for.
pub(super) fn is_command_table(text: &str) -> bool {
    text.contains("BASH_CMDS") || text.contains("BASH_ALIASES")
}

/// A program's name without its folder, as it is compared with the names that are known here. Where the system does not
/// tell case apart, neither does this, nor the ending of programs there.
pub(super) fn known_name(text: &str, folds_case: bool) -> String {
    let name = super::base_name(text);
    if !folds_case {
        return name.to_owned();
    }
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}
