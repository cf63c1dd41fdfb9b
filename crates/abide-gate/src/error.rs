//! Refusals: an answer, not an accident.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use url::Url;

use crate::pacing::DeferReason;
use crate::text::Escaped;
use crate::verdict::Verdict;
use crate::{Failure, WallMillis};

/// A request was refused before it went out.
///
/// Opaque and short; [`Denied`], its source, is the sentence. It is found through any number of wrapping layers by
/// [`Error::find`], but not inside an HTTP cache, which turns errors into text.
#[derive(Debug, Clone)]
pub struct Error {
    denied: Box<Denied>,
    chain: Vec<(Url, StatusCode)>,
}

impl Error {
    /// The refusal somewhere in `error`'s chain of sources, if there is one.
    ///
    /// Works on `reqwest_middleware::Error`, on what a retry middleware makes of it, on boxed errors, and on
    /// `anyhow::Error` through its `as_ref()`.
    ///
    /// ```
    /// # use abide_gate::{Denied, Error};
    /// # fn handle(error: Box<dyn std::error::Error + 'static>) {
    /// match Error::find(&*error) {
    ///     Some(Denied::Disallowed { url, .. }) => println!("skip {url}"),
    ///     Some(Denied::Deferred { not_before, .. }) => println!("again at {not_before:?}"),
    ///     Some(other) => println!("refused: {other}"),
    ///     None => println!("a network error: {error}"),
    /// }
    /// # }
    /// ```
    pub fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Denied> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(&found.denied);
            }
            if let Some(denied) = error.downcast_ref::<Denied>() {
                return Some(denied);
            }
            next = error.source();
        }
        None
    }

    /// The refusal.
    pub fn denied(&self) -> &Denied {
        &self.denied
    }

    /// The hops that went out before the refused one, first to last, and what they answered.
    pub fn chain(&self) -> &[(Url, StatusCode)] {
        &self.chain
    }

    /// [`Denied::is_disallowed`].
    pub fn is_disallowed(&self) -> bool {
        self.denied.is_disallowed()
    }

    /// [`Denied::is_temporary`].
    pub fn is_temporary(&self) -> bool {
        self.denied.is_temporary()
    }

    /// [`Denied::retry_at`].
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.denied.retry_at()
    }

    /// The same refusal, met after the hops of `chain`.
    #[doc(hidden)]
    #[must_use]
    pub fn after(mut self, chain: Vec<(Url, StatusCode)>) -> Self {
        self.denied.set_hop(chain.len());
        self.chain = chain;
        self
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        Self { denied: Box::new(denied), chain: Vec::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.denied {
            Denied::Disallowed { .. } => "disallowed by robots.txt",
            Denied::Unreachable { .. } => "robots.txt is unreachable",
            Denied::Deferred { .. } => "deferred",
            Denied::CrawlDelayTooLong { .. } => "the Crawl-delay is too long",
            Denied::AddressRefused { .. } => "the address is refused",
            Denied::UnsupportedUrl { .. } => "unsupported URL",
            Denied::TooManyRedirects { .. } => "too many redirects",
            Denied::RedirectBypass { .. } => "the inner client follows redirects by itself",
            Denied::WrongOrder { .. } => "the middlewares stand in the wrong order",
            Denied::Identity { .. } => "the User-Agent does not name the crawler",
            Denied::ForeignHost { .. } => "the Host names another site",
            Denied::Store { .. } => "the shared store failed",
            Denied::Panicked { .. } => "a callback panicked",
            Denied::NoTimers => "there are no timers",
            Denied::Interrupted => "interrupted",
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.denied)
    }
}

/// Why a request did not go out, and what to do about it.
///
/// Shown, it is one sentence, in which URLs are cut after 200 characters; [`Denied::url`] is the whole.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Denied {
    /// A rule of the site forbids it: skip the URL.
    Disallowed {
        /// The URL that was refused, without user information.
        url: Url,
        /// The rule, its line, and where it came from.
        verdict: Verdict,
        /// Which hop of the redirect chain it was; 0 is the request itself.
        hop: usize,
    },
    /// The site's robots.txt could not be learnt, so everything is disallowed for now (RFC 9309 §2.3.1.4).
    Unreachable {
        /// The URL that was refused.
        url: Url,
        /// Since when robots.txt cannot be reached.
        since: SystemTime,
        /// What went wrong.
        cause: Failure,
        /// When it is asked for again.
        retry_at: SystemTime,
        /// Which hop it was.
        hop: usize,
    },
    /// Its host's turn is further away than the call may wait: requeue the URL.
    Deferred {
        /// The URL that was deferred.
        url: Url,
        /// The earliest sensible time to come back.
        not_before: SystemTime,
        /// What the host is waiting for.
        reason: DeferReason,
        /// Which hop it was.
        hop: usize,
    },
    /// The site asks for a Crawl-delay above 24 hours. It is neither cut nor ignored.
    CrawlDelayTooLong {
        /// The URL that was refused.
        url: Url,
        /// The delay asked for.
        asked: Duration,
    },
    /// The URL leads to an address that is not public.
    AddressRefused {
        /// The URL that was refused.
        url: Url,
        /// The address, when known.
        address: Option<IpAddr>,
        /// Which hop it was.
        hop: usize,
    },
    /// The URL is not http or https.
    UnsupportedUrl {
        /// The URL that was refused.
        url: Url,
    },
    /// The redirect chain is longer than the limit.
    TooManyRedirects {
        /// Every URL of the chain.
        hops: Vec<Url>,
    },
    /// The inner client followed a redirect by itself, past this gate.
    RedirectBypass {
        /// The URL that was asked for.
        asked: Url,
        /// The URL that answered.
        got: Url,
    },
    /// The middlewares stand in an order in which requests go out unpaced. Nothing is wrong with the site: mend the chain.
    WrongOrder {
        /// The URL that was asked for.
        url: Url,
        /// What is wrong.
        problem: OrderProblem,
    },
    /// The request carries a User-Agent that does not contain the product token (RFC 9309 §2.2.1).
    Identity {
        /// The User-Agent of the request.
        user_agent: String,
        /// The product token whose rules would be obeyed.
        token: String,
    },
    /// The `Host` of the request names another site than its URL, so the one that answers is not the one whose rules were asked.
    ForeignHost {
        /// The URL that was asked for.
        url: Url,
        /// The `Host` of the request.
        host: String,
    },
    /// The shared store failed, and the gate was told to fail closed.
    Store {
        /// What failed.
        reason: String,
    },
    /// A callback of yours panicked, so the request was not sent.
    Panicked {
        /// Which one: a clock, an observer, a scope.
        callback: &'static str,
    },
    /// The request would have to wait, and there is no tokio runtime with timers to wait in.
    NoTimers,
    /// The runtime is going down, or a task of the gate was lost.
    Interrupted,
}

/// What is wrong with the order of a middleware chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderProblem {
    /// The half that asks robots.txt has no half that paces below it.
    NoPacing,
    /// Something below sent the request so many times in one turn, such as a retry.
    ///
    /// What timed out is not among them: reqwest tells nobody of it, so a retry of timeouts alone is not noticed.
    SentAgain {
        /// How often it went out.
        times: u32,
    },
}

impl fmt::Display for OrderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPacing => f.write_str(
                "nothing paces the requests: the gate half needs the pacing half of the same crawler below it",
            ),
            Self::SentAgain { times } => write!(
                f,
                "a middleware below the pacing has sent the request {times} times in one turn: put what retries above it"
            ),
        }
    }
}

impl Denied {
    /// The URL that was refused, where there is one.
    pub fn url(&self) -> Option<&Url> {
        match self {
            Self::Disallowed { url, .. }
            | Self::Unreachable { url, .. }
            | Self::Deferred { url, .. }
            | Self::CrawlDelayTooLong { url, .. }
            | Self::AddressRefused { url, .. }
            | Self::UnsupportedUrl { url }
            | Self::ForeignHost { url, .. }
            | Self::WrongOrder { url, .. } => Some(url),
            Self::TooManyRedirects { hops } => hops.last(),
            Self::RedirectBypass { asked, .. } => Some(asked),
            Self::Identity { .. }
            | Self::Store { .. }
            | Self::Panicked { .. }
            | Self::NoTimers
            | Self::Interrupted => None,
        }
    }

    /// A stable word for it, for labels and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disallowed { .. } => "disallowed",
            Self::Unreachable { .. } => "unreachable",
            Self::Deferred { .. } => "deferred",
            Self::CrawlDelayTooLong { .. } => "crawl_delay_too_long",
            Self::AddressRefused { .. } => "address_refused",
            Self::UnsupportedUrl { .. } => "unsupported_url",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::RedirectBypass { .. } => "redirect_bypass",
            Self::WrongOrder { .. } => "wrong_order",
            Self::Identity { .. } => "identity",
            Self::ForeignHost { .. } => "foreign_host",
            Self::Store { .. } => "store",
            Self::Panicked { .. } => "panicked",
            Self::NoTimers => "no_timers",
            Self::Interrupted => "interrupted",
        }
    }

    /// The rules of the site say no. Asking again makes sense when its robots.txt changes.
    pub fn is_disallowed(&self) -> bool {
        matches!(self, Self::Disallowed { .. })
    }

    /// Asking again later makes sense: at [`retry_at`](Self::retry_at).
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Deferred { .. } | Self::Interrupted | Self::Store { .. }
        )
    }

    /// When to ask again, where that is known.
    pub fn retry_at(&self) -> Option<SystemTime> {
        match self {
            Self::Unreachable { retry_at, .. } => Some(*retry_at),
            Self::Deferred { not_before, .. } => Some(*not_before),
            _ => None,
        }
    }

    fn set_hop(&mut self, number: usize) {
        match self {
            Self::Disallowed { hop, .. }
            | Self::Unreachable { hop, .. }
            | Self::Deferred { hop, .. }
            | Self::AddressRefused { hop, .. } => *hop = number,
            _ => {}
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A Location may be 300 KB long.
        let shown = |url: &Url| Escaped(url.as_str().as_bytes()).to_string();
        match self {
            Self::Disallowed { url, verdict, hop } => {
                write!(f, "{}{}: {verdict}", shown(url), Hop(*hop))
            }
            Self::Unreachable { url, cause, hop, .. } => write!(
                f,
                "{} is not asked for{}: its robots.txt is unreachable ({cause}), and then everything is disallowed",
                shown(url),
                Hop(*hop)
            ),
            Self::Deferred { url, not_before, reason, hop } => {
                write!(f, "{} is deferred{}: ", shown(url), Hop(*hop))?;
                reason.sentence(url.host_str().unwrap_or_default(), f)?;
                write!(
                    f,
                    "; not before {}",
                    httpdate::fmt_http_date((*not_before).min(LAST_DATE.to_system_time()))
                )
            }
            Self::CrawlDelayTooLong { url, asked } => write!(
                f,
                "{} is not asked for: the site's Crawl-delay is {} s, and more than 24 h is not waited for",
                shown(url),
                asked.as_secs()
            ),
            Self::AddressRefused { url, address: Some(address), hop } => write!(
                f,
                "{} is refused{}: {address} is not a public address (allow its network if you mean it)",
                shown(url),
                Hop(*hop)
            ),
            Self::AddressRefused { url, address: None, hop } => {
                write!(f, "{} is refused{}: it has no public address", shown(url), Hop(*hop))
            }
            Self::UnsupportedUrl { url } => {
                write!(
                    f,
                    "expected an http or https URL, found the scheme \"{}\"",
                    Escaped(url.scheme().as_bytes())
                )
            }
            Self::TooManyRedirects { hops } => {
                write!(f, "expected at most {} redirects, found more", hops.len().saturating_sub(1))
            }
            Self::RedirectBypass { asked, got } => write!(
                f,
                "asked for {} and got {}: the inner client follows redirects past the gate; build it with \
                 redirect::Policy::none(), or let abide build it (build_client)",
                shown(asked),
                shown(got)
            ),
            Self::WrongOrder { problem, .. } => problem.fmt(f),
            Self::Identity { user_agent, token } => write!(
                f,
                "expected a User-Agent that contains the product token {token:?}, found {user_agent:?}; leave the field \
                 out of the request and set it on the builder"
            ),
            Self::ForeignHost { url, host } => write!(
                f,
                "the request is for {} and its Host says {host}, whose rules were not asked; ask for {}://{host}/ and \
                 give its address to Builder::resolve",
                Escaped(url.authority().as_bytes()),
                url.scheme()
            ),
            Self::Store { reason } => write!(f, "the shared store failed: {reason}"),
            Self::Panicked { callback } => write!(f, "the {callback} panicked, so the request was not sent"),
            Self::NoTimers => crate::NoTimers.fmt(f),
            Self::Interrupted => f.write_str("the task that fetched robots.txt was lost; ask again"),
        }
    }
}

impl StdError for Denied {}

/// The last second that an HTTP date can show.
const LAST_DATE: WallMillis = WallMillis::from_millis(253_402_300_799_000);

/// " (redirect 2)" for hops that were redirected to.
struct Hop(usize);

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            number => write!(f, " (redirect {number})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: WallMillis = WallMillis::from_millis(1_800_000_000_000);

    fn url() -> Url {
        "https://a.example/x".parse().unwrap()
    }

    fn deferred() -> Denied {
        Denied::Deferred { url: url(), not_before: AT.to_system_time(), reason: DeferReason::Robots, hop: 0 }
    }

    fn unreachable() -> Denied {
        let (since, retry_at) = (SystemTime::UNIX_EPOCH, AT.to_system_time());
        Denied::Unreachable { url: url(), since, cause: Failure::Status(503), retry_at, hop: 0 }
    }

    fn refused() -> Denied {
        Denied::AddressRefused { url: url(), address: None, hop: 0 }
    }

    #[test]
    fn no_url_makes_an_error_long() {
        let long = "x".repeat(300_000);
        for url in [format!("https://a.example/{long}?{long}"), format!("https://{long}.example/")] {
            let url: Url = url.parse().unwrap();
            let (not_before, scope) = (AT.to_system_time(), url.host_str().unwrap());
            let reason = || DeferReason::InFlight { since: AT, open: Duration::from_secs(1) };
            let deferral = crate::pacing::Deferral::new(scope, AT, Duration::ZERO, reason());
            for (said, text) in [
                ("deferred", deferral.to_string()),
                (
                    "disallowed",
                    Denied::Disallowed { url: url.clone(), verdict: Verdict::robots_txt(), hop: 1 }
                        .to_string(),
                ),
                (
                    "unreachable",
                    Denied::Unreachable {
                        url: url.clone(),
                        since: not_before,
                        cause: Failure::Dns,
                        retry_at: not_before,
                        hop: 1,
                    }
                    .to_string(),
                ),
                (
                    "deferred",
                    Denied::Deferred { url: url.clone(), not_before, reason: reason(), hop: 1 }.to_string(),
                ),
                ("delay", Denied::CrawlDelayTooLong { url: url.clone(), asked: Duration::MAX }.to_string()),
                (
                    "address",
                    Denied::AddressRefused { url: url.clone(), address: Some([127, 0, 0, 1].into()), hop: 1 }
                        .to_string(),
                ),
                (
                    "no address",
                    Denied::AddressRefused { url: url.clone(), address: None, hop: 1 }.to_string(),
                ),
                ("bypass", Denied::RedirectBypass { asked: url.clone(), got: url.clone() }.to_string()),
                ("redirects", Denied::TooManyRedirects { hops: vec![url.clone(); 11] }.to_string()),
                (
                    "foreign",
                    Denied::ForeignHost { url: url.clone(), host: "b.example".to_owned() }.to_string(),
                ),
                ("scheme", Denied::UnsupportedUrl { url: format!("{long}:x").parse().unwrap() }.to_string()),
                ("origin", crate::Origin::of(&format!("{long}:x").parse().unwrap()).unwrap_err().to_string()),
            ] {
                assert!(text.len() < 800, "{said}: {} bytes", text.len());
            }
        }
    }

    #[test]
    fn asking_again_makes_sense_after_what_passes_and_when_that_is_known_it_is_told() {
        let verdict = Verdict::robots_txt();
        for (denied, is_disallowed, is_temporary, retry_at) in [
            (Denied::Disallowed { url: url(), verdict, hop: 0 }, true, false, None),
            (unreachable(), false, true, Some(AT)),
            (deferred(), false, true, Some(AT)),
            (refused(), false, false, None),
            (Denied::UnsupportedUrl { url: url() }, false, false, None),
            (Denied::Store { reason: "away".to_owned() }, false, true, None),
            (Denied::Panicked { callback: "clock" }, false, false, None),
            (Denied::NoTimers, false, false, None),
            (Denied::Interrupted, false, true, None),
        ] {
            let retry_at = retry_at.map(WallMillis::to_system_time);
            assert_eq!(
                (denied.is_disallowed(), denied.is_temporary(), denied.retry_at()),
                (is_disallowed, is_temporary, retry_at),
                "{denied:?}"
            );
            let error = Error::from(denied);
            assert_eq!(
                (error.is_disallowed(), error.is_temporary(), error.retry_at()),
                (is_disallowed, is_temporary, retry_at),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_refusal_has_a_word_for_logs_and_the_url_that_was_refused() {
        let hops = vec!["https://a.example/first".parse().unwrap(), url()];
        for (denied, name, has_url) in [
            (Denied::Disallowed { url: url(), verdict: Verdict::robots_txt(), hop: 0 }, "disallowed", true),
            (unreachable(), "unreachable", true),
            (deferred(), "deferred", true),
            (refused(), "address_refused", true),
            (Denied::TooManyRedirects { hops }, "too_many_redirects", true),
            (Denied::RedirectBypass { asked: url(), got: url() }, "redirect_bypass", true),
            (Denied::Store { reason: "away".to_owned() }, "store", false),
            (Denied::NoTimers, "no_timers", false),
            (Denied::Interrupted, "interrupted", false),
        ] {
            assert_eq!((denied.name(), denied.url()), (name, has_url.then(url).as_ref()));
        }
    }

    #[test]
    fn a_refusal_after_redirects_says_which_one_it_was() {
        let before = || vec![(url(), StatusCode::FOUND); 2];
        for (denied, expected) in [
            (refused(), "https://a.example/x is refused (redirect 2): it has no public address"),
            (
                deferred(),
                "https://a.example/x is deferred (redirect 2): robots.txt of a.example had to wait; not before Fri, 15 Jan \
                 2027 08:00:00 GMT",
            ),
            (
                unreachable(),
                "https://a.example/x is not asked for (redirect 2): its robots.txt is unreachable (it answered with \
                 status 503), and then everything is disallowed",
            ),
        ] {
            let first = denied.to_string();
            assert_eq!(first, expected.replace(" (redirect 2)", ""), "the request itself");
            let error = Error::from(denied).after(before());
            assert_eq!(error.denied().to_string(), expected);
            assert_eq!(error.chain(), before());
        }
    }

    #[test]
    fn a_refusal_is_found_in_any_depth_and_nowhere_else() {
        #[derive(Debug)]
        struct Layer(Box<dyn StdError>);
        impl fmt::Display for Layer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer")
            }
        }
        impl StdError for Layer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&*self.0)
            }
        }
        let wrapped = |inner: Box<dyn StdError>| Layer(Box::new(Layer(inner)));
        for inner in [Box::new(Error::from(refused())) as Box<dyn StdError>, Box::new(refused())] {
            assert!(matches!(Error::find(&*inner), Some(Denied::AddressRefused { .. })));
            assert!(matches!(Error::find(&wrapped(inner)), Some(Denied::AddressRefused { .. })));
        }
        assert!(Error::find(&wrapped(Box::new(fmt::Error))).is_none());
        let error = Error::from(refused());
        assert_eq!(error.to_string(), "the address is refused");
        assert_eq!(error.source().unwrap().to_string(), refused().to_string());
    }
}
