//! Every key of `config.toml`, declared once: type, default, bounds and comment. The types, the parser, the file that
//! `init` writes and the displayed values are all generated from here. Declare a key only once something reads it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::choices::{
    AskedAbout, BackendKind, Discover, LogFile, LogLevel, WakeUp, default_required_level,
};
use super::config_setting::ConfigSetting;
use super::proxy::ProxySetting;
use super::public_key::PublicKey;
use super::sources::ValueOrigin;
use super::toml_document::{ConfigDocument, ConfigFault};
use super::url::BackendUrl;
use super::value::{ConfigValue, ValueBounds, ValueError, expected_text};
use crate::sandbox::{NetworkAccess, RequiredLevel};

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

        /// All tables, in the order of the generated file.
        pub(super) const TABLES: &[TableInfo] = &[$( TableInfo {
            path: $path,
            about: &[$($about),+],
            keys: &[$( KeyInfo {
                name: $key,
                path: concat!($path, ".", $key),
                comment: &[$($comment),+],
                default: || <$Kind as ConfigValue>::to_toml(&$default),
                example: <$Kind as ConfigValue>::EXAMPLE,
            } ),+],
        } ),+];
    };
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const HOUR: Duration = ms(3_600_000);
const DAY: Duration = ms(86_400_000);

tables! {
    /// The event backend that this device asks for work.
    ["backend"] Backend {
        /// convex: functions over HTTP, as Convex and the embedded backend have them. websocket: a worker that sends tool calls over one WebSocket.
        kind, "kind": BackendKind = BackendKind::Convex, ..;
        /// Its address: https://... of a convex backend, wss://... of a websocket one.
        url, "url": Option<BackendUrl> = None, ..;
        /// Allow plain http or ws to other machines. Requests, results and the session's token can then be read on the way.
        allow_insecure_http, "allow_insecure_http": bool = false, ..;
        /// The HTTP proxy through which the backend is reached: http://host:port, or none for a direct connection. Not set: as HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say. A backend on this machine is always reached directly.
        proxy, "proxy": Option<ProxySetting> = None, ..;
        /// Run only requests that are signed with the private half of this Ed25519 key, for this device, and not expired (docs/audit.md). Not set: whatever the backend hands on is run.
        request_key, "request_key": Option<PublicKey> = None, ..;
        /// auto, on or off: whether a convex backend may tell the device by a WebSocket that there is something to ask for. auto: where it does not hold questions that have no answer yet.
        wakeup, "wakeup": WakeUp = WakeUp::Auto, ..;
        /// How often the device says that it is there, until the backend says otherwise.
        heartbeat, "heartbeat_ms": Duration = ms(60_000), ms(100)..=HOUR;
        /// The same while the backend tells of news by itself (wakeup). A device that is gone without a word is missed after two and a half of these.
        listening_heartbeat, "listening_heartbeat_ms": Duration = ms(300_000), ms(100)..=HOUR;
        /// How often it asks for all unfinished work, in case an event was missed.
        list_open, "list_open_ms": Duration = ms(300_000), ms(100)..=DAY;
        /// The same while the backend tells of news by itself (wakeup).
        listening_list_open, "listening_list_open_ms": Duration = ms(3_600_000), ms(100)..=DAY;
        /// The least pause between pieces of a running command's output, 1000 or more; it grows as the command runs on. 0: callers see only results.
        progress, "progress_ms": Duration = ms(1_000), ms(0)..=HOUR;
    }

    /// How often the backend is asked. The waits are varied by the jitter.
    ["backend.poll"] Poll {
        /// How long the backend may hold a question that has no answer yet. 0: it answers at once.
        hold, "hold_ms": Duration = ms(25_000), ms(0)..=ms(60_000);
        /// The wait while there is work.
        active, "active_ms": Duration = ms(1_000), ms(10)..=HOUR;
        /// How long after the last event there is work.
        active_for, "active_for_ms": Duration = ms(60_000), ms(0)..=DAY;
        /// The wait after that, for a while.
        recent, "recent_ms": Duration = ms(5_000), ms(10)..=HOUR;
        /// How long after the last event that while ends.
        recent_for, "recent_for_ms": Duration = ms(600_000), ms(0)..=DAY;
        /// The wait when nothing has come for long.
        idle, "idle_ms": Duration = ms(30_000), ms(10)..=HOUR;
        /// The wait while the backend tells of news by itself (wakeup).
        listening, "listening_ms": Duration = ms(300_000), ms(10)..=HOUR;
        /// The share by which a wait is longer or shorter, so that devices do not ask in step.
        jitter, "jitter": f64 = 0.2, 0.0..=0.5;
        /// The first wait after an error; it doubles with each further one.
        error_base, "error_base_ms": Duration = ms(1_000), ms(10)..=HOUR;
        /// The longest wait after errors.
        error_cap, "error_cap_ms": Duration = ms(60_000), ms(10)..=DAY;
        /// The first wait after the backend's own code failed.
        function_error_min, "function_error_min_ms": Duration = ms(30_000), ms(10)..=DAY;
        /// The longest wait after that.
        function_error_max, "function_error_max_ms": Duration = ms(300_000), ms(10)..=DAY;
        /// The wait after the backend refused this device and a new session did not help.
        unauthorized, "unauthorized_ms": Duration = ms(300_000), ms(10)..=DAY;
    }

    /// How the connection of a websocket backend is kept. The token in tokens/BACKEND/backend of the home, if there is one, is shown to the worker.
    ["backend.websocket"] WebSocket {
        /// After how much silence the worker is pinged.
        ping, "ping_ms": Duration = ms(20_000), ms(10)..=HOUR;
        /// How long after a ping without any sign of life the connection counts as dead.
        pong_timeout, "pong_timeout_ms": Duration = ms(20_000), ms(10)..=HOUR;
    }

    /// How much is done at once and how long it may take.
    ["limits"] Limits {
        /// Reading calls at once, in all conversations. Writing calls and commands take none of their places.
        reads, "reads": usize = 8, 1..=64;
        /// Writing calls and commands at once, in all conversations. Each runs alone in its own.
        total, "total": usize = 16, 1..=256;
        /// Requests that wait in memory, up to 4 MB of arguments. The rest waits in the journal.
        queue, "queue": usize = 256, 1..=10_000;
        /// A request older than this is answered as expired, unless it brings a deadline of its own.
        ttl, "ttl_ms": Duration = ms(600_000), ms(1_000)..=DAY;
        /// How long running calls may go on when the runner is told to stop.
        drain, "drain_ms": Duration = ms(10_000), ms(0)..=HOUR;
        /// Whether shells in the background go on when the runner is told to stop. The next start takes them up again. false: they are ended. A crash ends none of them either way.
        keep_shells, "keep_shells": bool = false, ..;
        /// How long a claimed request stays ours without a sign of life.
        lease, "lease_ms": Duration = ms(60_000), ms(500)..=HOUR;
        /// How often that sign is given. At most half of lease_ms.
        lease_renew, "lease_renew_ms": Duration = ms(20_000), ms(100)..=HOUR;
        /// Nothing new is begun while the disk of the home has fewer megabytes free; what was begun is still finished.
        least_free_mb, "least_free_mb": usize = 200, 0..=1_000_000;
    }

    /// After several crashes in a row the runner accepts and delivers, and begins nothing.
    ["safe_mode"] SafeMode {
        /// How many crashes lead to it. Those during which the same call ran count as one. 0: never.
        crashes, "crashes": usize = 3, 0..=1_000;
        /// Within how long.
        within, "within_ms": Duration = ms(300_000), ms(1_000)..=DAY;
        /// How long a life without a crash lasts until it trusts itself again. `punie-runner resume` is quicker.
        quiet, "quiet_ms": Duration = ms(300_000), ms(100)..=DAY;
    }

    /// The folders in which the tools work.
    ["workspaces"] Workspaces {
        /// The first is where relative paths begin. A path may begin with ~, or be relative to this file's folder.
        paths, "paths": Vec<PathBuf> = Vec::new(), ..;
    }

    /// What a call needs beside staying in the workspace. Rules by tool, path and command are in policy.toml beside this file.
    ["policy"] Policy {
        /// What somebody is asked about before it runs: the effects "reads", "writes", "executes", or tools by name. The caller's side or the person here (`punie-runner approvals`) answers.
        ask, "ask": Vec<String> = Vec::new(), ..;
        /// How long a call waits for an answer while somebody can be asked; then it is refused. The wait ends a minute before the request's own deadline.
        patience, "patience_ms": Duration = ms(600_000), ms(1_000)..=DAY;
        /// Show a desktop notification for each call that waits for approval (Linux).
        notify, "notify": bool = true, ..;
    }

    /// What commands may touch, as the system's kernel enforces it (docs/safety.md).
    ["sandbox"] Sandbox {
        /// full, partial or none: the least level of confinement at which commands run. Below it they are refused; reading and editing files goes on.
        require, "require": RequiredLevel = default_required_level(), ..;
        /// none, loopback or full: what commands reach. loopback: each other, where the system lets that be set up without privilege, else nothing.
        network, "network": NetworkAccess = NetworkAccess::Loopback, ..;
        /// Ports of this machine's own loopback that commands reach with network = "loopback", such as 5432 of a database. Whatever listens there answers them.
        local_ports, "local_ports": Vec<u16> = Vec::new(), ..;
        /// What commands may write beside the workspaces and their temporary folder, and what of a workspace although it is protected (as its .git/config). A path may begin with ~.
        write, "write": Vec<PathBuf> = Vec::new(), ..;
        /// What commands may read of the home beside toolchains and their settings, which they see anyway.
        read, "read": Vec<PathBuf> = Vec::new(), ..;
        /// What commands may not read although it is in a workspace or in what they see of the home.
        hide, "hide": Vec<PathBuf> = Vec::new(), ..;
        /// true: write and local_ports may also open what runs programs for its callers (a tmux, ssh-agent, D-Bus or Docker socket, a debugger's port). Commands can then do all that you can.
        unsafe_openings, "unsafe": bool = false, ..;
        /// Let OpenApp start applications. They run unconfined, with any arguments.
        apps, "apps": bool = false, ..;
        /// false: nothing is confined. Commands then run only with require = "none".
        confine, "confine": bool = true, ..;
    }

    /// What files were before calls changed them, and what commands removed: `punie-runner undo` puts it back.
    ["trash"] Trash {
        /// How many megabytes are kept, the latest. 0: nothing.
        max_mb, "max_mb": usize = 1_024, 0..=1_000_000;
        /// For how many days.
        keep_days, "keep_days": usize = 1, 1..=3_650;
    }

    /// What was asked of this device, decided and done, in rows that follow from each other: `punie-runner audit`.
    ["audit"] Audit {
        /// For how many days rows are kept.
        keep_days, "keep_days": usize = 90, 1..=3_650;
        /// How many megabytes of rows are kept, the latest; a call has about one kilobyte.
        max_mb, "max_mb": usize = 200, 1..=100_000;
    }

    /// What a connected editor is used for (`punie-runner acp`), where it serves that and a person has attached a session.
    ["editor"] Editor {
        /// Text files of the editor's project are read and written through it, so that unsaved text is seen.
        files, "files": bool = true, ..;
        /// Commands run in the editor's terminals, where nothing confines them: only with require = "none". Here their output is kept whole, and they are ended surely; what they print is shown in the editor either way.
        terminals, "terminals": bool = false, ..;
        /// What the person at the editor is asked about while a turn is open, and by `punie-runner approvals` when none is any more: the effects "reads", "writes", "executes".
        ask, "ask": Vec<AskedAbout> = vec![AskedAbout::Writes, AskedAbout::Executes], ..;
        /// Whether the editor is asked for tools of its own: when it announces them, always, or never.
        discover, "discover": Discover = Discover::Announced, ..;
        /// How long the editor may take to answer.
        timeout, "timeout_ms": Duration = ms(30_000), ms(100)..=HOUR;
        /// How long a tool of the editor's own may take, where its call has no earlier deadline.
        tool_timeout, "tool_timeout_ms": Duration = ms(60_000), ms(100)..=HOUR;
        /// How long a runner that an editor launched goes on after the editor went away in the middle of a turn. What would be asked about there waits for an approval meanwhile.
        linger, "linger_ms": Duration = ms(600_000), ms(0)..=DAY;
    }

    /// What the runner says about its work, on stderr.
    ["log"] Log {
        /// off, error, warn, info, debug or trace.
        level, "level": LogLevel = LogLevel::Info, ..;
        /// auto, always or never: whether a runner also writes to logs/ in the home, 5 files of 10 MiB at most. auto: when its stderr is no terminal.
        file, "file": LogFile = LogFile::Auto, ..;
    }
}

/// Reads the values of one file and records their origins and all faults.
pub(super) struct ConfigReader<'a> {
    file: &'a Path,
    written: &'a ConfigDocument,
    pub(super) faults: Vec<ConfigFault>,
    pub(super) settings: Vec<ConfigSetting>,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(file: &'a Path, written: &'a ConfigDocument) -> Self {
        let keys: Vec<&str> = TABLES
            .iter()
            .flat_map(|table| table.keys)
            .map(|key| key.path)
            .collect();
        let tables: Vec<&str> = TABLES.iter().map(|table| table.path).collect();
        Self {
            file,
            written,
            faults: written.find_unknown_keys(&tables, &keys),
            settings: Vec::new(),
        }
    }

    fn read_key<T: ConfigValue>(
        &mut self,
        key: &'static str,
        default: T,
        bounds: &dyn ValueBounds<T>,
    ) -> T {
        let Some(entry) = self.written.get(key) else {
            return self.record_setting(key, default, ValueOrigin::Default);
        };
        let origin = ValueOrigin::File {
            path: self.file.to_owned(),
            line: entry.line,
        };
        let why = match T::from_toml(&entry.value) {
            Ok(value) if bounds.allows_value(&value) => {
                return self.record_setting(key, value, origin);
            }
            Ok(_) | Err(ValueError::WrongType) => expected_text::<T>(bounds, &entry.value),
            Err(ValueError::Invalid(why)) => format!("is wrong: {why}"),
        };
        self.faults.push(ConfigFault {
            line: Some(entry.line),
            text: format!("{key} {why}"),
        });
        default
    }

    fn record_setting<T: ConfigValue>(
        &mut self,
        key: &'static str,
        value: T,
        origin: ValueOrigin,
    ) -> T {
        let shown = value.to_toml().unwrap_or_else(|| "not set".to_owned());
        self.settings.push(ConfigSetting {
            key,
            value: shown,
            origin,
        });
        value
    }

    /// Records a fault between two keys, at the one that the file has.
    pub(super) fn require_fit(&mut self, fits: bool, keys: [&str; 2], text: &str) {
        if !fits {
            let line = keys
                .iter()
                .rev()
                .find_map(|key| self.written.get(key))
                .map(|entry| entry.line);
            self.faults.push(ConfigFault {
                line,
                text: text.to_owned(),
            });
        }
    }
}
