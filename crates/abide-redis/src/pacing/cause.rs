//! Why a host is held, as text: `429 60000`, `503`, `calm`, `operator`, `shared`.

use std::time::Duration;

use abide_gate::pacing::Cause;

pub(crate) fn write(cause: Cause) -> String {
    match cause {
        Cause::Answer { status, retry_after: None } => status.to_string(),
        Cause::Answer { status, retry_after: Some(asked) } => format!("{status} {}", asked.as_millis()),
        Cause::EnhanceYourCalm => "calm".to_owned(),
        Cause::Operator => "operator".to_owned(),
        _ => "shared".to_owned(),
    }
}

/// What a newer version may have written is held all the same.
pub(crate) fn read(text: &str) -> Cause {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    match (first, first.parse()) {
        (_, Ok(status)) => {
            Cause::Answer { status, retry_after: rest.parse().ok().map(Duration::from_millis) }
        }
        ("calm", _) => Cause::EnhanceYourCalm,
        ("operator", _) => Cause::Operator,
        _ => Cause::Shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_survive() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        let answers = [(429, None), (503, asked(60)), (403, asked(86_400))];
        let answers = answers.map(|(status, retry_after)| Cause::Answer { status, retry_after });
        for cause in answers.into_iter().chain([Cause::EnhanceYourCalm, Cause::Operator, Cause::Shared]) {
            assert_eq!(read(&write(cause)), cause);
        }
    }

    #[test]
    fn what_is_not_understood_is_held_all_the_same() {
        for text in ["", "later", "429x 1", "-1"] {
            assert_eq!(read(text), Cause::Shared, "{text}");
        }
    }
}
