//! (domain: state)
