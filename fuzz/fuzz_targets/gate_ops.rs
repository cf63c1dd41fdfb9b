#![cfg_attr(fuzzing, no_main)]
abide_fuzz::target!(gate_ops);
