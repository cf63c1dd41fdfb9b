//! The middlewares: one for both halves, or one for each, with a cache between them.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, OrderProblem, Verdict, without_userinfo};

use crate::client::Abide;
use crate::send::{Admission, Sent, answered, refuse, take_apart, wrong_order};
use crate::sends::counted;
use crate::silence::heard_within;
use crate::walk::{Pace, Walk};
use abide_http::seen;

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
    /// background. What it waited is taken from what is `left`.
    async fn send(
        &self,
        url: &Url,
        admitted: Option<Verdict>,
        left: &mut Duration,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<(Sent, Option<Permit>)> {
        // Also what the gate half has seen: something between the two may have changed it.
        self.abide.identify(&mut request)?;
        let verdict = match admitted {
            Some(verdict) => verdict,
            None => {
                let timeout = request.timeout().copied().or(self.abide.core.timeout);
                *request.timeout_mut() = timeout;
                self.abide.allowed(url, left).await?
            }
        };
        let gate = &self.abide.core.gate;
        let (verdict, permit, _) = gate.turn(url, verdict, left).await.map_err(refuse)?.into_parts();
        let (mut permit, limit) = (Some(permit), self.abide.core.read_timeout);
        let codings = &self.abide.core.codings;
        codings.ask(&mut request);
        let answer = counted(heard_within(limit, next.run(request, extensions))).await;
        let response = answered(gate, url, &mut permit, answer)?;
        if let Some(permit) = permit.as_ref() {
            permit.saved().await;
        }
        let response = codings.taken_off(response);
        let wire = permit.as_ref().map(Permit::elapsed).unwrap_or_default();
        Ok((Sent { response, verdict, wire }, permit))
    }

    fn tell_refused(&self, error: &reqwest_middleware::Error) {
        if let Some(denied) = Denied::find(error) {
            self.abide.core.gate.tell_refused(&denied);
        }
    }
}

/// As `async_trait` would write it, except that the walk is made before the future is: with the macro a future has room for the
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
        Box::pin(Walk::new(&self.abide, Pace::Here, extensions, request).run(extensions, next))
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
            return Err(wrong_order(&self.abide.core.gate, request.url(), OrderProblem::NoPacing));
        }
        Walk::new(&self.abide, Pace::Below, extensions, request).run(extensions, next).await
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
        let (admitted, budget) = match admitted {
            Some((verdict, left)) => (Some(verdict), left),
            None => (None, self.abide.core.gate.max_wait()),
        };
        let mut left = budget;
        let sent = self.send(&url, admitted, &mut left, request, extensions, next).await;
        match (&admission, &sent) {
            (Some(admission), _) => {
                admission.tell(sent.as_ref().map(|sent| &sent.0), budget.saturating_sub(left))
            }
            // Nobody above tells it.
            (None, Err(error)) => self.tell_refused(error),
            (None, Ok(_)) => {}
        }
        let (Sent { response, .. }, permit) = sent?;
        let asked = response.url().clone();
        let mut response = take_apart(asked, None, response, permit, self.abide.core.read_timeout);
        seen::tell(&mut response, self.abide.core.gate.wall());
        Ok(Response::from(response.map(reqwest::Body::wrap)))
    }
}
