#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {}
impl Considered {
    pub fn kind(&self) -> RuleKind {}
    pub fn pattern(&self) -> &str {}
    pub fn line(&self) -> u32 {}
    pub fn fate(&self) -> Fate {}
}
#[derive(Clone, Copy)]
pub struct DocumentRecord<'a> {}
impl<'a> DocumentRecord<'a> {
    pub fn kind(&self) -> RecordKind {}
    pub fn key(&self) -> &'a [u8] {}
    pub fn value(&self) -> &'a [u8] {}
    pub fn addresses(&self, token: Option<&ProductToken>) -> bool {}
    pub fn line(&self) -> u32 {}
    pub fn span(&self) -> Range<usize> {}
}
impl fmt::Debug for DocumentRecord<'_> {}
#[derive(Clone, Debug)]
pub struct Explanation {}
impl Explanation {
    pub fn verdict(&self) -> &Verdict {}
    pub fn rules(&self) -> &[Considered] {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    Decides,
    Shorter,
    AllowWins,
    Repeated,
    NoMatch,
    NeverMatches,
}
#[derive(Clone)]
pub struct Group<'a> {}
impl<'a> Group<'a> {
    pub fn agents(&self) -> impl Iterator<Item = &'a str> + use<'a> {}
    pub fn rules(&self) -> impl Iterator<Item = DocumentRecord<'a>> + use<'a> {}
    pub fn records(&self) -> impl Iterator<Item = DocumentRecord<'a>> + use<'a> {}
}
impl fmt::Debug for Group<'_> {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRecord {}
impl fmt::Display for InvalidRecord {}
impl core::error::Error for InvalidRecord {}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken(_);
impl fmt::Display for InvalidToken {}
impl core::error::Error for InvalidToken {}
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {}
impl Pattern {
    pub fn new(text: &[u8]) -> Self {}
    pub fn matches(&self, target: &Target<'_>) -> bool {}
    pub fn octets(&self) -> usize {}
    pub fn as_str(&self) -> &str {}
}
impl fmt::Display for Pattern {}
impl fmt::Debug for Pattern {}
#[derive(Clone)]
pub struct ProductToken(_);
impl ProductToken {
    pub fn new(text: &str) -> Result<Self, InvalidToken> {}
    pub fn lenient(text: &str) -> Result<Self, InvalidToken> {}
    pub fn as_str(&self) -> &str {}
}
impl PartialEq for ProductToken {}
impl Eq for ProductToken {}
impl Hash for ProductToken {}
impl fmt::Display for ProductToken {}
impl fmt::Debug for ProductToken {}
impl TryFrom<&str> for ProductToken {
    type Error = InvalidToken;
}
impl TryFrom<String> for ProductToken {
    type Error = InvalidToken;
}
impl FromStr for ProductToken {
    type Err = InvalidToken;
}
#[cfg(feature = "serde")]
impl serde_core::Serialize for ProductToken {}
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for ProductToken {}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    Rfc9309,
    Google,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadOptions {}
impl ReadOptions {
    pub fn new() -> Self {}
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {}
    #[must_use]
    pub fn with_limit(self, octets: usize) -> Self {}
}
impl Default for ReadOptions {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    Rule,
    NoMatch,
    NoGroup,
    RobotsTxt,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {}
impl<'a> Record<'a> {
    pub fn kind(&self) -> RecordKind {}
    pub fn name(&self) -> &'static str {}
    pub fn value(&self) -> &'a [u8] {}
    pub fn line(&self) -> u32 {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    UserAgent,
    Allow,
    Disallow,
    Sitemap,
    CrawlDelay,
    AppDirectives,
    ContentUsage,
    ContentSignal,
    License,
    RequestRate,
    VisitTime,
    Host,
    CleanParam,
    Other,
}
impl RecordKind {
    pub fn name(self) -> &'static str {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {}
impl Remark {
    pub fn kind(&self) -> RemarkKind {}
    pub fn line(&self) -> u32 {}
    pub fn columns(&self) -> Range<usize> {}
}
impl fmt::Display for Remark {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RemarkKind {
    MisspeltKey,
    MissingColon,
    UnreadableLine,
    UnknownRecord,
    OutsideGroup,
    NoToken,
    TokenCut,
    RecordInsideRun,
    NeverMatches,
    DuplicateRule,
    HiddenRule,
    OverlongLine,
    InvalidOctets,
    UnusableCrawlDelay,
    RelativeUrl,
    CutByLimit,
    Utf16,
    Html,
}
impl RemarkKind {
    pub fn as_str(self) -> &'static str {}
}
impl fmt::Display for RemarkKind {}
#[derive(Clone)]
pub struct Robots {}
impl Robots {
    pub fn parse(body: &[u8]) -> Self {}
    pub fn parse_with(body: &[u8], options: ReadOptions) -> Self {}
    pub fn rules(&self, tokens: &[ProductToken]) -> Rules {}
    pub fn verdict(&self, tokens: &[ProductToken], target: &Target<'_>) -> Verdict {}
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {}
    pub fn records(&self) -> impl Iterator<Item = DocumentRecord<'_>> {}
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {}
    pub fn licenses(&self) -> impl Iterator<Item = &str> {}
    pub fn text(&self) -> &[u8] {}
    pub fn is_cut(&self) -> bool {}
    pub fn is_utf16(&self) -> bool {}
}
impl fmt::Debug for Robots {}
impl Robots {
    pub fn explain(&self, tokens: &[ProductToken], target: &Target<'_>) -> Explanation {}
}
impl Robots {
    pub fn remarks(&self) -> Vec<Remark> {}
}
#[derive(Clone, Debug, Default)]
pub struct RobotsBuilder {}
impl RobotsBuilder {
    pub fn new() -> Self {}
    pub fn group<'a>(
        mut self,
        tokens: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidRecord> {}
    pub fn allow(self, pattern: &str) -> Result<Self, InvalidRecord> {}
    pub fn disallow(self, pattern: &str) -> Result<Self, InvalidRecord> {}
    pub fn crawl_delay(self, delay: Duration) -> Result<Self, InvalidRecord> {}
    pub fn record(mut self, name: &str, value: &str) -> Result<Self, InvalidRecord> {}
    pub fn sitemap(mut self, url: &str) -> Result<Self, InvalidRecord> {}
    pub fn build(mut self) -> String {}
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {}
impl<'a> Rule<'a> {
    pub fn kind(&self) -> RuleKind {}
    pub fn pattern(&self) -> &'a str {}
    pub fn line(&self) -> u32 {}
}
impl fmt::Display for Rule<'_> {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleKind {
    Allow,
    Disallow,
}
impl RuleKind {
    pub fn as_str(self) -> &'static str {}
}
impl fmt::Display for RuleKind {}
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rules {}
impl Rules {
    pub fn parse(body: &[u8], tokens: &[ProductToken]) -> Self {}
    pub fn parse_with(
        body: &[u8],
        tokens: &[ProductToken],
        options: ReadOptions,
    ) -> Self {}
    pub fn allow_all() -> Self {}
    pub fn disallow_all() -> Self {}
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {}
    pub fn verdict(&self, target: &Target<'_>) -> Verdict {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {}
    pub fn licenses(&self) -> impl Iterator<Item = &str> {}
    pub fn group(&self) -> impl Iterator<Item = &str> {}
    pub fn has_group(&self) -> bool {}
    pub fn is_named(&self) -> bool {}
    pub fn token(&self) -> Option<&str> {}
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn heap_size(&self) -> usize {}
}
impl fmt::Debug for Rules {}
#[derive(Clone)]
pub struct Target<'a> {}
impl<'a> Target<'a> {
    pub fn new(path_and_query: &'a str) -> Self {}
    pub fn as_str(&self) -> &str {}
}
impl<'a> From<&'a str> for Target<'a> {}
#[cfg(feature = "url")]
impl<'a> From<&'a url::Url> for Target<'a> {}
#[cfg(feature = "url")]
impl<'a> Target<'a> {
    pub fn of(url: &'a url::Url) -> Self {}
}
impl PartialEq for Target<'_> {}
impl Eq for Target<'_> {}
impl fmt::Display for Target<'_> {}
impl fmt::Debug for Target<'_> {}
#[derive(Clone, PartialEq, Eq)]
pub struct Verdict {}
impl Verdict {
    pub fn is_allowed(&self) -> bool {}
    pub fn rule(&self) -> Option<Rule<'_>> {}
    pub fn reason(&self) -> Reason {}
    pub fn group(&self) -> impl Iterator<Item = &str> {}
    pub fn is_named(&self) -> bool {}
    pub fn token(&self) -> Option<&str> {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn rules(&self) -> &Rules {}
}
impl fmt::Display for Verdict {}
impl fmt::Debug for Verdict {}
