//! Hints for commands that failed in a way that confinement may explain: one line with the smallest setting that would
//! allow it.

use super::level::NetworkAccess;
use super::path_hints::{
    find_unseen_path, find_unwritable_path, hidden_program_hint, path_hint, unseen_hint,
};
use super::sandbox_rules::SandboxRules;
use super::services::{find_local_port, local_port_hint, names_loopback};
use super::shell_messages::program_not_found;

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
    "dial tcp: lookup",
    "Couldn't connect to server",
    "UnknownHostException",
    "UnresolvedAddressException",
    "Unknown host",
    "Proxy Authentication Required",
    "HTTP/1.1 407",
    "HTTP response code: 407",
];

/// The port of a resolver, which is often at the loopback. A name that it does not resolve is one of the network.
const DNS_PORT: u16 = 53;
/// The words for a port at which no command listens.
const NO_LISTENER: &[&str] = &[
    "Connection refused",
    "connection refused",
    "ECONNREFUSED",
    "Couldn't connect to server",
];

const NO_KEYS: &str = "Keys and key agents are hidden from commands, so they cannot sign or decrypt. `git commit --no-gpg-sign` \
                       commits unsigned; the user can sign that with `git commit --amend --no-edit -S`.";
const NO_TRACING: &str = "Commands cannot trace processes: no strace, no perf, and no debugger that starts or attaches to one. Print \
                          values, or ask the user to run this.";
const NO_TERMINALS: &str =
    "Commands cannot create terminals. Bash with \"tty\": true gives the command one.";
const NO_NAMESPACES: &str = "Commands run in a sandbox and cannot create namespaces. A program that wants a sandbox of its own has to \
                             run without it here, as Chromium does with --no-sandbox.";
const NO_LEAK_CHECK: &str = "LeakSanitizer traces its own process, which commands cannot do. Run it with LSAN_OPTIONS=detect_leaks=0: \
                             without this check all others work.";
const NOT_PERMITTED: &str = "This may be because commands cannot change processes by their ids (priority, scheduling, limits), the \
                             system (mounts, clock, keys), or owners and set-ID bits of files. Give a program its priority or \
                             limits at its start: `nice`, `ionice`, `chrt` or `prlimit` before the command.";

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
    (&["ptrace", "EPERM"], NO_TRACING),
    (&["perf_event", "not permitted"], NO_TRACING),
    (&["No permission to enable", "event"], NO_TRACING),
    (&["mount: ", "permission denied"], NOT_PERMITTED),
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
    (&["Cannot connect to the Docker daemon"], NO_SERVICES),
    (&["failed to connect to the docker API"], NO_SERVICES),
    (&["connection to server on socket"], NO_SERVICES),
    (&["local MySQL server through socket"], NO_SERVICES),
    (
        &["Could not open a connection to your authentication agent"],
        NO_SERVICES,
    ),
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

/// Returns a hint for a command that exited with 0, as a line does whatever its first programs return. Only lines that
/// begin as a program's own message count, since others may come from a file.
pub fn hint_after_success(
    rules: &SandboxRules,
    network: NetworkAccess,
    output: &str,
) -> Option<String> {
    let lines = output_tail(output).lines();
    let messages: Vec<&str> = lines.filter(|line| is_failure_message(line)).collect();
    find_hint(rules, network, &messages)
}

/// Returns whether a line begins as the message of a program that failed.
fn is_failure_message(line: &str) -> bool {
    let name = line.split_once(": ").map_or("", |(name, _)| name);
    // `file:12` stands before a line that was found in a file.
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == ':');
    let is_mild = ["warning", "note", "hint"].contains(&name.to_ascii_lowercase().as_str());
    // curl prints its message directly after its progress figures.
    let is_behind_progress = line
        .split_once("curl: (")
        .is_some_and(|(before, _)| before.ends_with(|c: char| c.is_ascii_digit()));
    let mut known = FIXED_LIMITS.iter();
    (is_name && !is_mild)
        || is_behind_progress
        || program_not_found(line).is_some()
        || known.any(|(words, _)| line.starts_with(words[0]))
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
    find_hint(rules, network, &lines)
}

fn find_hint(rules: &SandboxRules, network: NetworkAccess, lines: &[&str]) -> Option<String> {
    // The last message is most probably the reason.
    let saying = |words: &'static [&'static str]| {
        let lines = lines.iter().rev().copied();
        lines.filter(move |line| contains_any(line, words))
    };
    let limit = FIXED_LIMITS.iter().find(|(words, _)| {
        let has_words = |line: &&str| words.iter().all(|word| line.contains(word));
        lines.iter().any(has_words)
    });
    if let Some((_, hint)) = limit {
        return Some((*hint).to_owned());
    }
    if let Some(path) = saying(REFUSED).find_map(|line| find_unwritable_path(rules, line)) {
        return Some(path_hint(rules, &path));
    }
    let mut not_found = lines.iter().filter_map(|line| program_not_found(line));
    if let Some(hint) = not_found.find_map(|name| hidden_program_hint(rules, name)) {
        return Some(hint);
    }
    if let Some(path) = saying(ABSENT).find_map(|line| find_unseen_path(rules, line)) {
        return Some(unseen_hint(rules, &path));
    }
    if network.needs_own_loopback()
        && let Some(port) = saying(NO_LISTENER)
            .filter_map(find_local_port)
            .find(|port| *port != DNS_PORT && !rules.local_ports.contains(port))
    {
        return Some(local_port_hint(port));
    }
    // No setting opens a port of the loopback at which nothing listens.
    let is_local = |line: &str| {
        contains_any(line, NO_LISTENER)
            && names_loopback(line)
            && find_local_port(line) != Some(DNS_PORT)
    };
    let has_no_network = saying(NO_NETWORK).any(|line| !is_local(line))
        || saying(&["socket"]).any(|line| contains_any(line, REFUSED));
    if let Some(about) = network_hint(rules, network).filter(|_| has_no_network) {
        return Some(about);
    }
    let signalled = lines
        .iter()
        .any(|line| line.contains("kill") && line.contains("Operation not permitted"));
    if signalled {
        let only_own = "This may be because a command can only signal what it started itself. KillShell ends what another \
                        command left running.";
        return Some(only_own.to_owned());
    }
    let mut refused = saying(&["peration not permitted", "EPERM"]);
    refused.next().map(|_| NOT_PERMITTED.to_owned())
}

fn contains_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rules() -> SandboxRules {
        SandboxRules {
            workspaces: vec!["/home/a/work".into()],
            user_home: Some("/home/a".into()),
            write: vec!["/var/tmp/ours".into()],
            network: NetworkAccess::Loopback,
            ..SandboxRules::minimal("/home/a/.punie".into(), "/home/a/.punie/tmp".into())
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
        // Of a folder that the owner shows, writing was refused.
        let denied = "touch: cannot touch '/mnt/gone/x': Permission denied";
        let text = said(denied).expect("a line");
        assert!(text.contains("read = [\"/mnt/gone/x\"]"), "{text}");
        let shown = SandboxRules {
            read: vec!["/mnt/gone".into()],
            ..rules()
        };
        let text = hint_after_failure(&shown, NetworkAccess::Loopback, denied).expect("a line");
        assert!(text.contains("write = [\"/mnt/gone\"]"), "{text}");
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
            "dial tcp: lookup example.com on 127.0.0.53:53: no such host",
            "dial tcp: lookup example.com on 127.0.0.53:53: read udp 127.0.0.1:4000->127.0.0.53:53: read: connection refused",
            "dial tcp: lookup example.com on [::1]:53: dial udp [::1]:53: connect: network is unreachable",
            "proxy http://127.0.0.1:4000 answers: Proxy Authentication Required",
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
                "Error:\nNo permission to enable task-clock event.",
                NO_TRACING,
            ),
            (
                "renice: failed to set priority for 7 (process ID): Operation not permitted",
                NOT_PERMITTED,
            ),
            (
                "A system error occurred: uv_os_setpriority returned EPERM (operation not permitted)",
                NOT_PERMITTED,
            ),
            ("mount: /mnt: permission denied.", NOT_PERMITTED),
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
    fn a_refused_port_of_the_loopback_is_nothing_of_the_networks() {
        for line in [
            "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server",
            "curl: (7) Failed to connect to localhost port 9 after 0 ms: Couldn't connect to server",
            "curl: (7) Failed to connect to ::1 port 9 after 0 ms: Couldn't connect to server",
            "curl: (7) Failed to connect to 127.0.0.53 port 9 after 0 ms: Couldn't connect to server",
            "curl: (7) Failed to connect to [::1]:9: Couldn't connect to server",
            "curl: (7) Failed to connect to app.localhost port 9: Couldn't connect to server",
            "curl: (7) Failed to connect to 0:0:0:0:0:0:0:1 port 9: Couldn't connect to server",
            "HTTPConnectionPool(host='127.0.0.1', port=9): Max retries exceeded: Connection refused",
        ] {
            let rules = SandboxRules {
                local_ports: vec![9],
                ..rules()
            };
            for network in [NetworkAccess::Ask, NetworkAccess::Loopback] {
                let told = hint_after_failure(&rules, network, line);
                assert_eq!(told, None, "{line}");
            }
            let text = said(line).expect(line);
            assert!(text.contains("local_ports = [9]"), "{text}");
        }
    }

    #[test]
    fn a_message_of_a_program_counts_whatever_the_line_returned() {
        let after_success =
            |output: &str| hint_after_success(&rules(), NetworkAccess::Loopback, output);
        for output in [
            "error: gpg failed to sign the data:\ngpg: signing failed\nfatal: failed to write commit object\n",
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
            "touch: cannot touch '/home/a/notes/x': Permission denied\nnext\n",
        ] {
            assert_eq!(after_success(output), said(output), "{output}");
            assert!(after_success(output).is_some(), "{output}");
        }
        for output in [
            "log:12:touch: cannot touch '/home/a/notes/x': Permission denied\n",
            "log:touch: cannot touch '/home/a/notes/x': Permission denied\n",
            "    error: gpg failed to sign the data\n",
            "warning: unable to access '/home/a/.config/git/ignore': Permission denied\n",
        ] {
            assert_eq!(after_success(output), None, "{output}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_is_a_link_into_the_hidden_home_is_named() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        for made in [".local/bin", "src", ".cargo/bin"] {
            std::fs::create_dir_all(home.join(made)).expect("made");
        }
        for (link, target) in [("tool", "src/tool"), ("seen", ".cargo/bin/seen")] {
            std::fs::write(home.join(target), "").expect("written");
            symlink(home.join(target), home.join(".local/bin").join(link)).expect("linked");
        }
        symlink(home.join("gone"), home.join(".local/bin/dangling")).expect("linked");
        let rules = SandboxRules {
            user_home: Some(home.clone()),
            ..rules()
        };
        let told = |name: &str| {
            let output = format!("zsh:1: command not found: {name}\n");
            let after_success = hint_after_success(&rules, NetworkAccess::Loopback, &output);
            let told = hint_after_failure(&rules, NetworkAccess::Loopback, &output);
            assert_eq!(told, after_success);
            told
        };
        let text = told("tool").expect("a hint");
        let setting = format!("read = [{:?}]", home.join("src/tool"));
        assert!(
            text.contains(".local/bin/tool is a link") && text.contains(&setting),
            "{text}"
        );
        assert_eq!(
            [told("seen"), told("dangling"), told("nothing")],
            [None, None, None]
        );
    }

    #[test]
    #[cfg(unix)]
    fn no_setting_is_proposed_for_what_the_mode_of_a_file_refuses() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        let told = |mode: u32| {
            let file = top.join(format!("{mode:o}"));
            std::fs::write(&file, "").expect("written");
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).expect("set");
            let rules = SandboxRules {
                user_home: Some(top.clone()),
                ..rules()
            };
            let output = format!("cat: {}: Permission denied", file.display());
            hint_after_failure(&rules, NetworkAccess::Loopback, &output)
        };
        // Outside of what commands read, a denial may be of reading.
        let there = if Path::new("/var/mail").is_dir() {
            "/var/mail"
        } else {
            "/var/log"
        };
        let text = said(&format!(
            "ls: cannot open directory '{there}': Permission denied"
        ));
        assert!(!text.unwrap_or_default().contains("write = ["), "{there}");
        assert_eq!(told(0o000), None);
        assert_eq!(told(0o200), None);
        let text = told(0o400).expect("a hint");
        assert!(
            text.contains("no setting") && !text.contains("= ["),
            "{text}"
        );
        let text = told(0o600).expect("a hint");
        assert!(text.contains("write = ["), "{text}");
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
