//! The runner as an editor's agent: turns, the calls shown in them, questions to the person, and rude editors.

mod asking;
mod impostors;
mod loading;
mod questions;
mod rude;
mod stopping;
mod terminals;
mod turns;
mod unattended;
