//! `POST /v1/permissions`: what a response permits that the client has received.
//!
//! The object of `abide tags --batch`, with what a status and a URL add: an error and a challenge are not the
//! page, and robots.txt has preferences, too. What was not sent here is unknown.

use std::time::SystemTime;

use abide::{Preferences, Refusal, Target};
use abide_permissions::{Head, HeadEnd, HeadScanner, Permissions, ReadOptions};
use http::StatusCode;
use url::Url;

use super::calls::{self, Crawler};
use super::error::CallError;
use super::messages::PermissionsCall;
use crate::batch;
use crate::tags::{self, TagsLine};

pub(crate) async fn read(crawler: &Crawler, call: PermissionsCall) -> Result<TagsLine, CallError> {
    let status = calls::status(call.status)?;
    let url = call.url.as_deref().map(calls::url).transpose()?;
    let html = batch::bytes("html", call.html, call.html_base64).map_err(CallError::bad_request)?;
    let (tokens, headers, trusts_status) =
        (crawler.tokens.clone(), call.headers, crawler.abide.gate().trusts_status());
    // A page of some megabytes takes a while, in which this thread serves others.
    let reading = tokio::task::spawn_blocking(move || {
        let fields = calls::fields(&headers);
        let page = html.as_deref().unwrap_or_default();
        let refusal =
            || Refusal::in_head(status, &fields).or_else(|| Refusal::in_body(status, &fields, page));
        if let Some(refusal) = Some(()).filter(|()| !trusts_status).and_then(|()| refusal()) {
            let why = refusal.to_string();
            let preferences = Preferences::default().with_unread_source(&why);
            return (Permissions::unknown(SystemTime::now(), why), preferences);
        }
        let options = ReadOptions::for_tokens(tokens).with_whole_document(true);
        let head = head(&options, status, &headers, html.as_deref());
        let (permissions, preferences) = tags::read(&options, &headers, head, None);
        let preferences = match permissions.is_read() {
            true => preferences,
            false => preferences.with_unread_source(&permissions.head_end().to_string()),
        };
        (permissions, preferences)
    });
    let (permissions, preferences) = reading.await.map_err(|_| CallError::internal())?;
    let preferences = match &url {
        Some(url) => with_robots(crawler, url, preferences),
        None => preferences.with_unread_source("robots.txt: the call has no url"),
    };
    Ok(TagsLine::new(&permissions, &preferences))
}

/// Only a successful response is about its URL, and a part need not have the head.
fn head(
    options: &ReadOptions,
    status: StatusCode,
    headers: &[(String, String)],
    html: Option<&[u8]>,
) -> Head {
    let content_type = tags::content_type(headers);
    let html = html.filter(|_| status.is_success() && status != StatusCode::PARTIAL_CONTENT);
    match html {
        Some(html) => tags::scan(HeadScanner::new(options, content_type.as_deref()), html),
        // It would have been read, and may say no.
        None if HeadScanner::of_page(options, content_type.as_deref().map(str::as_bytes)).is_some() => {
            Head::not_scanned(HeadEnd::NotScanned)
        }
        None => Head::not_scanned(HeadEnd::NotHtml),
    }
}

/// Adds what the robots.txt in memory prefers for the URL.
fn with_robots(crawler: &Crawler, url: &Url, preferences: Preferences) -> Preferences {
    let Some(verdict) = crawler.abide.check_cached(url) else {
        return preferences.with_unread_source("robots.txt is not in memory");
    };
    let preferences = match verdict.entry() {
        Some(entry) if entry.is_truncated() => {
            preferences.with_unread_source("robots.txt is cut at the size limit")
        }
        _ => preferences,
    };
    match verdict.rules() {
        Some(rules) => preferences.with_robots(rules.rules(), &Target::of(url)),
        None => preferences,
    }
}
