//! Stories of signed identity, one file each.

mod keys;
mod verified;
