//! Faults made on purpose, each by its number in the project's catalogue of faults, and what must come of them.

mod corruption;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod disk_model;
#[cfg(target_os = "linux")]
mod power;
mod upgrade;
