//! Which pages, sitemaps and redirects name a URL, so that a broken link can be mended where it stands.
//!
//! A link is known long before its page is found to be broken, so this is kept of every URL. That is
//! why it is small: places in one list, and only the first few of them.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// Something that names URLs: its place in [`Referrers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Referrer(u32);

/// All that have named URLs, in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct Referrers(Vec<Box<str>>);

/// Those of one URL: the first few, and how many there are. Small, because a million URLs have one each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Referring {
    first: [Referrer; FIRST_MAX],
    count: u32,
    last: Referrer,
}

impl Referrers {
    /// That with this URL: the last one, or a new one.
    pub(crate) fn of(&mut self, url: &str) -> Referrer {
        if self.0.last().is_none_or(|last| **last != *url) {
            self.0.push(url.into());
        }
        Referrer(u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX))
    }

    /// The URLs of the first ones, and how many there are.
    pub(crate) fn names(&self, referring: &Referring) -> (Vec<String>, usize) {
        let count = usize::try_from(referring.count).unwrap_or(usize::MAX);
        let first = referring.first.iter().take(count);
        let names = first.filter_map(|Referrer(place)| self.0.get(usize::try_from(*place).ok()?));
        let names = names.filter(|name| name.len() <= NAME_LEN_MAX);
        (names.map(|name| String::from(&**name)).collect(), count)
    }
}

impl Referring {
    pub(crate) fn by(from: Option<Referrer>) -> Self {
        let mut referring = Self::default();
        referring.add(from);
        referring
    }

    /// One that names the URL twice is one: its links come one after the other.
    pub(crate) fn add(&mut self, from: Option<Referrer>) {
        let Some(from) = from.filter(|from| self.count == 0 || *from != self.last) else { return };
        if let Some(place) = usize::try_from(self.count).ok().and_then(|place| self.first.get_mut(place)) {
            *place = from;
        }
        self.count = self.count.saturating_add(1);
        self.last = from;
    }
}

/// As many are enough to find the mistake, which often stands in the frame of every page.
pub(crate) const FIRST_MAX: usize = 5;
/// A longer URL is not named: each may stand beside thousands of URLs.
const NAME_LEN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let (mut referrers, mut referring) = (Referrers::default(), Referring::by(None));
        assert_eq!(referrers.names(&referring), (vec![], 0));
        for page in ["a", "a", "b", "c", "d", "e", "f", "f", "g"] {
            let from = referrers.of(page);
            referring.add(Some(from));
        }
        let (names, count) = referrers.names(&referring);
        assert_eq!((names.join(" ").as_str(), count), ("a b c d e", 7));
    }
}
