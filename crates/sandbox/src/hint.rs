//! Hints for commands that failed in a way that confinement may explain: one line with the smallest setting that would
//! allow it. Not here: whether the command was confined.

use std::path::{Path, PathBuf};

use super::level::NetworkAccess;
use super::sandbox_rules::SandboxRules;
use super::services::{find_local_port, leads_to_service, local_port_hint, service_hint};

/// The length of the output's end that is examined.
const TAIL: usize = 8_000;

const REFUSED: &[&str] = &[
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "EACCES",
    "EPERM",
    "Read-only file system",
    "EROFS",
];
/// The system's words for a path that is not there, as one outside of the view is for a command.
const ABSENT: &[&str] = &["No such file or directory", "ENOENT"];
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENETUNREACH",
    "failed to lookup address",
    "dns error",
    "no such host",
    "Couldn't connect to server",
    "UnknownHostException",
    "UnresolvedAddressException",
    "Unknown host",
    "Proxy Authentication Required",
    "HTTP/1.1 407",
    "HTTP response code: 407",
];

/// The words for a port at which no command listens.
const NO_LISTENER: &[&str] = &[
    "Connection refused",
    "connection refused",
    "ECONNREFUSED",
    "Couldn't connect to server",
];

const NO_KEYS: &str = "Keys and key agents are hidden from commands, so they cannot sign or decrypt. `git commit --no-gpg-sign` \
                       commits unsigned; the user can sign that with `git commit --amend --no-edit -S`.";
const NO_TRACING: &str = "Commands cannot trace processes: no strace, and no debugger that starts or attaches to one. Print values, or \
                          ask the user to run this.";
const NO_TERMINALS: &str =
    "Commands cannot create terminals. Bash with \"tty\": true gives the command one.";
const NO_NAMESPACES: &str = "Commands run in a sandbox and cannot create namespaces. A program that wants a sandbox of its own has to \
                             run without it here, as Chromium does with --no-sandbox.";
const NO_LEAK_CHECK: &str = "LeakSanitizer traces its own process, which commands cannot do. Run it with ASAN_OPTIONS=detect_leaks=0; the \
                             other checks work.";

const NO_SHARED_MEMORY: &str = "Commands cannot use shared memory (/dev/shm) at this level of confinement, and locks between processes need \
                                it. Threads work, as in multiprocessing.dummy or ThreadPoolExecutor.";
const NO_SERVICES: &str = "Sockets of services and sessions (containers, databases, key agents, D-Bus) are hidden from commands, because \
                           programs behind them act for the user outside of the sandbox. What a command starts itself it can use; \
                           for the rest ask the user to run this.";

/// Refusals that no setting lifts: the words that a line contains, and the hint.
const FIXED_LIMITS: &[(&[&str], &str)] = &[
    (&["failed to sign the data"], NO_KEYS),
    (&["gpg: ", "No secret key"], NO_KEYS),
    (&["gpg: ", "Permission denied"], NO_KEYS),
    (&["Couldn't load public key"], NO_KEYS),
    (&["ptrace", "not permitted"], NO_TRACING),
    (&["pseudo-terminal", "denied"], NO_TERMINALS),
    (&["out of pty devices"], NO_TERMINALS),
    (&["forkpty", "failed"], NO_TERMINALS),
    (&["unshare", "Operation not permitted"], NO_NAMESPACES),
    (&["No permissions to create", "namespace"], NO_NAMESPACES),
    (&["No usable sandbox!"], NO_NAMESPACES),
    (
        &["LeakSanitizer has encountered a fatal error"],
        NO_LEAK_CHECK,
    ),
    (&["_multiprocessing.SemLock("], NO_SHARED_MEMORY),
    (&["connect to the Docker daemon"], NO_SERVICES),
    (&["connect to the docker API"], NO_SERVICES),
    (&["connection to server on socket"], NO_SERVICES),
    (&["local MySQL server through socket"], NO_SERVICES),
    (&["connection to your authentication agent"], NO_SERVICES),
    (&["Failed to connect to bus"], NO_SERVICES),
];

/// The words of programs that were refused a process or a thread.
const NO_PROCESS: &[&[&str]] = &[
    &["fork", "Resource temporarily unavailable"],
    &["clone", "Resource temporarily unavailable"],
    &["thread", "Resource temporarily unavailable"],
    &["can't start new thread"],
    &["unable to create native thread"],
];

/// The hint for a command that met its limit of processes and threads.
pub const PROCESS_LIMIT: &str = "A command may have 1,024 processes and threads at a time, and this one met that limit. \
                                 Have it start fewer: fewer jobs, a smaller pool.";

/// Returns whether a command was refused processes or threads, by what it printed.
pub fn tells_process_limit(output: &str) -> bool {
    let is_refused = |line: &str| {
        let mut refusals = NO_PROCESS.iter();
        refusals.any(|words| words.iter().all(|word| line.contains(word)))
    };
    output_tail(output).lines().any(is_refused)
}

/// Returns a hint for a command that exited with 0, as a pipeline does whatever its first programs return. Only
/// messages that a program prefixes with its name count, since other lines may come from a file.
pub fn hint_after_success(
    rules: &SandboxRules,
    network: NetworkAccess,
    output: &str,
) -> Option<String> {
    let about_network = network_hint(rules, network)?;
    let speaks_of_itself = |line: &str| {
        let name = line.split_once(": ").map_or("", |(name, _)| name);
        // curl prints its message directly after its progress figures.
        let is_behind_progress = line
            .split_once("curl: (")
            .is_some_and(|(before, _)| before.ends_with(|c: char| c.is_ascii_digit()));
        let has_name =
            (!name.is_empty() && !name.contains(char::is_whitespace)) || is_behind_progress;
        has_name && contains_any(line, NO_NETWORK)
    };
    output_tail(output)
        .lines()
        .any(speaks_of_itself)
        .then_some(about_network)
}

fn output_tail(output: &str) -> &str {
    let mut from = output.len().saturating_sub(TAIL);
    while !output.is_char_boundary(from) {
        from += 1;
    }
    &output[from..]
}

fn network_hint(rules: &SandboxRules, network: NetworkAccess) -> Option<String> {
    let text = match network {
        NetworkAccess::Full => return None,
        NetworkAccess::Ask => {
            "Commands reach the network only through the proxy in HTTPS_PROXY, which asks the owner about each host. A \
             program that cannot use it (ssh, raw sockets) needs Bash with \"network\": true and \"network_reason\": the \
             owner is asked about the whole call then."
        }
        NetworkAccess::None if rules.network == NetworkAccess::Ask => {
            "This system can make no network namespace, so commands have no network. Bash with \"network\": true and \
             \"network_reason\" gives a command all of it, if the owner says yes."
        }
        NetworkAccess::None | NetworkAccess::Loopback => {
            "Commands have no internet access on this device. To allow it, the owner sets network = \"full\" under \
             [sandbox] in config.toml. It takes effect at once."
        }
    };
    Some(text.to_owned())
}

/// Returns a hint for a command that failed.
pub fn hint_after_failure(
    rules: &SandboxRules,
    network: NetworkAccess,
    output: &str,
) -> Option<String> {
    let lines: Vec<&str> = output_tail(output).lines().collect();
    let says = |words: &[&str]| {
        lines
            .iter()
            .rev()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .copied()
    };
    let limit = FIXED_LIMITS.iter().find(|(words, _)| {
        let has_words = |line: &&str| words.iter().all(|word| line.contains(word));
        lines.iter().any(has_words)
    });
    if let Some((_, hint)) = limit {
        return Some((*hint).to_owned());
    }
    if let Some(path) = lines
        .iter()
        .rev()
        .filter(|line| contains_any(line, REFUSED))
        .find_map(|line| find_unwritable_path(rules, line))
    {
        return Some(path_hint(rules, &path));
    }
    if let Some(path) = lines
        .iter()
        .rev()
        .filter(|line| contains_any(line, ABSENT))
        .find_map(|line| find_unseen_path(rules, line))
    {
        return Some(unseen_hint(rules, &path));
    }
    if network.needs_own_loopback()
        && let Some(port) = says(NO_LISTENER).and_then(find_local_port)
        && !rules.local_ports.contains(&port)
    {
        return Some(local_port_hint(port));
    }
    let has_no_network = says(NO_NETWORK).is_some()
        || says(&["socket"]).is_some_and(|line| contains_any(line, REFUSED));
    if let Some(about) = network_hint(rules, network).filter(|_| has_no_network) {
        return Some(about);
    }
    let signalled = lines
        .iter()
        .any(|line| line.contains("kill") && line.contains("Operation not permitted"));
    signalled.then(|| {
        "This may be because a command can only signal what it started itself. KillShell ends what another command left \
         running."
            .to_owned()
    })
}

fn contains_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

fn path_hint(rules: &SandboxRules, path: &Path) -> String {
    let shown = path.display();
    let is_home = rules
        .user_home
        .as_ref()
        .is_some_and(|home| path.starts_with(home));
    if let Some(folder) = is_home
        .then(|| super::hidden_paths::unresolvable_folder(rules))
        .flatten()
    {
        return format!(
            "{} is not readable (see its mode), so the runner cannot tell which of its files must stay hidden. Until the \
             owner runs `chmod u+rwx` on it, commands cannot read the home folder.",
            folder.display()
        );
    }
    if is_too_broad(rules, path) {
        return format!(
            "Commands cannot list or write {shown} as a whole, because it contains hidden files such as keys. Name a file or \
             folder inside it, or use the workspace or $TMPDIR."
        );
    }
    let is_readable = is_readable_path(rules, path);
    // A path that is missing cannot be named in the settings, but its folder can.
    let named = match path.parent() {
        Some(parent) if is_readable && !path.exists() => parent,
        _ => path,
    };
    let is_broad = is_too_broad(rules, named);
    if leads_to_service(rules.user_home.as_deref(), path)
        || !is_broad && leads_to_service(rules.user_home.as_deref(), named)
    {
        return service_hint(path);
    }
    if is_readable {
        if is_broad {
            return format!(
                "This may be because {shown} is outside of what commands may write: the workspace and $TMPDIR. {} as a \
                 whole cannot be given to them; a folder of its own in it can, by write = [...] under [sandbox] in \
                 config.toml. It takes effect at once.",
                named.display()
            );
        }
        return format!(
            "This may be because {shown} is outside of what commands may write: the workspace and $TMPDIR. The owner can \
             allow it: write = [{:?}] under [sandbox] in config.toml. It takes effect at once.",
            named.display().to_string()
        );
    }
    format!(
        "This may be because {shown} is hidden from commands. The owner can show it: read = [{:?}] under [sandbox] in \
         config.toml. It takes effect at once.",
        shown.to_string()
    )
}

/// Returns whether a folder contains the user's home or a workspace, or is at the top of the file system: no setting
/// should name it.
fn is_too_broad(rules: &SandboxRules, path: &Path) -> bool {
    let is_around = |inner: &Path| inner.starts_with(path);
    path.components().count() <= 2
        || rules.user_home.as_deref().is_some_and(is_around)
        || rules
            .workspaces
            .iter()
            .any(|workspace| is_around(workspace) && workspace != path)
}

/// Explains that a path is there for the owner only.
fn unseen_hint(rules: &SandboxRules, path: &Path) -> String {
    let shown = path.display().to_string();
    if leads_to_service(rules.user_home.as_deref(), path) {
        return service_hint(path);
    }
    format!(
        "This may be because commands see only a part of the home, and {shown} is not in it. The owner can show it: \
         read = [{shown:?}] under [sandbox] in config.toml. It takes effect at once."
    )
}

/// Finds the first path of the home in a line that is there and that commands do not see.
fn find_unseen_path(rules: &SandboxRules, line: &str) -> Option<PathBuf> {
    let home = rules.user_home.as_ref()?;
    let named = [&rules.workspaces, &rules.write, &rules.read, &rules.shown];
    let is_seen = |path: &Path| {
        named
            .into_iter()
            .flatten()
            .any(|seen| path.starts_with(seen))
    };
    named_paths(rules, line).into_iter().find(|path| {
        path != home && path.starts_with(home) && !is_seen(path) && path.symlink_metadata().is_ok()
    })
}

/// Returns the absolute paths in a line, and those that begin with `~/`.
fn named_paths(rules: &SandboxRules, line: &str) -> Vec<PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()[]<>‘’“”".contains(c);
    let words = line
        .split(is_end)
        .filter(|word| word.starts_with('/') && word.len() > 1);
    let home = |word: &str| {
        let rest = word.strip_prefix("~/")?;
        Some(rules.user_home.as_ref()?.join(rest))
    };
    // An address such as unix:///run/x begins with several slashes.
    words
        .map(|word| Path::new(word).components().collect())
        .chain(line.split(is_end).filter_map(home))
        .collect()
}

/// Finds the first path in a line that commands may not write.
fn find_unwritable_path(rules: &SandboxRules, line: &str) -> Option<PathBuf> {
    // Not programs: many error messages begin with a script's own name.
    named_paths(rules, line)
        .into_iter()
        .filter(|path| !is_writable_path(rules, path))
        .find(|path| !path.starts_with("/bin") && !path.starts_with("/usr/bin"))
}

fn is_writable_path(rules: &SandboxRules, path: &Path) -> bool {
    let mut places = rules
        .workspaces
        .iter()
        .chain(&rules.write)
        .chain([&rules.temp]);
    places.any(|place| path.starts_with(place))
        || path.starts_with("/dev")
        || path.starts_with("/proc")
}

fn is_readable_path(rules: &SandboxRules, path: &Path) -> bool {
    let home = rules
        .user_home
        .as_ref()
        .is_some_and(|home| path.starts_with(home));
    let hidden = super::hidden_paths::hidden_paths(rules)
        .paths
        .iter()
        .any(|hole| path.starts_with(hole));
    !hidden
        && (home
            || !path.starts_with("/root")
                && !path.starts_with("/mnt")
                && !path.starts_with("/media"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test makes its own files")]
    use super::*;

    fn rules() -> SandboxRules {
        SandboxRules {
            workspaces: vec!["/home/a/work".into()],
            user_home: Some("/home/a".into()),
            write: vec!["/var/tmp/ours".into()],
            network: NetworkAccess::Loopback,
            ..SandboxRules::minimal_rules("/home/a/.punie".into(), "/home/a/.punie/tmp".into())
        }
    }

    fn said(output: &str) -> Option<String> {
        hint_after_failure(&rules(), NetworkAccess::Loopback, output)
    }

    #[test]
    fn a_refused_process_or_thread_is_known_by_the_usual_words() {
        for output in [
            "bash: fork: retry: Resource temporarily unavailable",
            "RuntimeError: can't start new thread",
            "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
            "thread 'main' panicked: failed to spawn thread: Os { code: 11, message: \"Resource temporarily unavailable\" }",
        ] {
            assert!(tells_process_limit(output), "{output}");
        }
        assert!(!tells_process_limit(
            "read: Resource temporarily unavailable"
        ));
    }

    #[test]
    fn a_refused_place_is_named_with_the_setting_that_would_allow_it() {
        let text = said("bash: line 1: /home/a/notes/x: Permission denied\n").expect("a line");
        assert!(
            text.contains("write = [\"/home/a/notes\"]") && text.contains("may be because"),
            "{text}"
        );
        let text = said("cat: /home/a/.ssh/id_rsa: Permission denied").expect("a line");
        assert!(text.contains("read = [\"/home/a/.ssh/id_rsa\"]"), "{text}");
    }

    #[test]
    fn no_setting_is_proposed_that_would_open_a_home_or_more() {
        for output in [
            "ls: cannot open directory '/home/a': Permission denied",
            "touch: cannot touch '/home/a/new': Permission denied",
            "mkdir: cannot create directory '/app': Permission denied",
            "touch: cannot touch '/tmp/no such file of a test': Permission denied",
        ] {
            let text = said(output).expect("a line");
            assert!(!text.contains("= [\""), "{text}");
        }
    }

    #[test]
    fn a_network_that_is_not_there_is_named() {
        for line in [
            "curl: (6) Could not resolve host: example.com",
            "Exception in thread \"main\" java.net.UnknownHostException: example.com",
            "Caused by: java.nio.channels.UnresolvedAddressException",
            "[ERROR] transfer failed for https://example.com/a.pom: Unknown host example.com -> [Help 1]",
            "[ERROR] status code: 407, reason phrase: Proxy Authentication Required (407)",
            "java.io.IOException: Unable to tunnel through proxy. Proxy returns \"HTTP/1.1 407 Unauthorized\"",
            "java.io.IOException: Server returned HTTP response code: 407 for URL: http://example.com",
        ] {
            let text = said(line).expect(line);
            assert!(text.contains("network = \"full\""), "{text}");
        }
        assert_eq!(
            hint_after_failure(
                &rules(),
                NetworkAccess::Full,
                "curl: (6) Could not resolve host: example.com"
            ),
            None
        );
        let after_success =
            |output: &str| hint_after_success(&rules(), NetworkAccess::Loopback, output);
        assert!(after_success("curl: (6) Could not resolve host: example.com\n").is_some());
        let progress =
            "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0";
        assert!(
            after_success(&format!(
                "{progress}curl: (6) Could not resolve host: example.com\n"
            ))
            .is_some()
        );
        assert_eq!(
            after_success("The log says: Could not resolve host\n"),
            None
        );
    }

    #[test]
    #[cfg(unix)]
    fn no_setting_is_proposed_that_would_open_a_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let agent = folder.path().join("sockets/agent");
        std::fs::create_dir(folder.path().join("sockets")).expect("made");
        let _listener = std::os::unix::net::UnixListener::bind(&agent).expect("bound");
        let home = Some(folder.path().to_owned());
        let here = SandboxRules {
            user_home: home,
            ..rules()
        };
        for (rules, path) in [
            (&rules(), "/run/user/7"),
            (&rules(), "unix:///var/run/docker.sock"),
            (&rules(), "/tmp/tmux-1000"),
            (&rules(), "/tmp/ssh-x/agent.1"),
            (&rules(), "/home/a/.gnupg"),
            (&rules(), "/home/a/.gnupg/S.gpg-agent"),
            (&here, agent.to_str().expect("plain")),
            (
                &here,
                folder.path().join("sockets/new").to_str().expect("plain"),
            ),
        ] {
            let output = format!("cannot open '{path}': Permission denied");
            let text = hint_after_failure(rules, NetworkAccess::Loopback, &output).expect(path);
            assert!(
                text.contains("cannot be given") && !text.contains(" = ["),
                "{path}: {text}"
            );
        }
    }

    #[test]
    fn what_no_setting_allows_is_told_with_a_way_around() {
        for (output, hint) in [
            (
                "error: gpg failed to sign the data:\ngpg: Fatal: can't create directory '/home/a/.gnupg': Permission denied\n\nfatal: failed to write commit object",
                NO_KEYS,
            ),
            (
                "gpg: skipped \"a <a@b>\": No secret key\ngpg: signing failed: No secret key",
                NO_KEYS,
            ),
            (
                "gpg: can't open '/home/a/.gnupg/pubring.kbx': Permission denied",
                NO_KEYS,
            ),
            (
                "error: Couldn't load public key /home/a/.ssh/id_ed25519: No such file or directory?",
                NO_KEYS,
            ),
            (
                "strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted\nstrace: detach: waitpid(5): No child processes",
                NO_TRACING,
            ),
            (
                "warning: ptrace: Operation not permitted\nNo stack.",
                NO_TRACING,
            ),
            (
                "script: failed to create pseudo-terminal: Permission denied",
                NO_TERMINALS,
            ),
            (
                "    raise OSError('out of pty devices')\nOSError: out of pty devices",
                NO_TERMINALS,
            ),
            ("Error: forkpty(3) failed.", NO_TERMINALS),
            (
                "unshare: unshare failed: Operation not permitted",
                NO_NAMESPACES,
            ),
            (
                "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
                NO_NAMESPACES,
            ),
            (
                "==7==LeakSanitizer has encountered a fatal error.\n==7==HINT: For debugging, try LSAN_OPTIONS=verbosity=1",
                NO_LEAK_CHECK,
            ),
            (
                "    sl = self._semlock = _multiprocessing.SemLock(\nPermissionError: [Errno 13] Permission denied",
                NO_SHARED_MEMORY,
            ),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                NO_SERVICES,
            ),
            (
                "psql: error: connection to server on socket \"/var/run/postgresql/.s.PGSQL.5432\" failed: No such file or directory",
                NO_SERVICES,
            ),
            (
                "Could not open a connection to your authentication agent.",
                NO_SERVICES,
            ),
        ] {
            assert_eq!(said(output).as_deref(), Some(hint), "{output}");
        }
    }

    #[test]
    fn a_port_of_the_machine_is_named_with_its_setting() {
        for line in [
            "psql: error: connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused",
            "curl: (7) Failed to connect to localhost port 5432 after 0 ms: Couldn't connect to server",
            "bash: connect: Connection refused\nbash: line 1: /dev/tcp/127.0.0.1/5432: Connection refused",
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
            "Error: connect ECONNREFUSED ::1:5432",
        ] {
            let text = said(line).expect(line);
            assert!(text.contains("local_ports = [5432]"), "{text}");
        }
        let text = said("dial tcp 127.0.0.1:2375: connection refused").expect("a line");
        assert!(!text.contains("local_ports ="), "{text}");
        assert_eq!(said("dial tcp 10.0.0.7:5432: connection refused"), None);
    }

    #[test]
    fn what_confinement_does_not_explain_is_left_alone() {
        for output in [
            "",
            "error: test failed",
            "bash: ./script: Permission denied",
            "bash: /home/a/work/script: Permission denied",
            "touch: /var/tmp/ours/x: Permission denied",
            "cat: /home/a/nothing: No such file or directory",
        ] {
            assert_eq!(said(output), None, "{output}");
        }
    }
}
