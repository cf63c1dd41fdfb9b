//! Where the client library's behaviour is in question: TLS, heads, HTTP/2 frames, names. Each row of the
//! fault matrix that needs a socket; every one must end in disallow, with nothing sent for the page, and
//! within the deadline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide::robots_cache::RobotsPolicy;
use abide::{Abide, Denied, DeniedKind, Event, Failure, ResponseExt, Scan};
use abide_gate::pacing::{HostState, HostStore, LeaseAsk, LeaseStatus, PacePolicy, Want};
use abide_gate::testing::MemoryStore;
use abide_gate::{BoxFuture, Gate, HolderId, StoreError};
use abide_tests::{Authority, Reply, Seen, Server, Silent, Step, StoppedClock, gzip};
use abide_tower::AbideLayer;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::{Built, builder, client, refused, secure, status, trusting};

/// For robots.txt, by default.
const DEADLINE: Duration = Duration::from_secs(30);

/// A listener that hands every connection to `script`.
async fn listener<F>(script: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(script(stream));
        }
    });
    address
}

/// Answers every name so.
struct Answering<F>(F);

impl<F: Fn() -> Resolving + Send + Sync> Resolve for Answering<F> {
    fn resolve(&self, _: Name) -> Resolving {
        self.0()
    }
}

#[tokio::test]
async fn names_that_fail_or_never_resolve() {
    let clock = StoppedClock::stop();
    let failing: fn() -> Resolving = || Box::pin(async { Err("NXDOMAIN".into()) });
    for answer in [failing, || Box::pin(std::future::pending())] {
        let client = builder(([127, 0, 0, 1], 1)).resolver(Arc::new(Answering(answer))).client();
        let denied = clock.pass_until(refused(&client, "http://a.example/x")).await;
        assert!(denied.is_unreachable(), "{denied:?}");
        assert!(clock.moved() < 2 * DEADLINE, "{:?}", clock.moved());
    }
}

#[tokio::test]
async fn a_connection_that_hangs() {
    // A listener whose backlog is full answers nothing to a further SYN.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut filling: tokio::task::JoinSet<_> = (0..8).map(|_| TcpStream::connect(address)).collect();
    let mut taken = Vec::new();
    for _ in 0..2 {
        taken.push(filling.join_next().await);
    }
    let clock = StoppedClock::stop();
    let client = builder(address).client();
    let url = format!("http://a.example:{}/x", address.port());
    let denied = clock.pass_until(refused(&client, &url)).await;
    assert!(denied.is_unreachable(), "{denied:?}");
    assert!(clock.moved() < 2 * DEADLINE, "{:?}", clock.moved());
}

/// A page of a server with TLS.
fn https(address: SocketAddr) -> String {
    format!("https://a.example:{}/x", address.port())
}

#[tokio::test]
async fn tls_that_fails_is_unreachable_and_never_tried_in_the_clear() {
    let scripts: [&'static [u8]; 3] =
        [b"garbage, no TLS at all\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28", b""];
    for bytes in scripts {
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let address = listener(move |mut stream| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                let mut hello = [0; 512];
                let read = stream.read(&mut hello).await.unwrap_or(0);
                assert_eq!(
                    hello[..read].first(),
                    Some(&0x16),
                    "a TLS handshake, and not a request in the clear"
                );
                let _ = stream.write_all(bytes).await;
            }
        })
        .await;
        let denied = refused(&builder(address).client(), &https(address)).await;
        assert!(denied.is_unreachable(), "{bytes:?}: {denied:?}");
        assert_eq!(connections.load(Ordering::SeqCst), 1, "one request on the wire");
    }
}

#[tokio::test]
async fn tls_reset_or_silence_is_unreachable() {
    let reset = listener(|stream| async move {
        let _ = stream.set_zero_linger();
    })
    .await;
    let silent = listener(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let clock = StoppedClock::stop();
    for address in [reset, silent] {
        let denied = clock.pass_until(refused(&builder(address).client(), &https(address))).await;
        assert!(denied.is_unreachable(), "{denied:?}");
    }
}

fn site(seen: &Seen) -> Reply {
    match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        _ => Reply::html("page"),
    }
}

#[tokio::test]
async fn certificates_are_checked() {
    let (authority, good) = secure("a.example", site).await;
    let client = builder(&good).build_client(trusting(&authority)).unwrap();
    assert_eq!(status(&client, &https(good.address())).await, 200);
    let untrusted = "its certificate is self-signed or of an unknown authority";
    for (problem, acceptor, sentence) in [
        (Failure::CertificateName, authority.acceptor("b.example"), "its certificate is for another name"),
        (Failure::CertificateExpired, authority.expired("a.example"), "its certificate has expired"),
        (Failure::CertificateUntrusted, Authority::new().acceptor("a.example"), untrusted),
        (Failure::CertificateUntrusted, Authority::self_signed("a.example"), untrusted),
    ] {
        let server = Server::start_tls(acceptor, site).await;
        let client = builder(&server).build_client(trusting(&authority)).unwrap();
        let denied = refused(&client, &https(server.address())).await;
        let DeniedKind::Unreachable { cause, .. } = denied.kind() else { panic!("{problem:?}: {denied:?}") };
        assert_eq!(*cause, problem, "{denied:?}");
        assert!(denied.to_string().contains(sentence), "{denied}");
        assert!(server.asked().is_empty(), "{problem:?}");
    }
}

#[tokio::test]
async fn robots_txt_does_not_leave_tls() {
    let clear = Server::start(|_| Reply::new(200, "User-agent: *\nAllow: /")).await;
    let port = clear.address().port();
    let (authority, server) = secure("a.example", move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::redirect(301, &format!("http://a.example:{port}/robots.txt")),
        _ => Reply::html("page"),
    })
    .await;
    let url = https(server.address());
    let strict = builder(&server).build_client(trusting(&authority)).unwrap();
    assert!(refused(&strict, &url).await.is_unreachable());
    assert!(clear.asked().is_empty());
    let lenient = builder(&server).robots(RobotsPolicy::default().with_downgrade(true));
    let lenient = lenient.build_client(trusting(&authority)).unwrap();
    assert_eq!(status(&lenient, &url).await, 200);
}

#[tokio::test]
async fn a_connection_closed_between_requests_is_no_error() {
    let server = Server::start(|seen| {
        let body = if seen.path == "/robots.txt" { "User-agent: *\nAllow: /\n" } else { "page" };
        // The length is stated, so the connection would be kept, and then it is closed all the same.
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        Reply::raw(vec![Step::send(text)])
    })
    .await;
    let client = client(&server);
    for number in 0..5 {
        assert_eq!(status(&client, &format!("http://a.example/{number}")).await, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server that closes a connection when a request for one of these comes on it, as often as it says; before
/// that, it kept the connection.
async fn hanging_up(times: usize, paths: &'static [&'static str]) -> Server {
    let hung_up = AtomicUsize::new(0);
    Server::start(move |seen| {
        let is_hung_up = paths.contains(&&*seen.path)
            && hung_up.fetch_update(SeqCst, SeqCst, |n| (n < times).then_some(n + 1)).is_ok();
        match seen.path.as_str() {
            _ if is_hung_up => Reply::raw(Vec::new()),
            "/robots.txt" => Reply::redirect(301, "/rules"),
            "/rules" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
            _ => Reply::html("page"),
        }
    })
    .await
}

/// RFC 9112 §9.3.1, under the permit of the first.
#[tokio::test]
async fn a_request_on_a_kept_connection_that_is_closed_is_sent_once_more() {
    for (path, methods, are_sent) in [
        ("/rules", &["GET"][..], 2),
        ("/x", &["GET", "HEAD", "OPTIONS", "PUT", "DELETE"], 2),
        // It may have been processed.
        ("/x", &["POST", "PATCH"], 1),
    ] {
        for (method, counts) in methods.iter().flat_map(|method| [(method, false), (method, true)]) {
            let paths: &[&str] = if path == "/x" { &["/x"] } else { &["/rules"] };
            let server = hanging_up(1, paths).await;
            let granted = Arc::new(AtomicUsize::new(0));
            let observed = Arc::clone(&granted);
            let builder = builder(&server).observer(Arc::new(move |event| {
                observed.fetch_add(matches!(event, Event::Granted { .. }).into(), SeqCst);
            }));
            let client = if counts {
                let (abide, inner) = builder.parts();
                abide.wrap(inner)
            } else {
                builder.client()
            };
            let request = client.request(method.parse().unwrap(), "http://a.example/x").body("a body");
            let answer = request.send().await;
            let what = format!("{method} where {path} is closed: {answer:?}");
            assert_eq!(server.count(&format!("a.example{path}")), are_sent, "{what}");
            assert_eq!(granted.load(SeqCst), 3, "permits: {what}");
            match answer {
                Ok(page) => assert!(page.status() == 200 && are_sent == 2, "{what}"),
                Err(error) => assert!(Denied::find(&error).is_none() && are_sent == 1, "{what}"),
            }
            let bodies: Vec<_> =
                server.log().into_iter().filter(|seen| seen.path == "/x").map(|seen| seen.body).collect();
            assert!(bodies.iter().all(|body| body == b"a body"), "{what}");
        }
    }
}

#[tokio::test]
async fn a_request_is_sent_twice_at_most_and_once_on_a_new_connection() {
    let server = hanging_up(usize::MAX, &["/x"]).await;
    let error = client(&server).get("http://a.example/x").send().await.unwrap_err();
    assert!(Denied::find(&error).is_none(), "{error:?}");
    assert_eq!(server.count("a.example/x"), 2);
    let inner = reqwest::Client::builder().pool_max_idle_per_host(0);
    let error =
        builder(&server).build_client(inner).unwrap().get("http://a.example/x").send().await.unwrap_err();
    assert!(Denied::find(&error).is_none(), "{error:?}");
    assert_eq!(server.count("a.example/x"), 3);
    // A body that can be read once cannot be sent twice.
    let stream = reqwest::Body::wrap(http_body_util::Full::new(bytes::Bytes::from("once")));
    assert!(client(&server).put("http://a.example/x").body(stream).send().await.is_err());
    assert_eq!(server.count("a.example/x"), 4);
}

/// The frames for an origin that wants HTTP/1.1, at most for the page.
async fn wanting_http11(authority: &Authority, but_robots: bool) -> (SocketAddr, [Arc<AtomicUsize>; 2]) {
    let acceptor = authority.http2_acceptor("a.example");
    let counts = [Arc::default(), Arc::default()];
    let [by_http2, by_http11] = counts.clone();
    let address = listener(move |stream| {
        let (acceptor, by_http2, by_http11) =
            (acceptor.clone(), Arc::clone(&by_http2), Arc::clone(&by_http11));
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let wants = |id: u32| frame(RST_STREAM, 0, id, &HTTP_1_1_REQUIRED.to_be_bytes());
                let answer = move |id| match id {
                    1 if but_robots => frame(HEADERS, 5, id, &[0x8d]),
                    id => wants(id),
                };
                return talk(stream, answer, by_http2).await;
            }
            let mut read = Vec::new();
            while stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
                if read.ends_with(b"\r\n\r\n") {
                    read.clear();
                    by_http11.fetch_add(1, SeqCst);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            }
        }
    })
    .await;
    (address, counts)
}

#[tokio::test]
async fn a_host_that_wants_http_1_1_gets_it_and_is_remembered() {
    let authority = Authority::new();
    for (but_robots, http2, http11) in [(false, 1, 4), (true, 2, 3)] {
        let (address, [by_http2, by_http11]) = wanting_http11(&authority, but_robots).await;
        let builder = builder(address).http11(trusting(&authority));
        let client = builder.build_client(trusting(&authority)).unwrap();
        for _ in 0..3 {
            assert_eq!(status(&client, &https(address)).await, 200);
        }
        assert_eq!([by_http2.load(SeqCst), by_http11.load(SeqCst)], [http2, http11], "{but_robots}");
    }
    let (address, [by_http2, by_http11]) = wanting_http11(&authority, true).await;
    let client = builder(address).http11(trusting(&authority)).build_client(trusting(&authority)).unwrap();
    assert!(client.post(https(address)).send().await.is_err(), "it may have been processed");
    assert_eq!([by_http2.load(SeqCst), by_http11.load(SeqCst)], [2, 0]);
    assert_eq!(client.post(https(address)).send().await.unwrap().status(), 200, "it is known from then on");
    assert_eq!([by_http2.load(SeqCst), by_http11.load(SeqCst)], [2, 1]);
}

#[tokio::test]
async fn without_another_client_the_wish_for_http_1_1_is_the_cause() {
    let authority = Authority::new();
    let (address, [by_http2, by_http11]) = wanting_http11(&authority, false).await;
    let client = builder(address).build_client(trusting(&authority)).unwrap();
    let denied = refused(&client, &https(address)).await;
    let DeniedKind::Unreachable { cause, .. } = denied.kind() else { panic!("{denied:?}") };
    assert_eq!(*cause, Failure::Http11Required);
    assert!(denied.to_string().contains("it asked for HTTP/1.1 (HTTP_1_1_REQUIRED)"), "{denied}");
    assert_eq!([by_http2.load(SeqCst), by_http11.load(SeqCst)], [1, 0]);
}

#[tokio::test]
async fn callers_that_give_up_do_not_cancel_the_fetch() {
    let rules = Arc::new(Notify::new());
    let then = Arc::clone(&rules);
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::raw(vec![
            Step::Wait(then.clone()),
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ]),
        _ => Reply::html("page"),
    })
    .await;
    let (abide, _) = builder(&server).parts();
    let url: url::Url = "http://a.example/x".parse().unwrap();
    for _ in 0..20 {
        let given_up = tokio::time::timeout(Duration::from_millis(2), abide.check(&url)).await;
        assert!(given_up.is_err());
    }
    rules.notify_one();
    assert!(abide.check(&url).await.unwrap().is_allowed());
    assert_eq!(server.count("a.example/robots.txt"), 1);
}

/// A name that is public when it is looked at and private when it is used gains nothing: what was checked is
/// what is connected to.
#[tokio::test]
async fn a_name_that_rebinds_reaches_no_private_address() {
    let silent = Silent::start().await;
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("moved.example", "/robots.txt") => Reply::redirect(301, "http://other.example/robots.txt"),
        (_, "/robots.txt") => Reply::new(404, ""),
        _ => Reply::html("page"),
    })
    .await;
    for private in ["127.0.0.2", "::1", "0.0.0.0", "::"] {
        let then = SocketAddr::new(private.parse().unwrap(), silent.port());
        // A name that leads to the server so many times, and to the silent listener from then on.
        let names = |times| {
            let (address, asked) = (server.address(), AtomicUsize::new(0));
            let resolver = Answering(move || -> Resolving {
                let is_first = asked.fetch_add(1, Ordering::SeqCst) < times;
                let address = if is_first { address } else { then };
                Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
            });
            builder(&server).resolver(Arc::new(resolver))
        };
        // No connection is kept, so that each request asks the resolver.
        let inner = || reqwest::Client::builder().pool_max_idle_per_host(0);
        // The first request for robots.txt, and one that is redirected.
        for (host, times) in [("a.example", 0), ("moved.example", 1)] {
            let client = names(times).build_client(inner()).unwrap();
            let denied = refused(&client, &format!("http://{host}/x")).await;
            let is_right =
                matches!(denied.kind(), DeniedKind::Unreachable { cause: Failure::AddressRefused(_), .. });
            assert!(is_right, "{private}, {host}: {denied:?}");
        }
        // The page, whose robots.txt was where it should be; also through a client of the user's own, with
        // the resolver for such.
        let abide = names(1).build().unwrap();
        let own = inner().redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never());
        let own = abide.wrap(own.dns_resolver(abide.resolver()).build().unwrap());
        for client in [names(1).build_client(inner()).unwrap(), own] {
            let denied = refused(&client, "http://a.example/x").await;
            assert_eq!((denied.name(), denied.hop()), ("address_refused", 0), "{private}: {denied:?}");
        }
    }
    assert_eq!(silent.connections(), 0, "the listener stayed silent");
    assert!(server.asked().iter().all(|what| what.ends_with("/robots.txt")), "{:?}", server.asked());
}

// HTTP/2, frame by frame.

fn http2() -> reqwest::ClientBuilder {
    reqwest::Client::builder().http2_prior_knowledge()
}

/// The frames that answer the request of a stream.
type Frames = fn(u32) -> Vec<u8>;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A server that answers each request with these frames, and counts the requests.
async fn frames(
    answer: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let address = listener(move |stream| talk(stream, answer.clone(), Arc::clone(&count))).await;
    (address, requests)
}

async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(u32) -> Vec<u8>,
    requests: Arc<AtomicUsize>,
) {
    let mut preface = [0; 24];
    if stream.read_exact(&mut preface).await.is_err() || &preface != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" {
        return;
    }
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[])).await;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            return;
        }
        let reply = match (head[3], head[4]) {
            (SETTINGS, 0) => frame(SETTINGS, 1, 0, &[]),
            (HEADERS, _) => {
                requests.fetch_add(1, Ordering::SeqCst);
                answer(id)
            }
            _ => continue,
        };
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn http2_refusals_of_robots_txt_are_one_request_each() {
    let cases: [(&str, Frames); 3] = [
        ("GOAWAY", |_| goaway(0, 0)),
        ("REFUSED_STREAM", |id| frame(RST_STREAM, 0, id, &REFUSED_STREAM.to_be_bytes())),
        ("ENHANCE_YOUR_CALM", |id| frame(RST_STREAM, 0, id, &ENHANCE_YOUR_CALM.to_be_bytes())),
    ];
    for (what, answer) in cases {
        let (address, requests) = frames(answer).await;
        let (abide, inner) = builder(address).build_with(http2()).unwrap();
        let denied = refused(&abide.clone().wrap(inner), "http://a.example/x").await;
        assert!(denied.is_unreachable(), "{what}: {denied:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{what}");
        assert_eq!(backoffs(&abide), u32::from(what == "ENHANCE_YOUR_CALM"), "{what}");
    }
}

#[tokio::test]
async fn http2_refusals_are_sent_once_and_calm_backs_off() {
    // The first request of the connection is robots.txt, which is answered with a 404: HPACK's literal for
    // `:status: 404`.
    let answer = |refusal: u32| {
        move |id: u32| match id {
            1 => frame(HEADERS, 5, id, &[0x8d]),
            _ => frame(RST_STREAM, 0, id, &refusal.to_be_bytes()),
        }
    };
    for (refusal, expected) in [(REFUSED_STREAM, 0), (ENHANCE_YOUR_CALM, 1)] {
        let (address, requests) = frames(answer(refusal)).await;
        let (abide, inner) = builder(address).build_with(http2()).unwrap();
        let error = abide.clone().wrap(inner).get("http://a.example/x").send().await.unwrap_err();
        assert!(Denied::find(&error).is_none(), "a network error: {error:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 2, "robots.txt and one request for the page");
        assert_eq!(backoffs(&abide), expected);
    }
}

/// It takes its time to keep a backoff.
#[derive(Debug, Default)]
struct SlowStore(MemoryStore);

impl HostStore for SlowStore {
    fn exchange<'a>(
        &'a self,
        host: &'a str,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<(LeaseStatus, HostState), StoreError>> {
        Box::pin(async move {
            if ask.state.backoff.is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            self.0.exchange(host, ask).await
        })
    }
}

#[tokio::test]
async fn calm_is_in_the_store_before_the_caller_has_the_error() {
    for (robots, by_layer) in [(true, false), (false, false), (false, true)] {
        let calm = |id: u32| frame(RST_STREAM, 0, id, &ENHANCE_YOUR_CALM.to_be_bytes());
        let missing = |id| frame(HEADERS, 5, id, &[0x8d]);
        let (address, _) = frames(move |id| if id == 1 && !robots { missing(id) } else { calm(id) }).await;
        let (store, url) = (Arc::new(SlowStore::default()), "http://a.example/x");
        // A busy machine must not make the store a failing one.
        let pace = PacePolicy::default().danger_min_delay(Duration::ZERO).with_store_timeout(Duration::MAX);
        let abide = builder(address).host_store(store.clone()).pace(pace.clone());
        let (abide, inner) = abide.build_with(http2()).unwrap();
        if by_layer {
            let gate = Gate::builder().allow_net(address.ip().into()).host_store(store.clone()).pace(pace);
            let inner = tower::service_fn(move |request: http::Request<reqwest::Body>| {
                let client = inner.clone();
                async move { client.execute(request.try_into()?).await.map(http::Response::from) }
            });
            let layered = AbideLayer::builder("ExampleBot").gate(gate).wrap(inner).unwrap();
            let request = http::Request::get(url).body(reqwest::Body::default()).unwrap();
            assert!(layered.oneshot(request).await.is_err());
        } else {
            assert!(abide.wrap(inner).get(url).send().await.is_err());
        }
        let ask = LeaseAsk {
            holder: HolderId::random(),
            number: 0,
            want: Want::Release,
            state: HostState::default(),
        };
        let state = store.0.exchange("a.example", ask).await.unwrap().1;
        assert!(state.backoff.is_some(), "of robots.txt: {robots}, by the layer: {by_layer}");
    }
}

/// How often the host was backed off.
fn backoffs(abide: &Abide) -> u32 {
    let host = abide::Host::of(&"http://a.example/".parse().unwrap()).unwrap();
    abide.gate().report(&host).unwrap().backoffs
}

/// A page's head and the first of its bytes, then these frames.
fn begun(id: u32, then: &[u8]) -> Vec<u8> {
    [&frame(HEADERS, 4, id, &[0x88]), &frame(DATA, 0, id, b"page"), then].concat()
}

/// What the page is answered with, after a robots.txt that is not there. The body is read as far as it comes.
async fn backoffs_after(answer: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static) -> u32 {
    let robots = |id| frame(HEADERS, 5, id, &[0x8d]);
    let (address, _) = frames(move |id| if id == 1 { robots(id) } else { answer(id) }).await;
    let (abide, inner) = builder(address).build_with(http2()).unwrap();
    if let Ok(page) = abide.clone().wrap(inner).get("http://a.example/x").send().await {
        let _ = page.bytes().await;
    }
    backoffs(&abide)
}

#[tokio::test]
async fn calm_that_breaks_a_body_off_backs_the_host_off() {
    let reset = |id: u32, code: u32| frame(RST_STREAM, 0, id, &code.to_be_bytes());
    assert_eq!(backoffs_after(move |id| begun(id, &reset(id, ENHANCE_YOUR_CALM))).await, 1, "RST_STREAM");
    assert_eq!(backoffs_after(move |id| begun(id, &reset(id, INTERNAL_ERROR))).await, 0, "another code");
    assert_eq!(backoffs_after(|id| begun(id, &goaway(id - 2, ENHANCE_YOUR_CALM))).await, 1, "GOAWAY");
}

/// h2 has this code, too, for what it does not take: the server has said nothing of the kind.
#[tokio::test]
async fn a_head_that_is_too_long_for_the_client_is_no_backoff() {
    // `:status: 200` and a field `x`, whose 65,536 bytes begin.
    let head = [0x88, 0, 1, b'x', 0x7f, 0x81, 0xff, 3];
    let long = move |id| [frame(HEADERS, 0, id, &head), frame(CONTINUATION, 0, id, &[b'v'; 1000]).repeat(50)];
    assert_eq!(backoffs_after(move |id| long(id).concat()).await, 0);
}

/// The limit that `abide::pacing` documents: hyper does not expose the code of such a GOAWAY. If this fails,
/// a new version does, and the host can be backed off.
#[tokio::test]
async fn calm_for_later_streams_is_not_reported_by_the_client() {
    let calm = |id| goaway(id, ENHANCE_YOUR_CALM);
    let end = |id| frame(DATA, 1, id, b"");
    assert_eq!(backoffs_after(move |id| begun(id, &[calm(id), end(id)].concat())).await, 0, "completes");
    let closed = listener(move |mut stream| async move {
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(&[frame(SETTINGS, 0, 0, &[]), calm(1)].concat()).await;
    });
    let error = http2().build().unwrap().get(format!("http://{}/", closed.await)).send().await.unwrap_err();
    assert!(!format!("{error:?}").contains("CALM"), "{error:?}");
}

/// The frames of a page of this text, whose head goes on, and a reset without error: before or after its end.
fn reset_without_error(id: u32, text: &[u8], coding: &[u8], is_whole: bool) -> Vec<u8> {
    let length = if is_whole { text.len() } else { 999 }.to_string();
    // HPACK: `:status: 200`, then literals of content-type, content-encoding and content-length.
    let fields: [(u8, &[u8]); 3] = [(0x10, b"text/html"), (0x0b, coding), (0x0d, length.as_bytes())];
    let literals = fields.map(|(name, value)| [&[0x0f, name, value.len() as u8], value].concat());
    let head = [&[0x88], &*literals.concat()].concat();
    let data = frame(DATA, u8::from(is_whole), id, text);
    [frame(HEADERS, 4, id, &head), data, frame(RST_STREAM, 0, id, &[0; 4])].concat()
}

/// RFC 9113 §8.1: only END_STREAM ends a response. hyper takes a reset without error for its end, too, and
/// its length is all that shows it.
#[tokio::test]
async fn a_stream_that_is_reset_without_error_is_no_whole_response() {
    let member: &'static [u8] = gzip(b"<title>A").leak();
    let cases: [(&str, &'static [u8]); 3] = [("", b""), ("", b"<title>A"), ("gzip", member)];
    for (coding, text) in cases {
        let cut = move |id, is_whole| reset_without_error(id, text, coding.as_bytes(), is_whole);
        let (address, requests) = frames(move |id| cut(id, false)).await;
        let denied = refused(&builder(address).build_client(http2()).unwrap(), "http://a.example/x").await;
        assert!(denied.is_unreachable(), "{denied:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        for (is_whole, scan) in [false, true].into_iter().flat_map(|is| [(is, Scan::Eager), (is, Scan::Lazy)])
        {
            let missing = |id| frame(HEADERS, 5, id, &[0x8d]);
            let (address, _) = frames(move |id| if id == 1 { missing(id) } else { cut(id, is_whole) }).await;
            let client = builder(address).scan(scan).build_client(http2()).unwrap();
            let page = client.get("http://a.example/x").send().await.unwrap();
            let settled = page.fetch_info().unwrap().settled();
            let _ = page.bytes().await;
            let what = text.escape_ascii();
            assert_eq!(settled.await.is_complete(), is_whole, "{scan:?} {coding} {what}");
        }
    }
}

#[tokio::test]
async fn http2_floods_end_within_the_deadline() {
    let cases: [(&str, Frames); 5] = [
        ("CONTINUATION", |id| {
            let mut bytes = frame(HEADERS, 0, id, &[0x88]);
            bytes.extend(frame(CONTINUATION, 0, id, &[0x88; 1000]).repeat(2000));
            bytes
        }),
        ("empty DATA", |id| {
            let mut bytes = frame(HEADERS, 4, id, &[0x88]);
            bytes.extend(frame(0, 0, id, &[]).repeat(100_000));
            bytes
        }),
        ("SETTINGS", |_| frame(SETTINGS, 0, 0, &[]).repeat(50_000)),
        ("PING", |_| frame(PING, 0, 0, &[0; 8]).repeat(50_000)),
        ("a bad frame", |id| frame(HEADERS, 4, id, &[0xff; 40])),
    ];
    let clock = StoppedClock::stop();
    for (what, answer) in cases {
        let (address, requests) = frames(answer).await;
        let client = builder(address).build_client(http2()).unwrap();
        let began = clock.moved();
        let denied = clock.pass_until(refused(&client, "http://a.example/x")).await;
        assert!(denied.is_unreachable(), "{what}: {denied:?}");
        assert!(clock.moved() - began < 2 * DEADLINE, "{what}: {:?}", clock.moved());
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{what}");
    }
}
