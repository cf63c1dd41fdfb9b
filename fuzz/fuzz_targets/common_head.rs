#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| abide_fuzz::common_head::run(bytes));
