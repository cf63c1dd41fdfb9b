//! What a failed request tells the pacer.

use std::io;

use abide_gate::pacing::TransportFault;

use crate::fetch::{chain_text, io_kind};

/// The fault behind a middleware error, from what the transport's own errors say; `None` if the host has no part in it.
pub(crate) fn of(error: &reqwest_middleware::Error) -> Option<TransportFault> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => of_reqwest(error),
        reqwest_middleware::Error::Middleware(_) => None,
    }
}

pub(crate) fn of_reqwest(error: &reqwest::Error) -> Option<TransportFault> {
    let text = chain_text(error);
    if text.contains("enhance_your_calm")
        || text.contains("enhance your calm")
        || text.contains("excessive load")
    {
        return Some(TransportFault::EnhanceYourCalm);
    }
    if error.is_timeout() {
        return Some(TransportFault::Timeout);
    }
    if text.contains("dns error") || text.contains("has no address") {
        return Some(TransportFault::NameNotFound);
    }
    if text.contains("certificate") {
        return Some(TransportFault::Certificate);
    }
    let of_io = io_kind(error).map(|kind| match kind {
        io::ErrorKind::ConnectionRefused => TransportFault::Refused,
        io::ErrorKind::TimedOut => TransportFault::Timeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => TransportFault::NoRoute,
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            TransportFault::Reset
        }
        _ => TransportFault::Protocol,
    });
    of_io.or_else(|| error.is_request().then_some(TransportFault::Protocol))
}
