//! (domain: search)
