//! Preferences in a page: metas named like the response fields, and words of the robots tags.
//!
//! Sites that cannot set a response field write its name into a meta, and write `noml` where they have
//! `noindex`.

use super::label::{fold, known};
use super::{CONTENT_SIGNAL, CONTENT_USAGE, Preference, Preferences, Usage};
use crate::head::Meta;
use crate::permissions::Permissions;
use crate::provenance::Provenance;

/// What a response field or a meta states by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    ContentUsage,
    ContentSignal,
    DisallowAiTraining,
    NoMl,
}

impl Carrier {
    /// Whatever joins the words of the name.
    pub(super) fn named(name: &str) -> Option<Self> {
        // Every field and every meta comes here, and nearly none has such a name.
        if !matches!(
            name.trim_ascii_start().as_bytes().first(),
            Some(b'c' | b'C' | b'd' | b'D' | b'n' | b'N')
        ) {
            return None;
        }
        match &*fold(name) {
            "contentusage" => Some(Self::ContentUsage),
            "contentsignal" | "contentsignals" => Some(Self::ContentSignal),
            "disallowaitraining" => Some(Self::DisallowAiTraining),
            "noml" => Some(Self::NoMl),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ContentUsage => CONTENT_USAGE,
            Self::ContentSignal => CONTENT_SIGNAL,
            Self::DisallowAiTraining => "DisallowAITraining",
            Self::NoMl => "noml",
        }
    }
}

/// Whether a response field of this name, in lower case, may state preferences.
pub fn states_preferences(name: &str) -> bool {
    Carrier::named(name).is_some() || name.starts_with("tdm")
}

impl Preferences {
    /// Adds what a page states besides its response fields and TDMRep: metas such as `<meta
    /// name="content-signal">`, and `noml` and `DisallowAITraining` among the words of `Robots-Tag`,
    /// `X-Robots-Tag` and the robots metas that are for us. None of these is specified for it, so what they
    /// allow does not count.
    ///
    /// ```
    /// use abide_permissions::{Permissions, Preferences, ReadOptions};
    ///
    /// let options = ReadOptions::new("ExampleBot".parse()?);
    /// let permissions = Permissions::from_headers(&options, [("X-Robots-Tag", "noindex, noml")]);
    /// assert!(Preferences::default().with_page(&permissions).training().is_disallowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_page(mut self, permissions: &Permissions) -> Self {
        self.add_metas(permissions.metas(), |index, name| Provenance::Meta { index, name });
        let noscript = permissions.head().noscript_metas();
        self.add_metas(noscript, |index, name| Provenance::Noscript { index, name });
        for (source, rules) in permissions.statements() {
            for word in rules.unknown() {
                for usage in forbidden_by(word) {
                    self.disallow(usage.clone(), source.clone(), word.as_bytes());
                }
            }
        }
        for stray in permissions.head().strays() {
            self.add_stray(&stray.meta);
        }
        self
    }

    pub(crate) fn add_metas(&mut self, metas: &[Meta], source: impl Fn(usize, Box<str>) -> Provenance) {
        for (index, meta) in metas.iter().enumerate() {
            if let Some(carrier) = Carrier::named(meta.name()) {
                self.add_carried(
                    carrier,
                    meta.content().as_bytes(),
                    source(index, meta.name().into()),
                    false,
                );
            }
        }
    }

    /// A meta that no reader honours where it stands: what it forbids is unknown.
    fn add_stray(&mut self, meta: &Meta) {
        let Some(carrier) = Carrier::named(meta.name()) else { return };
        let mut alone = Self { options: self.options.clone(), ..Self::default() };
        alone.add_carried(carrier, meta.content().as_bytes(), Provenance::field(carrier.name(), 0), false);
        if alone.statements.iter().any(|statement| statement.preference > Preference::Allow) {
            self.unread(&format!("a meta for {} stands where no reader looks for it", carrier.name()));
        }
    }
}

/// What a word among robots rules forbids by itself. Wider words, as `no-ai`, are rules of their own.
fn forbidden_by(word: &str) -> &'static [Usage] {
    let is_narrow =
        |usages: &[Usage]| usages.iter().all(|usage| matches!(usage, Usage::TrainAi | Usage::Tdm));
    match known(word) {
        Some(label) if label.is_negative && is_narrow(label.usages) => label.usages,
        _ => &[],
    }
}
