//! The clone of a service that was polled ready, and what becomes of its readiness while a request waits.
//!
//! tower reserves capacity before it has a request, and a request may wait long for its permit. Capacity that was reserved and
//! is not used would keep others from the connection pool or the concurrency limit below.

use std::future::poll_fn;

use http::Request;
use tower_service::Service;

/// A service to be called, ready or not.
///
/// Readiness can be a reservation: a place in a queue, one of a limited number of requests. A request that waits for its host's permit
/// must not keep it from requests to other hosts, nor from its own robots.txt, which would be a deadlock.
#[derive(Debug)]
pub(crate) struct Ready<S> {
    service: S,
    is_ready: bool,
}

impl<S: Clone> Ready<S> {
    /// A service whose `poll_ready` has said yes.
    pub(crate) fn new(service: S) -> Self {
        Self { service, is_ready: true }
    }

    /// Gives the reservation back, by dropping the clone that has it.
    pub(crate) fn let_go(&mut self) {
        self.service = self.service.clone();
        self.is_ready = false;
    }

    /// Reserves again if need be. Returns whether that took a while.
    pub(crate) async fn reserve<B>(&mut self) -> Result<bool, S::Error>
    where
        S: Service<Request<B>>,
    {
        if self.is_ready {
            return Ok(false);
        }
        let mut has_waited = false;
        poll_fn(|context| {
            let polled = self.service.poll_ready(context);
            has_waited |= polled.is_pending();
            polled
        })
        .await?;
        self.is_ready = true;
        Ok(has_waited)
    }

    /// Calls it. Only after [`reserve`](Self::reserve).
    pub(crate) fn call<B>(&mut self, request: Request<B>) -> S::Future
    where
        S: Service<Request<B>>,
    {
        self.is_ready = false;
        self.service.call(request)
    }
}
