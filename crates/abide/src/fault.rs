//! What a failed request tells the pacer.

use std::io;

use abide_gate::pacing::TransportFault;

use crate::fetch::{chain_text, io_kind};

/// The fault behind a middleware error, from what the transport's own errors say.
pub(crate) fn of(error: &reqwest_middleware::Error) -> TransportFault {
    match error {
        reqwest_middleware::Error::Reqwest(error) => of_reqwest(error),
        reqwest_middleware::Error::Middleware(_) => TransportFault::Other,
    }
}

pub(crate) fn of_reqwest(error: &reqwest::Error) -> TransportFault {
    let text = chain_text(error);
    if text.contains("enhance_your_calm")
        || text.contains("enhance your calm")
        || text.contains("excessive load")
    {
        return TransportFault::EnhanceYourCalm;
    }
    if error.is_timeout() {
        return TransportFault::Timeout;
    }
    if text.contains("dns error") || text.contains("has no address") {
        return TransportFault::NameNotFound;
    }
    if text.contains("certificate") {
        return TransportFault::Certificate;
    }
    match io_kind(error) {
        Some(io::ErrorKind::ConnectionRefused) => TransportFault::Refused,
        Some(io::ErrorKind::TimedOut) => TransportFault::Timeout,
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => TransportFault::NoRoute,
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
            TransportFault::Reset
        }
        _ if text.contains("http2") || text.contains("parse") || text.contains("invalid") => {
            TransportFault::Protocol
        }
        _ => TransportFault::Other,
    }
}
