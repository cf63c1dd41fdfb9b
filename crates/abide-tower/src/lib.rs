#![cfg_attr(feature = "hyper-util", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "hyper-util"),
    doc = "abide as a `tower::Layer`. The front page needs the feature `hyper-util`."
)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

// Building.
mod layer;

// A request's way.
mod request_url;
mod service;

// A response's way.
mod error;
mod extension;

// The wire.
#[cfg(feature = "hyper-util")]
mod resolver;
mod robots_fetch;

pub use error::ServiceError;
pub use extension::ResponseExt;
pub use layer::{AbideLayer, Builder};
#[cfg(feature = "hyper-util")]
pub use resolver::GuardedResolver;
pub use service::{AbideBody, AbideService};

pub use abide_gate::{
    AddressGuard, BoxFuture, Denied, DeniedKind, Event, Failure, Gate, GateBuilder, Host, Origin, Refusal,
    RefusalKind, SignRequest, Verdict, pacing, robots_cache,
};
pub use abide_http::{BuildError, CrawlerBuilder, FetchInfo, Hop, Options, Scan};
#[cfg(any(feature = "identity", feature = "license", feature = "price"))]
pub use abide_identity as identity;
pub use abide_permissions::{
    Answer, Permissions, Preference, Preferences, Question, ReadOptions, TagRules, Usage,
};

/// Any error that can cross threads, as tower has it.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
