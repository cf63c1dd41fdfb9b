//! From the error of an HTTP client to a [`Failure`].
//!
//! Clients differ in their error types and agree in those below: the errors of I/O, hyper, h2 and rustls,
//! found by type in the chain of sources.

use std::error::Error;
use std::io;

use abide_gate::Failure;

use crate::permitted_addresses::NoAddress;

/// Why a request got no response. `None` if neither the error nor its sources say so; then the host may not
/// be the reason.
///
/// Only rustls reports what was wrong with a certificate (feature `rustls`).
///
/// ```
/// use abide_gate::Failure;
/// use abide_http::failure_of;
///
/// let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
/// assert_eq!(failure_of(&error), Some(Failure::Refused));
/// ```
pub fn failure_of(error: &(dyn Error + 'static)) -> Option<Failure> {
    match sources(error).find_map(|error| error.downcast_ref::<NoAddress>()) {
        Some(NoAddress::Refused(_, address)) => return Some(Failure::AddressRefused(*address)),
        Some(NoAddress::None(_)) => return Some(Failure::Dns),
        None => {}
    }
    // hyper-util's connector keeps the type of its error to itself, and a resolver's errors are of any type.
    // What remains is the whole text of that error; `failures.rs` in the tests of abide-tower pins it.
    if let Some(error) = sources(error).find(|error| error.to_string() == "dns error") {
        // Two failures of the name close a host for an hour, so a look-up that may succeed later is none. The
        // system's resolver has texts alone: in glibc "Temporary failure in name resolution", in musl "Try
        // again", in Windows "a temporary error".
        let text = root_cause(error).to_string().to_ascii_lowercase();
        let is_passing = text.contains("temporary") || text.contains("try again");
        return Some(if is_passing { Failure::Connect } else { Failure::Dns });
    }
    // The innermost one is what happened; those around it say during what.
    sources(error).filter_map(of_link).last()
}

/// Whether the caller is the reason, as where the body of its request failed: then the host has no part in
/// it.
pub fn is_of_the_caller(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user))
}

/// Whether the connection was closed before there was a response. That says nothing of the request if the
/// connection was kept from one before: the server may have closed it while the request was on its way, so
/// one that is idempotent can be sent again (RFC 9112 §9.3.1).
pub fn is_hang_up(error: &(dyn Error + 'static)) -> bool {
    // RFC 9113 §6.8: a GOAWAY without an error closes a connection. A stream that was reset was refused by
    // itself.
    let is_closed = |error: &h2::Error| error.is_io() || error.reason() == Some(h2::Reason::NO_ERROR);
    failure_of(error) == Some(Failure::Reset)
        && sources(error)
            .filter_map(|error| error.downcast_ref::<h2::Error>())
            .all(|error| !error.is_reset() && is_closed(error))
}

/// Whether the server responds over HTTP/1.1 only, and has said so in HTTP/2.
pub fn needs_http11(error: &(dyn Error + 'static)) -> bool {
    failure_of(error) == Some(Failure::Http11Required)
}

/// Why reading a body failed.
pub fn body_failure_of(error: &(dyn Error + 'static)) -> Failure {
    match failure_of(error) {
        Some(failure @ (Failure::EnhanceYourCalm | Failure::Timeout)) => failure,
        _ => Failure::Body,
    }
}

/// The innermost source of an error, or the error itself. It says what happened; the texts around it may hold
/// the URL.
pub fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}

fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error)).take(CAUSES_MAX)
}

fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // `source` would pass over the error that it wraps.
        return error.get_ref().map(|error| error as &(dyn Error + 'static));
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return error.get_io().map(|error| error as &(dyn Error + 'static));
    }
    error.source()
}

fn of_link(error: &(dyn Error + 'static)) -> Option<Failure> {
    #[cfg(feature = "rustls")]
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(of_tls(error));
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        of_io(error.kind())
    } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
        of_hyper(error)
    } else if let Some(error) = error.downcast_ref::<h2::Error>() {
        // h2 itself says so to a server whose heads or resets are too many for it.
        Some(match error.reason().filter(|_| !error.is_library()) {
            Some(h2::Reason::ENHANCE_YOUR_CALM) => Failure::EnhanceYourCalm,
            Some(h2::Reason::HTTP_1_1_REQUIRED) => Failure::Http11Required,
            // The server has ended the stream, or the connection, for a reason of its own.
            Some(_) if error.is_remote() => Failure::Reset,
            _ => Failure::Protocol,
        })
    } else if error.is::<tokio::time::error::Elapsed>() || error.to_string() == "request timed out" {
        // The text is that of tower's `Elapsed`, whose type would bring all of tower. `failures.rs` in the
        // tests of abide-tower pins it.
        Some(Failure::Timeout)
    } else {
        None
    }
}

fn of_io(kind: io::ErrorKind) -> Option<Failure> {
    match kind {
        io::ErrorKind::ConnectionRefused => Some(Failure::Refused),
        io::ErrorKind::TimedOut => Some(Failure::Timeout),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Failure::NoRoute),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe => Some(Failure::Reset),
        _ => None,
    }
}

fn of_hyper(error: &hyper::Error) -> Option<Failure> {
    if error.is_timeout() {
        Some(Failure::Timeout)
    } else if error.is_parse() && error.to_string() == "message head is too large" {
        // hyper has a predicate for servers alone; `tests/it/faults` pins the text.
        Some(Failure::HeadTooLarge)
    } else if error.is_parse() {
        Some(Failure::Protocol)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some(Failure::Reset)
    } else {
        None
    }
}

#[cfg(feature = "rustls")]
fn of_tls(error: &rustls::Error) -> Failure {
    use rustls::CertificateError as Bad;
    use rustls::Error as Tls;

    match error {
        Tls::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => Failure::CertificateExpired,
        Tls::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            Failure::CertificateName
        }
        Tls::InvalidCertificate(_) => Failure::CertificateUntrusted,
        Tls::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => Failure::NotTls,
        _ => Failure::Tls,
    }
}

/// No client wraps its errors deeper than this, and a chain could be a ring.
const CAUSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a sentence and a cause, as clients nest them.
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<dyn Error + Send + Sync>>);

    fn nested(text: &'static str, cause: impl Error + Send + Sync + 'static) -> Layer {
        Layer("client error", Some(Box::new(Layer(text, Some(Box::new(cause))))))
    }

    #[test]
    fn the_kind_of_an_io_error_decides() {
        use io::ErrorKind as Io;
        for (kind, failure) in [
            (Io::ConnectionRefused, Some(Failure::Refused)),
            (Io::TimedOut, Some(Failure::Timeout)),
            (Io::NetworkUnreachable, Some(Failure::NoRoute)),
            (Io::ConnectionReset, Some(Failure::Reset)),
            (Io::UnexpectedEof, Some(Failure::Reset)),
            (Io::Other, None),
        ] {
            let error = nested("connection error", io::Error::from(kind));
            assert_eq!(failure_of(&error), failure, "{kind:?}");
            let of_body = failure.filter(|failure| *failure == Failure::Timeout).unwrap_or(Failure::Body);
            assert_eq!(body_failure_of(&error), of_body, "{kind:?}");
        }
    }

    #[test]
    fn words_in_other_errors_decide_nothing() {
        for text in ["certificate expired", "ENHANCE_YOUR_CALM", "no dns error", "message head is too large"]
        {
            assert_eq!(failure_of(&nested(text, Layer("user callback", None))), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_unknown_unless_the_resolver_could_not_find_out() {
        for (text, failure) in [
            ("Name or service not known", Failure::Dns),
            ("the operation timed out", Failure::Dns),
            ("Temporary failure in name resolution", Failure::Connect),
            ("Try again", Failure::Connect),
        ] {
            let error = io::Error::other(format!("failed to lookup address information: {text}"));
            assert_eq!(failure_of(&nested("dns error", error)), Some(failure), "{text}");
        }
    }

    #[cfg(feature = "rustls")]
    #[test]
    fn rustls_tells_what_is_wrong_with_a_certificate() {
        use rustls::{CertificateError as Bad, Error as Tls, InvalidMessage};
        for (error, problem) in [
            (Tls::InvalidCertificate(Bad::BadSignature), Failure::CertificateUntrusted),
            (Tls::InvalidMessage(InvalidMessage::InvalidContentType), Failure::NotTls),
            (Tls::HandshakeNotComplete, Failure::Tls),
        ] {
            let shown = format!("{error:?}");
            let error = nested("connection error", io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(failure_of(&error), Some(problem), "{shown}");
        }
    }
}
