//! Quoted texts: where they are found, what comes in their place, how a miss is explained.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| punie_handlers::file::fuzzing::edit(data));
