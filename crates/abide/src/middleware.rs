//! The middlewares: one for both halves, or one for each, with a cache between them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use url::Url;

use abide_gate::{Error, OrderProblem, Verdict, without_userinfo};

use crate::client::Abide;
use crate::send::{Admission, Sent, send_paced, take_apart, wrong_order};
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

impl PacingMiddleware {
    /// In its turn, and asked of robots.txt: by the gate half, or here where there is none, as when a cache revalidates in the
    /// background.
    async fn send(
        &self,
        url: &Url,
        admitted: Option<(Verdict, Duration)>,
        mut request: Box<Request>,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Sent> {
        // Also what the gate half has seen: something between the two may have changed it.
        self.abide.identify(&mut request)?;
        let (verdict, budget) = match admitted {
            Some(admitted) => admitted,
            None => {
                let timeout = request.timeout().copied().or(self.abide.core.timeout);
                *request.timeout_mut() = timeout;
                (self.abide.allowed(url).await?, self.abide.core.gate.max_wait())
            }
        };
        send_paced(&self.abide, url, verdict, budget, request, extensions, next).await
    }

    fn tell_refused(&self, error: &reqwest_middleware::Error) {
        if let Some(denied) = Error::find(error) {
            self.abide.core.gate.tell_refused(&denied.clone().into());
        }
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
        let url = without_userinfo(request.url());
        let admission = extensions.get::<Admission>().cloned();
        let admitted = admission.as_ref().and_then(|admission| admission.for_url(&url));
        let sent = self.send(&url, admitted, Box::new(request), extensions, next).await;
        match (&admission, &sent) {
            (Some(admission), _) => admission.tell(&sent),
            // Nobody above tells it.
            (None, Err(error)) => self.tell_refused(error),
            (None, Ok(_)) => {}
        }
        let sent = sent?;
        let asked = sent.response.url().clone();
        let response = take_apart(&asked, sent.response, sent.permit);
        Ok(Response::from(response.map(reqwest::Body::wrap)))
    }
}
