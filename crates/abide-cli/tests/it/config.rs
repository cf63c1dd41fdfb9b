//! `abide.toml`, and the options that it sets.

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{abide, blocking, command, file};

/// A call with this file, where every name leads to `server`; the directory holds the same file as `abide.toml`.
async fn with(server: &Server, content: &str, args: &[&str], is_found: bool) -> crate::Ran {
    let port = server.address().port();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("abide.toml");
    std::fs::write(&path, content).unwrap();
    let mut all: Vec<String> = args.iter().map(|arg| arg.replace("PORT", &port.to_string())).collect();
    all.extend([
        format!("--resolve=*:{port}:127.0.0.1"),
        "--allow-net=127.0.0.1".to_owned(),
        "-q".to_owned(),
    ]);
    if !is_found {
        all.push(format!("--config={}", path.display()));
    }
    blocking(move || {
        let mut command = command(&all.iter().map(String::as_str).collect::<Vec<_>>());
        crate::Ran::from(command.current_dir(directory.path()).output().unwrap())
    })
    .await
}

async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>"),
        _ => Reply::html("end"),
    })
    .await
}

#[tokio::test]
async fn options_of_the_file_stand_below_those_of_the_command_line() {
    const FILE: &str = "agent = \"FileBot\"\nuser-agent = \"FileBot/1 (+https://my.example)\"\ndelay = 0\nheader = [\"X-One: 1\", \"X-Two: 2\"]\n\
                        [crawl]\nmax-pages = 2\n[fetch]\njson = true\n";
    let server = site().await;
    for is_found in [false, true] {
        let ran = with(&server, FILE, &["crawl", "--json", "http://a.example:PORT/"], is_found).await;
        let last = server.log().pop().unwrap();
        assert_eq!(last.header("user-agent"), Some("FileBot/1 (+https://my.example)"), "{}", ran.err);
        assert_eq!((last.header("x-one"), last.header("x-two")), (Some("1"), Some("2")));
        assert_eq!(ran.lines().last().unwrap()["fetched"], json!(2), "{}", ran.out);
    }
    let ran =
        with(&server, FILE, &["crawl", "--json", "--max-pages", "1", "http://a.example:PORT/"], true).await;
    assert_eq!(ran.lines().last().unwrap()["fetched"], json!(1));
    let args = ["fetch", "-a", "Other", "-A", "Other/3", "http://a.example:PORT/1"];
    assert_eq!(
        with(&server, FILE, &args, true).await.line()["outcome"],
        json!("fetched"),
        "a table of the call"
    );
    assert_eq!(server.log().pop().unwrap().header("user-agent"), Some("Other/3"));
}

#[tokio::test]
async fn a_host_has_a_delay_and_a_limit_of_its_own() {
    let server = site().await;
    let content = "delay = 0\n[host.\"slow.example\"]\ndelay = \"400ms\"\nmax-pages = 2\n";
    let args = ["crawl", "--json", "http://slow.example:PORT/", "http://a.example:PORT/"];
    let ran = with(&server, content, &args, true).await;
    let lines = ran.lines();
    let host = |name: &str| lines.iter().find(|line| line["host"] == json!(name)).unwrap().clone();
    let (slow, other) = (host("slow.example"), host("a.example"));
    assert_eq!(
        (&slow["fetched"], &slow["left"], &other["fetched"]),
        (&json!(2), &json!(2), &json!(4)),
        "{}",
        ran.out
    );
    assert!(
        slow["gap_min_ms"].as_u64() >= Some(350) && other["gap_min_ms"].as_u64() < Some(350),
        "{}",
        ran.out
    );
}

#[tokio::test]
async fn what_the_call_sets_for_a_host_stands_above_the_file() {
    let server = site().await;
    let content = "delay = 0\n[host.\"A.example\"]\nmax-pages = 1\n[host.\"b.example\"]\nmax-pages = 2\n";
    let args = [
        "crawl",
        "--json",
        "--host-max-pages=a.example=3",
        "http://a.example:PORT/",
        "http://b.example:PORT/",
    ];
    let ran = with(&server, content, &args, true).await;
    let lines = ran.lines();
    let fetched =
        |name: &str| lines.iter().find(|line| line["host"] == json!(name)).unwrap()["fetched"].clone();
    assert_eq!((fetched("a.example"), fetched("b.example")), (json!(3), json!(2)), "{}", ran.out);
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_named_with_its_place() {
    let server = site().await;
    for (content, said) in [
        ("dely = 1\n", "unknown option \"dely\"; did you mean delay?"),
        ("delay = \"soon\"\n", "--delay"),
        ("\ndelay = \n", "abide.toml:2"),
        ("[crawl]\npages = 3\n", "[crawl]: unknown option \"pages\""),
        ("[nonsense]\nx = 3\n", "[\"nonsense\"]"),
        ("[host.\"a.example\"]\nspeed = 3\n", "expected delay or max-pages, found \"speed\""),
        ("config = \"other.toml\"\n", "a file cannot name another"),
    ] {
        let ran = with(&server, content, &["crawl", "http://a.example:PORT/"], false).await;
        assert_eq!(
            (ran.status, ran.out.as_str(), ran.err.lines().count()),
            (2, "", 1),
            "{content}: {}",
            ran.err
        );
        assert!(ran.err.contains("abide.toml") && ran.err.contains(said), "{content}: {}", ran.err);
    }
    assert_eq!(server.log().len(), 0);
    assert_eq!(abide(&["check", "--config", "/nonexistent.toml", "http://a.example/"]).status, 2);
    let robots = file("");
    let args = ["match", "--config=", "--agent", "a", "--robots", robots.path().to_str().unwrap(), "/"];
    assert_eq!(abide(&args).status, 0, "an empty name is no file");
}

#[test]
fn the_demonstration_needs_nothing() {
    let mut command = command(&["demo"]);
    let ran = crate::Ran::from(command.env("HTTP_PROXY", "http://127.0.0.1:9").output().unwrap());
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    for part in [
        "200  http://bakery.example/private/menu.html",
        "denied  http://bakery.example/private/recipes  disallowed by \"Disallow: /private/\"",
        "refused  http://bakery.example/inside",
        "404  http://bakery.example/gone",
        "  noindex\n",
        "200  http://market.example/stalls",
        "(503, Retry-After 3 s)",
        "robots.txt can't be fetched: it returned status 500",
        "15 URLs: 9 ok, 1 redirected, 1 client error, 3 denied, 1 refused",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}
