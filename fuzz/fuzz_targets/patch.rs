//! Patches: reading them, placing them in a small text, and the diff that a dry run shows.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| punie_handlers::file::fuzzing::patch(data));
