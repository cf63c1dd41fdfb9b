//! The middlewares: one for both halves, or one for each, with a cache between them.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use abide_gate::{OrderProblem, without_userinfo};

use crate::client::Abide;
use crate::send::{Admission, send_paced, take_apart, wrong_order};
use crate::walk::{Pace, Walk};

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

/// The inner half: turns and feedback, below an HTTP cache.
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

#[async_trait]
impl Middleware for AbideMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut walk = Walk::new(&self.abide, Pace::Here, extensions, &request);
        walk.run(request, extensions, next).await
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
            return Err(wrong_order(&without_userinfo(request.url()), OrderProblem::NoPacing));
        }
        let mut walk = Walk::new(&self.abide, Pace::Below, extensions, &request);
        walk.run(request, extensions, next).await
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
        let mut request = Box::new(request);
        let url = without_userinfo(request.url());
        let admission = extensions.get::<Admission>().cloned();
        let sent = match admission.as_ref().and_then(|admission| admission.for_url(&url)) {
            Some((verdict, budget)) => {
                send_paced(&self.abide, &url, verdict, budget, request, extensions, next).await
            }
            None => {
                // A cache that revalidates in the background: neither ungated nor unpaced.
                self.abide.identify(&mut request)?;
                let verdict = self.abide.allowed(&url).await?;
                let budget = self.abide.core.gate.max_wait();
                send_paced(&self.abide, &url, verdict, budget, request, extensions, next).await
            }
        };
        if let Some(admission) = &admission {
            admission.tell(&sent);
        }
        let sent = sent?;
        let asked = sent.response.url().clone();
        let response = take_apart(&asked, sent.response, sent.permit);
        Ok(Response::from(response.map(reqwest::Body::wrap)))
    }
}
