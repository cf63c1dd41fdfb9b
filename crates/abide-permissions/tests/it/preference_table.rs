//! The table of preferences: what sites publish, and what follows from it; and that no statement lifts
//! another.

use abide_permissions::{Meta, Preference, Preferences, ReadOptions, Usage};
use abide_robots::{ProductToken, Rules, Target};
use proptest::prelude::*;
use toml::{Table, Value};

const USAGES: [Usage; 4] = [Usage::AiInput, Usage::Search, Usage::Tdm, Usage::TrainAi];

/// What one case states, all carriers together.
fn preferences(case: &Table) -> Preferences {
    let text = |key: &str| case.get(key).and_then(Value::as_str);
    let is_set = |key: &str| case.get(key).and_then(Value::as_bool) == Some(true);
    let token: ProductToken = text("agent").unwrap_or("ExampleBot").parse().unwrap();
    let mut options =
        ReadOptions::new(token.clone()).with_strict_sf(is_set("strict")).with_signals_united(is_set("unite"));
    if let Some(policy) = case.get("policy") {
        let usage = USAGES.into_iter().find(|usage| Some(&*usage.to_string()) == policy["usage"].as_str());
        let (name, fallback) = (policy["token"].as_str().unwrap(), policy["fallback"].as_bool().unwrap());
        options = options.with_policy_token(name.parse().unwrap(), usage.unwrap(), fallback);
    }
    let target = Target::new(text("path").unwrap_or("/a"));
    let fields: Vec<(&str, &[u8])> =
        case.get("fields").and_then(Value::as_array).map_or_else(Vec::new, |fields| {
            fields
                .iter()
                .map(|line| (line[0].as_str().unwrap(), line[1].as_str().unwrap().as_bytes()))
                .collect()
        });
    let metas: Vec<Meta> = text("html").map(|html| crate::page(html).metas().to_vec()).unwrap_or_default();
    let file = text("tdmrep").map(|file| (file.as_bytes(), &target));
    let mut preferences =
        Preferences::new(&options).with_fields(fields.clone()).with_tdm(file, fields, &metas);
    if let Some(robots) = text("robots") {
        let rules = Rules::parse(robots.as_bytes(), &[token]);
        preferences = preferences.with_robots(&rules, &target).with_policy_tokens(robots.as_bytes(), &target);
    }
    preferences
}

/// What is stated on each usage, and the `use` of Content-Signal: `search=allow train-ai=disallow use=full`.
pub(crate) fn resolved(preferences: &Preferences) -> String {
    let stated =
        USAGES.iter().filter_map(|usage| Some(format!("{usage}={}", preferences.resolve(usage).as_str()?)));
    let signal_use = preferences.content_signal_use().map(|value| format!("use={value}"));
    stated.chain(signal_use).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_case_of_the_table() {
    let table: Table = include_str!("../vectors/preferences.toml").parse().unwrap();
    let cases = table["case"].as_array().unwrap();
    assert!(cases.len() >= 60, "{}", cases.len());
    for case in cases {
        let case = case.as_table().unwrap();
        let found = preferences(case);
        let name = &case["name"];
        assert_eq!(Some(&*resolved(&found)), case["expect"].as_str(), "{name}");
        for source in case.get("by").and_then(Value::as_array).into_iter().flatten() {
            let decided = USAGES.iter().flat_map(|usage| found.decided_by(usage));
            let mut decided = decided.map(|statement| statement.source().to_string());
            assert!(decided.any(|own| Some(&*own) == source.as_str()), "{name}: {source}");
        }
    }
}

/// Something that states a preference.
#[derive(Clone, Debug)]
enum Carrier {
    Field(&'static str, String),
    File(Vec<String>),
    Policy(String),
}

fn carrier() -> impl Strategy<Value = Carrier> {
    let usage = "(train-ai|search|Train-AI|ai)[ ]?=(n|y|no|\\?1)[,; ]{0,2}(search=(y|n))?";
    let signal = "(ai-train|ai-input|search)[ ]?=(no|yes|n|disallow)[,; ]{0,2}(search=(yes|no))?";
    let record = prop_oneof![
        usage.prop_map(|value| format!("Content-Usage: {value}")),
        signal.prop_map(|value| format!("Content-Signal: {value}")),
    ];
    prop_oneof![
        usage.prop_map(|value| Carrier::Field("Content-Usage", value)),
        signal.prop_map(|value| Carrier::Field("Content-Signal", value)),
        proptest::collection::vec(record, 1..4).prop_map(Carrier::File),
        "(Disallow|Allow): /a?".prop_map(Carrier::Policy),
    ]
}

fn with(preferences: Preferences, carrier: &Carrier) -> Preferences {
    let target = Target::new("/a");
    match carrier {
        Carrier::Field(name, value) => preferences.with_fields([(*name, value.as_bytes())]),
        Carrier::File(lines) => {
            // Half of the file stands outside groups.
            let (outside, inside) = lines.split_at(lines.len() / 2);
            let file = format!("{}\nUser-agent: *\n{}", outside.join("\n"), inside.join("\n"));
            preferences.with_robots(&Rules::parse(file.as_bytes(), &[]), &target)
        }
        Carrier::Policy(rule) => {
            preferences.with_policy_tokens(format!("User-agent: policy\n{rule}").as_bytes(), &target)
        }
    }
}

proptest! {
    #[test]
    fn no_statement_turns_a_disallow_into_anything_else(
        carriers in proptest::collection::vec(carrier(), 1..6),
        unread in any::<bool>(),
    ) {
        let options = crate::options().with_policy_token("policy".parse().unwrap(), Usage::TrainAi, false);
        let mut preferences = Preferences::new(&options);
        for carrier in &carriers {
            let mut next = with(preferences.clone(), carrier);
            if unread {
                next = next.with_unread_source("a head");
            }
            for usage in &USAGES {
                let was = preferences.resolve(usage);
                prop_assert!(was != Preference::Disallow || next.resolve(usage) == Preference::Disallow);
            }
            prop_assert!(!preferences.training().is_disallowed() || next.training().is_disallowed());
            prop_assert!(!preferences.input().is_disallowed() || next.input().is_disallowed());
            preferences = next;
        }
    }
}
