//! The questions of a batch: which keys they have, and in our own words what is wrong with one.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::sanitize::{public, quoted};

/// What stands on one line of a batch.
pub(crate) trait Schema: DeserializeOwned {
    /// Every key that is looked at; others are left alone.
    const KEYS: &'static [Key];
}

/// Makes a [`Schema`] of a struct, each of whose fields is a key.
macro_rules! question {
    (struct $name:ident { $($key:ident: $value:ty,)+ }) => {
        #[derive(Debug, serde::Deserialize)]
        struct $name {
            $($key: $value,)+
        }

        impl crate::schema::Schema for $name {
            const KEYS: &'static [crate::schema::Key] =
                &[$(crate::schema::Key::of::<$value>(stringify!($key)),)+];
        }
    };
}
pub(crate) use question;

/// A key, and what it holds.
#[derive(Debug)]
pub(crate) struct Key {
    name: &'static str,
    holds: Holds,
    is_required: bool,
}

/// What a key may hold. One that is not required may hold null as well.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holds {
    Text,
    /// A fallback chain may be given as one, too.
    Texts,
    /// Names and values of header fields.
    Pairs,
}

/// The type of a field of a question.
pub(crate) trait Held {
    const HOLDS: Holds;
    const IS_REQUIRED: bool = true;
}

impl Held for String {
    const HOLDS: Holds = Holds::Text;
}

impl Held for OneOrMore {
    const HOLDS: Holds = Holds::Texts;
}

impl Held for Vec<(String, String)> {
    const HOLDS: Holds = Holds::Pairs;
}

impl<T: Held> Held for Option<T> {
    const HOLDS: Holds = T::HOLDS;
    const IS_REQUIRED: bool = false;
}

/// One string, or a list of them.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::More(more) => more,
        }
    }
}

impl Key {
    pub(crate) const fn of<T: Held>(name: &'static str) -> Self {
        Self { name, holds: T::HOLDS, is_required: T::IS_REQUIRED }
    }

    fn fault(&self, value: Option<&Value>) -> Option<String> {
        let value = match value {
            None if self.is_required => return Some(format!("expected {:?}, found no such key", self.name)),
            None => return None,
            Some(Value::Null) if !self.is_required => return None,
            Some(value) => value,
        };
        let (place, found) = self.holds.misfit(value)?;
        Some(format!(
            "{:?}{place}: expected {}, found {}",
            self.name,
            self.holds.words(&place),
            described(found)
        ))
    }
}

impl Holds {
    /// Where in `value` the first thing is that does not fit, and what it is.
    fn misfit(self, value: &Value) -> Option<(String, &Value)> {
        let item = |fits: fn(&Value) -> bool| {
            let (at, item) = value.as_array()?.iter().enumerate().find(|(_, item)| !fits(item))?;
            Some((format!("[{at}]"), item))
        };
        let whole = Some((String::new(), value));
        match self {
            Self::Text if value.is_string() => None,
            Self::Texts if value.is_string() => None,
            Self::Texts if value.is_array() => item(Value::is_string),
            Self::Pairs if value.is_array() => item(is_pair),
            _ => whole,
        }
    }

    fn words(self, place: &str) -> &'static str {
        match self {
            Self::Texts if place.is_empty() => "a string or a list of strings",
            Self::Text | Self::Texts => "a string",
            Self::Pairs if place.is_empty() => "a list of [name, value] pairs",
            Self::Pairs => "a pair of strings, [name, value]",
        }
    }
}

fn is_pair(value: &Value) -> bool {
    value.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(Value::is_string))
}

/// What was found, in a few words.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(is) => is.to_string(),
        Value::Number(number) => cut(&number.to_string()),
        Value::String(text) => quoted(text),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// What is wrong with a line that could not be read: `error` says it in the words of the reader, and this in ours.
pub(crate) fn fault<Q: Schema>(line: &[u8], error: &serde_json::Error) -> String {
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(error) => return no_json(line, &error),
    };
    if let Some(fault) = Q::KEYS.iter().find_map(|key| key.fault(value.get(key.name))) {
        return fault;
    }
    // Of two values for one key neither is known to be the right one.
    let error = error.to_string();
    let twice = Q::KEYS.iter().find(|key| error.starts_with(&format!("duplicate field `{}`", key.name)));
    match twice {
        Some(key) => format!("{:?} is given twice", key.name),
        None => cut(&error),
    }
}

/// Where the line ceases to be JSON, and how.
fn no_json(line: &[u8], error: &serde_json::Error) -> String {
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to();
        let (byte, column) = (line.get(at).copied().unwrap_or_default(), at.saturating_add(1));
        return format!("expected UTF-8, found the byte 0x{byte:02x} at column {column}");
    }
    let column = error.column();
    if error.is_eof() {
        return format!("expected a whole JSON object, found the end of the line at column {column}");
    }
    if error.to_string().starts_with("recursion limit") {
        return format!("the JSON object is nested too deeply at column {column}");
    }
    let rest = String::from_utf8_lossy(line.get(column.saturating_sub(1)..).unwrap_or_default());
    let found: String = public(&rest).chars().take(SHOWN_MAX).collect();
    format!("expected JSON, found {found:?} at column {column}")
}

fn cut(text: &str) -> String {
    const MESSAGE_MAX: usize = 200;
    let end = text.char_indices().nth(MESSAGE_MAX);
    end.map_or(text.to_owned(), |(end, _)| format!("{}...", text.split_at(end).0))
}

/// Of what stands where JSON ends, in characters.
const SHOWN_MAX: usize = 12;
