//! Faults made on purpose, each by its number in the project's catalogue of faults, and what must come of them.

mod corruption;
mod disk;
mod disk_model;
mod power;
mod upgrade;
