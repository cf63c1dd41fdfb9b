#![cfg_attr(fuzzing, no_main)]
abide_fuzz::target!(fetch_script);
