//! What stands below `--help`, and in the manual.

pub(super) const MATCH: &str = "\
Exit status: 0 all is allowed; 1 something is not; 2 wrong usage. In a batch: 1 a line was bad.

Examples:
  abide match --agent ExampleBot --robots robots.txt /private/ https://example.org/a?b
  abide match --agent ExampleBot-News --agent ExampleBot --robots - --json /
  abide match --batch questions.jsonl";
pub(super) const DIRECTIVES: &str = "\
Exit status: 0 done; 1 a line of a batch was bad; 2 wrong usage.

Examples:
  abide directives --agent ExampleBot --robots robots.txt --app examplesearch /news/
  abide directives --batch questions.jsonl";
pub(super) const TAGS: &str = "\
Exit status: 0 done; 1 a line of a batch was bad; 2 wrong usage.

Examples:
  abide tags --agent ExampleBot page.html
  abide tags --agent ExampleBot --header 'X-Robots-Tag: noindex' --header 'Robots-Tag: *;nosnippet'
  abide tags --batch questions.jsonl";
pub(super) const CHECK: &str = "\
Exit status: 0 all is allowed; 1 something was denied, deferred or failed; 2 wrong usage.

Examples:
  abide check https://example.org/ https://example.org/private/
  abide check --agent ExampleBot --user-agent 'ExampleBot/1.0 (+https://example.com/bot)' https://example.org/";
pub(super) const FETCH: &str = "\
Exit status: 0 all was fetched, whatever the status of its answer; 1 something was denied, deferred or failed; 2 wrong usage.

Examples:
  abide fetch https://example.org/a
  abide fetch --json --max-wait 5m https://example.org/a https://example.org/b
  abide fetch --resolve localhost.example:80:127.0.0.1:8080 --allow-net 127.0.0.1 http://localhost.example/";
pub(super) const CRAWL: &str = "\
Exit status: 0 done as the site allows; 1 something failed (--fail-on adds to that); 2 wrong usage; 130 Ctrl-C; 143 SIGTERM.

Examples:
  abide crawl https://example.org/
  abide crawl -v --fail-on 4xx,5xx https://example.org/
  abide crawl --max-pages 1000 --save pages --report report.html https://example.org/ https://example.com/
  abide crawl --store redb:crawl.redb --sitemaps --max-depth 3 https://example.org/";
pub(super) const EXPLAIN: &str = "\
Exit status: 0 all is allowed; 1 something was denied, deferred or failed; 2 wrong usage.

Examples:
  abide explain https://example.org/private/";
pub(super) const LINT: &str = "\
Exit status: 0 no errors or warnings; 1 there are some; 2 wrong usage.

Examples:
  abide lint robots.txt
  abide lint --json a/robots.txt b/robots.txt";
