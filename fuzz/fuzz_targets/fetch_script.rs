#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| abide_fuzz::fetch_script::run(bytes));
