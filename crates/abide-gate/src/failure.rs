//! Why a request failed.
//!
//! One enum for all layers, because the same failure disallows a site, opens the breaker, is stored with the
//! record, and is shown.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// What a request met in place of a usable response.
///
/// An HTTP client's adapter classifies its own errors as one of these; the robots.txt cache adds those that a
/// response can be. A link checker tells a dead link from a refusal by [`is_dns`](Self::is_dns),
/// [`is_connect`](Self::is_connect) and [`is_tls`](Self::is_tls).
///
/// ```
/// # use abide_gate::Failure;
/// let failure = Failure::CertificateExpired;
/// assert!(failure.is_tls() && failure.is_connect() && !failure.is_refused());
/// assert_eq!(failure.to_string(), "its certificate has expired");
/// ```
// Stored records hold the number of a variant: a change of their order needs another version in
// `robots_cache/codec.rs`. One at the end needs none, because a version that does not know it takes the
// record for absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Failure {
    /// The name could not be resolved.
    Dns,
    /// The connection was refused.
    Refused,
    /// There is no route to the host or its network.
    NoRoute,
    /// No connection could be made, for another reason.
    Connect,
    /// No trustworthy TLS connection could be made, for a reason that is not below, or that the client does
    /// not report.
    Tls,
    /// The certificate has expired.
    CertificateExpired,
    /// The certificate is self-signed, or signed by an authority that is not trusted.
    CertificateUntrusted,
    /// The certificate is for another name.
    CertificateName,
    /// The server does not speak TLS, as where plain HTTP is served on the port of https.
    NotTls,
    /// The connection was closed or reset before the response was complete.
    Reset,
    /// The response was not valid HTTP.
    Protocol,
    /// The response had more or longer header fields than the client takes.
    HeadTooLarge,
    /// HTTP/2 `ENHANCE_YOUR_CALM` in GOAWAY or RST_STREAM (RFC 9113 §7): the server asks to be left alone, as
    /// with 429.
    EnhanceYourCalm,
    /// The time limit was exceeded.
    Timeout,
    /// The body was cut short or could not be decoded; clients do not distinguish the two.
    Body,
    /// The body is in a content coding that is not removed, in several, or in one that is not named.
    StillCoded,
    /// A 2xx HTML document without a rule line came in place of robots.txt, under
    /// [`RobotsPolicy::with_html_unreachable`](crate::robots_cache::RobotsPolicy::with_html_unreachable).
    Html,
    /// An address of the host, literal or resolved, must not be contacted.
    AddressRefused(IpAddr),
    /// A 3xx status of robots.txt that names no single place to go to: 300, 305, 306, or 304 unasked twice.
    RedirectStatus,
    /// A redirect of robots.txt has no `Location`, or an empty one.
    LocationMissing,
    /// A redirect of robots.txt has several `Location` fields that differ, or one that is over 8 KiB, not a
    /// URL, or neither http nor https.
    LocationInvalid,
    /// A redirect of robots.txt leads from https to http, where the rules could be rewritten on the way.
    RedirectDowngrade,
    /// The status of the response: a server error, or one that makes no sense here.
    Status(u16),
    /// The request failed for another reason.
    Other,
    /// The response is in a transfer coding that is not removed.
    TransferCoding,
    /// HTTP/2 `HTTP_1_1_REQUIRED` in GOAWAY or RST_STREAM (RFC 9113 §7): the server responds over HTTP/1.1
    /// only.
    Http11Required,
    /// What stands before the site answered in its place, with a challenge or a block page.
    Gatekeeper(Refusal),
}

impl Failure {
    /// Whether the name could not be resolved.
    pub fn is_dns(&self) -> bool {
        matches!(self, Self::Dns)
    }

    /// Whether no connection could be made; names that do not resolve and TLS included.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Dns | Self::Refused | Self::NoRoute | Self::Connect) || self.is_tls()
    }

    /// Whether no trustworthy TLS connection could be made.
    pub fn is_tls(&self) -> bool {
        matches!(
            self,
            Self::Tls
                | Self::CertificateExpired
                | Self::CertificateUntrusted
                | Self::CertificateName
                | Self::NotTls
        )
    }

    /// Whether a time limit was exceeded.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    /// Whether the body was cut short or could not be decoded.
    pub fn is_body(&self) -> bool {
        matches!(self, Self::Body | Self::StillCoded | Self::TransferCoding)
    }

    /// Whether abide refused the request for its address or redirect; no server failed.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::AddressRefused(_)) || self.is_redirect()
    }

    /// Whether a redirect of robots.txt was not followed.
    pub fn is_redirect(&self) -> bool {
        matches!(
            self,
            Self::RedirectStatus | Self::LocationMissing | Self::LocationInvalid | Self::RedirectDowngrade
        )
    }

    /// The address that must not be contacted, if the failure is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::AddressRefused(address) => Some(*address),
            _ => None,
        }
    }

    /// The refusal by what stands before the site, if the failure is one.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Gatekeeper(refusal) => Some(*refusal),
            _ => None,
        }
    }

    /// The status, if the failure is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(*status),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "its name could not be resolved",
            Self::Refused => "the connection was refused",
            Self::NoRoute => "there is no route to it",
            Self::Connect => "no connection could be made",
            Self::Tls => "no trustworthy TLS connection could be made",
            Self::CertificateExpired => "its certificate has expired",
            Self::CertificateUntrusted => "its certificate is self-signed or of an unknown authority",
            Self::CertificateName => "its certificate is for another name",
            Self::NotTls => "it does not speak TLS on this port",
            Self::Reset => "the connection was closed early",
            Self::Protocol => "the response was not valid HTTP",
            Self::HeadTooLarge => "the head of the response was too large",
            Self::EnhanceYourCalm => "it sent ENHANCE_YOUR_CALM",
            Self::Timeout => "it took too long",
            Self::Body => "the body was cut short or could not be decoded",
            Self::StillCoded => "the body was in an unknown content coding",
            Self::Html => "it returned an HTML page without rules",
            Self::AddressRefused(address) => return write!(f, "its address {address} must not be contacted"),
            Self::RedirectStatus => "its status is no redirect that can be followed",
            Self::LocationMissing => "its redirect has no Location",
            Self::LocationInvalid => "its redirect has no usable Location",
            Self::RedirectDowngrade => "its redirect leads from https to http",
            Self::Status(status) => return write!(f, "it returned status {status}"),
            Self::Other => "the request failed",
            Self::TransferCoding => "the response was in an unknown transfer coding",
            Self::Gatekeeper(refusal) => return write!(f, "it was {refusal}"),
            Self::Http11Required => "it asked for HTTP/1.1 (HTTP_1_1_REQUIRED)",
        })
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_no_refusal() {
        let address = Failure::AddressRefused([10, 0, 0, 1].into());
        for (failure, is_connect, is_refused) in [
            (Failure::Dns, true, false),
            (Failure::Refused, true, false),
            (Failure::NoRoute, true, false),
            (Failure::Connect, true, false),
            (Failure::CertificateExpired, true, false),
            (Failure::Timeout, false, false),
            (Failure::Status(503), false, false),
            (address, false, true),
            (Failure::RedirectDowngrade, false, true),
        ] {
            assert_eq!((failure.is_connect(), failure.is_refused()), (is_connect, is_refused), "{failure:?}");
        }
        assert!(Failure::Dns.is_dns() && !Failure::Refused.is_dns());
        assert!(Failure::Tls.is_tls() && !Failure::Connect.is_tls());
        assert_eq!((Failure::Status(503).status(), Failure::Dns.status()), (Some(503), None));
    }
}
