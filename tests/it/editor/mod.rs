//! The runner as an editor's agent: turns, what is shown in them, what a person there is asked, and rude editors.

mod asking;
mod impostors;
mod loading;
mod questions;
mod rude;
mod stopping;
mod terminals;
mod turns;
mod unattended;
