//! Reading and matching robots.txt, as RFC 9309 says, with the rule that decides and its line.
//!
//! ```
//! use abide_robots::{ProductToken, Rules, Target};
//!
//! let body = b"User-agent: ExampleBot\nDisallow: /private/\nAllow: /private/press/\nCrawl-delay: 2.5";
//! let rules = Rules::parse(body, &[ProductToken::new("ExampleBot")?]);
//!
//! assert!(rules.is_allowed(&Target::new("/private/press/2026")));
//! let verdict = rules.verdict(&Target::new("/private/diary"));
//! assert_eq!(verdict.to_string(), "disallowed by \"Disallow: /private/\" on line 2");
//! assert_eq!(rules.crawl_delay().unwrap().as_millis(), 2500);
//! # Ok::<(), abide_robots::InvalidText>(())
//! ```
//!
//! # In scope
//! Bytes in, verdict out: RFC 9309 §2.1, 2.2 and the parsing limit of §2.5, and the other records of a file
//! (Sitemap, Crawl-delay, preferences).
//!
//! # Out of scope
//! `abide-gate` fetches and caches robots.txt (§2.3, 2.4); `abide-permissions` reads the preferences.
//!
//! # Features
//! * `std` (default): lets memchr detect the processor's features at run time. Without it and `url`, the
//!   crate needs only `alloc`.
//! * `url`: a [`Target`] from a `&url::Url`. The crate `url` comes with `std`.
//! * `serde`: `Serialize` and `Deserialize` for [`ProductToken`].

// Time and the world are arguments here; `.clippy.toml` names what would reach out for them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::string_slice, reason = "a test that cannot go on fails")
)]
#![cfg_attr(not(test), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

// What a crawler is called, and how a file is read.
mod error;
mod profile;
mod token;

// The reader: bytes, lines, groups.
mod decode;
mod group;
mod line;
mod record;
mod robots;
mod space;

// For people: what is wrong with a file.
mod remark;
mod spoilt;

// The matcher: normal form, patterns, compiled rules, verdict.
mod compile;
mod compiled;
mod index;
mod literals;
mod normal;
mod pattern;
mod rules;
mod search;
mod slice;
mod sweep;
mod work;

pub use error::InvalidText;
pub use line::RecordKind;
pub use profile::ParseOptions;
pub use record::Record;
pub use remark::Remark;
pub use robots::Robots;
pub use rules::{RobotsVerdict, Rules, Target};
pub use token::ProductToken;
