//! Where a redirect of robots.txt leads (RFC 9309 §2.3.1.2), and which ones are not followed.
//!
//! A Location is where a server names the next URL that the crawler requests, so what is not known to be
//! harmless is refused.

use http::HeaderMap;
use url::Url;

use crate::robots_cache::RobotsPolicy;
use crate::{Failure, location};

/// No honest Location is longer; browsers and proxies stop there, too.
const LOCATION_LEN_MAX: usize = 8 * 1024;

/// Where the answer to `from` sends us: an http or https URL without user information and fragment.
pub(crate) fn destination(from: &Url, headers: &HeaderMap, policy: &RobotsPolicy) -> Result<Url, Failure> {
    // Of two that differ, clients and proxies may take either.
    let text = location(headers).map_err(|_| Failure::LocationInvalid)?.ok_or(Failure::LocationMissing)?;
    let mut url = resolve(from, &text)?;
    // Stricter: rules that were fetched in the clear can be rewritten on the way, so https is never left.
    if from.scheme() == "https" && url.scheme() == "http" && !policy.follow_downgrade {
        return Err(Failure::RedirectDowngrade);
    }
    // It is not sent, and would make a URL look unvisited.
    url.set_fragment(None);
    let stripped = url.set_username("").and_then(|()| url.set_password(None));
    match (stripped, url.scheme(), url.host(), url.port_or_known_default()) {
        // Port 0 is no place to connect to.
        (Ok(()), "http" | "https", Some(_), Some(1..)) => Ok(url),
        _ => Err(Failure::LocationInvalid),
    }
}

fn resolve(from: &Url, text: &str) -> Result<Url, Failure> {
    // RFC 9110 §5.5: white space around a field value is no part of it.
    match text.trim_matches(' ') {
        _ if text.len() > LOCATION_LEN_MAX => Err(Failure::LocationInvalid),
        "" => Err(Failure::LocationMissing),
        // The WHATWG parser removes tabs and line ends silently, so two readers of one Location could see two
        // URLs.
        text if text.chars().any(char::is_control) => Err(Failure::LocationInvalid),
        text => from.join(text).map_err(|_| Failure::LocationInvalid),
    }
}
