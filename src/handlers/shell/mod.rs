//! (domain: shell)
