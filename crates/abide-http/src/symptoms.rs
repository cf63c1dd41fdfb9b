//! What the error of an HTTP client says about the host: for clients of any type, by the causes in their errors.
//!
//! Clients differ in their error types and agree in what lies below them: I/O errors, and the words of hyper, h2 and rustls.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::string_slice
    )
)]

use std::error::Error;
use std::io;

use abide_gate::access::{FetchErrorKind, TlsProblem};
use abide_gate::pacing::TransportFault;

use crate::resolved::NoAddress;

/// A failed request, as its error tells it.
///
/// ```
/// use abide_http::{Phase, Symptoms};
/// use abide_gate::pacing::TransportFault;
///
/// let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
/// let symptoms = Symptoms::of(Some(&error)).during(Phase::Connect);
/// assert_eq!(symptoms.fault(), Some(TransportFault::Refused));
/// ```
#[derive(Debug, Clone)]
pub struct Symptoms {
    /// The sentences of the error and its causes, in lower case.
    text: String,
    /// The kind of the innermost I/O error.
    io: Option<io::ErrorKind>,
    /// What the resolver's guard found, if it was asked.
    name: Option<NoAddress>,
    phase: Option<Phase>,
    timed_out: bool,
}

/// How far a request had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No connection yet.
    Connect,
    /// Connected, and no complete head of an answer.
    Head,
    /// The body had begun.
    Body,
}

impl Symptoms {
    /// Reads an error and its causes, at most 16 of them. Leave out an outer error whose text has a URL in it: words of the URL
    /// would be taken for symptoms.
    pub fn of(error: Option<&(dyn Error + 'static)>) -> Self {
        let name = error.and_then(NoAddress::find).cloned();
        let mut found = Self { text: String::new(), io: None, name, phase: None, timed_out: false };
        let mut next = error;
        for _ in 0..CAUSES_MAX {
            let Some(error) = next else { break };
            found.text.push_str(&error.to_string().to_ascii_lowercase());
            found.text.push('\n');
            if let Some(error) = error.downcast_ref::<io::Error>() {
                found.io = Some(error.kind());
            }
            next = error.source();
        }
        found
    }

    /// The client says how far it had come.
    #[must_use]
    pub fn during(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// The client says whether a time limit of its own was over.
    #[must_use]
    pub fn timed_out(mut self, timed_out: bool) -> Self {
        self.timed_out = timed_out;
        self
    }

    /// The resolver's guard found no address that may be contacted: nothing was sent, and the host has no part in it.
    pub fn refused_name(&self) -> Option<&NoAddress> {
        self.name.as_ref().filter(|name| name.refused().is_some())
    }

    /// What the failure means for the host's turns; `None` if the host has no part in it.
    pub fn fault(&self) -> Option<TransportFault> {
        if self.asks_for_calm() {
            return Some(TransportFault::EnhanceYourCalm);
        }
        if self.timed_out {
            return Some(TransportFault::Timeout);
        }
        if self.is_of_the_name() {
            return Some(TransportFault::NameNotFound);
        }
        if self.says(&["certificate"]) {
            return Some(TransportFault::Certificate);
        }
        let of_io = self.io.map(|kind| match kind {
            io::ErrorKind::ConnectionRefused => TransportFault::Refused,
            io::ErrorKind::TimedOut => TransportFault::Timeout,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => TransportFault::NoRoute,
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                TransportFault::Reset
            }
            _ => TransportFault::Protocol,
        });
        of_io.or_else(|| self.phase.map(|_| TransportFault::Protocol))
    }

    /// What the failure means for a robots.txt.
    pub fn kind(&self) -> FetchErrorKind {
        if let Some(address) = self.refused_name().and_then(NoAddress::refused) {
            return FetchErrorKind::AddressRefused(address);
        }
        if self.timed_out {
            return FetchErrorKind::Deadline;
        }
        if self.asks_for_calm() {
            return FetchErrorKind::EnhanceYourCalm;
        }
        match self.phase {
            Some(Phase::Connect) => self.kind_of_connect(),
            Some(Phase::Body) => FetchErrorKind::Decode,
            Some(Phase::Head) | None => self.kind_of_head(),
        }
    }

    fn kind_of_connect(&self) -> FetchErrorKind {
        if let (false, Some(problem)) = (self.is_of_the_name(), self.tls_problem()) {
            return FetchErrorKind::TlsProblem(problem);
        }
        match self.io {
            _ if self.is_of_the_name() => FetchErrorKind::Dns,
            _ if self.says(&["certificate", "tls", "handshake"]) => FetchErrorKind::Tls,
            // rustls reports its own errors as invalid data, and a peer that hangs up in the handshake as the end.
            Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => FetchErrorKind::Tls,
            _ => FetchErrorKind::Connect,
        }
    }

    /// In the words of rustls, with and without its details.
    fn tls_problem(&self) -> Option<TlsProblem> {
        // First, since what follows its words is a name, in which any of the others may be.
        if self.says(&["not valid for name", "notvalidforname"]) {
            Some(TlsProblem::AnotherName)
        } else if self.says(&["certificate: expired", "certificate expired"]) {
            Some(TlsProblem::Expired)
        } else if self.says(&["unknownissuer", "causedasendentity", "badsignature"]) {
            // A bad signature: the authority bears the name of one that is trusted, and has not its key.
            Some(TlsProblem::Untrusted)
        } else if self.says(&["invalidcontenttype"]) {
            Some(TlsProblem::NotTls)
        } else {
            None
        }
    }

    fn kind_of_head(&self) -> FetchErrorKind {
        match self.io {
            Some(
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof,
            ) => FetchErrorKind::Reset,
            _ if self.says(&["message head is too large"]) => FetchErrorKind::HeadTooLarge,
            _ if self.says(&["closed before", "incompletemessage"]) => FetchErrorKind::Reset,
            _ if self.says(&["invalid http", "parse"]) => FetchErrorKind::Protocol,
            _ => FetchErrorKind::Other,
        }
    }

    fn asks_for_calm(&self) -> bool {
        self.says(&["enhance_your_calm", "enhance your calm", "excessive load"])
    }

    fn is_of_the_name(&self) -> bool {
        self.says(&["dns error", "has no address"])
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }
}

/// No client wraps its errors deeper than this, and a chain could be a ring.
const CAUSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::permitted_addresses;
    use abide_gate::AddressGuard;

    /// An error with a sentence and a cause, as clients nest them.
    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<dyn Error + 'static>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref()
        }
    }

    fn told(text: &'static str, io: Option<io::ErrorKind>) -> Symptoms {
        let cause = io.map(|kind| Box::new(io::Error::from(kind)) as Box<dyn Error>);
        Symptoms::of(Some(&Layer("client error", Some(Box::new(Layer(text, cause))))))
    }

    #[test]
    fn causes_decide_what_the_host_has_done() {
        use TransportFault as Fault;
        use io::ErrorKind as Io;
        for (text, io, fault) in [
            ("tcp connect error", Some(Io::ConnectionRefused), Some(Fault::Refused)),
            ("tcp connect error", Some(Io::TimedOut), Some(Fault::Timeout)),
            ("tcp connect error", Some(Io::NetworkUnreachable), Some(Fault::NoRoute)),
            ("connection error", Some(Io::ConnectionReset), Some(Fault::Reset)),
            ("dns error", Some(Io::Other), Some(Fault::NameNotFound)),
            ("invalid peer certificate: Expired", Some(Io::InvalidData), Some(Fault::Certificate)),
            (
                "http2 error: stream error received: detected excessive load (ENHANCE_YOUR_CALM)",
                None,
                Some(Fault::EnhanceYourCalm),
            ),
            ("user callback", None, None),
        ] {
            assert_eq!(told(text, io).fault(), fault, "{text} {io:?}");
        }
        let without_words = told("connection closed before message completed", None).during(Phase::Head);
        assert_eq!(without_words.fault(), Some(Fault::Protocol));
        assert_eq!(told("x", None).timed_out(true).fault(), Some(Fault::Timeout));
    }

    #[test]
    fn phase_and_causes_decide_what_a_robots_txt_has_met() {
        use io::ErrorKind as Io;
        for (phase, text, io, kind) in [
            (Phase::Connect, "dns error", None, "Dns"),
            (Phase::Connect, "tcp connect error", Some(Io::ConnectionRefused), "Connect"),
            (Phase::Connect, "handshake failure", None, "Tls"),
            (Phase::Connect, "received corrupt message", Some(Io::InvalidData), "Tls"),
            (Phase::Connect, "invalid peer certificate: BadEncoding", Some(Io::InvalidData), "Tls"),
            (Phase::Connect, "invalid peer certificate: BadSignature", None, "TlsProblem(Untrusted)"),
            (
                Phase::Connect,
                "invalid peer certificate: Expired",
                Some(Io::InvalidData),
                "TlsProblem(Expired)",
            ),
            (Phase::Connect, "invalid peer certificate: UnknownIssuer", None, "TlsProblem(Untrusted)"),
            (
                Phase::Connect,
                "invalid peer certificate: Other(CaUsedAsEndEntity)",
                None,
                "TlsProblem(Untrusted)",
            ),
            (
                Phase::Connect,
                "certificate not valid for name \"certificate expired.example\"",
                None,
                "TlsProblem(AnotherName)",
            ),
            (
                Phase::Connect,
                "received corrupt message of type InvalidContentType",
                None,
                "TlsProblem(NotTls)",
            ),
            (Phase::Head, "connection error", Some(Io::ConnectionReset), "Reset"),
            (Phase::Head, "connection closed before message completed", None, "Reset"),
            (Phase::Head, "message head is too large", None, "HeadTooLarge"),
            (Phase::Head, "invalid HTTP version parsed", None, "Protocol"),
            (Phase::Head, "user callback", None, "Other"),
            (Phase::Body, "error reading a body", Some(Io::UnexpectedEof), "Decode"),
        ] {
            let found = told(text, io).during(phase).kind();
            assert_eq!(format!("{found:?}"), kind, "{phase:?} {text}");
        }
    }

    #[test]
    fn an_address_that_the_guard_refused_is_no_fault_of_the_host() {
        let refused =
            permitted_addresses(&AddressGuard::default(), "a.example", ["10.0.0.1:80".parse().unwrap()])
                .unwrap_err();
        let symptoms =
            Symptoms::of(Some(&Layer("dns error", Some(Box::new(refused))))).during(Phase::Connect);
        assert_eq!(symptoms.refused_name().unwrap().refused().unwrap().to_string(), "10.0.0.1");
        assert!(matches!(symptoms.kind(), FetchErrorKind::AddressRefused(_)));
    }
}
