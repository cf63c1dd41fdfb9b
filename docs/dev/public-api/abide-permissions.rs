pub use futures_core::future::BoxFuture;
pub use abide_robots::ProductToken;
#[cfg(feature = "testing")]
pub mod testing;
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {}
impl Answer {
    #[must_use]
    pub const fn preference(&self) -> Preference {}
    #[must_use]
    pub const fn is_disallowed(&self) -> bool {}
    #[must_use]
    pub fn sources(&self) -> &[Provenance] {}
}
impl fmt::Display for Answer {}
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppDirectives {}
impl AppDirectives {
    #[must_use]
    pub fn of(rules: &Rules, target: &Target<'_>) -> Self {}
    #[must_use]
    pub fn for_app(&self, app: &str) -> Option<Vec<(&str, &SfValue, &Provenance)>> {}
    #[must_use]
    pub fn get(&self, app: &str, name: &str) -> Option<&SfValue> {}
    pub fn apps(&self) -> impl Iterator<Item = &str> {}
    #[must_use]
    pub fn dropped(&self) -> &[u32] {}
}
#[derive(Clone, Debug)]
pub struct Fetched<'a> {}
impl<'a> Fetched<'a> {
    #[must_use]
    pub const fn new(
        status: u16,
        fields: &'a [(&'a str, &'a [u8])],
        head: Head,
        received_at: SystemTime,
    ) -> Self {}
    #[must_use]
    pub const fn with_request(mut self, fields: &'a [(&'a str, &'a [u8])]) -> Self {}
    #[must_use]
    pub fn with_preferences(mut self, preferences: &Preferences) -> Self {}
    #[must_use]
    pub fn is_whole_page(&self) -> bool {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {}
impl Head {
    #[must_use]
    pub const fn not_scanned(reason: HeadEnd) -> Self {}
    #[must_use]
    pub fn from_metas(metas: impl IntoIterator<Item = Meta>, end: HeadEnd) -> Self {}
    #[must_use]
    pub const fn of_part(mut self) -> Self {}
    #[must_use]
    pub fn metas(&self) -> &[Meta] {}
    #[must_use]
    pub fn noscript_metas(&self) -> &[Meta] {}
    #[must_use]
    pub const fn end(&self) -> HeadEnd {}
    #[must_use]
    pub const fn bytes(&self) -> usize {}
    #[must_use]
    pub fn noscript_cut(&self) -> bool {}
}
impl Default for Head {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeadEnd {
    Ended,
    Eof,
    ByteLimit,
    MemoryLimit,
    Interrupted,
    Malformed,
    Unclear,
    NotHtml,
    Undecoded,
    NotScanned,
}
impl HeadEnd {
    #[must_use]
    pub const fn as_str(self) -> &'static str {}
    #[must_use]
    pub const fn is_complete(self) -> bool {}
    #[must_use]
    pub const fn is_incomplete_scan(self) -> bool {}
}
impl fmt::Display for HeadEnd {}
pub struct HeadScanner {}
impl HeadScanner {
    #[must_use]
    pub fn new(options: &ReadOptions, content_type: Option<&str>) -> Self {}
    #[must_use]
    pub fn of_page(options: &ReadOptions, content_type: Option<&[u8]>) -> Option<Self> {}
    pub fn feed(&mut self, bytes: &[u8]) -> ControlFlow<()> {}
    #[must_use]
    pub fn finish(mut self) -> Head {}
    #[must_use]
    pub fn interrupt(self) -> Head {}
}
impl fmt::Debug for HeadScanner {}
#[derive(Debug)]
pub struct MemoryPermissionStore {}
impl MemoryPermissionStore {
    #[must_use]
    pub fn new(records_max: std::num::NonZeroUsize) -> Self {}
    #[must_use]
    pub fn len(&self) -> usize {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
}
impl PermissionStore for MemoryPermissionStore {}
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {}
impl Meta {
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, content: impl Into<Box<str>>) -> Self {}
    #[must_use]
    pub fn name(&self) -> &str {}
    #[must_use]
    pub fn content(&self) -> &str {}
}
#[derive(Debug, thiserror::Error)]
pub struct PermissionError(_);
impl PermissionError {
    #[must_use]
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRecord {}
impl PermissionRecord {
    #[must_use]
    pub fn new(url: impl Into<Box<str>>, visit: &Fetched<'_>) -> Self {}
    pub fn update(&mut self, visit: &Fetched<'_>) -> bool {}
    pub fn union_rendered(&mut self, metas: impl IntoIterator<Item = Meta>) {}
    pub fn forget(&mut self) {}
    #[must_use]
    pub fn rules(&self, options: &ReadOptions) -> TagRules {}
    #[must_use]
    pub fn permissions(&self, options: &ReadOptions) -> Permissions {}
    #[must_use]
    pub fn preferences(&self, options: &ReadOptions) -> Preferences {}
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {}
    #[must_use]
    pub fn fresh_until(&self, options: &ReadOptions) -> SystemTime {}
    #[must_use]
    pub fn url(&self) -> &str {}
    #[must_use]
    pub fn received_at(&self) -> SystemTime {}
    #[must_use]
    pub const fn outlives(&self, other: &Self) -> bool {}
    pub fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {}
    #[must_use]
    pub const fn head_end(&self) -> HeadEnd {}
    #[must_use]
    pub const fn metas_are_stale(&self) -> bool {}
}
pub trait PermissionStore: fmt::Debug + Send + Sync + 'static {
    fn load<'a>(
        &'a self,
        url: &'a str,
    ) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>>;
    fn save<'a>(
        &'a self,
        record: &'a PermissionRecord,
    ) -> BoxFuture<'a, Result<(), PermissionError>>;
    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>>;
}
impl PermissionStore for MemoryPermissionStore {}
#[derive(Clone, Debug, PartialEq)]
pub struct Permissions {}
impl Permissions {
    #[must_use]
    pub fn read<'a>(
        options: &ReadOptions,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        head: Head,
        received_at: SystemTime,
    ) -> Self {}
    #[must_use]
    pub fn from_headers<'a>(
        options: &ReadOptions,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {}
    #[must_use]
    pub const fn with_received_at(mut self, received_at: SystemTime) -> Self {}
    #[must_use]
    pub const fn with_missing_fields(mut self) -> Self {}
    #[must_use]
    pub fn union_rendered(mut self, options: &ReadOptions, metas: &[Meta]) -> Self {}
    #[must_use]
    pub const fn rules(&self) -> &TagRules {}
    #[must_use]
    pub fn statements(&self) -> &[(Provenance, TagRules)] {}
    #[must_use]
    pub fn warnings(&self) -> &[(Provenance, String)] {}
    #[must_use]
    pub const fn head(&self) -> &Head {}
    #[must_use]
    pub const fn head_end(&self) -> HeadEnd {}
    #[must_use]
    pub fn metas(&self) -> &[Meta] {}
    #[must_use]
    pub const fn is_truncated(&self) -> bool {}
    #[must_use]
    pub const fn received_at(&self) -> SystemTime {}
    #[must_use]
    pub const fn is_complete(&self) -> bool {}
    #[must_use]
    pub fn may_index(&self) -> bool {}
    #[must_use]
    pub fn may_index_at(&self, now: SystemTime) -> bool {}
    #[must_use]
    pub const fn may_follow(&self) -> bool {}
    #[must_use]
    pub const fn snippet_limit(&self) -> Option<u64> {}
    #[must_use]
    pub fn indexing(&self) -> Answer {}
    #[must_use]
    pub fn snippets(&self) -> Answer {}
    #[must_use]
    pub const fn noindex_known(&self) -> Option<bool> {}
}
impl Default for Permissions {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preference {
    Unknown,
    Allow,
    Disallow,
}
impl Preference {
    #[must_use]
    pub const fn as_str(self) -> Option<&'static str> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceStatement {}
impl PreferenceStatement {
    #[must_use]
    pub const fn usage(&self) -> &Usage {}
    #[must_use]
    pub const fn preference(&self) -> Preference {}
    #[must_use]
    pub const fn source(&self) -> &Provenance {}
    #[must_use]
    pub fn text(&self) -> &str {}
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {}
impl Preferences {
    #[must_use]
    pub fn with_tdm<'a>(
        mut self,
        file: Option<(&[u8], &Target<'_>)>,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        metas: &[Meta],
    ) -> Self {}
    #[must_use]
    pub fn tdm_policy(&self) -> Option<&str> {}
}
impl Preferences {
    #[must_use]
    pub fn new(options: &ReadOptions) -> Self {}
    #[must_use]
    pub fn with_robots(mut self, rules: &Rules, target: &Target<'_>) -> Self {}
    #[must_use]
    pub fn with_policy_tokens(mut self, robots_txt: &[u8], target: &Target<'_>) -> Self {}
    #[must_use]
    pub fn with_fields<'a>(
        mut self,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {}
    #[must_use]
    pub fn with_noai(mut self, permissions: &Permissions) -> Self {}
    #[must_use]
    pub fn with_statements(
        mut self,
        statements: impl IntoIterator<Item = PreferenceStatement>,
    ) -> Self {}
    #[must_use]
    pub const fn with_unread_sources(mut self) -> Self {}
    #[must_use]
    pub const fn is_complete(&self) -> bool {}
    #[must_use]
    pub fn training(&self) -> Answer {}
    #[must_use]
    pub fn input(&self) -> Answer {}
    #[must_use]
    pub fn statements(&self) -> &[PreferenceStatement] {}
    #[must_use]
    pub fn warnings(&self) -> &[(Provenance, String)] {}
    #[must_use]
    pub fn resolve(&self, usage: &Usage) -> Preference {}
    pub fn decided_by<'a>(
        &'a self,
        usage: &'a Usage,
    ) -> impl Iterator<Item = &'a PreferenceStatement> {}
    #[must_use]
    pub fn without(mut self, leave_out: impl Fn(&Provenance) -> bool) -> Self {}
    pub fn content_usage(&self) -> impl Iterator<Item = (&'static str, Preference)> {}
    pub fn content_signal(&self) -> impl Iterator<Item = (&'static str, Preference)> {}
    #[must_use]
    pub fn content_signal_use(&self) -> Option<&str> {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provenance {
    #[non_exhaustive]
    Field { name: Box<str>, line: usize, reading: Cow<'static, str>, text: Box<str> },
    #[non_exhaustive]
    Meta { index: usize, name: Box<str> },
    #[non_exhaustive]
    Noscript { index: usize, name: Box<str> },
    #[non_exhaustive]
    Rendered { index: usize, name: Box<str> },
    #[non_exhaustive]
    RobotsTxt {
        record: Box<str>,
        line: u32,
        path: Option<Box<str>>,
        group: Option<Box<str>>,
    },
    #[non_exhaustive]
    Link { index: usize },
    #[non_exhaustive]
    WellKnown { index: usize },
}
impl Provenance {
    #[must_use]
    pub const fn is_robots_txt(&self) -> bool {}
}
impl fmt::Display for Provenance {}
#[derive(Clone, Debug)]
pub struct ReadOptions {}
impl ReadOptions {
    #[must_use]
    pub fn new(token: ProductToken) -> Self {}
    #[must_use]
    pub fn for_tokens(tokens: impl IntoIterator<Item = ProductToken>) -> Self {}
    #[must_use]
    pub fn with_tokens(
        mut self,
        tokens: impl IntoIterator<Item = ProductToken>,
    ) -> Self {}
    pub fn with_field_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {}
    pub fn with_content_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {}
    pub fn with_head_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {}
    pub fn with_memory_limit(mut self, bytes: usize) -> Result<Self, PermissionError> {}
    #[must_use]
    pub const fn with_strict_sf(mut self, strict: bool) -> Self {}
    #[must_use]
    pub const fn with_body_metas(mut self, count: bool) -> Self {}
    #[must_use]
    pub const fn with_signals_united(mut self, unite: bool) -> Self {}
    #[must_use]
    pub fn with_policy_token(
        mut self,
        token: ProductToken,
        usage: Usage,
        fallback: bool,
    ) -> Self {}
    #[must_use]
    pub const fn with_heuristic_percent(mut self, percent: u32) -> Self {}
    #[must_use]
    pub const fn with_default_ttl(mut self, ttl: Duration) -> Self {}
    #[must_use]
    pub const fn danger_unknown_is_permitted(mut self, is_permitted: bool) -> Self {}
    #[must_use]
    pub fn tokens(&self) -> &[ProductToken] {}
    #[must_use]
    pub const fn field_limit(&self) -> usize {}
    #[must_use]
    pub const fn head_limit(&self) -> usize {}
    #[must_use]
    pub const fn has_body_metas(&self) -> bool {}
}
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SfValue {
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    String(String),
    Token(String),
    Date(i64),
    Bytes(Vec<u8>),
    Display(String),
}
impl SfValue {
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {}
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {}
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {}
}
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TagRules {}
impl TagRules {
    pub const FLAGS: &[&str] = Flag::NAMES;
    pub const VALUED: &[&str] = ValuedRule::NAMES;
    #[must_use]
    pub fn states(&self, name: &str) -> bool {}
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + '_ {}
    #[must_use]
    pub const fn noindex(&self) -> bool {}
    #[must_use]
    pub const fn nofollow(&self) -> bool {}
    #[must_use]
    pub const fn nosnippet(&self) -> bool {}
    #[must_use]
    pub fn max_snippet(&self) -> Option<i64> {}
    #[must_use]
    pub fn max_image_preview(&self) -> Option<&'static str> {}
    #[must_use]
    pub fn max_video_preview(&self) -> Option<i64> {}
    #[must_use]
    pub const fn unavailable_after(&self) -> Option<UnavailableAfter> {}
    pub fn unknown(&self) -> impl Iterator<Item = &str> {}
    #[must_use]
    pub fn is_empty(&self) -> bool {}
    #[must_use]
    pub const fn snippet_limit(&self) -> Option<u64> {}
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {}
}
impl fmt::Display for TagRules {}
impl fmt::Debug for TagRules {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnavailableAfter {}
impl UnavailableAfter {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {}
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {}
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {}
    #[must_use]
    pub const fn is_approximate(self) -> bool {}
    #[must_use]
    pub fn time(self) -> Option<SystemTime> {}
    #[must_use]
    pub fn has_passed(self, now: SystemTime) -> bool {}
}
impl fmt::Display for UnavailableAfter {}
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Usage {
    TrainAi,
    Search,
    AiInput,
    Tdm,
    Other(Box<str>),
}
impl fmt::Display for Usage {}
pub async fn conformance<S, F>(make: impl Fn() -> F)
where
    S: PermissionStore,
    F: Future<Output = S>,
{}
#[must_use]
pub fn is_whole<'a>(
    status: u16,
    content_ranges: impl IntoIterator<Item = &'a [u8]>,
) -> bool {}
#[must_use]
pub fn license_challenge<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<Vec<(String, String)>> {}
#[must_use]
pub fn licenses<'a>(
    rules: Option<&Rules>,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    head: Option<&Head>,
) -> Vec<(Box<str>, Provenance)> {}
#[must_use]
pub fn link_follow(rel: &str) -> bool {}
#[must_use]
pub fn reading_of(line: &[u8], options: &ReadOptions) -> &'static str {}
#[must_use]
pub fn record_problem(record: &Record<'_>) -> Option<String> {}
pub fn sample_record(url: &str, received: u64) -> PermissionRecord {}
pub async fn survives_reopening<S, F>(open: impl Fn() -> F)
where
    S: PermissionStore,
    F: Future<Output = S>,
{}
#[must_use]
pub fn write_field<'a>(
    members: impl IntoIterator<Item = (Option<&'a ProductToken>, &'a TagRules)>,
) -> Option<(&'static str, String)> {}
