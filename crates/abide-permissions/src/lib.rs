//! What may be done with a page?
//!
//! A site states this in `Robots-Tag` and `X-Robots-Tag` fields and in the robots metas of the HTML head
//! (draft-illyes-repext-03). This crate reads them for the product tokens of one crawler, and combines them:
//! every restriction counts. The result names the source of each rule.

// Time and the world are arguments here; `.clippy.toml` names what would reach out for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::string_slice, reason = "a test that cannot go on fails")
)]
#![cfg_attr(feature = "html", doc = "```")]
#![cfg_attr(not(feature = "html"), doc = "```ignore")]
//! use std::time::SystemTime;
//! use abide_permissions::{HeadScanner, Permissions, ReadOptions};
//!
//! let options = ReadOptions::new("ExampleBot".parse()?);
//! let mut scanner = HeadScanner::new(&options, Some("text/html; charset=utf-8"));
//! let _ = scanner.feed(b"<!doctype html><title>A</title><meta name=robots content=noindex><p>");
//!
//! let fields = [("Robots-Tag", b"*;nosnippet, OtherBot;noindex".as_slice())];
//! let permissions = Permissions::read(&options, fields, scanner.finish(), SystemTime::now());
//! assert!(!permissions.may_index());
//! assert_eq!(permissions.rules().to_string(), "noindex, nosnippet");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *In scope*: the fields in every form that is in use, the metas of the exact head of the HTML standard while the body streams, records for the
//! time between fetches, and `rel` of links.
//!
//! *Out of scope*: `data-nosnippet` (it needs the whole body), XML sitemaps, metadata within EPUB and PDF. robots.txt is
//! `abide-robots`.
//!
//! No I/O, no clock, no async; nothing panics on any input. Every limit has a default and a name.
//!
//! Features: `html` (default) brings `HeadScanner` on lol_html; `serde` serialises records.

mod answer;
mod error;
mod options;
mod permissions;
mod provenance;
mod question;
mod rules;

mod head;
mod header;
mod meta;

mod directives;
mod license;
mod preference;

mod freshness;
mod record;
mod store;

#[cfg(feature = "testing")]
pub mod testing;

mod date;
mod element;
mod link;
mod quoted;
mod rule;
mod stated;
mod value;
mod words;

pub use answer::Answer;
pub use date::UnavailableAfter;
pub use directives::AppDirectives;
pub use error::PermissionError;
/// What a [`PermissionStore`] returns, so that it can be used as `dyn`.
pub use futures_core::future::BoxFuture;
pub use head::{Head, HeadEnd, Meta};
pub use license::{license_challenge, licenses};
pub use link::link_follow;
#[cfg(feature = "html")]
pub use meta::HeadScanner;
pub use options::{AI_TRAINING_TOKEN, ReadOptions};
pub use permissions::Permissions;
pub use preference::{
    Preference, PreferenceStatement, Preferences, Usage, record_problem, states_preferences,
};
pub use provenance::Provenance;
pub use question::Question;
pub use record::{Fetched, PermissionRecord, is_whole};
pub use rules::TagRules;
pub use store::{MemoryPermissionStore, PermissionStore};
pub use value::SfValue;

/// Re-exported, because [`ReadOptions`] takes it.
pub use abide_robots::ProductToken;
