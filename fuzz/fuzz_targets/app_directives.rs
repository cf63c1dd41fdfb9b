#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| abide_fuzz::app_directives::run(bytes));
