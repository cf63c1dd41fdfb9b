//! What happened on the way to a response: hops, verdicts, waits, permissions. Attached to the response's extensions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;
use url::Url;

use abide_gate::Verdict;
use abide_permissions::{AppDirectives, Head, HeadEnd, Permissions, Preferences, ReadOptions};
use abide_robots::Target;

use crate::redirect::Stopped;
use crate::remember::Known;
use crate::scan::Fields;

/// The way to one response. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Visit {
    trace: Arc<Trace>,
    fields: Arc<Fields>,
    answer: Answer,
}

/// The hops, and why they ended.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) hops: Vec<Hop>,
    pub(crate) stopped: Option<Stopped>,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Known(Arc<Permissions>),
    /// With what earlier visits have left.
    Remembered(Arc<Known>),
    /// The header's part is known; the head comes with the body.
    Later {
        read: ReadOptions,
        head: watch::Receiver<Option<Head>>,
    },
}

impl Visit {
    pub(crate) fn new(trace: Trace, fields: Fields, answer: Answer) -> Self {
        Self { trace: Arc::new(trace), fields: Arc::new(fields), answer }
    }

    /// Every request that went out, first to last. Never empty.
    pub fn hops(&self) -> &[Hop] {
        &self.trace.hops
    }

    /// The verdict that let the last hop out.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.trace.hops.last().map(Hop::verdict)
    }

    /// How long this call waited for its turns, all hops together. Outside of reqwest's timeouts.
    pub fn waited(&self) -> Duration {
        self.trace.hops.iter().map(Hop::waited).sum()
    }

    /// Why a 3xx was returned and not followed; `None` when the answer is no redirect.
    pub fn stopped(&self) -> Option<Stopped> {
        self.trace.stopped
    }

    /// What the site permits you to do with this response, as far as is known now.
    ///
    /// With [`Scan::Lazy`](crate::Scan::Lazy) the head's part is missing until the body has been read that far.
    pub fn permissions(&self) -> Permissions {
        match &self.answer {
            Answer::Known(permissions) => Permissions::clone(permissions),
            Answer::Remembered(known) => known.permissions.clone(),
            Answer::Later { read, head } => {
                let head = head.borrow().clone().unwrap_or_else(|| Head::not_scanned(HeadEnd::NotScanned));
                self.fields.permissions(read, head)
            }
        }
    }

    /// What the site asks of those who *use* the content: AI training, search, text and data mining.
    ///
    /// From the robots.txt that let the last hop out, as it was then (draft-ietf-aipref-attach: "the copy of robots.txt that is
    /// current at the time of the fetch"), from the response's own fields, and from the metas of its head. Preferences never
    /// decide whether something may be fetched.
    ///
    /// ```no_run
    /// # async fn example(client: reqwest_middleware::ClientWithMiddleware) -> Result<(), Box<dyn std::error::Error>> {
    /// use abide::{Preference, ResponseExt, Usage};
    ///
    /// let page = client.get("https://example.org/a").send().await?;
    /// let visit = page.visit().ok_or("not through abide")?;
    /// if visit.preferences().resolve(&Usage::TrainAi).preference() != Preference::Disallow {
    ///     println!("may be used for training, as far as the site has said");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn preferences(&self) -> Preferences {
        if let Answer::Remembered(known) = &self.answer {
            return known.preferences.clone();
        }
        let own = self.fields.preferences(self.permissions().metas());
        match self.rules_and_url() {
            Some((rules, url)) => own.with_robots(rules, &Target::of(url)),
            None => own,
        }
    }

    /// The App-Directives that robots.txt held for the last hop's URL when it was fetched (draft-nottingham-plan-b).
    pub fn app_directives(&self) -> Option<AppDirectives> {
        let (rules, url) = self.rules_and_url()?;
        Some(AppDirectives::of(rules, &Target::of(url)))
    }

    fn rules_and_url(&self) -> Option<(&abide_robots::Rules, &Url)> {
        let hop = self.trace.hops.last()?;
        Some((hop.verdict.rules()?.rules(), &hop.url))
    }

    /// The permissions when the head has been seen to its end, or the body was dropped.
    ///
    /// Resolves at once unless [`Scan::Lazy`](crate::Scan::Lazy) is in use; then somebody must read or drop the body.
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {
        let visit = self.clone();
        async move {
            if let Answer::Later { head, .. } = &visit.answer {
                // A closed channel means that the body is gone; its last value still stands.
                let _ = head.clone().wait_for(Option::is_some).await;
            }
            visit.permissions()
        }
    }
}

/// The hops that were answered before one failed, in the *request's* extensions.
///
/// An error of the network is the client's own, so that a retry above can judge it: it names the URL of the hop that failed, and
/// cannot hold those before it. They are found here by middlewares above, and by those who call
/// [`execute_with_extensions`](reqwest_middleware::ClientWithMiddleware::execute_with_extensions). Refusals tell their chain
/// themselves: [`Error::chain`](crate::Error::chain).
#[derive(Debug, Clone)]
pub struct Trail {
    hops: Arc<[Hop]>,
}

impl Trail {
    pub(crate) fn of(trace: &Trace) -> Self {
        Self { hops: trace.hops.as_slice().into() }
    }

    /// First to last. Never empty.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }
}

/// One request that went out.
#[derive(Debug, Clone)]
pub struct Hop {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) verdict: Verdict,
    pub(crate) waited: Duration,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) permissions: Option<Arc<Permissions>>,
}

impl Hop {
    /// The URL that was asked for, without user information.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What it answered.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Why it was allowed.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// How long it waited for its turn.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The address that answered, when known.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The header rules of the URL of a hop that redirected. They never reach its target, whose own are
    /// [`Visit::permissions`].
    pub fn permissions(&self) -> Option<&Permissions> {
        self.permissions.as_deref()
    }
}

/// What abide learnt, on a response.
pub trait ResponseExt: sealed::Sealed {
    /// The way to this response; `None` if it did not come through abide.
    fn visit(&self) -> Option<&Visit>;

    /// What the site permits you to do with it. Without abide in the client, permissions that state nothing and say so.
    fn permissions(&self) -> Permissions {
        self.visit().map(Visit::permissions).unwrap_or_default()
    }
}

impl ResponseExt for reqwest::Response {
    fn visit(&self) -> Option<&Visit> {
        self.extensions().get()
    }
}

impl<B> ResponseExt for http::Response<B> {
    fn visit(&self) -> Option<&Visit> {
        self.extensions().get()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest::Response {}
    impl<B> Sealed for http::Response<B> {}
}
