//! The robots.txt files that a call is about: files, standard input, and those of sites.
//!
//! `lint`, `agents` and `watch` share it. Whether a site may be crawled is not asked here.

use std::path::Path;

use url::Url;

use crate::args::Online;
use crate::check::{self, Checked};
use crate::input::{self, Given, absolute_url, read_file};
use crate::sanitize::public_url;
use crate::status::{Status, UsageError};
use crate::{online, outcome, style};

/// A robots.txt, and what it is called.
#[derive(Debug)]
pub(crate) struct RobotsText {
    pub(crate) name: String,
    /// `None`: the site has none, for this reason.
    pub(crate) body: Result<Vec<u8>, String>,
    /// It was cut when it was fetched.
    pub(crate) is_cut: bool,
}

/// Reads files first, then sites. A file that cannot be read is wrong usage, and nothing is answered then; a
/// site whose robots.txt cannot be fetched is reported, and the others are read.
pub(crate) fn read(online: &Online, named: &[String]) -> anyhow::Result<(Status, Vec<RobotsText>)> {
    let mut found = Vec::new();
    for text in named.iter().filter(|text| !is_url(text)) {
        let body = Ok(read_file(Path::new(text))?);
        found.push(RobotsText { name: input::name(Path::new(text)), body, is_cut: false });
    }
    let sites = named.iter().filter(|text| is_url(text)).map(|text| site_of(text).map(Ok));
    let sites: Vec<Given<Url>> = sites.collect::<Result<_, _>>()?;
    if sites.is_empty() {
        return Ok((Status::Done, found));
    }
    let mut status = Status::Done;
    let checked = online::run(online, async |abide, _| {
        let read = |checked: &Checked<'_>| {
            match of_site(checked) {
                Ok(text) => found.push(text),
                Err(why) => {
                    status = Status::Failed;
                    let url = public_url(&checked.url);
                    style::to_stderr(format_args!("{url}: robots.txt cannot be read: {why}"));
                }
            }
            Ok(())
        };
        check::each(online, &sites, &abide, read).await?;
        Ok(Status::Done)
    })?;
    Ok((status.and(checked), found))
}

pub(crate) fn is_url(text: &str) -> bool {
    let is_web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    text.split_once("://").is_some_and(|(scheme, _)| is_web(scheme))
}

/// Any page of the site, which robots.txt itself is not: it is allowed without being read.
fn site_of(text: &str) -> Result<(String, Url), UsageError> {
    let mut url = absolute_url(text).map_err(UsageError)?;
    url.set_path("/");
    url.set_query(None);
    Ok((url.to_string(), url))
}

fn of_site(checked: &Checked<'_>) -> Result<RobotsText, String> {
    let verdict = checked.result.as_ref().map_err(outcome::why)?;
    let entry = verdict.entry().ok_or_else(|| verdict.to_string())?;
    let name = entry.origin().robots_url().into();
    match entry.copy() {
        Some(copy) => Ok(RobotsText { name, body: Ok(copy.body().to_vec()), is_cut: copy.is_truncated() }),
        // RFC 9309 §2.3.1.3: there is none, and everything is allowed.
        None if verdict.is_allowed() => {
            Ok(RobotsText { name, body: Err(verdict.to_string()), is_cut: false })
        }
        None => Err(verdict.to_string()),
    }
}
