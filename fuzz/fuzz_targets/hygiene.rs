//! Command output: the same text however it was cut, and no escape left in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| punie_text::fuzzing::hygiene(data));
