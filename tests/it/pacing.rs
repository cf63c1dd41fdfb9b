//! One at a time, a delay after the end of each answer.

use std::sync::Arc;
use std::time::Duration;

use abide::Denied;
use abide::pacing::PacePolicy;
use abide_tests::{Reply, Seen, Server, Step, StoppedClock, delays, until};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::layered::{follow, layered};
use crate::{Built, builder, client, secure, slow_builder, status, trusting};

fn shortest_delay(log: &[Seen]) -> Duration {
    delays(log).min().expect("at least two requests")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_sees_the_delay_robots_txt_included() {
    let delay = Duration::from_millis(80);
    let server = Server::start(|_| Reply::new(404, "").after(Duration::from_millis(5))).await;
    let client = builder(&server).delay(delay).client();
    let calls: Vec<_> = (0..12)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { status(&client, &format!("http://a.example/{number}")).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 404);
    }
    let log = server.log();
    assert_eq!(log.len(), 13);
    assert!(shortest_delay(&log) >= delay, "{:?}", shortest_delay(&log));
}

/// A listener on an IPv4 address is reached by all of them.
#[tokio::test]
async fn the_spellings_of_one_address_share_its_delay() {
    let delay = Duration::from_millis(80);
    let server = Server::start(|_| Reply::new(404, "")).await;
    let client = builder(&server).delay(delay).client();
    let port = server.address().port();
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "[::ffff:7f00:1]"] {
        assert_eq!(status(&client, &format!("http://{host}:{port}/x")).await, 404, "{host}");
    }
    assert!(shortest_delay(&server.log()) >= delay, "{:?}", shortest_delay(&server.log()));
}

#[tokio::test]
async fn the_default_delay_is_kept() {
    let server = Server::start(|_| Reply::new(404, "")).await;
    let client = slow_builder(&server).client();
    assert_eq!(status(&client, "http://a.example/1").await, 404);
    assert!(shortest_delay(&server.log()) >= PacePolicy::DELAY);
}

#[tokio::test]
async fn one_request_is_in_flight_until_its_body_has_ended() {
    let rest = Arc::new(Notify::new());
    let then = Arc::clone(&rest);
    let server = Server::without_rules(move |seen| match seen.path.as_str() {
        "/slow" => Reply::raw(vec![
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n"),
            Step::Repeat(vec![b'x'; 1000], 100),
            Step::Wait(then.clone()),
            Step::Repeat(vec![b'x'; 1000], 100),
        ]),
        _ => Reply::html("page"),
    })
    .await;
    let (abide, inner) = builder(&server).parts();
    let client = abide.clone().wrap(inner);
    let slow = client.get("http://a.example/slow").send().await.unwrap();
    let other = tokio::spawn({
        let client = client.clone();
        async move { status(&client, "http://a.example/next").await }
    });
    until("the other waits", || abide.gate().stats().waiting == 1).await;
    rest.notify_one();
    assert_eq!(slow.bytes().await.unwrap().len(), 200_000);
    assert_eq!(other.await.unwrap(), 200);
    let log = server.log();
    assert!(log[2].at >= log[1].answered, "after the last byte of the body");
}

/// A silent server, one that sends 103 again and again, and one that falls silent in its body.
fn silent(seen: &Seen) -> Reply {
    // No HTML: there is no head to wait for.
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nx".to_vec();
    match seen.path.as_str() {
        "/silent" => Reply::raw(vec![Step::Hang]),
        "/103" => {
            let early =
                [Step::send(b"HTTP/1.1 103 Early Hints\r\n\r\n"), Step::Sleep(Duration::from_millis(20))];
            Reply::raw(early.into_iter().cycle().take(60_000).collect())
        }
        "/body" => Reply::raw(vec![Step::Send(head), Step::Hang]),
        "/slow-body" => Reply::raw(vec![
            Step::Send(head),
            Step::Sleep(Duration::from_millis(500)),
            Step::Send(vec![b'x'; 9]),
        ]),
        _ => Reply::new(404, ""),
    }
}

async fn ends_in_time(
    clock: &StoppedClock,
    server: &Server,
    client: &reqwest_middleware::ClientWithMiddleware,
    what: &str,
) {
    for path in ["silent", "103", "body"] {
        let url = format!("http://a.example/{path}");
        let earlier = server.log().len();
        let page = tokio::spawn(client.get(&url).send());
        let asked = || server.log()[earlier..].iter().filter(|seen| seen.path[1..] == *path).count();
        until("it is asked for", || asked() == 1).await;
        let error: Box<dyn std::error::Error> = match clock.pass_until(page).await.unwrap() {
            Ok(page) => Box::new(clock.pass_until(page.bytes()).await.unwrap_err()),
            Err(error) => Box::new(error),
        };
        assert!(Denied::find(&*error).is_none(), "{what} {path}: {error:?}");
        assert_eq!(status(client, "http://a.example/next").await, 404, "{what} {path}: the host is free");
        assert_eq!(asked(), 1, "{what} {path}: asked for once");
    }
}

#[tokio::test]
async fn a_silent_server_does_not_keep_its_host() {
    let clock = StoppedClock::stop();
    let server = Server::start(silent).await;
    let limit = Duration::from_secs(5);
    let ours = builder(&server).read_timeout(limit).client();
    ends_in_time(&clock, &server, &ours, "abide's").await;
    let theirs = builder(&server).build_client(reqwest::Client::builder().read_timeout(limit)).unwrap();
    ends_in_time(&clock, &server, &theirs, "reqwest's").await;
    ends_in_time(&clock, &server, &builder(&server).timeout(limit).client(), "of the whole call").await;
}

/// A body whose bytes are there is read, however long the caller was busy with something else.
#[tokio::test]
async fn a_busy_caller_is_no_silent_server() {
    let clock = StoppedClock::stop();
    let server = Server::start(silent).await;
    let client = builder(&server).read_timeout(Duration::from_millis(1_500)).client();
    let mut page = client.get("http://a.example/slow-body").send().await.unwrap();
    let first = page.chunk().await.unwrap().unwrap().len();
    let sent = server.log()[1].sent;
    clock.pass(Duration::from_millis(500)).await;
    until("the rest is sent", || server.log()[1].sent == sent + 9).await;
    clock.pass(Duration::from_secs(2)).await;
    assert_eq!(first + page.bytes().await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_cancelled_call_leaves_its_permit_to_the_next() {
    let clock = StoppedClock::stop();
    let server = Server::start(|_| Reply::new(404, "").after(Duration::from_millis(100))).await;
    let delay = Duration::from_secs(2);
    let client = builder(&server).delay(delay).client();
    assert_eq!(clock.pass_until(status(&client, "http://a.example/0")).await, 404);
    for number in 0..20 {
        let call = client.get(format!("http://a.example/cancelled/{number}")).send();
        let _ = clock.pass_until(tokio::time::timeout(Duration::from_millis(70), call)).await;
    }
    assert_eq!(clock.pass_until(status(&client, "http://a.example/last")).await, 404);
    let arrived = server.log().windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap();
    assert!(arrived >= delay, "{arrived:?}");
}

#[tokio::test]
async fn the_permit_ends_with_the_wire_body_read_or_not() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/204" => Reply::new(204, ""),
        "/304" => Reply::new(304, ""),
        "/empty" => Reply::new(200, ""),
        "/text" => Reply::new(200, "ok"),
        "/chunked" => Reply::raw(vec![Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n")]),
        _ => Reply::html("<title>x</title>a small page"),
    })
    .await;
    let client = client(&server);
    for path in ["/204", "/304", "/empty", "/text", "/small", "/chunked"] {
        let unread = client.get(format!("http://a.example{path}")).send().await.unwrap();
        let next = client.head("http://a.example/small").send().await;
        assert!(next.is_ok(), "{path}: {next:?}");
        drop(unread);
    }
}

/// A body of which a part is sent, and then there is an error.
fn broken_upload() -> reqwest::Body {
    let parts = [Ok("part "), Err(std::io::Error::other("the disk is gone"))];
    reqwest::Body::wrap_stream(futures_util::stream::iter(parts))
}

#[tokio::test]
async fn an_upload_that_fails_is_not_the_hosts_fault() {
    let (authority, server) = secure("a.example", |_| Reply::html("page")).await;
    let client = builder(&server).build_client(trusting(&authority)).unwrap();
    let layer = layered(&server, &authority, Duration::ZERO, |builder| builder);
    let url = "https://a.example/x";
    // As many failures as open the breaker, and more.
    for _ in 0..6 {
        let error = client.post(url).body(broken_upload()).send().await.unwrap_err();
        assert!(Denied::find(&error).is_none(), "{error}");
        let request = http::Request::post(url).body(broken_upload()).unwrap();
        let error = layer.clone().oneshot(request).await.map(drop).unwrap_err();
        assert!(error.refused().is_none(), "{error}");
    }
    assert_eq!((status(&client, url).await, follow(layer, url).await), (200, 200));
}
