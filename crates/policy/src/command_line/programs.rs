//! Programs by name: those whose arguments are only data, those with subcommands, and those that
//! start others.

use super::command::{CommandWord, NOT_WRITTEN_OUT, SimpleCommand};
use super::interpreters::RUNS_INPUT;
use super::options::{has_short_option, is_long_option};
use super::parse_state::Reason;
use super::scripts::check_script;

/// Programs and builtins whose arguments name no command that they start.
const QUIET: &str = "echo printf grep egrep fgrep rg ag cat bat head tail wc ls tree stat file du df cd pushd popd \
    mkdir rmdir cp mv rm ln touch chmod chown basename dirname realpath readlink which whereis whatis \
    type info man help hash test [ true false : pwd sort uniq cut tr tee diff cmp comm paste seq date \
    sleep kill pgrep pkill killall export unset declare typeset local readonly read set shift shopt \
    return exit break continue alias unalias jq yq sed awk gawk mawk nawk md5sum sha1sum sha256sum \
    make ninja just wait jobs trap umask ulimit source . command let";
/// Programs with subcommands.
const WITH_SUBCOMMANDS: &str = "cargo npm yarn pnpm docker podman kubectl apt apt-get brew pip pip3 gh rustup systemctl dotnet \
    terraform poetry uv bundle rails helm svn hg jj";
/// Their subcommands that start the following words.
const STARTING: &[(&str, &str)] = &[
    ("cargo", "watch"),
    ("npm", "exec"),
    ("npm", "x"),
    ("npm", "explore"),
    ("pnpm", "exec"),
    ("pnpm", "dlx"),
    ("yarn", "exec"),
    ("yarn", "dlx"),
    ("bundle", "exec"),
    ("poetry", "run"),
    ("uv", "run"),
    ("jj", "git"),
];
/// Programs whose arguments are package names after one of the subcommands below.
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
/// Programs whose purpose is to start others.
const LAUNCHERS: &str = "setpriv taskset unshare nsenter fakeroot dbus-run-session bwrap firejail prlimit chrt numactl \
    setarch linux32 linux64 unbuffer rlwrap xvfb-run valgrind entr eatmydata proxychains torsocks \
    pkexec gosu su-exec capsh cpulimit npx bunx start-stop-daemon systemd-inhibit runcon cgexec dtach \
    faketime ts env-cmd direnv mise nix-shell strace ltrace perf ld-linux-x86-64.so.2";
/// Programs that pass text to a shell, or run commands in a language that is not read here, with any options.
const HAND_TO_SHELL: &str = "vi vim nvim gvim view ex vimdiff emacs gdb lldb ftp lftp sftp socat su runuser watch script \
    parallel flock systemd-run at batch ssh expect hyperfine tmux screen sg ed red chroot crontab \
    duckdb";
/// Single arguments with which a terminal multiplexer only shows or ends something.
const ONLY_SHOWS: &[&str] = &[
    "ls",
    "list-sessions",
    "list-windows",
    "list-panes",
    "has-session",
    "kill-session",
    "kill-server",
    "-V",
];
/// Options by which programs start commands that their other words do not name, or change what they run: the long ones,
/// with `+` for a word that begins so, and the letters. The value may be glued on.
const OPTIONS: &[(&[&str], &[&str], &str)] = &[
    (&["rg"], &["pre", "hostname-bin"], ""),
    (&["ag", "bat"], &["pager"], ""),
    (&["sort"], &["compress-program"], ""),
    (
        &["man"],
        &["pager", "html", "preprocessor", "config-file"],
        "PHpC",
    ),
    (
        &["just"],
        &["command", "shell", "shell-arg", "chooser", "choose", "edit"],
        "ce",
    ),
    (&["make"], &["eval"], "E"),
    (
        &["tar", "gtar", "bsdtar"],
        &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "info-script",
            "new-volume-script",
            "rsh-command",
            "rmt-command",
        ],
        "IF",
    ),
    (&["split"], &["filter"], ""),
    (&["less", "more", "most"], &["+"], ""),
    (&["apt", "apt-get"], &["option", "config-file"], "oc"),
    (&["cargo"], &["config"], ""),
    (&["npm", "pnpm", "yarn"], &["script-shell"], ""),
];
pub(super) const ANY_COMMAND: Reason = "it can run any command";
const BY_OPTION: Reason = "one of its options starts a command";

fn is_in(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Returns whether the arguments of this program name no command that it starts.
pub(super) fn is_quiet(name: &str) -> bool {
    is_in(QUIET, name)
}

/// Returns whether a client of a database reads commands, among them those that start programs, from its input: its words
/// give it none.
fn reads_commands(name: &str, command: &SimpleCommand) -> bool {
    const GIVES: &[&str] = &["command", "execute", "file", "list", "version", "help"];
    let words = &command.words[1..];
    let operands = words.iter().filter(|word| !word.text.starts_with('-'));
    let gives = |word: &CommandWord| {
        has_short_option(&word.text, "cefl")
            || GIVES.iter().any(|long| is_long_option(&word.text, long))
    };
    match name {
        "sqlite3" | "sqlite" => {
            command.has_input
                || operands.count() < 2 && !words.iter().any(|word| word.text == "--version")
        }
        "psql" | "mysql" | "mariadb" => command.has_input || !words.iter().any(gives),
        _ => false,
    }
}

/// Returns whether this program passes text to a shell, or runs commands in a language that is not read here.
pub(super) fn hands_to_shell(name: &str) -> bool {
    // Some systems have several of one name: `vim.tiny`.
    is_in(HAND_TO_SHELL, name.split('.').next().unwrap_or(name))
}

/// Returns whether this program's purpose is to start others.
pub(super) fn is_launcher(name: &str) -> bool {
    is_in(LAUNCHERS, name)
}

/// The index of the first word that may be a command which this program starts; `None` if there is
/// none.
///
/// # Errors
/// It starts, or may start, a command that its arguments do not determine.
pub(super) fn first_possible_word(
    name: &str,
    command: &SimpleCommand,
) -> Result<Option<usize>, Reason> {
    let words = &command.words;
    let is_option = |text: &str, long: &str| match long {
        "+" => text.starts_with('+'),
        _ => is_long_option(text, long),
    };
    let runs = |word: &CommandWord| {
        let options = OPTIONS.iter().filter(|(names, ..)| names.contains(&name));
        options.into_iter().any(|(_, long, short)| {
            has_short_option(&word.text, short)
                || long.iter().any(|long| is_option(&word.text, long))
        })
    };
    // What stands behind `--` is for the program that cargo runs.
    let ends = |word: &&CommandWord| name == "cargo" && word.is_literal && word.text == "--";
    if words.iter().take_while(|word| !ends(word)).any(runs) {
        return Err(BY_OPTION);
    }
    check_script(name, command)?;
    if reads_commands(name, command) {
        return Err(RUNS_INPUT);
    }
    let is_elsewhere = words[0].text.contains(['/', '\\']);
    let is_system = ["/bin/", "/usr/bin/"]
        .iter()
        .any(|folder| words[0].text.strip_prefix(folder) == Some(name));
    if is_quiet(name) && (is_system || !is_elsewhere) {
        return Ok(None);
    }
    let only_shows = matches!(name, "tmux" | "screen")
        && matches!(&words[1..], [word] if ONLY_SHOWS.contains(&word.text.as_str()));
    if hands_to_shell(name) && !only_shows {
        return Err(ANY_COMMAND);
    }
    if is_launcher(name) {
        let names_none = words[1..].iter().all(|word| word.text.starts_with('-'));
        // Behind the name of a package stand only its arguments.
        let known = match name {
            "npx" | "bunx" => words[1..]
                .iter()
                .position(|word| !word.text.starts_with('-')),
            _ => None,
        };
        let looked_at = &words[..known.map_or(words.len(), |at| at + 2)];
        let is_unknown = command.is_open_ended || looked_at.iter().any(|word| !word.is_literal);
        return if names_none || is_unknown {
            Err(NOT_WRITTEN_OUT)
        } else {
            Ok(Some(1))
        };
    }
    let is_subcommand = |at: &usize| !words[*at].text.starts_with(['-', '+']);
    // Behind an option it may be the option's value.
    let Some(at) = (1..words.len()).find(is_subcommand).filter(|at| {
        let before = &words[1..*at];
        before
            .iter()
            .all(|word| word.text.starts_with('+') || word.text.contains('='))
    }) else {
        return Ok(Some(1));
    };
    let subcommand = words[at].text.as_str();
    if PACKAGERS.contains(&name) && WITH_PACKAGES.contains(&subcommand) {
        return Ok(None);
    }
    let is_starting = STARTING.contains(&(name, subcommand));
    if is_starting && words.get(at + 1).is_some_and(|word| !word.is_literal) {
        return Err(NOT_WRITTEN_OUT);
    }
    let has_subcommands = is_in(WITH_SUBCOMMANDS, name) && !is_starting;
    Ok(Some(if has_subcommands { at + 1 } else { 1 }))
}
