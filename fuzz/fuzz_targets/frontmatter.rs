//! Heads of Markdown files, which come from elsewhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| punie_home::fuzzing::head(data));
