//! (domain: git)
