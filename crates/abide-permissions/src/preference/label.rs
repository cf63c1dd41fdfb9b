//! Labels and values as sites write them: one table of labels for all carriers and drafts, and the words that
//! mean no.
//!
//! Only the restrictive direction is read so widely. What allows a use is read by each carrier as its
//! specification has it.

use super::Usage;

/// What a label is about, when something is stated on it by another name than that of its carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The uses that a no to it is a no to.
    pub(super) usages: &'static [Usage],
    /// It says no by itself, as `noml` does.
    pub(super) is_negative: bool,
}

const ALL: &[Usage] = &[Usage::TrainAi, Usage::Search, Usage::AiInput, Usage::Tdm];
const AI: &[Usage] = &[Usage::TrainAi, Usage::AiInput];
const TRAINING: &[Usage] = &[Usage::TrainAi];
const SEARCH: &[Usage] = &[Usage::Search];
const INPUT: &[Usage] = &[Usage::AiInput];
const TDM: &[Usage] = &[Usage::Tdm];

/// The labels of the drafts of draft-ietf-aipref-vocab, of Content-Signal, and of sites, folded: in lower
/// case, letters and digits alone.
const LABELS: &[(&str, &[Usage])] = &[
    ("search", SEARCH),
    ("aiinput", INPUT),
    // Of vocab-01, -02 and -04.
    ("inference", INPUT),
    ("aiuse", INPUT),
    ("aioutput", INPUT),
    ("tdm", TDM),
    ("tdmreservation", TDM),
    ("textanddatamining", TDM),
    ("datamining", TDM),
    // Training by the kind of the model; `ai` was wider, `bots` and `all` the widest.
    ("genai", TRAINING),
    ("generativeai", TRAINING),
    ("ml", TRAINING),
    ("machinelearning", TRAINING),
    ("llm", TRAINING),
    ("ai", AI),
    ("bots", ALL),
    ("all", ALL),
];

/// A label whichever carrier it stands in, by whichever draft, however its words are joined. `None` for one
/// that names no use we know.
///
/// ```text
/// train-ai ai_train TrainAI train-genai ai-training   training
/// noml DisallowAITraining no-train                     a no to training, without a value
/// ```
pub(super) fn known(label: &str) -> Option<Label> {
    // No label is longer, and the table need not be searched for a text that a server has made long.
    if label.len() > LABEL_BYTES_MAX {
        return None;
    }
    let folded = fold(label);
    if let Some(usages) = usages(&folded) {
        let is_negated = |word: &str| NEGATIONS.contains(&fold(word).as_str());
        return Some(Label { usages, is_negative: label.split(['-', '_', '.']).any(is_negated) });
    }
    let rest = NEGATIONS.iter().find_map(|negation| usages(folded.strip_prefix(negation)?));
    rest.map(|usages| Label { usages, is_negative: true })
}

/// Those of a folded label without its negation. What has `train` as one of its words is training, whatever
/// of.
fn usages(folded: &str) -> Option<&'static [Usage]> {
    let in_table = |label: &str| LABELS.iter().find(|(known, _)| *known == label).map(|(_, usages)| *usages);
    in_table(folded).or_else(|| {
        let of_what = ["training", "train"]
            .iter()
            .find_map(|train| folded.strip_prefix(train).or_else(|| folded.strip_suffix(train)))?;
        let is_about_models = in_table(of_what).is_some_and(|usages| usages.contains(&Usage::TrainAi));
        (of_what.is_empty() || is_about_models || MODELS.contains(&of_what)).then_some(TRAINING)
    })
}

/// What is trained, besides the labels of the table.
const MODELS: &[&str] = &["model", "models", "aimodel", "aimodels", "llms", "data", "foundation"];

/// How a label begins that says no by itself.
const NEGATIONS: &[&str] = &["disallow", "deny", "dont", "not", "no"];

const LABEL_BYTES_MAX: usize = 64;

/// How a value reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// As its carrier writes a yes.
    Yes,
    /// A yes in words of others. It allows nothing.
    OtherYes,
    /// A no, in whatever words.
    No,
    /// A label alone.
    Missing,
    /// Neither yes nor no.
    Neither,
}

impl Value {
    /// A value that is not the yes of its carrier.
    pub(super) fn of(text: &str) -> Self {
        match &*fold(text) {
            "" => Self::Missing,
            folded if NO.contains(&folded) => Self::No,
            folded if YES.contains(&folded) => Self::OtherYes,
            _ => Self::Neither,
        }
    }
}

const NO: &[&str] = &[
    "n",
    "no",
    "0",
    "false",
    "off",
    "none",
    "never",
    "deny",
    "denied",
    "disallow",
    "disallowed",
    "forbid",
    "forbidden",
    "prohibit",
    "prohibited",
    "block",
    "blocked",
    "reject",
    "rejected",
    "refuse",
    "refused",
    "optout",
    "reserved",
];

const YES: &[&str] = &["y", "yes", "1", "true", "on", "allow", "allowed", "permit", "permitted"];

/// In lower case, letters and digits alone: so case, quotes, brackets and how words are joined make no
/// difference.
pub(super) fn fold(text: &str) -> String {
    plain(text).chars().filter(|char| char.is_alphanumeric()).take(LABEL_BYTES_MAX).collect()
}

/// In lower case, as ASCII where it only looks different: full-width forms are narrow, every dash is `-`,
/// what is invisible is dropped.
pub(super) fn plain(text: &str) -> String {
    let chars = text.chars().filter(|char| !is_invisible(*char)).map(|char| match char {
        '\u{ff01}'..='\u{ff5e}' => {
            char::from_u32(u32::from(char).saturating_sub(0xff01).saturating_add(0x21)).unwrap_or(char)
        }
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => '-',
        other => other,
    });
    chars.flat_map(char::to_lowercase).collect()
}

/// Format characters and selectors of variants.
const fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_known_however_they_are_joined() {
        for label in [
            "train-ai",
            "ai-train",
            "ai_train",
            "TrainAI",
            "AI-Training",
            "train-genai",
            "genai",
            "train_llm",
            "training",
            "model-training",
            "ml",
            "train\u{200b}-ai",
            "train\u{2011}ai",
        ] {
            assert_eq!(known(label), Some(Label { usages: TRAINING, is_negative: false }), "{label}");
        }
        for label in ["noml", "DisallowAITraining", "no-train", "not-train-ai", "no_ai_training"] {
            assert_eq!(known(label), Some(Label { usages: TRAINING, is_negative: true }), "{label}");
        }
        for label in [
            "foo",
            "constraint",
            "trainspotting",
            "no",
            "note",
            "notranslate",
            "noodp",
            "use",
            "",
            "tr\u{430}in",
        ] {
            assert_eq!(known(label), None, "{label}");
        }
        assert_eq!(known("bots").map(|label| label.usages), Some(ALL));
        assert_eq!(known(&"train".repeat(100)), None);
    }

    #[test]
    fn a_no_is_one_in_quotes_brackets_and_capitals() {
        for no in
            ["n", "N.", "\"no\"", "(n)", "?0", "\u{ff2e}\u{ff2f}", "n\u{200b}", "opt-out", "<false>", "0"]
        {
            assert_eq!(Value::of(no), Value::No, "{no}");
        }
        assert_eq!(Value::of("YES!"), Value::OtherYes);
        assert_eq!(Value::of(" ; "), Value::Missing);
        assert_eq!(Value::of("maybe"), Value::Neither);
    }
}
