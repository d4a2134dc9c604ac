//! What the tests share.

pub mod tools;
