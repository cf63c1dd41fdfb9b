//! Wrong usage: exit status 2, nothing on standard output, and one clear message that names the place.

use crate::{Words, abide, file};

/// The message of a call that must be refused as a whole.
fn wrong(args: impl Words) -> String {
    let ran = abide(args);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{}", ran.err);
    ran.err
}

#[test]
fn unknown_flags_and_calls_are_named() {
    for (args, named) in [
        ("match --nonsense", "--nonsense"),
        ("fetch --nonsense http://a.example/", "--nonsense"),
        ("nonsense", "nonsense"),
        ("match --agent a", "--robots"),
        ("check", "<URL>"),
        ("fetch", "<URL>"),
        ("match --batch x --agent a", "--agent"),
    ] {
        abide(args).is_wrong_usage(&["abide: ", named]);
    }
}

#[test]
fn without_a_call_there_is_help() {
    for args in ["", "match"] {
        assert!(wrong(args).contains("Usage: abide"), "{args}");
    }
    let message = wrong("fetch --concurency 3 http://a.example/");
    assert!(message.contains("similar argument exists: '--concurrency'"), "{message}");
    assert!(!wrong(&["fetch", "--\x1b[31m"]).contains('\x1b'), "what is quoted cannot command the terminal");
}

#[test]
fn values_that_cannot_be_read_are_named() {
    let url = "http://a.example/";
    for (flag, value) in [
        ("--delay", "soon"),
        ("--max-wait", "later"),
        ("--timeout", "1 fortnight"),
        ("--allow-net", "everything"),
        ("--resolve", "a.example:80"),
        ("--concurrency", "0"),
        ("--store", "floppy:A"),
        ("--store", "redb:"),
        ("--color", "sometimes"),
    ] {
        abide(&["fetch", flag, value, url]).is_wrong_usage(&[flag, value]);
    }
    for (flag, value) in [("--max-pages", "-1"), ("--max-depth", "deep"), ("--max-hold", "long")] {
        abide(&["crawl", &format!("{flag}={value}"), url]).is_wrong_usage(&[flag, value]);
    }
    for (flag, value, said) in [
        ("--max-pages", "0", "--max-pages"),
        ("--timeout", "0", "expected more than no time"),
        ("--page-timeout", "0s", "expected more than no time"),
        ("--delay", "-1", "a time cannot be negative"),
        ("--max-hold", "-0.5", "a time cannot be negative"),
        ("--delay", "-1s", "a time cannot be negative"),
        ("--max-wait", "-500ms", "a time cannot be negative"),
        ("--delay", "--json", "is no time; write 2, 0.5s or 500ms"),
        ("--max-pages", "-1", "expected a whole number from 1 on"),
        ("--max-pages", "some", "expected a whole number from 1 on"),
        ("--max-depth", "-1", "expected a whole number from 0 to"),
        ("--concurrency", "-1", "expected a whole number from 1 to 1024"),
        ("--concurrency", "1025", "expected a whole number from 1 to 1024"),
    ] {
        abide(&["crawl", flag, value, url]).is_wrong_usage(&[flag, said]);
    }
    abide("tags --agent a --header 'no colon'").is_wrong_usage(&["no colon"]);
}

#[test]
fn unreadable_files_are_named() {
    let robots = file("");
    for (call, place) in [
        ("match --agent a / --robots", "/nonexistent"),
        ("match --agent a / --robots", "/"),
        ("tags --agent a", "/nonexistent"),
        ("match --batch", "/nonexistent"),
        ("directives --batch", "/"),
        ("check -q http://a.example/ --cacert", "/nonexistent"),
        ("check -q http://a.example/ --cacert", robots.path()),
        #[cfg(target_os = "linux")]
        ("check -q http://a.example/ --cacert", "/dev/zero"),
    ] {
        let message = wrong(format!("{call} {place}"));
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.starts_with(&format!("abide: {place}: ")), "{message}");
    }
}

#[test]
fn urls_that_are_none_are_named_and_nothing_is_asked() {
    let robots = file("");
    for url in
        ["nowhere", "ftp://a.example/", "file:///etc/passwd", "http://", "http://[::1", "//a.example/x"]
    {
        let named = format!("{url:?}");
        abide(&["match", "--agent", "a", "--robots", robots.path(), "/", url]).is_wrong_usage(&[&named]);
        for call in ["check", "fetch"] {
            abide(&[call, "--json", "http://127.0.0.1:9/", url]).is_wrong_usage(&[&named]);
        }
    }
    assert!(wrong("check /path/alone").contains("absolute"));
}

#[test]
fn a_crawler_that_does_not_say_its_name_is_wrong_usage() {
    let url = "http://a.example/";
    for agent in ["Example Bot", "", "MJ12bot"] {
        abide(&["check", "--agent", agent, url]).is_wrong_usage(&["--agent"]);
    }
    for user_agent in ["Mozilla/5.0", "", "ExampleBo"] {
        let args = ["fetch", "--agent", "ExampleBot", "--user-agent", user_agent, url];
        let message = wrong(&args);
        assert!(message.contains("--user-agent") && message.contains("ExampleBot"), "{message}");
    }
    assert!(wrong(&["match", "--agent", "a b", "--robots", "/dev/null", "/"]).contains("\"a b\""));
}

#[test]
fn completions_and_the_manual_name_every_call() {
    let man = abide("man");
    assert_eq!((man.status, man.err.as_str()), (0, ""));
    for call in ["MATCH", "DIRECTIVES", "TAGS", "CHECK", "FETCH", "CRAWL", "EXPLAIN", "LINT", "IDENTITY PAGE"]
    {
        assert!(man.out.contains(&format!(".SH \"ABIDE {call}\"\n")), "{call}");
    }
    assert!(
        !["(1)\n", "ABIDE HELP", "EXTRA"].iter().any(|part| man.out.contains(part)),
        "there are no other pages to name, and no parts without text"
    );
    for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
        assert!(
            man.out.contains(&format!(".SH \"{section}\"\n"))
                || man.out.contains(&format!(".SH {section}\n")),
            "{section}"
        );
    }
    assert!(man.out.contains("max\\-wait") && man.out.contains("allow\\-net"), "{}", man.out);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(abide(&["completions", shell]).out.contains("max-wait"), "{shell}");
    }
    assert_eq!(abide("completions dos").status, 2);
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in ["--help", "fetch --help", "--version"] {
        let ran = abide(args);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{args}");
        ran.shows(&["abide"]);
    }
}

#[test]
fn a_name_leads_to_the_same_addresses_on_every_port() {
    let url = "http://127.0.0.1:9/";
    let twice = |one: &str, other: &str| abide(&["check", "--resolve", one, "--resolve", other, url]);
    for (one, other) in [("a.example:80:::1", "A.example:443:127.0.0.1"), ("*:80:::1", "*:443:::2")] {
        twice(one, other).is_wrong_usage(&["on every port, found others for 443 than for 80"]);
    }
    // The same address, and one entry instead of another, are fine: it is the URL that is refused here.
    for (one, other) in
        [("a.example:80:::1", "a.example:443:[::1]"), ("a.example:80:::1", "a.example:80:::2")]
    {
        assert_eq!(twice(one, other).status, 1);
    }
}

#[test]
fn a_url_without_a_scheme_gets_a_hint() {
    for (url, meant) in [
        ("example.org", "https://example.org"),
        ("example.org/a?b", "https://example.org/a?b"),
        ("//example.org/a", "https://example.org/a"),
        ("localhost:8080/x", "https://localhost:8080/x"),
    ] {
        for call in ["check", "fetch", "crawl", "explain"] {
            assert_eq!(
                wrong(&[call, url]),
                format!("abide: url {url:?}: expected an absolute URL, such as {meant:?}\n")
            );
        }
    }
    assert_eq!(wrong(&["check", ""]), "abide: url \"\": expected a URL, found nothing\n");
    assert!(wrong("check mailto:a@b.example").contains("found the scheme \"mailto\""));
}
