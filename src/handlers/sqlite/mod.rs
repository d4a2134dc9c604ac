//! (domain: sqlite)
