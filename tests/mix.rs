//! The mix grammar: printing and parsing agree, and messages point at the wrong character.

use proptest::prelude::*;
use std::collections::HashSet;
use synthesizer::attention::registry::{Entry, FUNCTIONS};
use synthesizer::attention::Term;
use synthesizer::experiment::mix::{Mix, MixProblem};

/// Any term that the registry allows: some of the function's parameters, in any order.
fn term(entry: &'static Entry) -> impl Strategy<Value = Term> {
    let indices: Vec<usize> = (0..entry.parameters.len()).collect();
    (Just(indices).prop_shuffle(), 0..=entry.parameters.len(), proptest::collection::vec(0i64..1_000_000, 3)).prop_map(
        move |(order, given, values)| {
            let parameters = order[..given].iter().zip(values).map(|(&index, value)| {
                let parameter = &entry.parameters[index];
                (parameter.name.to_string(), value.max(parameter.minimum))
            });
            Term { name: entry.name.to_string(), parameters: parameters.collect() }
        },
    )
}

/// Any mix that the registry allows: one operator, or functions in any order, no two with the same weights.
fn mix() -> impl Strategy<Value = Mix> {
    let terms: Vec<_> = FUNCTIONS.iter().map(term).collect();
    let order: Vec<usize> = (0..FUNCTIONS.len()).collect();
    (terms, Just(order).prop_shuffle(), 1..=FUNCTIONS.len()).prop_map(|(terms, order, count)| {
        let mut taken = HashSet::new();
        // An operator stands alone.
        let alone = !FUNCTIONS[order[0]].can_be_mixed();
        let beside = order.iter().copied().filter(|&index| FUNCTIONS[index].can_be_mixed());
        let chosen: Vec<usize> = if alone { vec![order[0]] } else { beside.collect() };
        let free = chosen.into_iter().filter(|&index| taken.insert(FUNCTIONS[index].weights));
        Mix { terms: free.take(count).map(|index| terms[index].clone()).collect() }
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_itself(mix in mix()) {
        let text = mix.to_string();
        prop_assert_eq!(&Mix::parse(&text).unwrap(), &mix);
        prop_assert_eq!(&text.parse::<Mix>().unwrap(), &mix);
        prop_assert!(!text.contains(' '));
        let json = serde_json::to_string(&mix).unwrap();
        prop_assert_eq!(&json, &format!("\"{text}\""));
        prop_assert_eq!(&serde_json::from_str::<Mix>(&json).unwrap(), &mix);
    }

    #[test]
    fn spaces_change_nothing(mix in mix(), spaces in proptest::collection::vec(0usize..3, 64)) {
        let mut spaced = " ".repeat(spaces[0]);
        let mut next = spaces.iter().cycle();
        for c in mix.to_string().chars() {
            let space = if "+(,=)".contains(c) { " ".repeat(*next.next().unwrap()) } else { String::new() };
            spaced += &format!("{space}{c}{space}");
        }
        prop_assert_eq!(Mix::parse(&spaced).unwrap(), mix);
    }

    #[test]
    fn anything_parses_or_points_into_itself(text in "[VDRFixfk0-9a-z+(),= -]{0,24}|.{0,12}") {
        match Mix::parse(&text) {
            Ok(mix) => prop_assert_eq!(Mix::parse(&mix.to_string()).unwrap(), mix),
            Err(error) => prop_assert!(error.column <= text.chars().count()),
        }
    }
}

#[test]
fn a_mix_reads_as_written() {
    let mix = Mix::parse(" FD( hidden = 16 ,a=8 )+FR (k=4) + V").unwrap();
    let wanted = [("FD", vec![("hidden", 16), ("a", 8)]), ("FR", vec![("k", 4)]), ("V", vec![])];
    let wanted = wanted.map(|(name, parameters)| Term {
        name: name.to_string(),
        parameters: parameters.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
    });
    assert_eq!(mix.terms, wanted);
    assert_eq!(mix.to_string(), "FD(hidden=16,a=8)+FR(k=4)+V");
    assert_eq!(mix.terms[0].get("a"), Some(8));
    assert_eq!(mix.terms[0].get("b"), None);
    assert_eq!(Mix::parse("FD(hidden=0)").unwrap().terms[0].get("hidden"), Some(0));
    assert_eq!(Mix::parse("Rfix").unwrap().terms, [Term::new("Rfix")]);
}

#[test]
fn messages_point_at_the_wrong_character() {
    let names = "V, D, R, Rfix, FR, FD, LC, DC, Lin, FFT, Mixer";
    // The caret of each mix stands in the second string, under the wrong character.
    for (mix, caret, parts) in [
        ("", "^", vec!["missing", names]),
        ("   ", "   ^", vec!["missing", names]),
        ("W", "^", vec!["no attention function `W`", names]),
        ("R+W+V", "  ^", vec!["`W`", names]),
        ("r", "^", vec!["`r`", "did you mean R?"]),
        ("R + rFIX", "    ^", vec!["did you mean Rfix?"]),
        ("RV", "^", vec!["`RV`", names]),
        ("R++V", "  ^", vec!["missing", names]),
        ("+V", "^", vec!["missing", names]),
        ("R+", "  ^", vec!["missing", names]),
        ("R V", "  ^", vec!["R is complete", "`+`"]),
        ("V(rank=4))", "         ^", vec!["V(rank=4) is complete"]),
        ("R-V", " ^", vec!["R is complete"]),
        ("R(k=3)", " ^", vec!["R takes no parameters"]),
        ("V+Rfix(", "      ^", vec!["Rfix takes no parameters"]),
        ("D()", "  ^", vec!["parameter of D is missing", "hidden"]),
        ("D(", "  ^", vec!["parameter of D is missing"]),
        ("FD(a=2,)", "       ^", vec!["parameter of FD is missing", "hidden, a, b"]),
        ("FR(rank=3)", "   ^", vec!["FR has no parameter `rank`; it has k"]),
        ("V+FD(a=2, c=3)", "          ^", vec!["FD has no parameter `c`", "hidden, a, b"]),
        ("FD(a=2,a=3)", "       ^", vec!["`a` is given twice"]),
        ("FR(k)", "    ^", vec!["`=`", "`k`"]),
        ("FR(k:3)", "    ^", vec!["`=`", "`k`"]),
        ("FR(k=)", "     ^", vec!["`k` must be a positive integer"]),
        ("FR(k=", "     ^", vec!["`k` must be a positive integer"]),
        ("FR(k=0)", "     ^", vec!["a positive integer", "not `0`"]),
        ("FR(k=-8)", "     ^", vec!["a positive integer", "not `-8`"]),
        ("FR(k= 1.5)", "      ^", vec!["a positive integer", "not `1.5`"]),
        ("FR(k=eight)", "     ^", vec!["a positive integer", "not `eight`"]),
        ("FD(hidden=-1)", "          ^", vec!["0 or a positive integer", "not `-1`"]),
        ("FR(k=1000001)", "     ^", vec!["at most 1000000"]),
        ("FR(k=99999999999999999999)", "     ^", vec!["at most 1000000"]),
        ("FR(k=3", "      ^", vec!["`,` or `)`"]),
        ("FR(k=3 4)", "       ^", vec!["`,` or `)`"]),
        ("FR(k=3+V", "      ^", vec!["`,` or `)`"]),
        ("V+V", "  ^", vec!["V can't stand beside V", "dot_product"]),
        ("V + D + V(rank=4)", "        ^", vec!["V(rank=4) can't stand beside V"]),
        ("R+V+Rfix", "    ^", vec!["Rfix can't stand beside R", "random"]),
        ("LC+V", "^", vec!["LC can't be mixed", "no logits", "V, D, R, Rfix, FR, FD"]),
        ("R + D+Lin(k=4)+W", "      ^", vec!["Lin(k=4) can't be mixed"]),
        ("FFT+Mixer", "^", vec!["FFT can't be mixed"]),
        ("fft", "^", vec!["did you mean FFT?"]),
        ("LC(k=3)", "   ^", vec!["LC has no parameter `k`; it has kernel"]),
        ("Mixer(k=3)", "     ^", vec!["Mixer takes no parameters"]),
        ("R\t+W", "   ^", vec!["`W`"]),
        ("Ré+V", "^", vec!["`Ré`"]),
        ("é+W", "^", vec!["`é`"]),
    ] {
        let error = Mix::parse(mix).unwrap_err();
        assert_eq!(error.column, caret.len() - 1, "{mix:?}: {error}");
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[1].trim_end(), format!("  {}", mix.replace('\t', " ")).trim_end());
        assert_eq!(lines[2], format!("  {caret}"));
        assert!(parts.iter().all(|part| lines[0].contains(part)), "{mix:?}: {text}");
    }
}

#[test]
fn problems_are_typed() {
    assert_eq!(Mix::parse("R+W").unwrap_err().problem, MixProblem::UnknownName("W".to_string()));
    let problem = MixProblem::Value { key: "hidden", minimum: 0, value: "x".to_string() };
    assert_eq!(Mix::parse("FD(hidden=x)").unwrap_err().problem, problem);
}

#[test]
fn a_mix_in_toml_says_what_is_wrong() {
    #[derive(serde::Deserialize, Debug)]
    struct Table {
        #[allow(dead_code)]
        mix: Mix,
    }
    let error = toml::from_str::<Table>("mix = \"R+W\"").unwrap_err().to_string();
    assert!(error.contains("there is no attention function `W`") && error.contains("line 1"), "{error}");
    let error = toml::from_str::<Table>("mix = 3").unwrap_err().to_string();
    assert!(error.contains("a mix of attention functions such as"), "{error}");
}

#[test]
fn a_message_about_a_long_mix_is_short_and_marks_the_place() {
    for mix in [format!("V+{}", "x".repeat(100_000)), format!("V + {}W", " ".repeat(50_000))] {
        let text = Mix::parse(&mix).unwrap_err().to_string();
        assert!(text.chars().count() < 1000, "{} characters", text.chars().count());
        let lines: Vec<&str> = text.lines().collect();
        let under = lines[1].chars().nth(lines[2].chars().count() - 1);
        assert!(matches!(under, Some('x' | 'W')), "{text}");
    }
}
