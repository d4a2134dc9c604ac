//! (domain: file)
