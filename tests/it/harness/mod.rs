//! Fixtures and helpers that the tests share.

pub mod archive;
#[cfg(target_os = "linux")]
pub mod bus;
pub mod caller;
pub mod connect_proxy;
pub mod editor;
#[macro_use]
pub mod expect;
pub mod fake_client;
#[macro_use]
pub mod fields;
pub mod flip;
pub mod foreign;
pub mod inside;
pub mod instant_backend;
#[cfg(unix)]
pub mod interrupt_signal;
pub mod left_out;
pub mod on_terminal;
pub mod pairing;
pub mod process;
pub mod program;
pub mod proxy;
pub mod relay;
pub mod reserved_port;
pub mod running;
pub mod stage;
pub mod stepped_time;
#[cfg(unix)]
pub mod terminal;
pub mod tools;
pub mod wait;
pub mod whole;
pub mod worker;
