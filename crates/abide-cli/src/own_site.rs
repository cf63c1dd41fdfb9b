//! What one may do on one's own site: ignore its robots.txt, and log in.
//!
//! Neither goes further than what was named: robots.txt is ignored for whole origins only, and a password is
//! sent to the hosts of the URLs given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide::{Options, Origin};
use http::header::AUTHORIZATION;
use reqwest_middleware::RequestBuilder;
use url::Url;

use crate::args::{Online, OwnSiteArgs};
use crate::fetch::FetchLine;
use crate::sanitize::cut;
use crate::status::{UsageError, wrong_usage};
use crate::style;

#[derive(Debug, Clone, Default)]
pub(crate) struct OwnSite {
    args: OwnSiteArgs,
    /// The URLs of the call.
    given: Vec<Url>,
    has_hinted: Arc<AtomicBool>,
    /// `--header Authorization`.
    has_own_field: bool,
}

impl OwnSite {
    pub(crate) fn new(args: &OwnSiteArgs, given: Vec<Url>, online: &Online) -> anyhow::Result<Self> {
        let has_own_field = online.headers.iter().any(|field| field.name == AUTHORIZATION);
        if args.user.is_some() && has_own_field {
            return wrong_usage("--user: expected no --header Authorization besides it");
        }
        if args.why.as_deref().is_some_and(|why| why.trim().is_empty()) {
            return Err(UsageError("--why: expected the reason, found nothing".to_owned()).into());
        }
        for url in &args.danger_ignore_robots {
            let why = args.why.as_deref().unwrap_or_default();
            style::note(format_args!(
                "the robots.txt of {} is ignored: {why}",
                url.origin().ascii_serialization()
            ));
        }
        Ok(Self { args: args.clone(), given, has_hinted: Arc::default(), has_own_field })
    }

    /// The options of a request, which ignores robots.txt where that was asked for, also behind redirects.
    pub(crate) fn options(&self, options: Options) -> Options {
        let why = self.args.why.as_deref().unwrap_or_default();
        let ignored = self.args.danger_ignore_robots.iter().filter_map(|url| Origin::of(url).ok());
        ignored.fold(options, |options, origin| options.danger_ignore_robots(origin, why))
    }

    /// The request, with the user name and the password if `url` is on a host that was given.
    pub(crate) fn log_in(&self, request: RequestBuilder, url: &Url) -> RequestBuilder {
        match &self.args.user {
            // A URL that names a user has its own.
            Some(user) if self.is_given(url) && url.username().is_empty() => {
                request.basic_auth(&user.name, Some(&user.password))
            }
            _ => request,
        }
    }

    /// What helps with the first 401 of a host that was given.
    pub(crate) fn hint(&self, line: &FetchLine) -> Option<String> {
        let url = line.final_url.as_deref()?.parse().ok()?;
        if line.status != Some(401)
            || self.has_own_field
            || !self.is_given(&url)
            || self.has_hinted.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let helps = match self.args.user {
            Some(_) => "it does not take the name and the password of --user",
            None => "it asks for a name and a password, which --user NAME:PASSWORD sends",
        };
        Some(format!("{} answered 401: {helps}", cut(url.as_str())))
    }

    /// Whether a host was given; also by http, if it has gone over to https.
    fn is_given(&self, url: &Url) -> bool {
        self.given.iter().any(|given| {
            let is_upgraded = given.scheme() == "http" && given.port().is_none();
            let is_upgrade = url.scheme() == "https" && url.port().is_none();
            given.origin() == url.origin() || is_upgraded && is_upgrade && given.host_str() == url.host_str()
        })
    }
}
