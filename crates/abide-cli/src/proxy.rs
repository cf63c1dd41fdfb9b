//! Proxies: `--proxy`, and those of the environment.
//!
//! An http, https or socks5h proxy resolves names itself. So of the checks of addresses one still holds: a
//! URL or redirect whose host is an address that is not public is refused. Where a name leads is the proxy's
//! to check. With socks5 names are resolved here, and all checks hold.

use std::net::ToSocketAddrs;

use reqwest::{NoProxy, Proxy};
use url::{Host, Url};

use crate::args::Online;
use crate::status::UsageError;
use crate::style;

pub(crate) fn proxies(online: &Online) -> anyhow::Result<Vec<Proxy>> {
    let mut proxies = Vec::new();
    // As in curl, no proxy at all, so what is wrong with one does not matter either.
    if online.no_proxy.as_deref() == Some("*") {
        return Ok(proxies);
    }
    let direct = || match &online.no_proxy {
        Some(hosts) => NoProxy::from_string(hosts),
        None => NoProxy::from_env(),
    };
    let wrong = |what: &str, error: String| UsageError(format!("{what}: {error}"));
    let mut is_resolver = false;
    if let Some(text) = &online.proxy {
        let url = proxy_url(text).map_err(|error| wrong("--proxy", error))?;
        is_resolver = url.scheme() != "socks5";
        proxies.push(Proxy::all(url)?.no_proxy(direct()));
    } else {
        for (scheme, names) in [
            ("http", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
            ("https", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
        ] {
            let set = names.iter().find_map(|name| Some((*name, std::env::var(name).ok()?)));
            let Some((name, text)) = set.filter(|(_, text)| !text.is_empty()) else { continue };
            let url = proxy_url(&text).map_err(|error| wrong(name, error))?;
            is_resolver |= url.scheme() != "socks5";
            let proxy = if scheme == "http" { Proxy::http(url)? } else { Proxy::https(url)? };
            proxies.push(proxy.no_proxy(direct()));
        }
    }
    if is_resolver {
        style::note(format_args!(
            "the proxy resolves names, so only addresses in URLs are checked for being public, and --resolve has no effect"
        ));
    }
    Ok(proxies)
}

/// Whether requests may go through a proxy.
pub(crate) fn is_set(online: &Online) -> bool {
    let is_named = |name: &&str| std::env::var(name).is_ok_and(|text| !text.is_empty());
    online.no_proxy.as_deref() != Some("*") && (online.proxy.is_some() || NAMES.iter().any(is_named))
}

const NAMES: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The proxy by its address: the resolver of the client is for sites, and refuses addresses that are not
/// public, where proxies mostly are.
fn proxy_url(text: &str) -> Result<Url, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut url = Url::parse(&whole).map_err(|error| format!("expected the URL of a proxy: {error}"))?;
    match url.scheme() {
        "http" | "socks5" | "socks5h" => {}
        // Its certificate is for its name.
        "https" => return Ok(url),
        other => return Err(format!("expected an http, https, socks5 or socks5h proxy, found {other}")),
    }
    if let Some(Host::Domain(name)) = url.host() {
        let mut found = (name, url.port_or_known_default().unwrap_or(80))
            .to_socket_addrs()
            .map_err(|_| format!("the name {name} of the proxy could not be resolved"))?;
        let address = found.next().ok_or_else(|| format!("the proxy {name} has no address"))?;
        url.set_ip_host(address.ip()).map_err(|()| "expected the URL of a proxy".to_owned())?;
    }
    Ok(url)
}
