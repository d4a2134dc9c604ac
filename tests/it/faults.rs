//! The catalogue of faults, each injected: a test is named by the fault that it proves something about.

mod backlog;
mod clocks;
mod logs;
