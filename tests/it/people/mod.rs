//! The identity map: contacts whose names leave the device only as aliases.

mod aliases;
mod commands;
mod round_trip;
mod through_the_backend;
