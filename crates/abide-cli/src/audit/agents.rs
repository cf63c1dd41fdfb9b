//! Whose crawl a file is of: the product tokens by which its requests are judged.
//!
//! A file may hold the requests of several crawlers, as that of a recording proxy does, so each request is
//! judged by its own `User-Agent`. What the file says of its crawler counts where a request says nothing.

use std::collections::HashMap;
use std::sync::Arc;

use abide_permissions::ProductToken;

pub(super) type Tokens = Arc<[ProductToken]>;

pub(super) struct Agents {
    /// Of `--agent`: for all files.
    given: Option<Tokens>,
    files: HashMap<usize, FileAgent>,
}

#[derive(Debug, Default)]
struct FileAgent {
    /// By which robots.txt was read, as an archive of abide says.
    stated: Option<Tokens>,
    /// Of requests that have no `User-Agent`.
    usual: Tokens,
    /// Of the last request.
    last: Tokens,
}

impl Agents {
    pub(super) fn new(given: Option<Vec<ProductToken>>) -> Self {
        Self { given: given.map(Arc::from), files: HashMap::new() }
    }

    /// The text of a `warcinfo` record.
    pub(super) fn info(&mut self, file: usize, text: &str) {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let agent = self.files.entry(file).or_default();
        if let Some(chain) = field("abide-agent") {
            let tokens: Tokens =
                chain.split(',').filter_map(|token| ProductToken::lenient(token).ok()).collect();
            (agent.stated, agent.usual) = (Some(Arc::clone(&tokens)), tokens);
        } else if let Some(name) = field("http-header-user-agent") {
            agent.usual = first_product(name);
        }
        agent.last = Arc::clone(&agent.usual);
    }

    /// A request, and the tokens by which it is judged.
    pub(super) fn request(&mut self, file: usize, user_agent: Option<&str>) -> Tokens {
        let agent = self.files.entry(file).or_default();
        agent.last = match (user_agent, &agent.stated) {
            (None, _) => Arc::clone(&agent.usual),
            // What a file says of itself must be borne out by what was sent.
            (Some(name), Some(stated)) if is_named(stated, name) => Arc::clone(stated),
            (Some(name), _) => first_product(name),
        };
        self.tokens(file)
    }

    /// Those of the last request of a file.
    pub(super) fn tokens(&self, file: usize) -> Tokens {
        let of_file = || self.files.get(&file).map(|agent| Arc::clone(&agent.last));
        self.given.clone().or_else(of_file).unwrap_or_default()
    }
}

/// Whether a `User-Agent` contains one of the tokens.
fn is_named(tokens: &[ProductToken], user_agent: &str) -> bool {
    let user_agent = user_agent.to_ascii_lowercase();
    tokens.iter().any(|token| user_agent.contains(&token.as_str().to_ascii_lowercase()))
}

/// `ExampleBot` of `ExampleBot/1.0 (+https://example.com/bot)`.
fn first_product(agent: &str) -> Tokens {
    let first = agent.split(|letter: char| letter == '/' || letter.is_whitespace()).next();
    first.and_then(|first| ProductToken::lenient(first).ok()).into_iter().collect()
}
