//! Licences: a challenge is typed data, and the token that the caller has is sent once, to the site that
//! asked.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use abide::ResponseExt;
use abide::identity::{LicenseToken, LicenseTokens};
use abide_tests::{Authority, Reply, Server, Step, listen};
use url::Url;

use crate::layered::{follow, layered};
use crate::signed::{identity, verified};
use crate::{Built, builder, secure, trusting};

/// Two hosts over TLS, whose pages are for licensees.
async fn site() -> (Authority, Server) {
    secure("*.site.example", |seen| {
        let is_licensed = seen.header("authorization") == Some("License t0ken");
        let challenge = ("www-authenticate", "Basic realm=\"a, b\", License error=\"invalid_request\"");
        match seen.path.as_str() {
            "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
            "/priced" if !is_licensed => Reply::with_headers(402, &[challenge], "buy"),
            _ if !is_licensed => Reply::with_headers(401, &[challenge], "buy"),
            "/within" => Reply::redirect(302, "/page"),
            "/across" => Reply::redirect(302, "https://b.site.example/page"),
            "/cut" => Reply::raw(vec![Step::Reset]),
            _ => Reply::html("page"),
        }
    })
    .await
}

/// The caller has a licence of `a.site.example` alone.
fn tokens(token: &'static str) -> LicenseTokens {
    LicenseTokens::new(move |url: &Url, challenge| {
        assert_eq!(challenge, [("error".to_owned(), "invalid_request".to_owned())]);
        (url.host_str() == Some("a.site.example")).then(|| LicenseToken::new(token).unwrap())
    })
}

#[derive(Clone, Copy, Debug)]
enum Client {
    Middleware,
    Layer,
}

const DELAY: Duration = Duration::from_millis(200);

/// How a GET of `path` ends, and what the server saw: host and path, and credentials.
async fn get(client: Client, path: &str, token: &'static str) -> (u16, Vec<(String, Option<String>)>) {
    let (authority, server) = site().await;
    let url = format!("https://a.site.example{path}");
    let settings = builder(&server).delay(DELAY).answer_challenges(tokens(token));
    let status = match client {
        Client::Middleware => {
            let client = settings.build_client(trusting(&authority)).unwrap();
            crate::status(&client, &url).await
        }
        Client::Layer => {
            let layer =
                layered(&server, &authority, DELAY, |builder| builder.answer_challenges(tokens(token)));
            follow(layer, &url).await
        }
    };
    let log = server.log();
    for pair in log.windows(2).filter(|pair| pair[0].host() == pair[1].host()) {
        let delay = pair[1].at.duration_since(pair[0].answered);
        assert!(delay >= DELAY - Duration::from_millis(1), "paced: {delay:?}");
    }
    let credentials = |name: &str| name.parse().ok();
    (
        status,
        log.iter().map(|seen| (seen.what(), seen.header("authorization").and_then(credentials))).collect(),
    )
}

/// What a server sees, without robots.txt, which is never asked for with a token.
fn seen(log: &[(String, Option<String>)]) -> Vec<(&str, bool)> {
    let (robots, pages): (Vec<_>, Vec<_>) = log.iter().partition(|(what, _)| what.ends_with("/robots.txt"));
    assert!(!robots.is_empty() && robots.iter().all(|(_, token)| token.is_none()), "{robots:?}");
    pages.iter().map(|(what, token)| (what.as_str(), token.is_some())).collect()
}

/// Once to the site that asked, again to no site, and along with redirects within its origin.
#[tokio::test]
async fn the_token_is_sent_once_to_the_site_that_asked() {
    for client in [Client::Middleware, Client::Layer] {
        // To the layer each hop is a call of its own.
        let is_kept = !matches!(client, Client::Layer);
        let [page, elsewhere] = ["a.site.example/page", "b.site.example/page"];
        let asks_again = if is_kept { vec![] } else { vec![(page, false)] };
        for (path, token, expected, then) in [
            ("/page", "t0ken", 200, vec![]),
            ("/priced", "t0ken", 200, vec![]),
            ("/page", "old", 401, vec![]),
            ("/across", "t0ken", 401, vec![(elsewhere, false)]),
            ("/within", "t0ken", 200, [asks_again, vec![(page, true)]].concat()),
        ] {
            let (status, log) = get(client, path, token).await;
            let first = format!("a.site.example{path}");
            let expected_log = [vec![(&*first, false), (&*first, true)], then].concat();
            assert_eq!((status, seen(&log)), (expected, expected_log), "{client:?} {path} {token}");
        }
    }
}

#[tokio::test]
async fn without_tls_or_without_a_token_the_challenge_is_the_response() {
    let server = Server::with_rules("", |_| {
        Reply::with_headers(401, &[("www-authenticate", "License error=\"invalid_request\"")], "buy")
    })
    .await;
    let client =
        builder(&server).answer_challenges(LicenseTokens::new(|_, _| LicenseToken::new("t0ken").ok()));
    let client = client.client();
    let page = client.get("http://a.example/page").send().await.unwrap();
    assert_eq!(page.fetch_info().unwrap().license_challenge().unwrap()[0].1, "invalid_request");
    assert_eq!((page.status().as_u16(), server.asked().len()), (401, 2));

    let (authority, server) = site().await;
    let client =
        builder(&server).answer_challenges(tokens("t0ken")).build_client(trusting(&authority)).unwrap();
    assert_eq!(crate::status(&client, "https://b.site.example/page").await, 401);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn the_signature_covers_the_token() {
    let (authority, server) = site().await;
    let (identity, public_key) = identity();
    let client = builder(&server).answer_challenges(tokens("t0ken")).sign_requests(identity);
    let client = client.build_client(trusting(&authority)).unwrap();
    assert_eq!(crate::status(&client, "https://a.site.example/page").await, 200);
    let log = server.log();
    let input = |at: usize| log[at].header("signature-input").unwrap().to_owned();
    assert!(!input(1).contains("\"authorization\""));
    assert!(input(2).contains("\"authorization\""), "{}", input(2));
    assert_eq!(verified(&log[2], public_key), Ok(()));
}

#[tokio::test]
async fn no_log_error_or_store_has_the_token() {
    let (authority, server) = site().await;
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("abide.redb");
    let store = Arc::new(abide_redb::Store::open(&path).unwrap());
    let (captured, _guard) = listen();
    let (abide, inner) = builder(&server)
        .answer_challenges(tokens("t0ken"))
        .robots_store(store.clone())
        .host_store(store.clone())
        .permission_store(store.clone())
        .build_with(trusting(&authority))
        .unwrap();
    let mut text = format!("{abide:?}");
    let client = abide.clone().wrap(inner);
    let page = client.get("https://a.site.example/page").send().await.unwrap();
    write!(text, "{page:?} {:?}", page.fetch_info()).unwrap();
    page.text().await.unwrap();
    let error = client.get("https://a.site.example/cut").send().await.unwrap_err();
    write!(text, "{error:?} {error}").unwrap();
    for said in captured.all() {
        write!(text, "{said:?}").unwrap();
    }
    assert!(text.contains("a.site.example"), "something was said");
    // The page, and what is cut, twice, because its connection was kept before.
    assert_eq!(server.log().iter().filter(|seen| seen.header("authorization").is_some()).count(), 3);
    assert!(abide.gate().settled(Duration::from_secs(10)).await);
    store.close().await.unwrap();
    let stored = std::fs::read(&path).unwrap();
    let stored = String::from_utf8_lossy(&stored);
    assert!(stored.contains("a.site.example"), "something was stored");
    assert!(!text.contains("t0ken") && !stored.contains("t0ken"));
}
