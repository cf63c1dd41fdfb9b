//! The suite that every `PaceStore` must pass.
