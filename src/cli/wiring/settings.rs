//! Converts the owner's settings for the engine and the editor. Not here: those of confinement.

use crate::acp::editor::{Discover, EditorSettings};
use crate::config::{self, Config};
use crate::request::Effect;
use crate::runner::{Settings, WakeUp};

/// Converts the settings of editors.
pub fn editor_settings(config: &Config) -> EditorSettings {
    let editor = &config.editor;
    let effect = |asked: &config::AskedAbout| match asked {
        config::AskedAbout::Reads => Effect::Reads,
        config::AskedAbout::Writes => Effect::Writes,
        config::AskedAbout::Executes => Effect::Executes,
    };
    EditorSettings {
        files: editor.files,
        terminals: editor.terminals,
        ask: editor.ask.iter().map(effect).collect(),
        timeout: editor.timeout,
        tool_timeout: editor.tool_timeout,
        discover: match editor.discover {
            config::Discover::Announced => Discover::Announced,
            config::Discover::Always => Discover::Always,
            config::Discover::Never => Discover::Never,
        },
    }
}

/// Returns the free disk space, in bytes, below which no call is started.
pub fn least_free(config: &Config) -> u64 {
    (config.limits.least_free_mb as u64) << 20
}

/// Converts the settings of the engine.
pub(super) fn settings(config: &Config) -> Settings {
    let (poll, limits) = (&config.poll, &config.limits);
    Settings {
        hold: poll.hold,
        active_interval: poll.active,
        active_for: poll.active_for,
        recent_interval: poll.recent,
        recent_for: poll.recent_for,
        idle_interval: poll.idle,
        listening_interval: poll.listening,
        wakeup: match config.backend.wakeup {
            config::WakeUp::Auto => WakeUp::Auto,
            config::WakeUp::On => WakeUp::On,
            config::WakeUp::Off => WakeUp::Off,
        },
        jitter: poll.jitter,
        retry: (poll.error_base, poll.error_cap),
        slow_retry: (poll.function_error_min, poll.function_error_max),
        unauthorized: poll.unauthorized,
        heartbeat: config.backend.heartbeat,
        listening_heartbeat: config.backend.listening_heartbeat,
        list_open: config.backend.list_open,
        listening_list_open: config.backend.listening_list_open,
        progress: config.backend.progress,
        approval: config.policy.patience,
        lease_renew: limits.lease_renew,
        reads: limits.reads,
        total: limits.total,
        queue: limits.queue,
        ttl: limits.ttl,
        drain: limits.drain,
        crash_limit: config.safe_mode.crashes,
        crash_window: config.safe_mode.within,
        safe_mode_for: config.safe_mode.quiet,
        least_free: least_free(config),
        ..Settings::default()
    }
}
