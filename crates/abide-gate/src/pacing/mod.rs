//! When the next request to a host may be sent.
//!
//! For every host, over all tasks of a process, and over all processes that share a store:
//!
//! 1. At most **one** request is in flight, until its body has ended or was dropped.
//! 2. At least the **delay** lies between the end of one response and the start of the next request: 1 s, or
//!    the site's Crawl-delay if larger.
//! 3. Nothing is sent during a **backoff**, after 429, 503 or another response that asks for it, or while the
//!    host cannot be reached.
//! 4. If the server says how many requests are left (`RateLimit`, `X-RateLimit-Remaining`), these are spread
//!    over the time until there are more, if that is longer than the delay.
//! 5. No call waits longer than its budget: beyond that there is a typed
//!    [`Deferred`](crate::DeniedKind::Deferred), as early as it is certain.
//! 6. First come, first served.
//!
//! Every request counts, also for robots.txt. The key is the host: http, https and all ports of a name share
//! one schedule, and so do the spellings of one address ([`Host`](crate::Host)).
//!
//! ```text
//! acquire(url, ..) ──▶ key      the host, or a group of hosts
//!                     hosts    what is known of it
//!                     host     go, wait, or defer: state × request × now   (plain functions)
//!                     queue    who waits
//!                     lease    whether this process has the lease of the host, if processes share a HostStore
//!                     keeper   asks the store for leases and gives them up
//!                     renewal  renews the leases of many hosts in one call
//!        Permit ◀──── pacer    on the wire, until the response has ended
//!        observe ───▶ wait_request  what the response asks for
//!                     backoff, breaker (faults and server errors), refusals (the row of 403s)
//! ```
//!
//! # Not done here
//!
//! * `Request-rate` and `Visit-time` of some robots.txt files are not enforced: no two crawlers agree on what
//!   they mean.
//! * A client that sends a request again below the caller (reqwest's protocol retries) gets more than one
//!   request per permit; the client that `abide` builds has that switched off.
//! * HTTP/2's `ENHANCE_YOUR_CALM` backs a host off where it ends the request or its body (RST_STREAM, or
//!   GOAWAY with a last stream below the request's). hyper keeps the code of a GOAWAY with a higher last
//!   stream to itself: the response completes, or ends as a connection that was closed, and no error that a
//!   client of hyper returns names the code.
//! * With more than one request in flight the delay is kept between starts, which a server may see shortened.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "durations are bounded by the options, and counts by memory"
)]

// In the order in which a request meets them.
mod key;
mod pacer;
mod policy;

mod host;
mod hosts;
mod queue;

mod backoff;
mod breaker;
mod deferral;
mod next_hop;
mod observe;
mod open_bodies;
mod rate_limit;
mod refusals;
mod report;
mod retry_after;
mod wait_request;

// Several processes.
mod host_codec;
mod host_state;
mod keeper;
mod lease;
mod renewal;
mod store;

pub use backoff::{BackoffCause, THROTTLES_KEPT};
pub use deferral::DeferReason;
pub(crate) use host::Purpose;
pub use host_state::HostEntry;
pub use key::PacingKey;
pub use next_hop::NextHop;
pub use observe::RefusalReporter;
pub(crate) use pacer::Pacer;
pub use pacer::Permit;
pub use policy::{DELAY_MAX, FILE_DELAY_MAX, OnStoreOutage, PacePolicy};
pub use report::{HostReport, NextSlot};
pub use retry_after::{RETRY_AFTER_MAX, retry_after};
pub use store::{Backoff, HostState, HostStore, LeaseAsk, LeaseReply, LeaseStatus, Want, exchange_each};
pub use wait_request::{WaitRequest, wait_request};
