//! Tools that an editor offers of its own: what is believed of them, how they come into the registry and go again,
//! and how one is called, over a real connection to a client of the official crate.

mod bridge;
mod editor;
mod guests;
mod reading;
mod tiers;
mod whole;
