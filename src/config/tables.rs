//! Every key of `config.toml`, declared once: type, default, bounds and comment. The types, the parser, the file that
//! `init` writes and the displayed values are all generated from here. Declare a key only once something reads it.

use std::path::PathBuf;
use std::time::Duration;

use super::choices::{
    BackendKind, LogFile, LogFormat, LogLevel, SignalSwitch, default_network,
    default_required_level,
};
use super::config_reader::ConfigReader;
use super::optional_parts::table_refusal;
use super::proxy::ProxySetting;
use super::public_key::PublicKey;
use super::url::BackendUrl;
use super::value::{ConfigValue, allowed_text};
use punie_core::owner_choices::{DiscoveryMode, ToolProfile, WakeupMode};
use punie_core::tool_effect::NamedEffect;
use punie_sandbox::{NetworkAccess, RequiredLevel};

/// A table as the generated file shows it.
pub(super) struct TableInfo {
    pub(super) path: &'static str,
    pub(super) about: &'static [&'static str],
    pub(super) keys: &'static [KeyInfo],
}

/// A key as the generated file shows it.
pub(super) struct KeyInfo {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) comment: &'static [&'static str],
    pub(super) default: fn() -> Option<String>,
    pub(super) example: &'static str,
    /// The allowed values, for people.
    pub(super) allowed: fn() -> String,
}

macro_rules! tables {
    ($(
        $(#[doc = $about:literal])+
        [$path:literal] $Table:ident {
            $( $(#[doc = $comment:literal])+ $field:ident, $key:literal: $Kind:ty = $default:expr, $bounds:expr; )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Table { $( $(#[doc = $comment])+ pub $field: $Kind, )+ }

            impl Default for $Table {
                fn default() -> Self {
                    Self { $( $field: $default, )+ }
                }
            }

            impl $Table {
                pub(super) fn read(reader: &mut ConfigReader<'_>) -> Self {
                    Self { $( $field: reader.read_key(concat!($path, ".", $key), $default, &$bounds), )+ }
                }
            }
        )+

        const TABLES: &[TableInfo] = &[$( TableInfo {
            path: $path,
            about: &[$($about),+],
            keys: &[$( KeyInfo {
                name: $key,
                path: concat!($path, ".", $key),
                comment: &[$($comment),+],
                default: || <$Kind as ConfigValue>::to_toml(&$default),
                example: <$Kind as ConfigValue>::EXAMPLE,
                allowed: || allowed_text::<$Kind>(&$bounds),
            } ),+],
        } ),+];
    };
}

/// Returns the tables of this build, in the order of the generated file.
pub(super) fn tables_built() -> impl Iterator<Item = &'static TableInfo> {
    TABLES
        .iter()
        .filter(|table| table_refusal(table.path).is_none())
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const HOUR: Duration = ms(3_600_000);
const DAY: Duration = ms(86_400_000);

tables! {
    /// The backend that this device gets requests from.
    ["backend"] Backend {
        /// convex: Convex or the embedded backend, over HTTP. websocket: a worker that sends tool calls over one WebSocket.
        kind, "kind": BackendKind = BackendKind::Convex, ..;
        /// The backend's address: https://... for convex, wss://... for websocket.
        url, "url": Option<BackendUrl> = None, ..;
        /// Allow unencrypted http or ws to other machines. Requests, results and the session's token can then be read on the way.
        allow_insecure_http, "allow_insecure_http": bool = false, ..;
        /// The HTTP proxy to the backend: http://host:port, or none for a direct connection. Not set: the variables HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY decide. A backend on this machine is always reached directly.
        proxy, "proxy": Option<ProxySetting> = None, ..;
        /// Run only requests that are signed with the private half of this Ed25519 key, for this device, and not expired (docs/audit.md). Not set: every request of the backend is run.
        request_key, "request_key": Option<PublicKey> = None, ..;
        /// auto, on or off: use a WebSocket so that a convex backend can wake the device. auto: only where the backend does not support long polling.
        wakeup, "wakeup": WakeupMode = WakeupMode::Auto, ..;
        /// The interval of heartbeats, by which the backend sees that the device is there. The backend may change it.
        heartbeat, "heartbeat_ms": Duration = ms(60_000), ms(100)..=HOUR;
        /// The interval of heartbeats while the wake-up WebSocket is connected. The backend misses a lost device after two and a half of these.
        listening_heartbeat, "listening_heartbeat_ms": Duration = ms(300_000), ms(100)..=HOUR;
        /// How often the device lists all unfinished requests, in case an event was missed.
        list_open, "list_open_ms": Duration = ms(300_000), ms(100)..=DAY;
        /// The same while the wake-up WebSocket is connected.
        listening_list_open, "listening_list_open_ms": Duration = ms(3_600_000), ms(100)..=DAY;
        /// The shortest interval between pieces of a running command's output, 1000 or more; it grows while the command runs. 0: callers see only results.
        progress, "progress_ms": Duration = ms(1_000), ms(0)..=HOUR;
    }

    /// How often the device polls the backend. The jitter varies the intervals.
    ["backend.poll"] Poll {
        /// How long the backend may hold a poll while there are no requests (long polling). 0: it answers at once.
        hold, "hold_ms": Duration = ms(25_000), ms(0)..=ms(60_000);
        /// The poll interval while the device is active.
        active, "active_ms": Duration = ms(1_000), ms(10)..=HOUR;
        /// Time since the last event after which the recent interval applies.
        active_for, "active_for_ms": Duration = ms(60_000), ms(0)..=DAY;
        /// The poll interval between active and idle.
        recent, "recent_ms": Duration = ms(5_000), ms(10)..=HOUR;
        /// Time since the last event after which the idle interval applies.
        recent_for, "recent_for_ms": Duration = ms(600_000), ms(0)..=DAY;
        /// The poll interval while the device is idle.
        idle, "idle_ms": Duration = ms(30_000), ms(10)..=HOUR;
        /// The poll interval while the wake-up WebSocket is connected.
        listening, "listening_ms": Duration = ms(300_000), ms(10)..=HOUR;
        /// The share by which an interval is longer or shorter at random, so that devices do not poll at the same moment.
        jitter, "jitter": f64 = 0.2, 0.0..=0.5;
        /// The first wait after an error; it doubles with each further error.
        error_base, "error_base_ms": Duration = ms(1_000), ms(10)..=HOUR;
        /// The longest wait after errors. While no backend answers, it is four seconds at most.
        error_cap, "error_cap_ms": Duration = ms(60_000), ms(10)..=DAY;
        /// The first wait after the backend's own code failed.
        function_error_min, "function_error_min_ms": Duration = ms(30_000), ms(10)..=DAY;
        /// The longest wait after that.
        function_error_max, "function_error_max_ms": Duration = ms(300_000), ms(10)..=DAY;
        /// The wait after the backend refused this device, and a new session did not help.
        unauthorized, "unauthorized_ms": Duration = ms(300_000), ms(10)..=DAY;
    }

    /// The connection to a websocket backend. The token in tokens/BACKEND/backend of the home, if there is one, is sent to the worker.
    ["backend.websocket"] WebSocket {
        /// The silence after which the worker is pinged.
        ping, "ping_ms": Duration = ms(20_000), ms(10)..=HOUR;
        /// The silence after a ping that ends the connection.
        pong_timeout, "pong_timeout_ms": Duration = ms(20_000), ms(10)..=HOUR;
    }

    /// How many calls run at once, and how long requests may take.
    ["limits"] Limits {
        /// The most reading calls at once, in all conversations. Writing calls and commands count separately.
        reads, "reads": usize = 8, 1..=64;
        /// The most writing calls and commands at once, in all conversations. Within one conversation they run one after the other.
        total, "total": usize = 16, 1..=256;
        /// The most requests that wait in memory, up to 4 MB of arguments. The rest waits in the journal.
        queue, "queue": usize = 256, 1..=10_000;
        /// A request older than this is answered as expired and not run, unless it has its own deadline.
        ttl, "ttl_ms": Duration = ms(600_000), ms(1_000)..=DAY;
        /// How long running calls may go on after the runner is told to stop.
        drain, "drain_ms": Duration = ms(10_000), ms(0)..=HOUR;
        /// true: background shells keep running when the runner is told to stop, and the next start continues them. false: they are ended. A crash ends none of them either way.
        keep_shells, "keep_shells": bool = false, ..;
        /// true: while a call runs, the machine does not go to sleep for want of use (Linux, macOS). A closed lid still puts it to sleep.
        keep_awake, "keep_awake": bool = true, ..;
        /// How long a claimed request stays reserved for this device without a renewal.
        lease, "lease_ms": Duration = ms(60_000), ms(500)..=HOUR;
        /// How often the claim is renewed. At most half of lease_ms.
        lease_renew, "lease_renew_ms": Duration = ms(20_000), ms(100)..=HOUR;
        /// No new call starts while the home's disk has fewer free megabytes than this. Running calls finish.
        least_free_mb, "least_free_mb": usize = 200, 0..=1_000_000;
    }

    /// Safe mode: after several crashes in a row the runner accepts requests and delivers results, but starts no calls.
    ["safe_mode"] SafeMode {
        /// The number of crashes after which safe mode begins. Crashes during the same call count once. 0: never.
        crashes, "crashes": usize = 3, 0..=1_000;
        /// The time within which these crashes happen.
        within, "within_ms": Duration = ms(300_000), ms(1_000)..=DAY;
        /// The time without a crash after which safe mode ends. `punie-runner resume` ends it at once.
        quiet, "quiet_ms": Duration = ms(300_000), ms(100)..=DAY;
    }

    /// The folders in which the tools work.
    ["workspaces"] Workspaces {
        /// The folders. Relative paths of tools start in the first. A folder may begin with ~, or be relative to this file's folder.
        paths, "paths": Vec<PathBuf> = Vec::new(), ..;
    }

    /// The tools of this device.
    ["tools"] Tools {
        /// minimal, coding or all: the profile of this device (docs/mcp.md lists them). Tools outside of it are not published, and their calls are refused, whoever makes them.
        profile, "profile": ToolProfile = ToolProfile::All, ..;
    }

    /// The rights of one caller: NAME is the name of its token at the backend, as in [callers.ci]. [callers.default] is for all callers that have no table of their own; without it they may do what this file and policy.toml allow all. Rights only narrow that.
    ["callers.NAME"] CallerTable {
        /// The tools that the caller may call: by name, by effect ("reads", "writes", "executes"), or "guest:NAME" for a tool of an editor or a plugin. Not set: all.
        tools, "tools": Option<Vec<String>> = None, ..;
        /// minimal, coding or all: the caller may call only tools of this profile.
        profile, "profile": ToolProfile = ToolProfile::All, ..;
        /// The workspaces that the caller's calls may reach, all of them workspaces of the device. Such a caller runs no commands, because a command sees all workspaces. Not set: all workspaces.
        workspaces, "workspaces": Option<Vec<PathBuf>> = None, ..;
        /// The most calls that the caller may make within a minute; more are refused until then. 0: any number.
        rate, "rate": usize = 0, 0..=100_000;
    }

    /// Calls that need approval. Rules by tool, path and command are in policy.toml beside this file.
    ["policy"] Policy {
        /// The calls that need approval before they run: the effects "reads", "writes", "executes", or tools by name. The caller's side or the person here (`punie-runner approvals`) answers.
        ask, "ask": Vec<String> = Vec::new(), ..;
        /// How long a call waits for an answer while somebody can be asked; then it is refused. The wait ends a minute before the request's own deadline.
        patience, "patience_ms": Duration = ms(600_000), ms(1_000)..=DAY;
        /// Show a desktop notification for each call that waits for approval (Linux with systemd).
        notify, "notify": bool = true, ..;
    }

    /// The questions that the agent asks you (AskUserQuestion, RequestCredential). `punie-runner questions` lists and answers them.
    ["questions"] Questions {
        /// How long a question waits for an answer, unless the agent names a shorter or longer time.
        patience, "patience_ms": Duration = ms(600_000), ms(1_000)..=ms(3_000_000);
        /// The answer that the agent gets when nobody answers in time or nobody can be asked. Not set: it is told that there was no answer.
        default_answer, "default": Option<String> = None, ..;
    }

    /// What commands can read, write and connect to. The system's kernel enforces it (docs/safety.md).
    ["sandbox"] Sandbox {
        /// full, partial or none: the lowest level of confinement at which commands run. Below it they are refused; reading and editing files goes on.
        require, "require": RequiredLevel = default_required_level(), ..;
        /// none, loopback, ask or full: the network of commands. loopback: only servers that other commands started, or nothing where the system cannot set that up. ask: also other hosts, through a proxy that asks you about each host that no rule of policy.toml names. full: the internet, and every port of this machine.
        network, "network": NetworkAccess = default_network(), ..;
        /// Ports of this machine that commands can connect to with network = "loopback" or "ask", such as 5432 of a database.
        local_ports, "local_ports": Vec<u16> = Vec::new(), ..;
        /// Paths that commands can write in addition to the workspaces and their temporary folder, also protected files of a workspace, such as its .git/config. A path may begin with ~.
        write, "write": Vec<PathBuf> = Vec::new(), ..;
        /// Paths that commands can read in addition to the system, toolchains and their settings.
        read, "read": Vec<PathBuf> = Vec::new(), ..;
        /// Paths that commands cannot read, although they lie in a workspace or in the visible part of the home.
        hide, "hide": Vec<PathBuf> = Vec::new(), ..;
        /// true: write and local_ports may also open services that run programs for their callers (a tmux, ssh-agent, D-Bus or Docker socket, a debugger's port). Commands can then do all that you can.
        unsafe_openings, "unsafe": bool = false, ..;
        /// true: the tool OpenApp may start applications. They run unconfined, with any arguments.
        apps, "apps": bool = false, ..;
        /// false: nothing is confined. Commands then run only with require = "none".
        confine, "confine": bool = true, ..;
    }

    /// The backups that `punie-runner undo` uses: files before calls changed them, and snapshots of the workspaces.
    ["trash"] Trash {
        /// The most megabytes of backups; the oldest are deleted first. 0: no backups.
        max_mb, "max_mb": usize = 1_024, 0..=1_000_000;
        /// The number of days that backups are kept.
        keep_days, "keep_days": usize = 1, 1..=3_650;
        /// false: no snapshots of the workspaces before and after commands. `punie-runner undo` then knows nothing of commands.
        snapshots, "snapshots": bool = true, ..;
    }

    /// Packages that agents install in the home: skills, themes, canvases and plugins (docs/packages.md).
    ["store"] Store {
        /// true: publish the tools InstallSkillPackage, InstallThemePackage, InstallCanvasPackage, InstallPluginPackage and UninstallPackage. Plugins, and skills with secrets, ask you first.
        enabled, "enabled": bool = false, ..;
    }

    /// What `punie-runner history` shows of requests.
    ["journal"] JournalTitles {
        /// Keep the command, paths or query of each request for 30 days, and its arguments and output for up to 7 days. Known secrets are masked. false: keep none of them.
        keep_titles, "keep_titles": bool = true, ..;
    }

    /// The audit log: every request, decision and result, in a hash chain. `punie-runner audit` shows and checks it.
    ["audit"] Audit {
        /// The number of days that rows are kept.
        keep_days, "keep_days": usize = 90, 1..=3_650;
        /// The most megabytes of rows; the oldest are deleted first. A call has about one kilobyte.
        max_mb, "max_mb": usize = 200, 1..=100_000;
    }

    /// The use of a connected editor (`punie-runner acp`), if it supports it and a person has attached a session.
    ["editor"] Editor {
        /// true: text files of the editor's project are read and written through the editor, so that unsaved text is seen.
        files, "files": bool = true, ..;
        /// true: commands run in the editor's terminals, unconfined, and only with require = "none". false: they run here, and their output is shown in the editor too.
        terminals, "terminals": bool = false, ..;
        /// The calls that the person at the editor is asked about, or `punie-runner approvals` if no turn is open any more: the effects "reads", "writes", "executes".
        ask, "ask": Vec<NamedEffect> = vec![NamedEffect::Writes, NamedEffect::Executes], ..;
        /// announced, always or never: ask the editor for tools of its own. announced: only if it says that it has some.
        discover, "discover": DiscoveryMode = DiscoveryMode::Announced, ..;
        /// How long the editor may take to answer.
        timeout, "timeout_ms": Duration = ms(30_000), ms(100)..=HOUR;
        /// How long a tool of the editor may take, if its call has no earlier deadline.
        tool_timeout, "tool_timeout_ms": Duration = ms(60_000), ms(100)..=HOUR;
        /// How long a runner that an editor started keeps running after the editor went away during a turn. Calls that need approval wait for `punie-runner approvals` meanwhile.
        linger, "linger_ms": Duration = ms(600_000), ms(0)..=DAY;
    }

    /// MCP clients of this machine (docs/mcp.md). The servers whose tools are added have a table each, [mcp.servers.NAME].
    ["mcp"] Mcp {
        /// How long the runner that an MCP client started in the background stays up after the last client, the last call and the last background command have ended.
        linger, "linger_ms": Duration = ms(600_000), ms(0)..=DAY;
    }

    /// Changes of a program by an agent of its own, staged and applied together (docs/self-mod.md).
    ["self_mod"] SelfMod {
        /// The folder that such an agent changes, a workspace or a folder in one. It switches on the tools SelfModStart, SelfModApply, SelfModRevert, SelfModStatus and SelfModPackage. May begin with ~, or be relative to the first workspace.
        root, "root": Option<PathBuf> = None, ..;
    }

    /// What this device can tell about you (docs/signals.md). off: nothing of a category is opened. preview: `punie-runner signals preview` shows it to you. on: agents can read it, too, once you have agreed to its text.
    ["signals"] Signals {
        /// off, preview or on: pages that you visited, and bookmarks.
        browsing_bookmarks, "browsing_bookmarks": SignalSwitch = SignalSwitch::Off, ..;
        /// off, preview or on: your projects, the history of your shells, and tools for development.
        dev_environment, "dev_environment": SignalSwitch = SignalSwitch::Preview, ..;
        /// off, preview or on: programs and their use, and kinds of files in Downloads and on the desktop.
        apps_system, "apps_system": SignalSwitch = SignalSwitch::Off, ..;
        /// off, preview or on: numbers of messages, notes, reminders and events, never their text.
        messages_notes, "messages_notes": SignalSwitch = SignalSwitch::Off, ..;
        /// Folders in which projects are looked for in addition to the usual ones. A folder may begin with ~.
        project_folders, "project_folders": Vec<PathBuf> = Vec::new(), ..;
        /// true: apps_system also has the names of the folders in Documents. macOS asks you about that folder.
        documents, "documents": bool = false, ..;
    }

    /// Where `punie-runner update` finds releases of this program (docs/upgrade-and-uninstall.md).
    ["update"] Update {
        /// The folder with SHA256SUMS and the archives. Not set: the address that the release workflow built in.
        url, "url": Option<BackendUrl> = None, ..;
        /// The Ed25519 key that signs SHA256SUMS: 32 bytes as base64 or in hex, or the middle line of its PEM file. Not set: the key that the release workflow built in.
        public_key, "public_key": Option<PublicKey> = None, ..;
    }

    /// The log of the runner, on stderr.
    ["log"] Log {
        /// The least severe messages to log: off, error, warn, info, debug or trace.
        level, "level": LogLevel = LogLevel::Info, ..;
        /// auto, always or never: also log to logs/ in the home, 5 files of 10 MiB at most. auto: when stderr is not a terminal.
        file, "file": LogFile = LogFile::Auto, ..;
        /// text or json: json writes one JSON object a line, for programs that collect logs. A terminal gets text unless --log-format says json.
        format, "format": LogFormat = LogFormat::Text, ..;
    }
}
