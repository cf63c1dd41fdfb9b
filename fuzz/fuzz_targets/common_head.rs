#![cfg_attr(fuzzing, no_main)]
abide_fuzz::target!(common_head);
