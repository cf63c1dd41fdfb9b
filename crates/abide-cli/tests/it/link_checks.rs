//! `abide crawl` as a link checker: broken links with the pages that name them, assets, links to other hosts;
//! and what one may do on one's own site.

use std::time::Duration;

use abide_tests::{Reply, Server, delays};
use serde_json::{Value, json};

use crate::crawl::{page_lines, summary};
use crate::{Ran, directory, has, online, store};

/// The start page and `/1` to `/7` all link to `/gone`.
async fn broken_site() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        "/" => Reply::html((1..=7).map(|n| format!("<a href=/{n}>x</a>")).collect::<String>() + GONE),
        "/gone" => Reply::new(404, "no"),
        "/moved" => Reply::redirect(301, "/gone-too"),
        "/gone-too" => Reply::new(410, "no"),
        "/7" => Reply::html(format!("{GONE}<a href=/moved>x</a>")),
        _ => Reply::html(GONE),
    })
    .await
}

const GONE: &str = "<a href=/gone>x</a><a href='/gone#again'>x</a>";

/// The paths of URLs.
fn paths(urls: &Value) -> Vec<String> {
    let urls = urls.as_array().unwrap().iter();
    urls.map(|url| url.as_str().unwrap().rsplit_once(".example").unwrap().1.split_once('/').unwrap().1.into())
        .collect()
}

#[tokio::test]
async fn broken_links_are_listed_with_the_pages_that_name_them() {
    let (server, directory) = (broken_site().await, directory());
    let [report, csv] = ["r.html", "p.csv"].map(|name| directory.place(name));
    let ran = online(&server, format!("crawl --json --report {report} --csv {csv} a.example/")).await;
    let broken = summary(ran.ends_with(0))["broken"].clone();
    has(&broken[0], json!({"status": 404, "outcome": "fetched", "kind": "page", "links": 8}));
    assert_eq!(paths(&broken[0]["linked_from"]), ["", "1", "2", "3", "4"]);
    // A redirect names where it leads.
    assert_eq!(
        (paths(&broken[1]["linked_from"]), &broken[1]["status"]),
        (vec!["moved".to_owned()], &json!(410))
    );
    let page = std::fs::read_to_string(report).unwrap();
    let table = page.split_once("<h2>Broken links</h2>").unwrap().1.split_once("</table>").unwrap().0;
    assert!(table.contains("/gone</a>") && table.contains("and 3 more"), "{table}");
    assert!(page.contains("<a href=#urls data-class=bad>2</a>"), "the figure leads to the rows: {page}");
    let rows = std::fs::read_to_string(csv).unwrap();
    let row = rows.lines().find(|row| row.contains(",404,")).unwrap();
    assert!(row.ends_with("/4") && row.matches(' ').count() >= 4, "the first pages that name it: {row}");

    online(&server, "crawl a.example/").await.shows(&[
        "\n2 broken links:\n  404  http://a.example:",
        "/gone\n       on http://a.example:",
        "       and on 3 other pages\n",
    ]);
}

#[tokio::test]
async fn what_names_a_broken_link_outlives_a_call() {
    let (server, (_directory, store)) = (broken_site().await, store());
    let args = format!("crawl --json --max-pages 2 --store {store} a.example/");
    for _ in 0..4 {
        online(&server, &args).await.ends_with(0);
    }
    let broken = summary(&online(&server, &args).await)["broken"].clone();
    assert_eq!(paths(&broken[0]["linked_from"])[0], "", "{broken}");
    assert_eq!(paths(&broken[1]["linked_from"]), ["moved"], "{broken}");
}

#[tokio::test]
async fn assets_and_links_of_other_hosts_are_checked() {
    let html = "<link rel=stylesheet href=/s.css><img src=/no.png><script src=http://b.example:PORT/s.js></script>\
        <a href=http://b.example:PORT/page>b</a><a href=http://b.example:PORT/private>b</a>\
        <a href=http://c.example:PORT/gone>c</a><a href=http://c.example:PORT/moved>c</a>";
    let server = Server::with_rules("User-agent: *\nDisallow: /private\n", move |seen| {
        let port = seen.header("host").and_then(|host| host.rsplit_once(':')).map_or("80", |(_, port)| port);
        match (seen.path.as_str(), seen.method.as_str()) {
            ("/", _) => Reply::html(html.replace("PORT", port)),
            // As some servers do, which know the page all the same.
            ("/page", "HEAD") => Reply::new(405, ""),
            ("/page", _) => Reply::html("<a href=/deeper>not followed</a>"),
            ("/no.png" | "/gone", "HEAD") => Reply::new(404, ""),
            ("/no.png" | "/gone", _) => Reply::new(404, "no"),
            ("/moved", _) => Reply::redirect(302, "/landed"),
            _ => Reply::new(200, ""),
        }
    })
    .await;
    let ran =
        online(&server, "crawl --json --delay 300ms --max-pages 1 --assets --external a.example/").await;
    let found = |path: &str| {
        let is_it = |line: &Value| line["url"].as_str().unwrap().ends_with(path);
        let line = page_lines(&ran).into_iter().find(is_it);
        line.unwrap_or_else(|| panic!("{path}: {}{}", ran.out, ran.err))
    };
    for (path, kind, status) in [
        ("/s.css", "asset", json!(200)),
        ("/no.png", "asset", json!(404)),
        ("/s.js", "asset", json!(200)),
        ("/page", "link", json!(200)),
        ("/private", "link", json!(null)),
        ("/gone", "link", json!(404)),
        ("/moved", "link", json!(302)),
        ("/landed", "link", json!(200)),
    ] {
        has(&found(path), json!({"kind": kind, "status": status}));
    }
    assert_eq!(found("/private")["outcome"], json!("denied"));
    assert_eq!((server.count("b.example/private"), server.count("b.example/deeper")), (0, 0));
    let methods = |path: &str| {
        let log = server.log();
        log.iter().filter(|seen| seen.path == path).map(|seen| seen.method.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (methods("/s.css"), methods("/page")),
        (vec!["HEAD".into()], vec!["HEAD".into(), "GET".into()])
    );
    for host in ["a.example", "b.example", "c.example"] {
        let log: Vec<_> = server.log().into_iter().filter(|seen| seen.host().starts_with(host)).collect();
        assert!(delays(&log).all(|delay| delay >= Duration::from_millis(300)), "{host}");
    }
    let summary = summary(&ran);
    has(&summary, json!({"checked": 8, "denied": 1}));
    assert_eq!(summary["broken"].as_array().unwrap().len(), 2, "{summary}");

    // Without the options they are left alone; what leads away is named.
    let ran = online(&server, "crawl --max-pages 1 a.example/").await;
    ran.shows(&["left out: 4 on other hosts"]);
    let ran = online(&server, "crawl --max-pages 1 --external a.example/").await;
    ran.shows(&["5 URLs checked on 2 other hosts: 2 ok, 1 redirected, 1 client error, 1 denied"]);
}

#[tokio::test]
async fn robots_txt_of_ones_own_site_may_be_ignored() {
    let server = Server::with_rules("User-agent: *\nDisallow: /\n", |_| Reply::html("end")).await;
    let call = "crawl --json --danger-ignore-robots a.example/ --why 'it is ours' a.example/ b.example/";
    let ran = online(&server, call).await;
    ran.reports(&["the robots.txt of http://a.example:", "is ignored: it is ours"]);
    has(&ran.host("a.example"), json!({"ok": 1, "denied": 0}));
    has(&ran.host("b.example"), json!({"ok": 0, "denied": 1}));
    let why = |page: &Value| page["why"].as_str().unwrap().contains("it is ours");
    assert_eq!(page_lines(&ran).iter().filter(|page| why(page)).count(), 1, "{}", ran.out);
    let ran = online(&server, "fetch --danger-ignore-robots a.example/ --why 'it is ours' a.example/x").await;
    ran.ends_with(0).shows(&["200  http://a.example:"]);
    for (args, said) in [
        ("--danger-ignore-robots http://a.example/", "--why"),
        ("--danger-ignore-robots http://a.example/x --why x", "expected an origin"),
        ("--danger-ignore-robots http://a.example/ --why ''", "expected the reason"),
    ] {
        crate::abide(format!("fetch --agent ExampleBot {args} http://a.example/")).is_wrong_usage(&[said]);
    }
}

#[tokio::test]
async fn a_password_goes_to_the_hosts_that_were_given() {
    let server = Server::without_rules(|seen| match (seen.path.as_str(), seen.header("authorization")) {
        ("/", Some("Basic bWU6czplY3JldA==")) => Reply::html("<a href=/in>x</a>"),
        ("/in", Some(_)) => {
            let host = seen.header("host").unwrap().replacen('a', "b", 1);
            Reply::redirect(302, &format!("http://{host}/"))
        }
        ("/", None) if seen.host().starts_with('b') => Reply::html("end"),
        _ => Reply::new(401, "no").with("www-authenticate", "Basic realm=x"),
    })
    .await;
    let ran = online(&server, "crawl --external --user me:s:ecret a.example/").await;
    ran.ends_with(0).shows(&["1 URL checked on 1 other host: 1 ok"]);
    assert!(!format!("{}{}", ran.out, ran.err).contains("ecret"), "{}{}", ran.out, ran.err);
    let robots = server.log().into_iter().find(|seen| seen.path == "/robots.txt").unwrap();
    assert_eq!(robots.header("authorization"), None, "robots.txt is for everyone");
    for (call, said) in [
        ("fetch a.example/", "it asks for a name and a password, which --user NAME:PASSWORD sends"),
        ("crawl --user me:wrong a.example/", "it does not take the name and the password of --user"),
    ] {
        let ran = online(&server, call).await;
        assert_eq!(ran.err.matches(said).count(), 1, "{}", ran.err);
    }
    crate::abide("fetch --user secret http://a.example/").is_wrong_usage(&["expected NAME:PASSWORD"]);
    let both = "fetch --agent ExampleBot --user a:b --header 'Authorization: x' http://a.example/";
    crate::abide(both).is_wrong_usage(&["expected no --header Authorization"]);
}

#[tokio::test]
async fn with_qq_only_what_went_wrong_is_printed() {
    let server = Server::with_rules("User-agent: *\nDisallow: /private\n", |seen| match seen.path.as_str() {
        "/" => Reply::html("<a href=/ok>x</a><a href=/gone>x</a>"),
        "/gone" => Reply::new(404, "no"),
        _ => Reply::html("end"),
    })
    .await;
    for call in
        ["crawl a.example/ b.example/", "crawl --json a.example/", "fetch a.example/", "check a.example/"]
    {
        let Ran { status, out, err } = online(&server, format!("{call} -qq")).await;
        assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""), "{call}");
    }
    let ran = online(&server, "check -qq a.example/ a.example/private").await;
    assert_eq!((ran.status, ran.out.lines().count()), (1, 2), "{}", ran.out);
    let ran = online(&server, "crawl -qq --json --fail-on 4xx a.example/ b.example/ok").await;
    let lines = ran.ends_with(1).lines();
    assert_eq!(lines.len(), 3, "the page, its host, and the whole: {}", ran.out);
    has(&lines[0], json!({"status": 404}));
}

/// Links of two hosts to each other and away, of which some are wrong.
async fn linked_hosts() -> Server {
    Server::without_rules(|seen| {
        let other = |name: &str| {
            format!("http://{}", seen.header("host").unwrap().replacen(&seen.host()[..1], name, 1))
        };
        match (&seen.host()[..1], seen.path.as_str()) {
            ("a", "/") => Reply::html(format!(
                "<img src=/view><a href={0}/x>b</a><a href={0}/back>b</a><a href=/next>n</a>\
                 <a href=http://10.1.2.3/>no</a><a href=http://nosuch.invalid/>no</a><a href=/out>o</a>",
                other("b")
            )),
            ("a", "/next") => Reply::html("<a href=/view>v</a><a href=/page>p</a>"),
            ("a", "/view" | "/page") => Reply::html(format!("<a href={}-deep>d</a>", seen.path)),
            ("a", "/out") => Reply::redirect(302, &format!("{}/landed", other("b"))),
            ("b", "/back") => Reply::redirect(302, &format!("{}/page", other("a"))),
            _ => Reply::html("end"),
        }
    })
    .await
}

#[tokio::test]
async fn what_is_only_checked_gets_no_field_of_the_sites_given() {
    let server = linked_hosts().await;
    let fields = "-H 'Authorization: Bearer T' -H 'X-Secret: 1'";
    online(&server, format!("crawl --external --assets {fields} a.example/")).await;
    let log = server.log();
    let (own, others): (Vec<_>, Vec<_>) = log.iter().partition(|seen| seen.host().starts_with('a'));
    let has = |seen: &&abide_tests::Seen| seen.header("authorization").or(seen.header("x-secret")).is_some();
    assert!(others.len() >= 4 && !others.iter().any(has), "{others:?}");
    assert!(own.iter().filter(|seen| seen.path != "/robots.txt").all(has), "{own:?}");
}

#[tokio::test]
async fn other_hosts_that_cannot_be_had_are_broken_links() {
    let server = linked_hosts().await;
    let ran = online(&server, "crawl --json --external a.example/").await;
    let broken = summary(ran.ends_with(1))["broken"].clone();
    let mut urls: Vec<&str> =
        broken.as_array().unwrap().iter().map(|it| it["url"].as_str().unwrap()).collect();
    urls.sort_unstable();
    assert_eq!(urls, ["http://10.1.2.3/", "http://nosuch.invalid/"]);
    assert!(broken.to_string().contains("the connection was refused"), "{broken}");
}

#[tokio::test]
async fn what_was_checked_before_it_was_known_as_a_page_is_crawled() {
    let server = linked_hosts().await;
    online(&server, "crawl --external --assets a.example/").await;
    for path in ["/view-deep", "/page-deep"] {
        assert_eq!(server.count(&format!("a.example{path}")), 1, "{path}: {:?}", server.asked());
    }
    // A redirect that leads away is a page, and what is checked there is none.
    let server = linked_hosts().await;
    let ran = online(&server, "crawl --json --external --max-pages 2 a.example/").await;
    let own = |seen: &&abide_tests::Seen| seen.host().starts_with('a') && seen.path != "/robots.txt";
    assert_eq!(server.log().iter().filter(own).filter(|seen| seen.method == "GET").count(), 2, "{}", ran.out);
}

#[tokio::test]
async fn robots_txt_is_ignored_behind_a_redirect_to_an_origin_that_was_named() {
    let server = Server::start(|seen| match (&seen.host()[..1], seen.path.as_str()) {
        ("b", "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /"),
        ("a", "/") => {
            Reply::redirect(301, &format!("http://{}/", seen.header("host").unwrap().replacen('a', "b", 1)))
        }
        ("b", "/") => Reply::html("end"),
        _ => Reply::new(404, ""),
    })
    .await;
    let call = "fetch --danger-ignore-robots b.example/ --why ours a.example/";
    online(&server, call).await.ends_with(0);
    online(&server, "fetch a.example/").await.ends_with(1);
}
