//! The engine: five components around one loop. `intake` requests work, `executor` runs calls, `delivery` posts
//! their replies, `presence` reports the device's health to the backend, `housekeeping` checks the runner itself.

mod backend_call_state;
mod backend_client;
mod background;
mod backoff;
mod call_audit;
mod call_pause;
mod call_record;
mod call_titles;
mod coalesced_timer;
mod connection_record;
mod delivery;
mod disk_space;
mod error;
mod executor;
mod finished_call;
mod handles;
mod housekeeping;
mod intake;
mod keep_awake;
mod liveness;
mod main_loop;
mod one_shot;
mod open_counts;
mod parts;
mod presence;
mod request_signatures;
mod runner_settings;
mod sealer;
mod server_clock;
mod session_keeper;
mod shutdown;
mod shutdown_signal;
mod start;
mod task_requests;
mod tool_threads;
mod wake_event;
mod wake_signal;
mod wakeup_state;
mod watchdog;

pub use call_titles::CallTitles;
pub use error::RunnerError;
pub use finished_call::{ANSWERED_TARGET, FinishedCall, FinishedCallListener};
pub use keep_awake::{AwakeGuard, InhibitedSleep, SleepInhibitor};
pub use main_loop::OnePassSummary;
pub use parts::{
    BackgroundCommands, CatalogSource, EndedCommands, EndingCommands, InspectedEffects,
    LeftoverCleanup, RunnerParts, TrialCommand,
};
pub use punie_core::clock::Clock;
pub use runner_settings::{CallSettings, LiveCallSettings, RunnerSettings, WakeupMode};
pub use server_clock::SKEW_MS;
pub use shutdown::STOP_RESERVE;
pub use shutdown_signal::ShutdownSignal;
pub use start::Runner;
pub use task_requests::{TaskOrigin, TaskRequests};
pub use tool_threads::ToolThreads;
pub use wake_event::{LoopWaker, WakeReceiver, wake_channel};
pub use watchdog::Watchdog;
