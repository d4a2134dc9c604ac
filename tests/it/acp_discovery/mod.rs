//! Tools that an editor offers: the checks of its catalog, how the tools enter and leave the registry, and how one is
//! called. The connection to the editor, a client of the official crate, is real.

mod bridge;
mod editor;
mod guests;
mod reading;
mod tiers;
mod whole;
