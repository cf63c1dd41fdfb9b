//! What lies between two start tags outside raw text: text, comments, doctypes and end tags (HTML standard
//! §13.2.5).
//!
//! Only two things there matter to the head, and go to the [`Machine`]: end tags by their names, and text
//! that is not blank.

use super::machine::Machine;
use super::reference::{Reference, ReferenceStep};

/// Reads the bytes between start tags as they come, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Between {
    state: TextState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextState {
    #[default]
    Data,
    Reference(Reference),
    /// `<`
    TagOpen,
    /// `<!`
    Markup,
    /// `<!-`
    MarkupDash,
    Comment(Comment),
    /// Up to the next `>`: doctypes, `<!x>`, `<?x>`, `</3>`.
    Bogus,
    /// `</`
    EndTagOpen,
    EndTag(Name, Attributes),
}

/// Where in a comment we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comment {
    Start,
    StartDash,
    Inside,
    EndDash,
    End,
    EndBang,
}

/// The name of an end tag, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    bytes: [u8; 8],
    /// Above eight: longer than any name of interest.
    length: u8,
}

/// Where in an end tag we are. A quote matters only where a value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attributes {
    /// Still in the tag's own name.
    Ahead,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
}

impl Between {
    /// Whether nothing is pending, so that blank bytes can be passed over unread.
    pub(super) fn is_idle(&self) -> bool {
        self.state == TextState::Data
    }

    /// Takes the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8], machine: &mut Machine) {
        for &byte in bytes {
            self.state = self.state.step(byte, machine);
        }
    }

    /// A start tag begins or the document ends, and with it the text before.
    pub(super) fn end(&mut self, machine: &mut Machine) {
        match std::mem::take(&mut self.state) {
            TextState::Reference(reference) if !reference.ends_as_whitespace() => machine.text(),
            // The `<` or `</` that is left over is text (§13.2.5.6, §13.2.5.7).
            TextState::TagOpen | TextState::EndTagOpen => machine.text(),
            // A comment or tag that the end of the document cuts is nothing.
            _ => {}
        }
    }
}

impl TextState {
    fn step(self, byte: u8, machine: &mut Machine) -> Self {
        match self {
            Self::Data if byte == b'<' => Self::TagOpen,
            Self::Data => Self::text(ReferenceStep::of(byte), machine),
            Self::Reference(reference) if byte == b'<' => {
                if !reference.ends_as_whitespace() {
                    machine.text();
                }
                Self::TagOpen
            }
            Self::Reference(reference) => Self::text(reference.step(byte), machine),
            Self::TagOpen => match byte {
                b'!' => Self::Markup,
                b'/' => Self::EndTagOpen,
                b'?' => Self::Bogus,
                // lol_html has taken the start tags: this `<` is text, and the byte after it is read once
                // more.
                _ => {
                    machine.text();
                    Self::Data.step(byte, machine)
                }
            },
            Self::Markup if byte == b'-' => Self::MarkupDash,
            Self::MarkupDash if byte == b'-' => Self::Comment(Comment::Start),
            // A doctype too: `>` ends it even within a quoted identifier (§13.2.5.59).
            Self::Markup | Self::MarkupDash | Self::Bogus => {
                if byte == b'>' {
                    Self::Data
                } else {
                    Self::Bogus
                }
            }
            Self::Comment(comment) => comment.step(byte).map_or(Self::Data, Self::Comment),
            Self::EndTagOpen => match byte {
                // `</>` is nothing, and no text (§13.2.5.7).
                b'>' => Self::Data,
                _ if byte.is_ascii_alphabetic() => Self::EndTag(Name::begun(byte), Attributes::Ahead),
                _ => Self::Bogus,
            },
            Self::EndTag(name, attributes) => match attributes.step(byte) {
                None => {
                    machine.end_tag(name.get());
                    Self::Data
                }
                Some(Attributes::Ahead) => Self::EndTag(name.with(byte), Attributes::Ahead),
                Some(attributes) => Self::EndTag(name, attributes),
            },
        }
    }

    fn text(step: ReferenceStep, machine: &mut Machine) -> Self {
        match step {
            ReferenceStep::Whitespace => Self::Data,
            ReferenceStep::Pending(reference) => Self::Reference(reference),
            ReferenceStep::Text => {
                machine.text();
                Self::Data
            }
        }
    }
}

impl Comment {
    /// `None` when the comment has ended.
    const fn step(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            // `<!-->` and `<!--->` are whole comments, and `--!>` ends one (§13.2.5.43 to §13.2.5.51).
            (Self::Start | Self::StartDash | Self::End | Self::EndBang, b'>') => return None,
            (Self::Start, b'-') => Self::StartDash,
            (Self::StartDash | Self::EndDash | Self::End, b'-') => Self::End,
            (Self::Inside | Self::EndBang, b'-') => Self::EndDash,
            (Self::End, b'!') => Self::EndBang,
            _ => Self::Inside,
        })
    }
}

impl Name {
    fn begun(byte: u8) -> Self {
        Self { bytes: [0; 8], length: 0 }.with(byte)
    }

    fn with(mut self, byte: u8) -> Self {
        if let Some(slot) = self.bytes.get_mut(usize::from(self.length)) {
            *slot = byte.to_ascii_lowercase();
        }
        self.length = self.length.saturating_add(1);
        self
    }

    /// In lower case; empty when it is longer than any name of interest.
    fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl Attributes {
    /// `None` when the tag has ended.
    const fn step(self, byte: u8) -> Option<Self> {
        let space = byte.is_ascii_whitespace();
        Some(match (self, byte) {
            // A quoted value may contain `>`, and the next name may follow it without a space.
            (Self::Quoted(quote), _) if byte == quote => Self::BeforeName,
            (Self::Quoted(quote), _) => Self::Quoted(quote),
            (_, b'>') => return None,
            (Self::Ahead, _) if !space && byte != b'/' => Self::Ahead,
            (Self::Unquoted, _) if !space => Self::Unquoted,
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(byte),
            (Self::BeforeValue, _) if space => Self::BeforeValue,
            (Self::BeforeValue, _) => Self::Unquoted,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::Name | Self::AfterName, _) if space => Self::AfterName,
            // A slash parts attributes wherever it is not within a value.
            (_, b'/') => Self::BeforeName,
            (Self::Ahead | Self::Unquoted | Self::BeforeName, _) if space => Self::BeforeName,
            _ => Self::Name,
        })
    }
}
