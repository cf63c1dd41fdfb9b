//! What a page that was kept states about its use, in its header fields, its head, and its robots.txt.
//!
//! Read by the same code as `abide tags`, so that an audit finds what a crawl with abide would have
//! read. The head alone: what stands behind it states nothing, it only makes answers unknown.

use std::sync::Arc;

use abide_permissions::{HeadScanner, Preference, Preferences, ProductToken, ReadOptions};
use abide_robots::Target;

use super::robots::TextRules;
use crate::tags;
use crate::warc::Decision;
use crate::warc::http::Message;

/// One restriction, by the name of its rule or usage, and where it is stated.
#[derive(Debug)]
pub(super) struct Restriction {
    pub(super) name: String,
    pub(super) source: String,
}

/// The restrictions of a page. `body` has no coding; `robots` are the rules that apply, and `tdmrep` is
/// the tdmrep.json of the site.
pub(super) fn restrictions(
    tokens: &Arc<[ProductToken]>,
    message: &Message<'_>,
    body: &[u8],
    robots: Option<&mut TextRules>,
    tdmrep: Option<&[u8]>,
    target: &Target<'_>,
) -> Vec<Restriction> {
    let fields = message.fields.iter();
    let fields: Vec<(String, String)> = fields
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let options = ReadOptions::for_tokens(tokens.to_vec());
    let head = tags::scan(HeadScanner::new(&options, tags::content_type(&fields).as_deref()), body);
    let (permissions, preferences) = tags::read(&options, &fields, head, tdmrep.map(|json| (json, target)));
    let rules = permissions.statements().iter().flat_map(|(source, rules)| {
        let named = RULES.into_iter().filter(|name| rules.states(name));
        named.map(|name| Restriction { name: name.to_owned(), source: source.to_string() })
    });
    let of_site = robots.map(|text| {
        let stated = Preferences::default().with_robots(text.rules(tokens), target);
        // Read again for each page, so only where there is something to read.
        if text.has_policy_token() { stated.with_policy_tokens(text.text(), target) } else { stated }
    });
    let all = [Some(preferences), of_site];
    let preferences = all.iter().flatten().flat_map(|preferences| preferences.statements());
    let disallowed = preferences.filter(|stated| stated.preference() == Preference::Disallow);
    let disallowed = disallowed
        .map(|stated| Restriction { name: stated.usage().to_string(), source: stated.source().to_string() });
    rules.chain(disallowed).collect()
}

/// Whether a decision shows that its crawler read this.
pub(super) fn is_read(restriction: &Restriction, decision: &Decision) -> bool {
    let answer = |question: &str| {
        decision
            .answers
            .as_ref()
            .is_some_and(|answers| answers.get(question).is_some_and(|answer| answer == "no"))
    };
    match restriction.name.as_str() {
        "noindex" => answer("index"),
        "noarchive" => answer("archive"),
        name => {
            let mut stated = decision.preferences.iter();
            stated.any(|stated| stated.usage == name && stated.preference == "disallow")
        }
    }
}

/// Those that concern who keeps a page or trains with it.
const RULES: [&str; 4] = ["noindex", "noarchive", "noai", "noimageai"];
