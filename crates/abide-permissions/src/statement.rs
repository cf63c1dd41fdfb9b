//! Where a rule comes from, and what could not be read.

use std::fmt;

use crate::header::{FieldName, Reading};
use crate::rule::ValuedRule;
use crate::rules::Rules;
use crate::stated::Stated;

/// Rules that bind us, and the one place that states them.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    rules: Rules,
    source: Source,
}

impl Statement {
    pub(crate) const fn new(rules: Rules, source: Source) -> Self {
        Self { rules, source }
    }

    /// What is stated there.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where it is stated.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }
}

/// A place in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A line of a header field.
    #[non_exhaustive]
    Field {
        /// Which of the two fields.
        name: FieldName,
        /// The line among those of that name, from 0.
        line: usize,
        /// The grammar in which it was read.
        reading: Reading,
        /// The member as written, or the whole line when its grammar has no members.
        text: Box<str>,
    },
    /// A meta element of the head.
    #[non_exhaustive]
    Meta {
        /// Its place among the metas with a name, from 0.
        index: usize,
        /// Its name as written, character references decoded.
        name: Box<str>,
    },
    /// A meta element within a `noscript` of the head.
    #[non_exhaustive]
    Noscript {
        /// Its place among such metas, from 0.
        index: usize,
        /// Its name as written, character references decoded.
        name: Box<str>,
    },
    /// A meta element of the document after scripts have run.
    #[non_exhaustive]
    Rendered {
        /// Its place among the metas handed in, from 0.
        index: usize,
        /// Its name as written.
        name: Box<str>,
    },
}

impl Source {
    pub(crate) fn limit(name: FieldName, line: usize) -> Self {
        Self::Field { name, line, reading: Reading::Sf, text: Box::default() }
    }
}

/// One phrase: `X-Robots-Tag line 1 (legacy): noindex, nofollow`. What a server wrote is escaped and cut.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { name, line, text, .. } if text.is_empty() => {
                write!(f, "{name} line {}", line.saturating_add(1))
            }
            Self::Field { name, line, reading, text } => {
                write!(f, "{name} line {} ({reading}): {}", line.saturating_add(1), Shown(text))
            }
            Self::Meta { index, name } => write!(f, "meta {} named {}", index.saturating_add(1), Shown(name)),
            Self::Noscript { index, name } => {
                write!(f, "meta {} in noscript named {}", index.saturating_add(1), Shown(name))
            }
            Self::Rendered { index, name } => {
                write!(f, "meta {} of the rendered document named {}", index.saturating_add(1), Shown(name))
            }
        }
    }
}

/// Text of others, escaped and cut to what a log line can bear.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(SHOWN_CHARS_MAX).try_for_each(|c| write!(f, "{}", c.escape_debug()))?;
        if self.0.chars().nth(SHOWN_CHARS_MAX).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

const SHOWN_CHARS_MAX: usize = 120;

/// Something in the response that could not be read as its publisher may have meant it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    source: Source,
    problem: Problem,
}

impl Remark {
    /// Where.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// What.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.problem)
    }
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Not a member of a structured field; it was left out.
    NotAMember,
    /// Not a List of RFC 9651; read strictly, the whole field states nothing.
    NotAList,
    /// The value is not of the rule's type; the rule is not stated.
    #[non_exhaustive]
    InvalidValue {
        /// The rule.
        rule: ValuedRule,
        /// Its value as written, at most 64 characters of it.
        value: Box<str>,
    },
    /// A limit was met here; what follows was not read.
    OverLimit,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMember => f.write_str("expected a product token with rules as parameters"),
            Self::NotAList => f.write_str("expected a list of product tokens, so the field is ignored"),
            Self::InvalidValue { rule, value } => {
                write!(f, "expected a value for {}, found `{}`", rule.as_str(), Shown(value))
            }
            Self::OverLimit => f.write_str("over the limit, so the rest is not read"),
        }
    }
}

/// Statements and remarks while they are gathered.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) statements: Vec<Statement>,
    pub(crate) remarks: Vec<Remark>,
    pub(crate) truncated: bool,
}

impl Findings {
    /// Adds what a place states, if it states anything.
    pub(crate) fn add(&mut self, stated: Stated, source: impl Fn() -> Source) {
        for invalid in stated.invalid {
            let value = invalid.value.into();
            self.remark(source(), Problem::InvalidValue { rule: invalid.rule, value });
        }
        if !stated.rules.is_empty() {
            self.statements.push(Statement::new(stated.rules, source()));
        }
    }

    pub(crate) fn remark(&mut self, source: Source, problem: Problem) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(Remark { source, problem });
        }
    }

    pub(crate) fn truncated(&mut self, source: Source) {
        self.truncated = true;
        self.remark(source, Problem::OverLimit);
    }
}

/// Enough to mend a page by; more would be the sender's to choose.
const REMARKS_MAX: usize = 32;
