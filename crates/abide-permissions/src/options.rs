//! What a reading needs to know: for whom, and within which limits.

use std::sync::Arc;

use abide_robots::ProductToken;

/// For whom the rules are read, and within which limits. Cheap to clone.
///
/// The tokens are a chain such as `ExampleBot-News`, `ExampleBot`. *Every* token of it counts: rules for any of them
/// apply, as do the rules for everybody.
///
/// ```
/// use abide_permissions::ReadOptions;
///
/// let options = ReadOptions::new("ExampleBot".parse()?).with_field_limit(8192)?;
/// assert!(options.with_field_limit(8191).is_err(), "the draft asks for at least 8 KiB");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    tokens: Arc<[ProductToken]>,
    field_limit: usize,
    content_limit: usize,
    head_limit: usize,
    memory_limit: usize,
    strict_sf: bool,
    meta_scope: MetaScope,
    unknown_is_permitted: bool,
}

impl ReadOptions {
    /// Reads for one product token, within the default limits.
    #[must_use]
    pub fn new(token: ProductToken) -> Self {
        Self::for_tokens([token])
    }

    /// Reads for every token of a chain. Without any token only the rules for everybody apply.
    #[must_use]
    pub fn for_tokens(tokens: impl IntoIterator<Item = ProductToken>) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
            field_limit: FIELD_LIMIT,
            content_limit: FIELD_LIMIT,
            head_limit: HEAD_LIMIT,
            memory_limit: MEMORY_LIMIT,
            strict_sf: false,
            meta_scope: MetaScope::Head,
            unknown_is_permitted: false,
        }
    }

    /// The same limits and choices for other tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: impl IntoIterator<Item = ProductToken>) -> Self {
        self.tokens = tokens.into_iter().collect();
        self
    }

    /// Bytes of one field, over all its lines, that are read. Default 16 KiB, at least 8 KiB
    /// (draft-illyes-repext-03 §3.1.1: "The parsing limit MUST be at least 8 kibibytes").
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_field_limit(mut self, bytes: usize) -> Result<Self, LimitTooSmall> {
        self.field_limit = at_least(bytes, FIELD_LIMIT_MIN, "field")?;
        Ok(self)
    }

    /// Bytes of one meta's `content` that are read. Default 16 KiB, at least 8 KiB.
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_content_limit(mut self, bytes: usize) -> Result<Self, LimitTooSmall> {
        self.content_limit = at_least(bytes, FIELD_LIMIT_MIN, "content")?;
        Ok(self)
    }

    /// Bytes of HTML that are looked at, after content decoding. Default 512 KiB, at least 8 KiB.
    ///
    /// # Errors
    /// When the limit is below 8192.
    pub fn with_head_limit(mut self, bytes: usize) -> Result<Self, LimitTooSmall> {
        self.head_limit = at_least(bytes, FIELD_LIMIT_MIN, "head")?;
        Ok(self)
    }

    /// Bytes of memory that the HTML scan may use. Default 1 MiB, at least 16 KiB: above the buffer that is allocated
    /// in advance, and a slice of input.
    ///
    /// # Errors
    /// When the limit is below 16,384.
    pub fn with_memory_limit(mut self, bytes: usize) -> Result<Self, LimitTooSmall> {
        self.memory_limit = at_least(bytes, MEMORY_LIMIT_MIN, "memory")?;
        Ok(self)
    }

    /// Reads `Robots-Tag` strictly by RFC 9651: one bad member voids the whole field unless the field is over the limit,
    /// names are lower-case only, and there is no legacy reading. Off by default, since it loses restrictions that a
    /// publisher meant. `X-Robots-Tag` is not concerned.
    #[must_use]
    pub const fn with_strict_sf(mut self, strict: bool) -> Self {
        self.strict_sf = strict;
        self
    }

    /// Where in a document metas count. The default is the head.
    #[must_use]
    pub const fn with_meta_scope(mut self, scope: MetaScope) -> Self {
        self.meta_scope = scope;
        self
    }

    /// Whether what is unknown counts as permitted in `may_index()` and the other answers of
    /// [`Permissions`](crate::Permissions), whatever the reason: a limit, a body that is still coded or was not looked at, a
    /// 304 without a record. Off by default.
    ///
    /// With it a `noindex` that could not be read is not obeyed. [`Permissions::noindex_known`](crate::Permissions::noindex_known)
    /// tells unknown from permitted without it.
    #[must_use]
    pub const fn danger_unknown_is_permitted(mut self, is_permitted: bool) -> Self {
        self.unknown_is_permitted = is_permitted;
        self
    }

    /// The chain of tokens.
    #[must_use]
    pub fn tokens(&self) -> &[ProductToken] {
        &self.tokens
    }

    /// Bytes of one field that are read.
    #[must_use]
    pub const fn field_limit(&self) -> usize {
        self.field_limit
    }

    /// Bytes of one meta's `content` that are read.
    #[must_use]
    pub const fn content_limit(&self) -> usize {
        self.content_limit
    }

    /// Bytes of HTML that are looked at.
    #[must_use]
    pub const fn head_limit(&self) -> usize {
        self.head_limit
    }

    /// Bytes of memory that the HTML scan may use.
    #[must_use]
    pub const fn memory_limit(&self) -> usize {
        self.memory_limit
    }

    /// Whether `Robots-Tag` is read strictly by RFC 9651.
    #[must_use]
    pub const fn is_strict_sf(&self) -> bool {
        self.strict_sf
    }

    /// Where in a document metas count.
    #[must_use]
    pub const fn meta_scope(&self) -> MetaScope {
        self.meta_scope
    }

    /// Whether what is unknown counts as permitted.
    #[must_use]
    pub const fn is_unknown_permitted(&self) -> bool {
        self.unknown_is_permitted
    }

    /// Whether the name of a meta, or the text before a colon, is one of ours or everybody's as `global` has it.
    pub(crate) fn names_us(&self, name: &[u8], global: &[&[u8]]) -> bool {
        global.iter().any(|everybody| name.eq_ignore_ascii_case(everybody))
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

    /// Whether rules for this token of a field bind us: ours, or everybody's (`*`, and `robots` as a whole, X11).
    pub(crate) fn token_binds_us(&self, text: &[u8]) -> bool {
        text == b"*" || text.eq_ignore_ascii_case(b"robots") || self.token_is_ours(text)
    }
}

/// RFC 9309 §2.2.1: `[A-Za-z_-]`.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-'
}

/// Where in a document metas count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetaScope {
    /// In the head element only, as draft-illyes-repext-03 §4 recommends: others may be able to write into the body.
    #[default]
    Head,
    /// Everywhere up to the limit, as Google does. The scan then reads on after the head.
    Document,
}

/// The limit is smaller than the specification, or the scanner, can do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a {what} limit of at least {at_least} bytes, found {found}")]
pub struct LimitTooSmall {
    what: &'static str,
    at_least: usize,
    found: usize,
}

fn at_least(found: usize, at_least: usize, what: &'static str) -> Result<usize, LimitTooSmall> {
    if found < at_least { Err(LimitTooSmall { what, at_least, found }) } else { Ok(found) }
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
