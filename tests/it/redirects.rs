//! What goes with a redirect and what does not, hop by hop, as the server sees it.

use std::time::{Duration, SystemTime};

use abide::{Denied, RedirectHistory, ResponseExt};
use abide_tests::{Reply, Server, Step, StoppedClock};
use http::{Extensions, Method};
use reqwest_middleware::ClientWithMiddleware;

use crate::{Built, builder, chain, client, status};

#[tokio::test]
async fn the_timeout_counts_the_wire_of_all_hops_and_no_waiting() {
    let clock = StoppedClock::stop();
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/one" => Reply::redirect(302, "/two").after(Duration::from_millis(400)),
        _ => Reply::html("page").after(Duration::from_millis(400)),
    })
    .await;
    let client = builder(&server).delay(Duration::from_millis(600)).client();
    let ask = |limit| client.get("http://a.example/one").timeout(Duration::from_millis(limit)).send();
    let page = clock.pass_until(ask(1_100)).await.unwrap();
    assert_eq!(page.status(), 200);
    let waited = page.fetch_info().unwrap().waited().as_millis();
    assert!((1_200..1_800).contains(&waited), "{waited} ms before two requests, longer than the timeout");
    drop(page);
    let error = clock.pass_until(ask(600)).await.unwrap_err();
    assert!(error.is_timeout(), "400 ms are left of the first hop, and the second takes 400: {error:?}");
    assert_eq!(error.url().unwrap().path(), "/two");
}

#[tokio::test]
async fn a_refused_hop_can_be_requested_by_itself() {
    let redirecting =
        |path: &str| if path == "/one" { Reply::redirect(302, "/two") } else { Reply::html("") };
    let server = Server::without_rules(move |seen| redirecting(&seen.path)).await;
    let client = builder(&server).delay(Duration::from_millis(50)).max_wait(Duration::ZERO).client();
    let mut sent = client.get("http://a.example/one").send().await;
    while let Err(error) = sent {
        let denied = Denied::find(&error).unwrap();
        let wait = denied.retry_at().unwrap().duration_since(SystemTime::now()).unwrap_or_default();
        tokio::time::sleep(wait).await;
        sent = client.get(denied.url().clone()).send().await;
    }
    assert_eq!((sent.unwrap().url().path(), server.count("a.example/one")), ("/two", 1));
}

#[tokio::test]
async fn the_crawlers_timeout_is_for_all_hops_the_inner_for_each() {
    let clock = StoppedClock::stop();
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/page" => Reply::html("page").after(Duration::from_millis(400)),
        hop => {
            let next = if hop == "/one" { "/two" } else { "/page" };
            Reply::redirect(302, next).after(Duration::from_millis(400))
        }
    })
    .await;
    let limit = Duration::from_millis(1_000);
    let of_reqwest = builder(&server).build_client(reqwest::Client::builder().timeout(limit)).unwrap();
    let three_hops = clock.pass_until(status(&of_reqwest, "http://a.example/one")).await;
    assert_eq!(three_hops, 200, "a fact about reqwest below abide");
    let limited = builder(&server).timeout(limit).build_with(reqwest::Client::builder());
    let (abide, inner) = limited.unwrap();
    let client = abide.wrap(inner);
    let error = clock.pass_until(client.get("http://a.example/one").send()).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.url().unwrap().path(), "/page");
    let patient = client.get("http://a.example/one").timeout(Duration::from_secs(5)).send();
    assert_eq!(clock.pass_until(patient).await.unwrap().status(), 200, "a request's own goes before");
}

#[tokio::test]
async fn a_large_body_of_a_redirect_is_unread_and_ends_the_permit() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/go" => Reply::raw(vec![
            Step::send(b"HTTP/1.1 302 Found\r\nlocation: /x\r\n\r\n"),
            Step::Repeat(vec![b'x'; 64 * 1024], 16_384),
        ]),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    assert_eq!(status(&client, "http://a.example/go").await, 200);
    assert_eq!(status(&client, "http://a.example/y").await, 200);
    let sent = server.log().into_iter().find(|seen| seen.path == "/go").unwrap().sent;
    assert!(sent < 2 * 1024 * 1024, "{sent} bytes of a gibibyte");
}

/// A GET with extensions that the caller can look at afterwards.
async fn execute(
    client: &ClientWithMiddleware,
    url: &str,
    extensions: &mut Extensions,
) -> reqwest_middleware::Result<reqwest::Response> {
    let request = reqwest::Request::new(Method::GET, url.parse().unwrap());
    client.execute_with_extensions(request, extensions).await
}

#[tokio::test]
async fn a_network_error_of_a_later_hop_keeps_type_and_history() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://user:hunter2@a.example:{}/robots.txt", closed.port());
    let server = Server::without_rules(move |seen| match seen.path.as_str() {
        "/one" => Reply::redirect(301, "/two"),
        _ => Reply::redirect(302, &target),
    })
    .await;
    let client = client(&server);
    let mut extensions = Extensions::new();
    let error = execute(&client, "http://a.example/one", &mut extensions).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(Denied::find(&error).is_none());
    assert_eq!(error.url().unwrap().port(), Some(closed.port()), "the hop that failed");
    let causes = chain(&error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let kinds: Vec<_> = causes.map(std::io::Error::kind).collect();
    assert!(kinds.contains(&std::io::ErrorKind::ConnectionRefused), "{kinds:?}");
    let history: &RedirectHistory = extensions.get().unwrap();
    let hops: Vec<_> = history.hops().iter().map(|hop| (hop.url().path(), hop.status().as_u16())).collect();
    assert_eq!(hops, [("/one", 301), ("/two", 302)]);
    assert!(!format!("{error:?} {error} {history:?}").contains("hunter2"));
    // The next call starts over.
    execute(&client, "http://a.example/robots.txt", &mut extensions).await.unwrap();
    assert!(extensions.get::<RedirectHistory>().is_none());
}

/// An error says nothing of them, whatever it is: the history does.
#[tokio::test]
async fn a_call_without_a_response_leaves_its_hops_and_its_wait() {
    let (delay, none) = (Duration::from_millis(200), Duration::ZERO);
    let clock = StoppedClock::stop();
    let server = Server::with_rules("User-agent: *\nDisallow: /secret", |seen| match seen.path.as_str() {
        "/cut" => Reply::raw(vec![Step::Reset]),
        "/to-secret" => Reply::redirect(302, "/secret"),
        "/to-nowhere" => Reply::redirect(302, "http://nowhere.example:1/"),
        "/loop" => Reply::redirect(302, "/loop"),
        _ => Reply::html("page"),
    })
    .await;
    let client = builder(&server).delay(delay).client();
    let waited = async |path: &str| {
        let mut extensions = Extensions::new();
        let url = format!("http://a.example{path}");
        let answer = clock.pass_until(execute(&client, &url, &mut extensions)).await;
        assert_eq!(answer.is_ok(), path == "/", "{path}");
        extensions.get::<RedirectHistory>().map(|history| (history.hops().len(), history.waited()))
    };
    assert_eq!(waited("/").await, None, "a response carries its own history");
    let (hops, cut) = waited("/cut").await.unwrap();
    assert!(hops == 0 && (delay / 2..2 * delay).contains(&cut), "{cut:?}");
    assert_eq!(waited("/secret").await, Some((0, none)), "the rules were at hand, and no permit was taken");
    for (path, expected) in [("/to-secret", 1), ("/to-nowhere", 1), ("/loop", 11)] {
        let (hops, redirected) = waited(path).await.unwrap();
        assert_eq!(hops, expected, "{path}");
        assert!(redirected > delay / 2, "{path}: {redirected:?}");
    }
}
