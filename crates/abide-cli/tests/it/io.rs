//! Where URLs, bodies and options come from, and where bodies go.

use std::sync::Arc;

use abide_tests::{Reply, Server};

use crate::{Ran, abide, blocking, command, directory, file, online, reaching, to};

async fn site() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        "/page" => Reply::html("<meta name=robots content=nosnippet><p>body").with("x-robots-tag", "noindex"),
        _ => Reply::html("end"),
    })
    .await
}

#[tokio::test]
async fn a_body_goes_where_it_is_asked_to() {
    let server = site().await;
    let directory = directory();
    let path = directory.place("page.html");
    let ran = online(&server, format!("fetch -o {path} a.example/page")).await;
    let body = "<meta name=robots content=nosnippet><p>body";
    assert_eq!((ran.status, std::fs::read_to_string(&path).unwrap().as_str()), (0, body));
    assert!(ran.out.starts_with("200  http://a.example"), "{}", ran.out);
    let ran = online(&server, "fetch -o - -q a.example/page").await;
    assert_eq!((ran.status, &*ran.out, &*ran.err), (0, body, ""), "the body and nothing else");
    for more in ["-o - --json", "-o x a.example/page"] {
        online(&server, format!("fetch {more} a.example/page")).await.is_wrong_usage(&["--output"]);
    }
}

#[tokio::test]
async fn a_file_is_kept_where_nothing_is_fetched() {
    let server = Server::start(|_| Reply::new(200, "User-agent: *\nDisallow: /")).await;
    let directory = directory();
    for (name, content) in [("old", Some("old content")), ("new", None)] {
        let path = directory.place(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        online(&server, format!("fetch -o {path} a.example/page")).await.ends_with(1);
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), content);
    }
    let path = directory.place("none/new");
    online(&server, format!("fetch -o {path} a.example/")).await.is_wrong_usage(&[]);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_file_that_is_full_is_named() {
    let ran = online(&site().await, "fetch -q -o /dev/full a.example/page").await;
    assert_eq!(ran.ends_with(1).err, "abide: /dev/full: No space left on device (os error 28)\n");
}

#[tokio::test]
async fn header_fields_of_the_caller_reach_pages_alone() {
    let server = site().await;
    let fields = "-H 'X-One: 1' -H 'Authorization: Basic c2VjcmV0'";
    let ran = online(&server, format!("fetch {fields} -v a.example/page")).await;
    let log = server.log();
    let field = |path: &str, name: &str| {
        log.iter().find(|seen| seen.path == path).unwrap().header(name).map(str::to_owned)
    };
    assert_eq!(field("/page", "x-one").as_deref(), Some("1"));
    assert!(field("/page", "authorization").is_some());
    assert_eq!((field("/robots.txt", "x-one"), field("/robots.txt", "authorization")), (None, None));
    for line in ["> x-one: 1", "> authorization: ...", "< x-robots-tag: noindex"] {
        assert!(ran.err.lines().any(|found| found == line), "{line}: {}", ran.err);
    }
    assert!(!ran.err.contains("c2VjcmV0"));
}

#[tokio::test]
async fn the_identity_comes_from_the_environment_and_is_hinted_at() {
    let server = site().await;
    let agents = async |variables: &'static [(&str, &str)], more: &str| {
        let args = reaching(&server, format!("check a.example/x {more}"));
        let output = blocking(move || command(&args).envs(variables.iter().copied()).output().unwrap());
        Ran::from(output.await)
    };
    let last = || server.log().last().unwrap().header("user-agent").unwrap().to_owned();
    let ran = agents(&[], "").await;
    assert!(ran.err.contains("without a contact") && ran.err.lines().count() == 1, "{}", ran.err);
    const NAMED: &[(&str, &str)] =
        &[("ABIDE_AGENT", "MyBot"), ("ABIDE_USER_AGENT", "MyBot/2 (+https://my.example)")];
    agents(NAMED, "").await;
    assert_eq!(last(), "MyBot/2 (+https://my.example)");
    agents(&[("ABIDE_AGENT", "MyBot")], "--agent Other").await;
    assert!(last().starts_with("Other/"), "the command line counts more");
    assert_eq!(agents(&[], "-q").await.err, "");
    let ran = agents(&[], "--user-agent 'MyBot/1.0 (+https://my.example)'").await;
    ran.ends_with(2).reports(&["--user-agent", "--agent MyBot"]);
}

/// What a proxy was asked for.
type Log = Arc<std::sync::Mutex<Vec<String>>>;

/// A proxy that notes what `ask` reads of a connection, and answers 404 by itself.
pub(crate) fn proxy_that(
    ask: impl Fn(&std::net::TcpStream) -> String + Send + 'static,
) -> (std::net::SocketAddr, Log) {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Log::default());
    let seen = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            seen.lock().unwrap().push(ask(&stream));
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, log)
}

fn url_of_request(stream: &std::net::TcpStream) -> String {
    use std::io::{BufRead, BufReader};
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap_or_default();
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Where a SOCKS 5 client (RFC 1928) wants to connect to. Its request is read, too.
fn socks_target(stream: &std::net::TcpStream) -> String {
    use std::io::{Read, Write};
    let take = |len: usize| {
        let mut bytes = vec![0; len];
        { stream }.read_exact(&mut bytes).unwrap();
        bytes
    };
    let methods = take(2)[1];
    take(methods.into());
    { stream }.write_all(&[5, 0]).unwrap();
    let host = match take(4)[3] {
        1 => take(4).iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        _ => {
            let len = take(1)[0];
            String::from_utf8(take(len.into())).unwrap()
        }
    };
    let port = take(2);
    { stream }.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    url_of_request(stream);
    format!("{host}:{}", u16::from_be_bytes([port[0], port[1]]))
}

#[tokio::test]
async fn with_socks5_every_address_is_checked() {
    for (scheme, leads_to, status, seen) in [
        ("socks5", "127.0.0.1", 0, &["127.0.0.1:80"][..]),
        ("socks5", "10.1.2.3", 1, &[]),
        ("socks5h", "10.1.2.3", 0, &["site.invalid:80"]),
    ] {
        let (address, log) = proxy_that(socks_target);
        let ran = blocking(move || {
            let network = format!("--proxy {scheme}://{address} --resolve site.invalid:80:{leads_to}");
            abide(format!("fetch --delay 0 --agent a --allow-net 127.0.0.1 {network} http://site.invalid/x"))
        })
        .await;
        assert_eq!(ran.status, status, "{scheme}: {}{}", ran.out, ran.err);
        let mut connected = log.lock().unwrap().clone();
        connected.dedup();
        assert_eq!(connected, seen, "{scheme}: {}", ran.out);
        assert_eq!(ran.out.contains("10.1.2.3 is not a public address"), status == 1, "{}", ran.out);
        assert_eq!(ran.err.contains("the proxy resolves names"), scheme == "socks5h", "{}", ran.err);
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_is_named() {
    let asked = async |flags: &'static str, variables: &'static [(&str, &str)]| {
        let (address, log) = proxy_that(url_of_request);
        let output = blocking(move || {
            let named = |text: &str| text.replace("ADDRESS", &address.to_string());
            let urls = "http://site.invalid/x http://10.1.2.3/x";
            let mut command = command(format!("fetch --delay 0 --agent a {} {urls}", named(flags)));
            command.envs(variables.iter().map(|(name, value)| (name, named(value)))).output().unwrap()
        });
        let ran = Ran::from(output.await);
        let seen = log.lock().unwrap().clone();
        (ran, seen)
    };
    let through = ["http://site.invalid/robots.txt", "http://site.invalid/x"];
    for (flags, variables) in [
        ("--proxy http://ADDRESS", &[][..]),
        ("-x ADDRESS", &[]),
        ("", &[("HTTP_PROXY", "http://ADDRESS")]),
        ("", &[("http_proxy", "http://ADDRESS")]),
    ] {
        let (ran, seen) = asked(flags, variables).await;
        assert_eq!(seen, through, "{}{}", ran.out, ran.err);
        // Addresses in URLs are checked.
        ran.shows(&["10.1.2.3 is not a public address"]).reports(&["the proxy resolves names"]);
    }
    let (_, seen) = asked("", &[("HTTP_PROXY", "http://ADDRESS"), ("NO_PROXY", "site.invalid")]).await;
    assert!(seen.is_empty(), "NO_PROXY is obeyed");
    let (ran, _) = asked("--proxy ftp://u:secret@x", &[]).await;
    ran.ends_with(2).reports(&["--proxy"]);
    assert!(!ran.err.contains("secret"), "{}", ran.err);
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_without_end_is_read_as_far_as_it_matters() {
    let ran = abide("match --agent a --robots /dev/zero /");
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    assert_eq!(abide("tags --agent a /dev/zero").status, 0);
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    let question = r#"{"robots": "", "agent": "a", "url": "https://h/"}"#;
    let batch = file(question);
    for args in [format!("match --batch {batch}"), format!("match --agent a --robots {batch} /")] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crate::command(&args).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
        assert!(err.starts_with("abide: standard output: "), "{err}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn a_reader_that_goes_away_is_no_failure() {
    let server = abide_tests::Server::start(|_| abide_tests::Reply::html("x")).await;
    let robots = file("User-agent: *\nDissallow: /\n".repeat(2000));
    let online = ["check", "explain", "fetch --json", "fetch -o /dev/stdout", "crawl", "crawl --json"];
    let offline = [
        &*format!("lint --json {robots}"),
        &format!("lint {robots}"),
        &format!("match --agent a --robots {robots} /"),
        "tags --agent a --header 'Robots-Tag: *;noindex'",
        &format!("match --agent a --robots {robots} --batch {robots}"),
        "man",
        "completions bash",
        "--help",
    ];
    let online = online.map(|call| to(&server, format!("{call} a.example/")));
    for args in offline.map(str::to_owned).into_iter().chain(online) {
        let mut child = crate::command(&args).spawn().unwrap();
        drop(child.stdout.take());
        let output = crate::blocking(move || child.wait_with_output().unwrap()).await;
        let said = String::from_utf8(output.stderr).unwrap();
        // What was written before the reader went may have been all.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn asking_for_another_crawler_is_not_posing_as_it() {
    let server = Server::with_rules("User-agent: GPTBot\nDisallow: /a\n", |_| Reply::html("page")).await;
    for call in ["check", "explain"] {
        online(&server, format!("{call} --for GPTBot a.example/a"))
            .await
            .ends_with(1)
            .shows(&["Disallow: /a"]);
        online(&server, format!("{call} a.example/a")).await.ends_with(0);
    }
    let names: Vec<_> =
        server.log().iter().map(|seen| seen.header("user-agent").unwrap().to_owned()).collect();
    assert!(names.iter().all(|name| name.starts_with("ExampleBot/")), "{names:?}");

    let posing = online(&server, "check --agent GPTBot a.example/a").await;
    posing.ends_with(1).reports(&["under the name of OpenAI's crawler", "--for GPTBot"]);
    let robots = file("User-agent: GPTBot\nDisallow: /a\n");
    abide(format!("explain --for GPTBot --robots {robots} /a")).ends_with(1).shows(&["Disallow: /a"]);
}

#[cfg(not(feature = "serve"))]
#[test]
fn a_call_that_is_not_built_in_names_its_feature() {
    abide("serve --agent ExampleBot --listen 127.0.0.1:0").is_wrong_usage(&["--features serve"]);
}
