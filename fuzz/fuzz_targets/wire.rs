//! What the backend sends, and the arguments of a tool.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    punie_engine::backend::fuzzing::replies(data);
    punie_tool::fuzzing::arguments(data);
});
