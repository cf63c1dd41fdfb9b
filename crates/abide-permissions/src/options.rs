//! `ReadOptions`: for whom rules are read, within which limits, and what is assumed where nothing is stated.
//!
//! Every reading takes them as an argument: a response, a head, and a record that was kept.

use std::sync::Arc;
use std::time::Duration;

use abide_robots::ProductToken;

use crate::error::PermissionError;
use crate::preference::Usage;

/// The product tokens that rules are read for, and the limits of reading. Cheap to clone.
///
/// The tokens are a chain such as `ExampleBot-News`, `ExampleBot`. The rules for *every* token of it apply,
/// and so do the rules for all crawlers.
///
/// ```
/// use abide_permissions::ReadOptions;
///
/// let options = ReadOptions::new("ExampleBot".parse()?).with_field_limit(8192)?;
/// assert!(options.with_field_limit(8191).is_err(), "the draft asks for at least 8 KiB");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadOptions {
    tokens: Arc<[ProductToken]>,
    field_limit: usize,
    pub(crate) content_limit: usize,
    head_limit: usize,
    pub(crate) memory_limit: usize,
    body_metas: bool,
    whole_document: bool,
    pub(crate) heuristic_percent: u32,
    pub(crate) default_ttl: Duration,
    pub(crate) unknown_is_permitted: bool,
    pub(crate) preferences: PreferenceOptions,
}

/// How preferences are read. Cheap to clone, so that they keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreferenceOptions {
    pub(crate) strict: bool,
    pub(crate) unites_signals: bool,
    policies: Option<Arc<[PolicyToken]>>,
}

impl PreferenceOptions {
    /// The token of training, and those that were added.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyToken> {
        let training = ProductToken::new(AI_TRAINING_TOKEN).ok();
        let training = training.map(|token| PolicyToken { token, usage: Usage::TrainAi, fallback: false });
        training.into_iter().chain(self.policies.iter().flat_map(|added| added.iter().cloned()))
    }
}

/// The token of a group that says what may be used to train models
/// (draft-kelley-aipref-training-preference-signal-00). What it disallows is disallowed for training; what it
/// allows is not stated.
pub const AI_TRAINING_TOKEN: &str = "__usage_ai-training";

/// A token whose group states a preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyToken {
    pub(crate) token: ProductToken,
    pub(crate) usage: Usage,
    /// Whether the `*` group counts where no group names the token.
    pub(crate) fallback: bool,
}

impl ReadOptions {
    /// Reads for one product token, within the default limits.
    pub fn new(token: ProductToken) -> Self {
        Self::for_tokens([token])
    }

    /// Reads for every token of a chain. Without a token, only the rules for all crawlers apply.
    pub fn for_tokens(tokens: impl IntoIterator<Item = ProductToken>) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
            field_limit: FIELD_LIMIT,
            content_limit: FIELD_LIMIT,
            head_limit: HEAD_LIMIT,
            memory_limit: MEMORY_LIMIT,
            body_metas: false,
            whole_document: false,
            heuristic_percent: 10,
            default_ttl: Duration::ZERO,
            unknown_is_permitted: false,
            preferences: PreferenceOptions::default(),
        }
    }

    /// Replaces the tokens.
    pub fn with_tokens(mut self, tokens: impl IntoIterator<Item = ProductToken>) -> Self {
        self.tokens = tokens.into_iter().collect();
        self
    }

    /// Bytes of one field, over all its lines, that are read. Default 16 KiB, at least 8 KiB
    /// (draft-illyes-repext-03 §3.1.1: "The parsing limit MUST be at least 8 kibibytes").
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_field_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {
        self.field_limit = PermissionError::unless_at_least(FIELD_LIMIT_MIN, bytes, "field")?;
        Ok(self)
    }

    /// Bytes of one meta's `content` that are read. Default 16 KiB, at least 8 KiB.
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_content_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {
        self.content_limit = PermissionError::unless_at_least(FIELD_LIMIT_MIN, bytes, "content")?;
        Ok(self)
    }

    /// Bytes of HTML that are read, after content decoding: of the head, or with
    /// [`with_whole_document`](Self::with_whole_document) of the document. Default 512 KiB, at least 8 KiB.
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_head_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {
        self.head_limit = PermissionError::unless_at_least(FIELD_LIMIT_MIN, bytes, "head")?;
        Ok(self)
    }

    /// Bytes of memory that the HTML scan may use. Default 1 MiB, at least 16 KiB: above the buffer that is
    /// allocated in advance, and a slice of input.
    ///
    /// # Errors
    /// When the limit is below 16,384.
    pub fn with_memory_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {
        self.memory_limit = PermissionError::unless_at_least(MEMORY_LIMIT_MIN, bytes, "memory")?;
        Ok(self)
    }

    /// Reads `Robots-Tag` strictly by RFC 9651: one bad member makes the whole field void unless the field is
    /// over the limit, names are lower-case only, and there is no legacy reading. What is invalid in a
    /// Content-Usage, Content-Signal or reservation then states nothing, and is not unknown either. Off by
    /// default, because it loses restrictions that a publisher meant. `X-Robots-Tag` is not affected.
    pub const fn with_strict_sf(mut self, strict: bool) -> Self {
        self.preferences.strict = strict;
        self
    }

    /// Whether metas in the body count too, up to the limit, as they do for Google. Off by default, because
    /// others than the publisher may be able to write into the body (draft-illyes-repext-03 §4).
    pub const fn with_body_metas(mut self, count: bool) -> Self {
        self.body_metas = count;
        self
    }

    /// Whether the scan goes on behind the head, to the [limit on bytes](Self::with_head_limit): a robots
    /// meta for us out there, where no standard puts one and some search engines read it, makes the questions
    /// that it is about unknown. Frameworks that stream write metas into the body (Next.js since 15.2, for
    /// pages that are not found too), and a notice or a byte order mark in front of the document pushes those
    /// of its head there.
    ///
    /// Off by default: a response is then ready when its head is, and only what has arrived together with the
    /// end of the head is searched. With it, a call waits for the body, up to the limit (with a lazy scan,
    /// the reader reads it). The limit, or a body that breaks off, leaves a head known that was read to its
    /// end.
    pub const fn with_whole_document(mut self, scan: bool) -> Self {
        self.whole_document = scan;
        self
    }

    /// Whether the Content-Signal records of the `*` group count too if a group names the crawler; the most
    /// restrictive counts. Off by default, because by RFC 9309 §2.2.1 the `*` group does not apply then. Turn
    /// it on if you assume that a site with `ai-train=no` for all crawlers did not mean to except those that
    /// it has rules for.
    pub const fn with_signals_united(mut self, unite: bool) -> Self {
        self.preferences.unites_signals = unite;
        self
    }

    /// Adds a *policy token*: a site states a preference on `usage` by an ordinary group of robots.txt whose
    /// user-agent line names the token (draft-kelley-aipref-training-preference-signal). If that group
    /// disallows the URL, the usage is disallowed; it never decides whether the URL is fetched. With
    /// `fallback`, the `*` group counts if no group names the token. [`AI_TRAINING_TOKEN`] is always read.
    pub fn with_policy_token(mut self, token: ProductToken, usage: Usage, fallback: bool) -> Self {
        let added = [PolicyToken { token, usage, fallback }];
        let known = self.preferences.policies.iter().flat_map(|known| known.iter().cloned());
        self.preferences.policies = Some(known.chain(added).collect());
        self
    }

    /// The percentage of the time since `Last-Modified` for which a response counts as fresh. Default 10, as
    /// in RFC 9111 §4.2.2; 0 turns the heuristic off.
    pub const fn with_heuristic_percent(mut self, percent: u32) -> Self {
        self.heuristic_percent = percent;
        self
    }

    /// The planned interval between fetches, for which a response counts as fresh if nothing else is known
    /// (draft-illyes-repext-03 §3.1.4: "typically matching the scheduled recrawl frequency of the resource").
    /// Default 0: fetch again at any time.
    pub const fn with_default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// Whether unknown counts as permitted in `may_index()` and the other methods of
    /// [`Permissions`](crate::Permissions), whatever the reason: a limit, a body that is still coded or was
    /// not read, a 304 without a record. Off by default.
    ///
    /// With it, a `noindex` that could not be read is not obeyed. Without it,
    /// [`Permissions::noindex_known`](crate::Permissions::noindex_known) distinguishes unknown from
    /// forbidden.
    pub const fn danger_unknown_is_permitted(mut self, is_permitted: bool) -> Self {
        self.unknown_is_permitted = is_permitted;
        self
    }

    /// The chain of tokens.
    pub fn tokens(&self) -> &[ProductToken] {
        &self.tokens
    }

    /// Bytes of one field that are read.
    pub const fn field_limit(&self) -> usize {
        self.field_limit
    }

    /// Bytes of HTML that are read.
    pub const fn head_limit(&self) -> usize {
        self.head_limit
    }

    /// Whether the metas of the body count too.
    pub const fn has_body_metas(&self) -> bool {
        self.body_metas
    }

    /// Whether the scan goes on behind the head.
    pub const fn has_whole_document(&self) -> bool {
        self.whole_document
    }

    /// Whether the name of a meta, or the text before a colon, is one of ours, or one of those in `global`
    /// for all crawlers.
    pub(crate) fn names_us(&self, name: &[u8], global: &[&[u8]]) -> bool {
        global.iter().any(|all| name.eq_ignore_ascii_case(all))
            || self.tokens.iter().any(|token| name.eq_ignore_ascii_case(token.as_str().as_bytes()))
    }

    /// Whether the token of a field is ours. It is cut at the first character that no product token has:
    /// `ExampleBot/1.0` and `ExampleBot2` are `ExampleBot`, `ExampleBotX` and `ExampleBot-News` are not.
    pub(crate) fn token_is_ours(&self, text: &[u8]) -> bool {
        self.tokens.iter().any(|token| {
            let token = token.as_str().as_bytes();
            text.split_at_checked(token.len()).is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(token) && !rest.first().is_some_and(|byte| is_token_byte(*byte))
            })
        })
    }

    /// Whether rules for this token of a field bind us: ours, or that of all crawlers (`*`, and `robots` as a
    /// whole).
    pub(crate) fn token_binds_us(&self, text: &[u8]) -> bool {
        text == b"*" || text.eq_ignore_ascii_case(b"robots") || self.token_is_ours(text)
    }
}

/// RFC 9309 §2.2.1: `[A-Za-z_-]`.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-'
}

/// Twice what the draft asks for; no field in use comes near it.
const FIELD_LIMIT: usize = 16 * 1024;

/// draft-illyes-repext-03 §3.1.1.
const FIELD_LIMIT_MIN: usize = 8 * 1024;

/// Heads above this are inlined data; what restricts stands near the top.
const HEAD_LIMIT: usize = 512 * 1024;

/// A comment or tag is buffered whole, so this bounds the longest one.
const MEMORY_LIMIT: usize = 1024 * 1024;

/// The rewriter panics when it may use less than it allocates in advance, and must hold a slice besides.
const MEMORY_LIMIT_MIN: usize = 16 * 1024;
