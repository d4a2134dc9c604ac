//! (domain: terminal)
