//! What happened on the way to a response: hops, verdicts, waits, permissions. Attached to the response's extensions.

use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use tokio::sync::watch;
use url::Url;

use abide_gate::Verdict;
use abide_permissions::{AppDirectives, Head, HeadEnd, Permissions, Preferences, ReadOptions};
use abide_robots::Target;

use crate::remember::Known;
use crate::scan::Fields;
use crate::trail::{Hop, Stopped, Trail};

/// The way to one response. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Visit {
    told: Arc<Told>,
}

/// What is told of a visit.
#[derive(Debug)]
struct Told {
    read: ReadOptions,
    trail: Trail,
    fields: Fields,
    answer: Answer,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Known(Permissions),
    /// With what earlier visits have left.
    Remembered(Box<Known>),
    /// Nothing but the reason why no head was looked at: no field says anything.
    Nothing(HeadEnd),
    /// The header's part is known; the head comes with the body.
    Later(watch::Receiver<Option<Head>>),
}

impl Visit {
    pub(crate) fn new(read: ReadOptions, trail: Trail, fields: Fields, answer: Answer) -> Self {
        Self { told: Arc::new(Told { read, trail, fields, answer }) }
    }

    /// The visit that [`Reading::finish`](crate::Reading::finish) left with a response.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Every request that went out, first to last.
    pub fn hops(&self) -> &[Hop] {
        self.told.trail.hops()
    }

    /// The verdict that let the last hop out.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.told.trail.last().map(Hop::verdict)
    }

    /// How long this call waited for its turns, all hops together. Outside of reqwest's timeouts.
    pub fn waited(&self) -> Duration {
        self.told.trail.waited()
    }

    /// Why a 3xx was returned and not followed; `None` when the answer is no redirect.
    pub fn stopped(&self) -> Option<Stopped> {
        self.told.trail.stopped()
    }

    /// What the site permits you to do with this response, as far as is known now.
    ///
    /// With [`Scan::Lazy`](crate::Scan::Lazy) the head's part is missing until the body has been read that far.
    pub fn permissions(&self) -> Permissions {
        let Told { read, fields, .. } = &*self.told;
        match &self.told.answer {
            Answer::Known(permissions) => Permissions::clone(permissions),
            Answer::Remembered(known) => known.permissions.clone(),
            Answer::Nothing(reason) => fields.permissions(read, Head::not_scanned(*reason)),
            Answer::Later(head) => {
                let head = head.borrow().clone().unwrap_or_else(|| Head::not_scanned(HeadEnd::NotScanned));
                fields.permissions(read, head)
            }
        }
    }

    /// What the site asks of those who *use* the content: AI training, search, text and data mining.
    ///
    /// From the robots.txt that let the last hop out, as it was then (draft-ietf-aipref-attach: "the copy of robots.txt that is
    /// current at the time of the fetch"), from the response's own fields, and from the metas of its head. Preferences never
    /// decide whether something may be fetched.
    ///
    /// ```
    /// use abide_permissions::{Preference, Usage};
    /// # fn may_train(visit: &abide_http::Visit) -> bool {
    /// visit.preferences().resolve(&Usage::TrainAi) != Preference::Disallow
    /// # }
    /// ```
    pub fn preferences(&self) -> Preferences {
        if let Answer::Remembered(known) = &self.told.answer {
            return known.preferences.clone();
        }
        let own = self.told.fields.preferences(&self.told.read, self.permissions().metas());
        match self.told.trail.last() {
            Some(hop) => with_robots(own, hop),
            None => own,
        }
    }

    /// The App-Directives that robots.txt held for the last hop's URL when it was fetched (draft-nottingham-plan-b).
    pub fn app_directives(&self) -> Option<AppDirectives> {
        let (rules, url) = self.rules_and_url()?;
        Some(AppDirectives::of(rules, &Target::of(url)))
    }

    fn rules_and_url(&self) -> Option<(&abide_robots::Rules, &Url)> {
        let hop = self.told.trail.last()?;
        Some((hop.verdict().rules()?.rules(), hop.url()))
    }

    /// The permissions when the head has been seen to its end, or the body was dropped.
    ///
    /// Resolves at once unless [`Scan::Lazy`](crate::Scan::Lazy) is in use; then somebody must read or drop the body.
    pub fn settled(&self) -> impl Future<Output = Permissions> + Send + 'static + use<> {
        let visit = self.clone();
        async move {
            if let Answer::Later(head) = &visit.told.answer {
                // A closed channel means that the body is gone; its last value still stands.
                let _ = head.clone().wait_for(Option::is_some).await;
            }
            visit.permissions()
        }
    }
}

/// Adds what robots.txt prefers for a hop's URL: the very copy that let the request out.
pub(crate) fn with_robots(preferences: Preferences, hop: &Hop) -> Preferences {
    let (verdict, target) = (hop.verdict(), Target::of(hop.url()));
    let preferences = match verdict.rules() {
        Some(robots) => preferences.with_robots(robots.rules(), &target),
        None => preferences,
    };
    match verdict.entry().and_then(|entry| entry.copy()) {
        Some(copy) => preferences.with_policy_tokens(copy.body(), &target),
        None => preferences,
    }
}
