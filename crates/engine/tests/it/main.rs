//! The journal and the audit on a real disk. What needs the program is tested with it.

mod audit;
mod journal;
