//! The contract of the command, sentence by sentence, each with the tests that hold it; and those that have no better place.

use std::time::Duration;

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{abide, abide_with, online};

/// What programs rely on, and what would fail if it were not so any more.
const SENTENCES: &[(&str, &[&str])] = &[
    (
        "Human output by default",
        &["offline::match_prints_the_rule_and_its_line", "check::people_get_one_line_each"],
    ),
    (
        "colour when a terminal",
        &[
            "terminal::a_terminal_gets_colours_unless_it_wants_none",
            "offline::pipes_and_no_color_see_no_escapes",
        ],
    ),
    ("progress bars on long work", &["terminal::a_crawl_shows_its_progress_in_lines_that_fit"]),
    ("--json prints one JSON object per line", &["contract::every_call_prints_one_json_object_per_line"]),
    ("Exit status 0: done", &["contract::the_exit_status_says_how_it_went"]),
    (
        "Exit status 1: something was denied, deferred or failed",
        &["contract::the_exit_status_says_how_it_went"],
    ),
    (
        "Exit status 2: wrong usage",
        &["usage::unknown_flags_and_calls_are_named", "usage::values_that_cannot_be_read_are_named"],
    ),
    (
        "Unknown flags: one clear line on standard error that names the place",
        &["usage::unknown_flags_and_calls_are_named"],
    ),
    (
        "Unreadable files: the same",
        &["usage::unreadable_files_are_named", "batch::an_unreadable_batch_is_wrong_usage"],
    ),
    ("Bad JSON lines: the same", &["batch::bad_lines_are_named_by_line_and_key_in_words_of_our_own"]),
    (
        "A bad line gives {\"error\"} in its place, and the batch goes on",
        &["contract::a_bad_line_of_any_batch_is_answered_in_its_place"],
    ),
    (
        "match --agent --robots URL...",
        &["offline::match_as_json_has_the_fields_of_the_contract", "offline::match_takes_a_chain_of_agents"],
    ),
    (
        "match --batch [FILE]: in",
        &[
            "batch::robots_may_be_base64_of_any_bytes",
            "batch::a_batch_may_be_a_file_and_have_windows_line_ends",
        ],
    ),
    (
        "match --batch: out, in order",
        &["batch::match_answers_with_every_field_in_order", "batch::what_is_not_there_is_null"],
    ),
    (
        "agent may be a list (fallback chain)",
        &["batch::the_agent_may_be_a_chain", "batch::every_agent_of_a_list_counts_for_tags"],
    ),
    ("directives --batch: in", &["directives::the_application_may_be_absent_and_the_agent_a_list"]),
    (
        "directives --batch: out",
        &[
            "directives::app_directives_are_typed",
            "directives::content_usage_and_content_signal_have_their_own_words",
        ],
    ),
    (
        "tags --agent [--header]... [FILE.html]",
        &["offline::tags_as_json_have_the_fields_of_the_contract", "offline::without_html_there_is_no_head"],
    ),
    (
        "tags --batch: in",
        &[
            "batch::html_is_text_or_base64_in_its_own_charset",
            "batch::the_content_type_decides_about_the_head",
        ],
    ),
    (
        "tags --batch: rules",
        &[
            "batch::tags_answer_with_every_field_in_order",
            "batch::each_rule_has_its_key",
            "contract::sizes_of_previews_and_ends_of_heads_have_their_words",
        ],
    ),
    (
        "tags --batch: head, truncated",
        &["contract::sizes_of_previews_and_ends_of_heads_have_their_words", "batch::a_cut_is_reported"],
    ),
    (
        "metas lists every meta with a name in the head, decoded, in order",
        &["contract::metas_are_those_of_the_head_with_a_name_decoded_and_in_order"],
    ),
    ("check: fetches robots.txt, never the URL", &["check::only_robots_txt_is_asked_for"]),
    (
        "fetch: through the whole middleware",
        &[
            "fetch::a_redirect_is_followed_and_every_hop_is_reported",
            "fetch::private_addresses_are_refused_also_behind_redirects",
        ],
    ),
    ("fetch: fetched", &["fetch::a_page_that_may_be_had_is_fetched"]),
    ("fetch: denied", &["fetch::what_is_disallowed_is_denied_and_never_asked_for"]),
    (
        "fetch: deferred",
        &["fetch::a_backed_off_host_is_deferred", "fetch::a_permit_beyond_max_wait_is_deferred"],
    ),
    (
        "fetch: refused",
        &[
            "fetch::private_addresses_are_refused_also_behind_redirects",
            "fetch::a_redirect_loop_is_refused_after_ten_hops",
        ],
    ),
    (
        "fetch: error",
        &["fetch::a_broken_page_is_an_error", "fetch::a_body_that_breaks_off_is_an_error_with_what_came"],
    ),
    (
        "fetch: hops with url, status, allowed",
        &["fetch::a_redirect_into_a_disallowed_path_is_denied_with_its_hops"],
    ),
    (
        "fetch: permissions as those of tags; noindex true, false or null",
        &[
            "fetch::permissions_come_from_the_head_and_the_header",
            "contract::noindex_is_null_where_it_is_not_known",
        ],
    ),
    (
        "fetch: waited_ms",
        &[
            "fetch::the_waits_of_failed_calls_are_reported",
            "pacing::a_host_is_left_alone_between_two_requests",
        ],
    ),
    ("crawl: breadth first", &["crawl::pages_come_breadth_first_and_not_deeper_than_asked"]),
    ("crawl: same hosts", &["crawl::the_sites_given_are_crawled_and_no_others"]),
    ("crawl: --max-pages", &["crawl::no_more_pages_than_asked"]),
    ("crawl: --save DIR", &["crawl::saved_pages_are_whole_and_indexed"]),
    ("crawl: a report per host", &["crawl::the_report_has_denials_permissions_and_ages"]),
    ("explain: the deciding line marked, and why", &["explain::the_deciding_line_is_marked"]),
    (
        "lint: remarks with line and column, as compilers print them",
        &["lint::remarks_are_shown_as_compilers_show_them", "lint::remarks_as_json_have_line_and_columns"],
    ),
    ("common options", &["contract::every_call_that_goes_online_takes_the_common_options"]),
    (
        "--agent, --user-agent",
        &[
            "check::the_chain_of_agents_and_the_user_agent_are_used",
            "usage::a_crawler_that_does_not_say_its_name_is_wrong_usage",
        ],
    ),
    ("--delay", &["pacing::a_host_is_left_alone_between_two_requests"]),
    ("--max-wait", &["fetch::a_permit_beyond_max_wait_is_deferred"]),
    ("--timeout (robots deadline)", &["fetch::a_robots_txt_beyond_its_deadline_is_unreachable"]),
    ("--allow-net CIDR", &["pacing::allow_net_opens_the_network_it_names"]),
    (
        "--resolve HOST:PORT:ADDR",
        &[
            "pacing::resolve_is_for_the_names_it_names",
            "usage::a_name_leads_to_the_same_addresses_on_every_port",
        ],
    ),
    (
        "--store memory|redb:PATH|redis://...",
        &[
            "store::stores_that_cannot_be_had_are_wrong_usage",
            "store::calls_share_a_redis_and_a_crawl_starts_again",
        ],
    ),
    ("--cacert FILE", &["pacing::cacert_is_trusted_and_nothing_else"]),
    ("--concurrency", &["contract::concurrency_limits_requests_over_all_hosts"]),
];

#[test]
fn every_sentence_of_the_contract_has_tests_that_exist() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for (sentence, tests) in SENTENCES {
        assert!(!tests.is_empty(), "{sentence}");
        for test in *tests {
            let (file, name) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(directory.join(format!("{file}.rs"))).unwrap();
            assert!(text.contains(&format!("fn {name}(")), "{sentence}: there is no {test}");
        }
    }
}

const SITE: &str = "User-agent: *\nDisallow: /secret\n";

async fn site() -> Server {
    Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("busy.example", "/robots.txt") => Reply::with_headers(429, &[("retry-after", "3600")], ""),
        (_, "/robots.txt") => Reply::new(200, SITE),
        (_, "/long") => Reply::html(format!("<head><script>{}</script>", "x".repeat(600 * 1024))),
        _ => Reply::html("<p>end"),
    })
    .await
}

#[tokio::test]
async fn every_call_prints_one_json_object_per_line() {
    let server = site().await;
    let robots = crate::file("User-agent: *\nDissallow: /a\nDisallow /b\n");
    let path = robots.path().to_str().unwrap();
    for (args, lines) in [
        (&["match", "--agent", "a", "--robots", path, "/a", "/b"][..], 2),
        (&["directives", "--agent", "a", "--robots", path, "/a", "/b"], 2),
        (&["tags", "--agent", "a", path], 1),
        (&["lint", path, path], 4),
    ] {
        let ran = abide(&[args, &["--json"]].concat());
        assert_eq!(
            ran.lines().iter().filter(|line| line.is_object()).count(),
            lines,
            "{args:?}: {}",
            ran.out
        );
        assert!(ran.out.ends_with("}\n") && !ran.out.contains("\n\n"), "{}", ran.out);
    }
    for call in ["check", "fetch", "explain", "crawl"] {
        let urls = ["http://a.example:PORT/x", "http://b.example:PORT/x", "http://busy.example:PORT/"];
        let ran = online(
            server.address(),
            &[&[call, "--json", "--max-hold", "0"][..usize::from(call == "crawl") * 2 + 2], &urls].concat(),
        )
        .await;
        assert_eq!(
            ran.lines().iter().filter(|line| line.is_object()).count(),
            if call == "crawl" { 3 + 3 + 1 } else { 3 },
            "{call}: {} {}",
            ran.out,
            ran.err
        );
    }
}

#[tokio::test]
async fn the_exit_status_says_how_it_went() {
    let server = site().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for call in ["check", "fetch", "explain", "crawl"] {
        let mut more: Vec<&str> = if call == "crawl" { vec!["--max-hold", "0"] } else { Vec::new() };
        for (url, status) in [
            ("http://a.example:PORT/x", 0),
            // Denied, refused.
            ("http://a.example:PORT/secret", 1),
            ("http://10.0.0.1/", 1),
        ] {
            more.push(url);
            let ran = online(server.address(), &[&[call], &more[..]].concat()).await;
            more.pop();
            // A crawl that does what the site allows has not failed.
            let status = if call == "crawl" && url.ends_with("/secret") { 0 } else { status };
            assert_eq!(ran.status, status, "{call} {url}: {}", ran.out);
        }
        // Deferred: its robots.txt says so, and the page is not asked for any more.
        let urls = ["http://busy.example:PORT/", "http://a.example:PORT/x"];
        let ran = online(server.address(), &[&[call], &more[..], &urls].concat()).await;
        assert_eq!(ran.status, i32::from(call == "fetch" || call == "crawl"), "{call}: {}", ran.out);
        // Failed: nothing listens there.
        assert_eq!(online(free, &[call, "http://a.example:PORT/"]).await.status, 1, "{call}");
    }
}

#[test]
fn a_bad_line_of_any_batch_is_answered_in_its_place() {
    let good = json!({"robots": "", "agent": "a", "url": "/"});
    for call in ["match", "directives", "tags"] {
        let ran =
            abide_with(&[call, "--batch"], format!("{good}\nnonsense\n{good}\n{{\"agent\": 1}}\n{good}\n"));
        let is_error: Vec<bool> = ran.lines().iter().map(|line| crate::keys(line) == ["error"]).collect();
        assert_eq!((ran.status, is_error), (1, vec![false, true, false, true, false]), "{call}");
        let places: Vec<_> = ran.err.lines().map(|line| &line[..25]).collect();
        assert_eq!(places, ["abide: standard input:2: ", "abide: standard input:4: "], "{call}");
    }
}

#[test]
fn sizes_of_previews_and_ends_of_heads_have_their_words() {
    for size in ["none", "standard", "large"] {
        let field = format!("max-image-preview: {size}");
        let question = json!({"agent": "a", "headers": [["X-Robots-Tag", field]]});
        let line = abide_with(&["tags", "--batch"], question.to_string()).line();
        assert_eq!(line["rules"]["max_image_preview"], json!(size));
    }
    let attributes: String = (0..50_000).map(|number| format!("a{number}=1 ")).collect();
    for (html, head, truncated) in [
        (json!("<meta name=a><body>"), "ended", false),
        (json!("<meta name=a>"), "eof", false),
        (json!(format!("<script>{}", "x".repeat(600 * 1024))), "byte_limit", true),
        (json!(format!("<meta {attributes}>")), "memory_limit", true),
        (json!(null), "none", false),
    ] {
        let question = json!({"agent": "a", "html": html});
        let line = abide_with(&["tags", "--batch"], question.to_string()).line();
        assert_eq!((&line["head"], &line["truncated"]), (&json!(head), &json!(truncated)));
    }
}

#[test]
fn metas_are_those_of_the_head_with_a_name_decoded_and_in_order() {
    let html = "<meta name='b&amp;c' content='&eacute; &#x2603;'><meta charset=utf-8><meta property=og:title content=x>\
                <META NAME=A><meta name=a content=2 content=3><!-- <meta name=hidden> --><title><meta name=text></title>\
                <body><meta name=robots content=noindex>";
    let line = abide_with(&["tags", "--batch"], json!({"agent": "a", "html": html}).to_string()).line();
    assert_eq!(
        line["metas"],
        json!([
            {"name": "b&c", "content": "é ☃"},
            {"name": "A", "content": ""},
            {"name": "a", "content": "2"},
        ])
    );
    assert_eq!(line["rules"]["noindex"], json!(false));
}

#[tokio::test]
async fn noindex_is_null_where_it_is_not_known() {
    let server = site().await;
    let urls = ["http://a.example:PORT/long", "http://a.example:PORT/secret", "http://a.example:PORT/x"];
    let lines = online(server.address(), &[&["fetch", "--json"], &urls[..]].concat()).await.lines();
    let found: Vec<_> =
        lines.iter().map(|line| (line["outcome"].as_str().unwrap(), &line["noindex"])).collect();
    assert_eq!(found, [("fetched", &json!(null)), ("denied", &json!(null)), ("fetched", &json!(false))]);
    assert_eq!(lines[0]["permissions"]["head"], json!("byte_limit"));
}

#[tokio::test]
async fn every_call_that_goes_online_takes_the_common_options() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let authority = crate::file(abide_tests::Authority::new().pem());
    for call in ["check", "fetch", "crawl", "explain"] {
        for store in ["memory".to_owned(), format!("redb:{}", directory.path().join(call).display())] {
            let options = [
                call,
                "--agent",
                "ExampleBot-News",
                "--user-agent",
                "ExampleBot ExampleBot-News (+https://example.com/bot)",
                "--delay",
                "0.01",
                "--max-wait",
                "10s",
                "--timeout",
                "5s",
                "--allow-net",
                "10.0.0.0/8",
                "--allow-net",
                "::1",
                "--resolve",
                "other.example:443:[::1]",
                "--store",
                &store,
                "--cacert",
                authority.path().to_str().unwrap(),
                "--concurrency",
                "3",
                "--json",
                "--color",
                "never",
                "http://a.example:PORT/x",
            ];
            let ran = online(server.address(), &options).await;
            let lines = if call == "crawl" { 3 } else { 1 };
            assert_eq!((ran.status, ran.lines().len()), (0, lines), "{call}: {} {}", ran.out, ran.err);
        }
    }
}

#[tokio::test]
async fn concurrency_limits_requests_over_all_hosts() {
    let hosts = ["a", "b", "c", "d"].map(|host| format!("http://{host}.example:PORT/x"));
    for call in ["check", "fetch", "crawl", "explain"] {
        for (concurrency, most, millis) in [("1", 1, 100), ("4", 4, 1000)] {
            let server =
                Server::start(move |_| Reply::html("<p>x").after(Duration::from_millis(millis))).await;
            let mut args = vec![call, "--concurrency", concurrency];
            args.extend(hosts.iter().map(String::as_str));
            online(server.address(), &args).await;
            let log = server.log();
            let under_way = |at| log.iter().filter(|seen| seen.at <= at && at < seen.answered).count();
            let at_a_time = log.iter().map(|seen| under_way(seen.at)).max().unwrap();
            assert!(at_a_time <= most && (most == 1 || at_a_time > 1), "{call}, {concurrency}: {at_a_time}");
        }
    }
}
