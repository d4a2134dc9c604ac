//! Converts the owner's settings for the engine and the editor.

use std::time::Duration;

use crate::config::Config;
use punie_editor::EditorSettings;
use punie_engine::runner::{CallSettings, RunnerSettings};
use punie_home::Home;
#[cfg(feature = "packages")]
use punie_home::PackageStore;
use punie_tool::request::ToolEffect;
use punie_undo::{Trash, TrashLimits};

/// Converts the settings of editors.
pub fn editor_settings(config: &Config) -> EditorSettings {
    let editor = &config.editor;
    EditorSettings {
        files: editor.files,
        terminals: editor.terminals,
        ask: editor.ask.iter().copied().map(ToolEffect::from).collect(),
        timeout: editor.timeout,
        tool_timeout: editor.tool_timeout,
        discover: editor.discover,
    }
}

/// Returns the free disk space, in bytes, below which no call is started.
pub fn min_free_bytes(config: &Config) -> u64 {
    (config.limits.least_free_mb as u64) << 20
}

/// Converts the settings of the engine.
pub(super) fn runner_settings(config: &Config) -> RunnerSettings {
    let poll = &config.poll;
    let mut settings = RunnerSettings::default();
    settings.poll.hold = poll.hold;
    settings.poll.active_interval = poll.active;
    settings.poll.active_for = poll.active_for;
    settings.poll.recent_interval = poll.recent;
    settings.poll.recent_for = poll.recent_for;
    settings.poll.idle_interval = poll.idle;
    settings.poll.listening_interval = poll.listening;
    settings.poll.wakeup = config.backend.wakeup;
    settings.poll.jitter = poll.jitter;
    settings.waits.retry = (poll.error_base, poll.error_cap);
    settings.waits.slow_retry = (poll.function_error_min, poll.function_error_max);
    settings.waits.unauthorized = poll.unauthorized;
    settings.presence.heartbeat = config.backend.heartbeat;
    settings.presence.listening_heartbeat = config.backend.listening_heartbeat;
    settings.poll.list_open = config.backend.list_open;
    settings.poll.listening_list_open = config.backend.listening_list_open;
    settings
        .calls
        .replace(call_settings(config, settings.calls.current()));
    settings.crash_loop.crash_limit = config.safe_mode.crashes;
    settings.crash_loop.crash_window = config.safe_mode.within;
    settings.crash_loop.safe_mode_for = config.safe_mode.quiet;
    settings
}

/// Converts the settings of calls; `others` has those that are not configured.
pub(super) fn call_settings(config: &Config, others: CallSettings) -> CallSettings {
    let limits = &config.limits;
    CallSettings {
        progress: config.backend.progress,
        approval: config.policy.patience,
        lease_renew: limits.lease_renew,
        reads: limits.reads,
        total: limits.total,
        queue: limits.queue,
        ttl: limits.ttl,
        drain: limits.drain,
        least_free: min_free_bytes(config),
        keep_awake: limits.keep_awake,
        ..others
    }
}

/// Opens the trash of this home.
pub fn open_trash(config: &Config, home: &Home) -> Trash {
    Trash::new(home, trash_limits(config))
}

#[cfg(feature = "packages")]
/// Opens the packages of this home.
pub fn open_packages(config: &Config, home: &Home) -> PackageStore {
    PackageStore::in_home(home, trash_limits(config).keep)
}

/// Converts the limits of the trash.
pub(super) fn trash_limits(config: &Config) -> TrashLimits {
    TrashLimits {
        max_bytes: (config.trash.max_mb as u64) << 20,
        keep: Duration::from_hours(24 * config.trash.keep_days as u64),
    }
}
