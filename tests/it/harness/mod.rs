//! What the tests share.

pub mod tools;
pub mod whole;
