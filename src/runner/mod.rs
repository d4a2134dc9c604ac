//! The engine: five components around one loop. `intake` requests work, `executor` runs calls, `delivery` posts
//! their replies, `presence` reports the device's health to the backend, `housekeeping` checks the runner itself.

mod backend_client;
mod background;
mod backoff;
mod call_audit;
mod clock;
mod coalesced_timer;
mod connection_record;
mod delivery;
mod disk_room;
mod error;
mod executor;
mod handles;
mod housekeeping;
mod intake;
mod liveness;
mod main_loop;
mod one_shot;
mod open_counts;
mod parts;
mod pause;
mod presence;
mod request_signatures;
mod sealer;
mod session;
mod settings;
mod shutdown;
mod start;
mod stop;
mod task_requests;
mod tool_threads;
mod wake;
mod wake_signal;
mod wakeup_state;
mod watchdog;

pub use clock::{Clock, SKEW_MS};
pub use error::RunnerError;
pub use main_loop::OnePassSummary;
pub use parts::{Catalog, Confines, LookedAfter, Parts, Survivors};
pub use settings::{Settings, WakeUp};
pub use start::Runner;
pub use stop::Stop;
pub use task_requests::TaskRequests;
pub use tool_threads::ToolThreads;
pub use wake::{Waker, Wakes, wakes};
pub use watchdog::Watchdog;
