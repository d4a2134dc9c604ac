//! The engine: takes requests from a backend, runs each at most once, and posts every answer.
//!
//! [`runner`] is the loop with its components, [`journal`] the state that survives a crash, [`backend`] the device's side of
//! the wire, [`audit`] the chained record of requests and decisions.
//!
//! Read first: [`runner::Runner`], whose `start` makes the components; [`journal::Journal`], whose types
//! (`AcceptedRequest`, `RecordedStart`, `RecordedReply`) are the proofs that a step hands to the next one;
//! [`backend::Backend`], the trait of the two wires.
//!
//! The program uses this crate, and no tool does. It knows the tools by `punie-tool` alone, and uses `punie-core`,
//! `punie-home` and `punie-text`.

pub mod audit;
pub mod backend;
pub mod journal;
pub mod runner;
