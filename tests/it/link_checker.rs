//! What link checkers ask for: redirects as they are, robots.txt as a report, and several clients of one
//! crawler.

use std::time::Duration;

use abide::{DeniedKind, Failure, Options, RedirectPolicy, RequestBuilderExt, ResponseExt, Stopped};
use abide_tests::{Reply, Server, delays};

use crate::{Built, builder, refused};

/// `/hop/N` redirects to `/hop/N-1`; `/secret` is disallowed.
async fn site() -> Server {
    Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("down.example", "/robots.txt") => Reply::new(500, "down"),
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        (_, "/hop/0") => Reply::html("page"),
        (_, path) => match path.strip_prefix("/hop/").and_then(|hop| hop.parse::<u32>().ok()) {
            Some(hop) => Reply::redirect(302, &format!("/hop/{}", hop - 1)),
            None => Reply::html("page"),
        },
    })
    .await
}

#[tokio::test]
async fn the_redirect_at_the_limit_is_returned_if_asked_for() {
    let server = site().await;
    let at_limit = RedirectPolicy::default().with_hops_max(2).with_response_at_limit(true);
    let client = builder(&server).redirects(at_limit.clone()).client();
    let response = client.get("http://a.example/hop/5").send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.url().path()), (302, "/hop/3"));
    let info = response.fetch_info().unwrap();
    assert_eq!((info.stopped(), info.hops().len()), (Some(Stopped::AtLimit), 3));
    assert_eq!(server.count("a.example/hop/2"), 0);

    // One request has the last word, in both directions.
    let further = Options::new().with_redirects(RedirectPolicy::default().with_hops_max(5));
    let response = client.get("http://a.example/hop/5").abide(further).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.fetch_info().unwrap().stopped()), (200, None));
    let client = builder(&server).client();
    let one = Options::new().with_redirects(RedirectPolicy::default().with_hops_max(1));
    let error = client.get("http://a.example/hop/5").abide(one).send().await.unwrap_err();
    let denied = abide::Denied::find(&error).unwrap();
    assert!(matches!(denied.kind(), DeniedKind::TooManyRedirects), "{denied:?}");
    assert_eq!((denied.hop(), denied.url().path()), (2, "/hop/3"));
    let response = client
        .get("http://a.example/hop/5")
        .abide(Options::new().with_redirects(at_limit))
        .send()
        .await
        .unwrap();
    assert_eq!(response.url().path(), "/hop/3");
}

#[tokio::test]
async fn a_report_only_client_fetches_what_is_denied_and_reports_it() {
    let server = site().await;
    let delay = Duration::from_millis(80);
    let client = builder(&server).delay(delay).danger_report_only("the links of our own handbook").client();
    for (url, is_allowed) in [("http://a.example/secret", false), ("http://a.example/hop/0", true)] {
        let response = client.get(url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let verdict = response.fetch_info().unwrap().verdict().unwrap();
        assert_eq!(verdict.rules().unwrap().is_allowed(), is_allowed, "{url}");
        let reason = (!is_allowed).then_some("the links of our own handbook");
        assert_eq!(verdict.override_reason(), reason, "{url}");
    }
    // Also where robots.txt can't be fetched, and what cannot be crawled politely is refused all the same.
    let response = client.get("http://down.example/x").send().await.unwrap();
    let info = response.fetch_info().unwrap();
    assert!(info.verdict().unwrap().override_reason().is_some() && info.verdict().unwrap().rules().is_none());
    let denied = refused(&client, "http://10.0.0.1/").await;
    assert!(matches!(denied.kind(), DeniedKind::AddressRefused { .. }), "{denied:?}");
    for host in ["a.example", "down.example"] {
        let log: Vec<_> = server.log().into_iter().filter(|seen| seen.host() == host).collect();
        assert_eq!(log.first().unwrap().path, "/robots.txt");
        assert!(delays(&log).all(|found| found >= delay), "{host}");
    }
}

#[tokio::test]
async fn a_refusal_says_whether_the_host_is_down() {
    let (server, closed) = (site().await, ([127, 0, 0, 1], 1));
    let (client, dead) = (builder(&server).client(), builder(closed).client());
    for (client, url, is_connect, is_unreachable) in [
        (&dead, "http://a.example/x", true, true),
        (&client, "http://down.example/x", false, true),
        (&client, "http://a.example/secret", false, false),
        (&client, "http://10.0.0.1/", false, false),
    ] {
        let denied = refused(client, url).await;
        assert_eq!(
            (denied.is_connect(), denied.is_unreachable()),
            (is_connect, is_unreachable),
            "{denied:?}"
        );
    }
}

#[tokio::test]
async fn several_clients_share_one_crawler_and_its_guard() {
    let server = site().await;
    let delay = Duration::from_millis(80);
    let abide = builder(&server)
        .delay(delay)
        .resolve("private.example", "10.0.0.1:80".parse().unwrap())
        .build()
        .unwrap();
    let client = |language: &'static str| {
        let headers = [(http::header::ACCEPT_LANGUAGE, http::HeaderValue::from_static(language))];
        let inner = reqwest::Client::builder()
            .default_headers(headers.into_iter().collect())
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(abide.resolver());
        abide.wrap(inner.build().unwrap())
    };
    let (one, other) = (client("en"), client("de"));
    let fetch = async |client: &reqwest_middleware::ClientWithMiddleware| {
        client.get("http://a.example/hop/0").send().await.unwrap().status()
    };
    assert_eq!(tokio::join!(fetch(&one), fetch(&other)), (http::StatusCode::OK, http::StatusCode::OK));
    let denied = refused(&other, "http://private.example/").await;
    let is_guarded =
        matches!(denied.kind(), DeniedKind::Unreachable { cause: Failure::AddressRefused(_), .. });
    assert!(is_guarded, "{denied:?}");
    let log = server.log();
    assert_eq!(server.count("a.example/robots.txt"), 1);
    assert!(delays(&log).all(|found| found >= delay));
    let mut languages: Vec<_> = log[1..].iter().map(|seen| seen.header("accept-language")).collect();
    languages.sort_unstable();
    assert_eq!(languages, [Some("de"), Some("en")]);
}
