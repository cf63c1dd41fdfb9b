//! The command line: calls, options, and the types of their values.
//!
//! clap reads it, writes the help from the doc comments, and `manual` the manual. A value that can be wrong
//! has a function here that reads it and says what was expected, so that no call meets bad input later;
//! `config` adds a file's options as arguments.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use abide::pacing::{OnStoreOutage, PacePolicy};
use abide_permissions::Usage;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use url::{Host, Url};

use crate::config::ConfigNote;
use crate::crawl::scope::Glob;
use crate::findings::Severity;
use crate::input::chain;
use crate::sanitize::quoted;

/// Crawl and fetch politely: robots.txt, delays, and what a page permits.
///
/// Exit status: 0 done; 1 something was denied, deferred or failed; 2 wrong usage; 130 and 143 ended by a
/// signal.
#[derive(Debug, Parser)]
#[command(name = "abide", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct Cli {
    /// Read options from FILE [default: abide/abide.toml among the user's configuration, and over it
    /// abide.toml here, which sets nothing that reaches out or writes; none if empty]
    #[arg(long, global = true, value_name = "FILE", env = "ABIDE_CONFIG", help_heading = "Output")]
    pub(crate) config: Option<std::ffi::OsString>,
    /// Of files that have set options of this call.
    #[arg(skip)]
    pub(crate) config_note: Option<ConfigNote>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// How output is to look.
    pub(crate) fn output(&self) -> Option<&Output> {
        match &self.command {
            Command::Match(args) => Some(&args.output),
            Command::Directives(args) => Some(&args.output),
            Command::Tags(args) => Some(&args.output),
            Command::Check(args) => Some(&args.online.output),
            Command::Explain(args) => Some(&args.online.output),
            Command::Crawl(args) => Some(&args.online.output),
            Command::Lint(args) => Some(&args.online.output),
            Command::Agents(args) => Some(&args.online.output),
            Command::Watch(args) => Some(&args.online.output),
            Command::Audit(args) => Some(&args.output),
            Command::Completions { .. } | Command::Man | Command::Demo { .. } | Command::Identity(_) => None,
            Command::Fetch(args) => Some(&args.online.output),
            #[cfg(feature = "serve")]
            Command::Serve(args) => Some(&args.online.output),
            #[cfg(not(feature = "serve"))]
            Command::Serve { .. } => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Crawl sites politely, breadth first, with a report per host
    ///
    /// Ctrl-C ends the crawl and prints its report. With --store redb:PATH the same call resumes a crawl that
    /// was interrupted or killed. A Redis or PostgreSQL store keeps robots.txt and backoffs, but not the
    /// queue.
    #[command(after_long_help = examples("crawl"))]
    Crawl(Box<CrawlArgs>),
    /// Fetch URLs: robots.txt, delay and redirects checked, and what the page permits
    #[command(after_long_help = examples("fetch"))]
    Fetch(FetchArgs),
    /// Check whether URLs may be fetched; requests robots.txt only
    #[command(after_long_help = examples("check"))]
    Check(CheckArgs),
    /// Explain why URLs are allowed or not, with the deciding line of robots.txt
    #[command(after_long_help = examples("explain"))]
    Explain(ExplainArgs),
    /// Find mistakes in a robots.txt, with line and column
    #[command(after_long_help = examples("lint"))]
    Lint(LintArgs),
    /// List what a robots.txt allows the crawlers that people ask about: search engines, AI training, AI
    /// answers, archives
    #[command(after_long_help = examples("agents"))]
    Agents(AgentsArgs),
    /// Say what has changed in the robots.txt of sites since the last call; made for cron
    #[command(after_long_help = examples("watch"))]
    Watch(WatchArgs),
    /// Judge whether a crawl was polite, by its WARC files: robots.txt, delays, requests to wait, what was
    /// kept
    #[command(after_long_help = examples("audit"))]
    Audit(AuditArgs),
    /// Check URLs and pace hosts for every crawler on this machine, in any language, over HTTP and JSON
    ///
    /// Runs until SIGTERM or Ctrl-C. Repeated, --agent makes several crawlers, each with rules of its own;
    /// their hosts are paced together, and a call names one of them by its first product token.
    #[cfg(feature = "serve")]
    #[command(after_long_help = examples("serve"))]
    Serve(Box<ServeArgs>),
    /// It says by which feature a build has it
    #[cfg(not(feature = "serve"))]
    #[command(hide = true, disable_help_flag = true)]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
    /// Match URLs against a robots.txt file, offline
    #[command(after_long_help = examples("match"))]
    Match(MatchArgs),
    /// Show what a robots.txt file says about uses of the content, offline
    #[command(after_long_help = examples("directives"))]
    Directives(DirectivesArgs),
    /// Show what header fields and an HTML page permit, offline
    #[command(after_long_help = examples("tags"))]
    Tags(TagsArgs),
    /// Crawl a small web that is part of this program: no options, no network needed
    Demo {
        /// Also write the report as an HTML page, with a timeline of requests per host and a table of URLs
        #[arg(long, value_name = "FILE.html")]
        report: Option<PathBuf>,
    },
    /// Make a signing key (Web Bot Auth), the directory of its public keys, and a page about the crawler
    #[command(subcommand, after_long_help = examples("identity"))]
    Identity(IdentityCall),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    Man,
}

/// What stands below the `--help` of a call, and in the manual.
pub(crate) fn examples(call: &str) -> Option<&'static str> {
    let sections = include_str!("args/examples.txt").split("== ").skip(1);
    sections
        .filter_map(|section| section.split_once('\n'))
        .find(|(name, _)| *name == call)
        .map(|(_, text)| text.trim_end())
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCall {
    /// Write a new Ed25519 key into a file that only its owner may read
    New {
        /// The file, which must not exist
        file: PathBuf,
    },
    /// Write the directory of the public keys, as served at /.well-known/http-message-signatures-directory
    Directory {
        /// A private key: PEM of PKCS #8, or a JWK (repeatable, while one key replaces another)
        #[arg(long, value_name = "FILE", required = true)]
        key: Vec<PathBuf>,
        /// Write the header fields to serve it with instead, signed for the site at URL
        #[arg(long, value_name = "URL")]
        headers: Option<Url>,
        /// Days until these signatures expire
        #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=366))]
        days: u64,
    },
    /// Send one request unsigned and one signed, and say how each was received
    Check(Box<SignedCheckArgs>),
    /// Write an HTML page about the crawler: who, why, how to stop it, its addresses
    Page(PageArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SignedCheckArgs {
    /// An https URL of the site
    #[arg(value_name = "URL")]
    pub(crate) url: Url,
    #[command(flatten)]
    pub(crate) online: Online,
}

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Product token of the crawler
    #[arg(short, long, value_name = "TOKEN", env = "ABIDE_AGENT")]
    pub(crate) agent: abide_robots::ProductToken,
    /// Where site owners reach you: a mail address or a URL
    #[arg(long)]
    pub(crate) contact: String,
    /// What the crawler is for, in a sentence or two
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// An address or network that it comes from (repeatable)
    #[arg(long, value_name = "CIDR")]
    pub(crate) network: Vec<IpNet>,
    /// Where its public keys are, if it signs its requests
    #[arg(long, value_name = "URL")]
    pub(crate) keys: Option<Url>,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct MatchArgs {
    #[command(flatten)]
    pub(crate) file: RobotsFile,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Read JSON lines from FILE or standard input, and print one for each; with --robots, a line is a URL
    /// or {"url": ...}
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with_all = ["urls", "files_from"])]
    pub(crate) batch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

/// A robots.txt in a file, read for a crawler.
#[derive(Debug, Args)]
pub(crate) struct RobotsFile {
    /// Product token of the crawler; several, with commas between, are a fallback chain: the first that
    /// robots.txt names counts. With several --agent, match compares crawlers in a table
    #[arg(short, long, value_name = "TOKEN", env = "ABIDE_AGENT")]
    #[arg(required_unless_present = "batch")]
    pub(crate) agent: Vec<String>,
    /// The robots.txt file, `-` for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    pub(crate) robots: Option<PathBuf>,
}

/// URLs from the command line and from lists.
#[derive(Debug, Clone, Args)]
pub(crate) struct Urls {
    /// URLs; `-` reads them from standard input, one per line
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Read URLs from FILE, one per line; lines that begin with # are ignored (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct DirectivesArgs {
    #[command(flatten)]
    pub(crate) file: RobotsFile,
    /// The application whose App-Directives are shown
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// JSON Lines in and out, from FILE or standard input
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with_all = ["robots", "app", "urls", "files_from"])]
    pub(crate) batch: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct TagsArgs {
    /// Product token of the crawler; rules for any of several count
    #[arg(short, long, value_name = "TOKEN", value_delimiter = ',', env = "ABIDE_AGENT")]
    #[arg(required_unless_present = "batch")]
    pub(crate) agent: Vec<String>,
    /// A response header field, such as 'Robots-Tag: *;noindex' (repeatable)
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<HeaderArg>,
    /// The response's Content-Type
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// JSON Lines in and out, from FILE or standard input
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with_all = ["headers", "html", "content_type"])]
    pub(crate) batch: Option<PathBuf>,
    /// An HTML page, `-` for standard input
    #[arg(value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Print the description of a code, such as misspelt-key, and exit
    #[arg(long, value_name = "CODE")]
    pub(crate) explain: Option<String>,
    /// How to print: text, json (the same as --json), github (annotations of a workflow) or sarif
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
    /// The least severity that fails (exit status 1): error, warning or note
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    pub(crate) fail_on: Severity,
    #[command(flatten)]
    pub(crate) online: Online,
    /// robots.txt files, `-` for standard input, or URLs of sites
    #[arg(value_name = "FILE|URL", required_unless_present = "explain")]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Github,
    Sarif,
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    #[command(flatten)]
    pub(crate) online: Online,
    /// robots.txt files, `-` for standard input, or URLs of sites
    #[arg(value_name = "FILE|URL", required = true)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Where the files of the last call are kept [default: abide/watch among the user's state]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) online: Online,
    /// URLs of the sites
    #[arg(value_name = "URL", required = true)]
    pub(crate) sites: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Product token of the crawler; several, with commas between, are a fallback chain [default: what the
    /// archive says, else the first product of each User-Agent]
    #[arg(short, long, value_name = "TOKEN")]
    pub(crate) agent: Vec<String>,
    /// Shortest time that is expected between two requests to a host; a longer Crawl-delay goes before
    /// [default: the Crawl-delay, else 1s]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// WARC files of any crawler, gzip or not, `-` for standard input; those of one crawl belong together
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: ADDRESS:PORT, or unix:PATH
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:8410")]
    pub(crate) listen: crate::serve::listen::Place,
    /// Calls must send the token in FILE, as Authorization: Bearer TOKEN; needed on addresses that are not
    /// loopback
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Maximum number of calls that wait at a time; more are refused with 429
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true, value_parser = waiting)]
    pub(crate) waiting_max: usize,
    #[command(flatten)]
    pub(crate) online: Online,
}

/// Whose rules are asked for.
#[derive(Debug, Args)]
pub(crate) struct RulesOf {
    /// Read the rules for this crawler; requests still go out under the name of --agent. Several, with
    /// commas between, are a fallback chain
    #[arg(help_heading = "Identity", long = "for", value_name = "TOKEN", value_delimiter = ',')]
    pub(crate) tokens: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) rules_of: RulesOf,
    #[command(flatten)]
    pub(crate) online: Online,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Explain with this robots.txt file instead of the site's; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) robots: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules_of: RulesOf,
    #[command(flatten)]
    pub(crate) online: Online,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    /// Write the body of the page to FILE, `-` for standard output; for one URL
    #[arg(short, long = "output", value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Maximum time for a page, from its request to the end of its body; the wait before the request does
    /// not count
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) page_timeout: Duration,
    #[command(flatten)]
    pub(crate) own_site: OwnSiteArgs,
    #[command(flatten)]
    pub(crate) online: Online,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

#[derive(Debug, Args)]
pub(crate) struct CrawlArgs {
    /// Maximum number of pages to fetch in this call
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
        value_parser = pages)]
    pub(crate) max_pages: usize,
    /// Maximum number of pages to fetch from one host in this call (repeatable; of two for one host, the
    /// last counts)
    #[arg(long, value_name = "HOST=N", value_parser = of_host("N", pages))]
    pub(crate) host_max_pages: Vec<(abide::Host, usize)>,
    /// Maximum time for a page, from its request to the end of its body; the wait before the request does
    /// not count
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) page_timeout: Duration,
    /// Maximum link depth from the URLs given [default: unlimited]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = links)]
    pub(crate) max_depth: Option<u32>,
    /// Longest backoff of a host to wait for beyond --max-wait; if it is longer, the URLs of the host are
    /// left
    // A `Retry-After: 300`, as many servers send it, may last a tenth longer.
    #[arg(long, value_name = "TIME", default_value = "6m", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) max_hold: Duration,
    /// Also fail (exit status 1) on pages of these kinds, for link checkers: denied, 4xx, 5xx
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,
    /// Also fetch the URLs in the sites' sitemaps; with --max-depth 0, only these and the URLs given
    #[arg(long)]
    pub(crate) sitemaps: bool,
    /// Follow links that the site asks not to follow; robots.txt still applies
    #[arg(long)]
    pub(crate) ignore_nofollow: bool,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(flatten)]
    pub(crate) own_site: OwnSiteArgs,
    #[command(flatten)]
    pub(crate) warc: WarcArgs,
    /// Start again instead of resuming an interrupted crawl of these URLs (with --store redb:PATH)
    #[arg(long)]
    pub(crate) restart: bool,
    /// List only the pages that have changed since the last crawl with this store, or are new (with --store
    /// redb:PATH)
    #[arg(long)]
    pub(crate) changed: bool,
    /// Keep the pages in DIR, with an index.jsonl
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// Also write a row per URL, for spreadsheets: url, kind, status, outcome, noindex, ms, bytes,
    /// final_url, why, changed, time, linked_from
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write the report as an HTML page, with a timeline of requests per host and a table of URLs
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) online: Online,
    #[command(flatten)]
    pub(crate) urls: Urls,
}

/// What one may do on one's own site.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OwnSiteArgs {
    /// Send this name and password (HTTP Basic) to the hosts of the URLs given
    #[arg(help_heading = "Your own site", short, long, value_name = "NAME:PASSWORD", value_parser = user)]
    pub(crate) user: Option<User>,
    /// Ignore the robots.txt of ORIGIN, such as https://staging.example.org, for the reason of --why; the
    /// delay stays (repeatable)
    #[arg(help_heading = "Your own site", long, value_name = "ORIGIN", requires = "why", value_parser = origin)]
    pub(crate) danger_ignore_robots: Vec<Url>,
    /// Why robots.txt is ignored, for the log
    #[arg(help_heading = "Your own site", long, value_name = "TEXT", requires = "danger_ignore_robots")]
    pub(crate) why: Option<String>,
}

/// `NAME:PASSWORD`.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("User")
    }
}

fn user(text: &str) -> Result<User, String> {
    // What may be a password is not repeated.
    let (name, password) = text.split_once(':').ok_or("expected NAME:PASSWORD, found no colon")?;
    Ok(User { name: name.to_owned(), password: password.to_owned() })
}

fn origin(text: &str) -> Result<Url, String> {
    let expected = || format!("expected an origin such as https://example.org, found {}", quoted(text));
    let url = crate::input::absolute_url(text).map_err(|_| expected())?;
    let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let has_user = !url.username().is_empty() || url.password().is_some();
    if is_origin && !has_user { Ok(url) } else { Err(expected()) }
}

/// Which part of the sites is crawled.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ScopeArgs {
    /// Follow only links that begin with URL, www. and the scheme aside (repeatable: with one of them)
    #[arg(long, value_name = "URL", help_heading = "Scope", value_parser = crate::input::absolute_url)]
    pub(crate) prefix: Vec<Url>,
    /// Follow only links whose path and query match GLOB: * is anything within a segment, ** anything; a
    /// glob that does not begin with / begins at any segment (repeatable)
    #[arg(long, value_name = "GLOB", help_heading = "Scope")]
    pub(crate) include: Vec<Glob>,
    /// Do not follow links whose path and query match GLOB (repeatable; goes before --include). The URLs
    /// given are always fetched
    #[arg(long, value_name = "GLOB", help_heading = "Scope")]
    pub(crate) exclude: Vec<Glob>,
    /// Also crawl the subdomains of the sites given; those of https://www.example.org/ are those of
    /// example.org
    #[arg(long, help_heading = "Scope")]
    pub(crate) subdomains: bool,
    /// Crawl another site if a URL given redirects there
    #[arg(long, help_heading = "Scope")]
    pub(crate) follow_start: bool,
    /// Also check the images, styles and scripts of the pages: HEAD, and GET where that is answered with an
    /// error
    #[arg(long, help_heading = "Scope")]
    pub(crate) assets: bool,
    /// Also check links (and with --assets images, styles and scripts) that lead to other hosts, each by its
    /// robots.txt and delay; they are not followed, and do not count towards --max-pages
    #[arg(long, help_heading = "Scope")]
    pub(crate) external: bool,
}

/// The archive of a crawl.
#[derive(Debug, Clone, Args)]
pub(crate) struct WarcArgs {
    /// Write all requests and responses, and the decision on every URL, to FILE (WARC/1.1); one that is
    /// there, of a crawl of the same URLs, is appended to
    #[arg(long, value_name = "FILE.warc.gz", help_heading = "Archive")]
    pub(crate) warc: Option<PathBuf>,
    /// Go on in another, numbered file when one has this size: in bytes, or as 500MB
    #[arg(long, value_name = "SIZE", default_value = "1GB", help_heading = "Archive", value_parser = size)]
    pub(crate) warc_size: u64,
    /// Also keep the bodies of pages that ask not to be archived (noarchive)
    #[arg(long, help_heading = "Archive", requires = "warc")]
    pub(crate) keep_noarchive: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Output {
    /// Print one JSON object per line
    #[arg(short, long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print more: a line per page of a crawl, the header fields of a fetch
    #[arg(short, long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Print errors and results only: no progress, no notes; -qq: of check, explain, fetch, crawl, lint,
    /// match and watch only results that make the exit status 1, so that cron is quiet as long as all is well
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: u8,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) color: ColorChoice,
}

/// What every call that goes online understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Online {
    /// Product token of the crawler; several, with commas between, are a fallback chain: the first that
    /// robots.txt names counts
    #[arg(help_heading = "Identity", short, long, value_name = "TOKEN")]
    #[arg(env = "ABIDE_AGENT", default_value = "abide")]
    pub(crate) agent: Vec<String>,
    /// The crawlers whose rules are read, if that is not this one.
    #[arg(skip)]
    pub(crate) rules_of: Vec<String>,
    /// The User-Agent; must contain the product token [default: TOKEN/VERSION]
    #[arg(help_heading = "Identity", short = 'A', long, value_name = "TEXT", env = "ABIDE_USER_AGENT")]
    pub(crate) user_agent: Option<String>,
    /// Sign https requests with this private key (Web Bot Auth): PEM of PKCS #8, or a JWK; abide identity
    /// makes one [default: nothing is signed]
    #[arg(help_heading = "Identity", long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The https URL of the public key, sent as Signature-Agent; with --key
    #[arg(help_heading = "Identity", long, value_name = "URL")]
    pub(crate) signature_agent: Option<String>,
    /// Send this header field with pages, not with robots.txt (repeatable)
    #[arg(help_heading = "Network", short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<HeaderArg>,
    /// Send requests through this proxy (http, https, socks5 or socks5h) instead of that of HTTP_PROXY and
    /// HTTPS_PROXY; requests to hosts of NO_PROXY are sent directly
    #[arg(help_heading = "Network", short = 'x', long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// Send requests to these hosts directly, instead of those of NO_PROXY; `*` is all
    #[arg(help_heading = "Network", long = "noproxy", value_name = "HOSTS")]
    pub(crate) no_proxy: Option<String>,
    /// Delay for one host, longer or shorter than --delay (repeatable; of two for one host, the last counts)
    #[arg(help_heading = "Pace and state", long, value_name = "HOST=TIME", value_parser = of_host("TIME", duration))]
    pub(crate) host_delay: Vec<(abide::Host, Duration)>,
    /// Shortest time between two requests to a host, in seconds or as 500ms
    #[arg(help_heading = "Pace and state", short = 'd', long, value_name = "TIME", default_value = DELAY.as_str(), value_parser = duration, allow_hyphen_values = true)]
    pub(crate) delay: Duration,
    /// Longest wait of a call for its permits, all redirects together, before a URL is deferred
    #[arg(help_heading = "Pace and state", long, value_name = "TIME", default_value = "30s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) max_wait: Duration,
    /// So many refusals in a row (401, 403, 405, 406, 410) hold a host for an hour; of challenges and block
    /// pages that are recognised 5 are enough
    #[arg(help_heading = "Pace and state", long, value_name = "N", default_value_t = abide::pacing::PacePolicy::REFUSALS_MAX, allow_negative_numbers = true, value_parser = refusals)]
    pub(crate) refusals: u32,
    /// Go by the status alone: challenges and block pages of firewalls are not recognised
    #[arg(help_heading = "Network", long)]
    pub(crate) trust_status: bool,
    /// Maximum time for a robots.txt, all redirects together
    #[arg(help_heading = "Network", long, value_name = "TIME", default_value = "30s", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) timeout: Duration,
    /// Allow addresses of this network although they are not public (repeatable)
    #[arg(help_heading = "Network", long, value_name = "CIDR", value_parser = network)]
    pub(crate) allow_net: Vec<IpNet>,
    /// The address of a name, as in curl; the name may be `*`, and the address may have a port (repeatable)
    #[arg(help_heading = "Network", long, value_name = "HOST:PORT:ADDR", value_parser = resolve)]
    pub(crate) resolve: Vec<ResolveArg>,
    /// Also fetch the /.well-known/tdmrep.json of each site before its first page; what it reserves is among
    /// the preferences
    #[arg(help_heading = "Network", long)]
    pub(crate) tdmrep: bool,
    /// What the pages are for: train-ai, ai-input, search, tdm or other:LABEL. A URL for which robots.txt
    /// (or, with --tdmrep, the tdmrep.json) disallows that is denied
    #[arg(help_heading = "Identity", long, value_name = "USE", value_parser = purpose)]
    pub(crate) purpose: Option<Usage>,
    /// Where robots.txt, leases, backoffs and permissions are kept: memory, redb:PATH (kept between calls,
    /// one process at a time), redis://HOST (for several processes, Redis or Valkey; also
    /// redis+cluster://HOST,... and redis+sentinel://HOST,.../NAME) or postgres://HOST/DATABASE (the same,
    /// PostgreSQL)
    #[arg(help_heading = "Pace and state", long, value_name = "STORE", default_value = "memory", value_parser = store)]
    pub(crate) store: StoreArg,
    /// What is sent while a Redis or PostgreSQL store is away: defer (nothing to hosts that this process has
    /// not leased), continue:N (also to others, at the delay times N, for N processes) or stop (nothing
    /// without a lease that has not ended)
    #[arg(help_heading = "Pace and state", long, value_name = "WHAT", default_value = "defer", value_parser = on_store_outage)]
    pub(crate) on_store_outage: OnStoreOutage,
    /// Certificate authorities to trust instead of the system's, PEM, as in curl
    #[arg(help_heading = "Network", long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Maximum number of concurrent requests, over all hosts; a host gets one at a time
    #[arg(help_heading = "Pace and state", long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = requests)]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Online {
    /// The product tokens, one behind the other.
    pub(crate) fn tokens(&self) -> Vec<String> {
        chain(&self.agent)
    }

    /// Each `--agent` as a crawler of its own.
    #[cfg(feature = "serve")]
    pub(crate) fn crawlers(&self) -> Vec<Self> {
        self.agent.iter().map(|chain| Self { agent: vec![chain.clone()], ..self.clone() }).collect()
    }

    /// The same, with the rules for these crawlers.
    pub(crate) fn with_rules_of(&self, rules_of: &RulesOf) -> Self {
        Self { rules_of: rules_of.tokens.clone(), ..self.clone() }
    }
}

/// The library's default, as a text that [`duration`] reads.
static DELAY: LazyLock<String> = LazyLock::new(|| format!("{}s", PacePolicy::DELAY.as_secs_f64()));

/// What makes a crawl fail beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Denied,
    #[value(name = "4xx")]
    ClientErrors,
    #[value(name = "5xx")]
    ServerErrors,
}

/// `Name: value`.
#[derive(Debug, Clone)]
pub(crate) struct HeaderArg {
    pub(crate) name: http::HeaderName,
    pub(crate) value: String,
}

impl HeaderArg {
    /// As it is sent, except those that have options of their own.
    pub(crate) fn field(&self) -> Result<(http::HeaderName, http::HeaderValue), String> {
        let name = &self.name;
        if *name == http::header::USER_AGENT {
            // It must contain the product token (RFC 9309 §2.2.1), which only that option checks.
            return Err("the User-Agent is set by --user-agent".to_owned());
        }
        if *name == http::header::HOST {
            return Err("the Host is that of the URL; --resolve says where it leads".to_owned());
        }
        let value = http::HeaderValue::from_str(&self.value)
            .map_err(|_| format!("the value of {name} contains control characters"))?;
        Ok((name.clone(), value))
    }
}

fn header(text: &str) -> Result<HeaderArg, String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value', found no colon")?;
    let name = name.trim().parse().map_err(|_| format!("{} is no header field name", quoted(name.trim())))?;
    Ok(HeaderArg { name, value: value.trim().to_owned() })
}

/// `HOST:PORT:ADDR[,ADDR]...`; the host may be `*`, an IPv6 address may stand in brackets.
///
/// More than curl: an address may have a port (`127.0.0.1:8080`, `[::1]:8080`), which URLs without one are
/// asked at.
#[derive(Debug, Clone)]
pub(crate) struct ResolveArg {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Port 0: that of the URL.
    pub(crate) addresses: Vec<SocketAddr>,
}

fn resolve(text: &str) -> Result<ResolveArg, String> {
    // curl's mark of an entry that expires; here each lasts for the call.
    let text = text.strip_prefix('+').unwrap_or(text);
    let expected = || "expected HOST:PORT:ADDR".to_owned();
    if text.contains('@') {
        // No part of what may be a password is repeated.
        return Err(expected());
    }
    // The colons in brackets are those of an address.
    let brackets = if text.starts_with('[') { text.find(']').ok_or_else(expected)? } else { 0 };
    let (in_brackets, rest) = text.split_at(brackets);
    let (name, rest) = rest.split_once(':').ok_or_else(expected)?;
    let (host, _) = text.split_at(in_brackets.len() + name.len());
    let (port, addresses) = rest.split_once(':').ok_or_else(expected)?;
    let port: u16 = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    let host = canonical_host(host)?;
    let addresses: Result<Vec<_>, String> = addresses.split(',').map(address).collect();
    Ok(ResolveArg { host, port, addresses: addresses? })
}

/// The name as it stands in a parsed URL.
fn canonical_host(host: &str) -> Result<String, String> {
    if host == "*" {
        return Ok(host.to_owned());
    }
    let url = Url::parse(&format!("http://{host}/")).map_err(|_| format!("{host:?} is no host name"))?;
    match url.host() {
        Some(Host::Domain(name)) => Ok(name.strip_suffix('.').unwrap_or(name).to_owned()),
        _ => Err(format!("{host:?} is an address already, which leads nowhere else")),
    }
}

/// An address; one of IPv6 alone or in brackets; either with a port behind it.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let alone = match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::from),
        None => text.parse(),
    };
    let with_port = |_| text.parse();
    alone.map(|address| SocketAddr::new(address, 0)).or_else(with_port).map_err(|_| {
        format!("{text:?} is no IP address; write 192.0.2.1, 192.0.2.1:8080, ::1, [::1] or [::1]:8080")
    })
}

/// `memory`, `redb:PATH`, `redis://...`, `postgres://...`.
#[derive(Debug, Clone)]
pub(crate) enum StoreArg {
    Memory,
    Redb(PathBuf),
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "refused by name then"))]
    Redis(String),
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "refused by name then"))]
    Postgres(String),
}

fn store(text: &str) -> Result<StoreArg, String> {
    if text == "memory" {
        return Ok(StoreArg::Memory);
    }
    if let Some(path) = text.strip_prefix("redb:").filter(|path| !path.is_empty()) {
        return Ok(StoreArg::Redb(path.into()));
    }
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(StoreArg::Postgres(text.to_owned()));
    }
    // Whatever may hold a password is for the store to decide: what is refused here is repeated on the
    // terminal.
    if text.contains("://") || text.contains('@') {
        return Ok(StoreArg::Redis(text.to_owned()));
    }
    Err("expected memory, redb:PATH, redis://HOST or postgres://HOST/DATABASE".to_owned())
}

/// `defer`, `continue:N`, `stop`.
fn on_store_outage(text: &str) -> Result<OnStoreOutage, String> {
    let workers = text.strip_prefix("continue:").and_then(|workers| workers.parse().ok());
    match (text, workers) {
        ("defer", _) => Ok(OnStoreOutage::Defer),
        ("stop", _) => Ok(OnStoreOutage::FailClosed),
        (_, Some(workers @ 1..)) => Ok(OnStoreOutage::Continue { workers }),
        _ => Err("expected defer, stop, or continue:N with the number of processes".to_owned()),
    }
}

/// A use of content, by its label in the vocabularies.
fn purpose(text: &str) -> Result<Usage, String> {
    let known = [Usage::TrainAi, Usage::AiInput, Usage::Search, Usage::Tdm];
    match known.into_iter().find(|usage| usage.to_string() == text) {
        Some(usage) => Ok(usage),
        None => match text.strip_prefix("other:").filter(|label| !label.is_empty()) {
            Some(label) => Ok(Usage::Other(label.into())),
            None => Err("expected train-ai, ai-input, search, tdm or other:LABEL".to_owned()),
        },
    }
}

/// Seconds, with a fraction if need be, or a number with `ms`, `s`, `m` or `h`.
fn duration(text: &str) -> Result<Duration, String> {
    if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err("a time cannot be negative".to_owned());
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let none = || format!("expected a time such as 2, 0.5s or 500ms, found {}", quoted(text));
    if number.is_empty() {
        return Err(none());
    }
    let seconds_each = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("expected ms, s, m or h behind the number, found {}", quoted(other))),
    };
    let number: f64 = number.parse().map_err(|_| none())?;
    Duration::try_from_secs_f64(number * seconds_each).map_err(|_| format!("{} is too long", quoted(text)))
}

/// A time in which something can be done.
fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected more than no time".to_owned()),
        time => Ok(time),
    }
}

/// Bytes, or a number with `KB`, `MB` or `GB`: powers of ten, as of disks.
fn size(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000_u64,
        _ => return Err(format!("expected a size such as 500MB or 1GB, found {}", quoted(text))),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let size = size.filter(|size| *size > 0);
    size.ok_or_else(|| format!("expected a size such as 500MB or 1GB, found {}", quoted(text)))
}

/// Reads a host and what is set for it.
fn of_host<T>(
    what: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<(abide::Host, T), String> + Clone {
    move |text| {
        let (host, value) =
            text.rsplit_once('=').ok_or_else(|| format!("expected HOST={what}, found no ="))?;
        // Read as in a URL, so that it is the host by which requests are counted: lower case, punycode,
        // without a port.
        let host = Url::parse(&format!("http://{host}/")).ok().and_then(|url| abide::Host::of(&url).ok());
        let host = host.ok_or_else(|| format!("expected HOST={what}, found {}", quoted(text)))?;
        Ok((host, parse(value)?))
    }
}

fn pages(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|pages| *pages > 0).ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

fn links(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u32::MAX))
}

fn refusals(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 10000".to_owned())
}

#[cfg(feature = "serve")]
fn waiting(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 1000000".to_owned())
}

fn requests(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 1024".to_owned())
}

/// A network, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| format!("expected a network such as 127.0.0.0/8, found {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let times = ["0", "0.5", "2", "500ms", "1.5s", "2m", "1h"].map(|text| duration(text).unwrap());
        assert_eq!(times, [0, 500, 2000, 500, 1500, 120_000, 3_600_000].map(Duration::from_millis));
        for text in ["", "s", "-1", "1 day", "1e400", "..", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn resolve_is_as_in_curl() {
        let one = resolve("A.Example:8080:127.0.0.1").unwrap();
        assert_eq!((one.host.as_str(), one.port), ("a.example", 8080));
        assert_eq!(one.addresses, ["127.0.0.1:0".parse().unwrap()]);
        let two = resolve("*:80:[::1],10.0.0.1,[::1]:81,10.0.0.1:82,::2").unwrap();
        let expected = ["[::1]:0", "10.0.0.1:0", "[::1]:81", "10.0.0.1:82", "[::2]:0"];
        assert_eq!(two.addresses, expected.map(|text| text.parse().unwrap()));
        let curls = resolve("+a.example.:443:::1").unwrap();
        assert_eq!((curls.host.as_str(), curls.addresses), ("a.example", vec!["[::1]:0".parse().unwrap()]));
    }

    #[test]
    fn every_call_has_examples_that_are_no_wrong_usage() {
        use clap::CommandFactory;
        let command = Cli::command();
        let help = |call| Some((call, clap::Command::get_after_long_help(call)?.to_string()));
        let calls: Vec<_> = command.get_subcommands().filter_map(help).collect();
        assert_eq!(calls.len(), 12 + usize::from(cfg!(feature = "serve")));
        for (call, help) in calls {
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(help.starts_with("Exit status: 0") && !examples.is_empty(), "{help}");
            for example in examples {
                assert!(example.len() <= 98, "wrapped, it is two commands: {example}");
                // What stands in single quotes is one word.
                let parts = example.split('\'').enumerate();
                let words = parts.flat_map(|(number, part)| match number % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                });
                // The rest of the line is the shell's.
                let words: Vec<&str> = words.take_while(|word| *word != ">").collect();
                assert_eq!(words[..2], ["abide", call.get_name()]);
                Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }
}
