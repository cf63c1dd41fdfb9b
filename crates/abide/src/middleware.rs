//! The middlewares: one for both halves, or one for each, with a cache between them.

use std::pin::Pin;
use std::sync::atomic::Ordering;

use abide_gate::{Denied, DeniedKind};
use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::client::Abide;
use crate::redirect_loop::{Pace, RedirectLoop};
use crate::send::wrong_order;
use crate::split_middleware::send_paced;

pub(crate) type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Gate and pacing in one middleware: the default.
#[derive(Debug, Clone)]
pub struct AbideMiddleware {
    abide: Abide,
}

/// The outer half: robots.txt, redirect hops, permissions. Needs [`PacingMiddleware`] below it.
#[derive(Debug, Clone)]
pub struct GateMiddleware {
    abide: Abide,
}

/// The inner half: permits and feedback, below an HTTP cache.
#[derive(Debug, Clone)]
pub struct PacingMiddleware {
    abide: Abide,
}

impl AbideMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl GateMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl PacingMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

/// As `async_trait` would write it, except that the call is made before the future is: with the macro a future has room for the
/// request twice, and it is allocated and moved for every call.
impl Middleware for AbideMiddleware {
    fn handle<'m, 'e, 'n, 'f>(
        &'m self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> BoxFuture<'f, Result<Response>>
    where
        'm: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(RedirectLoop::new(&self.abide, Pace::Here, extensions, request).run(extensions, next))
    }
}

#[async_trait]
impl Middleware for GateMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if !self.abide.core.has_pacing_half.load(Ordering::Relaxed) {
            let gate = self.abide.gate_handle();
            let error = wrong_order(gate, request.url(), DeniedKind::NoPacing);
            Denied::find(&error).iter().for_each(|denied| gate.report_refused(denied));
            return Err(error);
        }
        RedirectLoop::new(&self.abide, Pace::Below, extensions, request).run(extensions, next).await
    }
}

#[async_trait]
impl Middleware for PacingMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        send_paced(&self.abide.core, request, extensions, next).await
    }
}
