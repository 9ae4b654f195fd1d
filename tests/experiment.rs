//! Experiment files: what is wrong in them, told by place.

#[path = "common/experiments.rs"]
mod experiments;

use experiments::*;

/// `line:column: text` of each problem, and the marked characters.
fn problems(text: &str) -> Vec<(String, String)> {
    let found = plan_at("x.toml", text).expect_err("a problem");
    let describe = |problem: &synthesizer::experiment::Problem| {
        let place = problem.place.as_ref().expect("a place");
        let marked: String = place.excerpt.chars().skip(place.column - 1).take(place.width).collect();
        (format!("{}:{}: {}", place.line, place.column, problem.text), marked)
    };
    found.0.iter().map(describe).collect()
}

#[test]
fn each_problem_is_told_at_its_place() {
    let cases: &[(&str, &str, &str, &str)] = &[
        // unknown keys and values, wrong types
        (MT, "seed = [1]", "3:1: unknown key `seed`", "seed"),
        (MT, "[model]\nhaeds = 4", "4:1: unknown key `haeds` in [model]", "haeds"),
        (MT, "[optimizer]\nbeta1 = 0.9", "3:2: unknown key `optimizer`", "optimizer"),
        (MT, "[data]\ncorpus = \"home_asistant\"", "4:10: `corpus` can't be `home_asistant`", "\"home_asistant\""),
        (MT, "[train]\nschedule = 3", "4:12: `schedule` must be a string", "3"),
        (MT, "[model]\nd_ff = \"a\"", "4:8: `d_ff` is the string \"a\", but must be a whole number", "\"a\""),
        (MT, "[model]\nd_ff = 1.5", "4:8: `d_ff` is the floating point `1.5`, but must be a whole number", "1.5"),
        (MT, "[train]\nsteps = -5", "4:9: `steps` is the integer `-5`, but must be a whole number, 0 or more", "-5"),
        (MT, "model = 3", "3:9: `model` is the integer `3`, but must be a section", "3"),
        (MT, "seeds = 3", "3:9: `seeds` is the integer `3`, but must be a list", "3"),
        (
            MT,
            "seeds = [1, \"b\"]",
            "3:13: an element of `seeds` is the string \"b\", but must be a whole number, 0 or more",
            "\"b\"",
        ),
        (
            MT,
            "[data]\ntrain = 1",
            "4:9: `train` is the integer `1`, but must be a path, a list of paths or a list of pairs of paths",
            "1",
        ),
        (MT, "[model\nheads = 1", "3:7: unclosed table, expected `]`", ""),
        (MT, "seeds = [1]\nseeds = [2]", "4:1: duplicate key", "seeds"),
        // mixes
        (
            TASK,
            "mix = \"V+Q\"",
            "2:10: there is no attention function `Q`; there are V, D, R, Rfix, FR, FD, LC, DC, Lin, FFT, Mixer",
            "Q",
        ),
        (
            TASK,
            "mix = [\"V\", \"RV\"]",
            "2:14: there is no attention function `RV`; there are V, D, R, Rfix, FR, FD, LC, DC, Lin, FFT, Mixer",
            "R",
        ),
        (
            TASK,
            "mix = [\"V\", \"é\"]",
            "2:14: there is no attention function `é`; there are V, D, R, Rfix, FR, FD, LC, DC, Lin, FFT, Mixer",
            "é",
        ),
        (TASK, "mix = 'V(rank=0)'", "2:15: `rank` must be a positive integer, at most 1000000, not `0`", "0"),
        (TASK, "mix = [\"V\", \"V+LC\"]", "2:16: LC can't be mixed: it makes no logits that could be added; it stands alone. What can be mixed: V, D, R, Rfix, FR, FD", "L"),
        (TASK, "mix = \"DC(kernel=8)\"", "2:7: `DC(kernel=8)`: kernel = 8 is even, but a kernel needs a middle; give 7 or 9", "\"DC(kernel=8)\""),
        (
            TASK,
            "mix = [\"V\", \"Lin\"]",
            "2:13: Lin can't be causal: each position sees all others; but task `translation` has a decoder, which must not look ahead",
            "\"Lin\"",
        ),
        (TASK, "mix = []", "2:7: `mix` is empty", "[]"),
        (TASK, "mix = [\"R+V\", \"R + V\"]", "2:15: mix `R+V` is given twice", "\"R + V\""),
        (
            TASK,
            "mix = \"FD(a=3,b=5)\"\n[model]\nmax_length=256",
            "2:7: `FD(a=3,b=5)`: a · b = 3 · 5 = 15, but it must be max_length = 256",
            "\"FD(a=3,b=5)\"",
        ),
        (TASK, "title = \"x\"", "1:1: `mix` is missing", "task = \"translation\""),
        ("# nothing\n", "mix = \"V\"", "2:1: `task` is missing", "mix = \"V\""),
        // rows
        (MT, "seeds = []", "3:9: `seeds` is empty", "[]"),
        (MT, "seeds = [1, 2, 1]", "3:16: seed 1 is given twice", "1"),
        (MT, "[[variant]]\nmix = \"V\"\nmodel.d_ff = 8", "3:1: a [[variant]] has no `name`", "[[variant]]"),
        (
            MT,
            "[[variant]]\nname = \"a/b\"\nmix = \"V\"\nmodel.d_ff = 8",
            "4:8: `a/b` can't be part of a folder's name: it has other characters than variants may have",
            "\"a/b\"",
        ),
        (MT, "[[variant]]\nname = \"a\"\nmodel.d_ff = 8", "3:1: `mix` is missing", "[[variant]]"),
        (MT, "[[variant]]\nname = \"a\"\nmix = \"V\"\nmodel.d_ff = 2048", "4:8: variant `a` changes nothing", "\"a\""),
        (
            MT,
            "variant = [{name=\"a\",mix=\"V\",model={d_ff=8}},{name=\"a\",mix=\"V\",model={d_ff=9}}]",
            "3:60: there are two rows `V` of this variant name",
            "\"V\"",
        ),
        // keys without effect
        (LM, "[decode]\nbeam = 4", "3:2: `decode` has no effect: this task writes no target", "decode"),
        (
            LM,
            "[model]\nencoder_layers = 2",
            "4:1: `encoder_layers` has no effect: language modelling has no encoder",
            "encoder_layers",
        ),
        (LM, "[data]\nsource = \"en\"", "4:1: `source` has no effect: only translation has two languages", "source"),
        (
            MT,
            "[data]\ntrain = [\"a\", \"b\"]",
            "4:1: `train` has no effect: this corpus reads no files that you name",
            "train",
        ),
        (
            MT,
            "[data]\ncorpus = \"reverse\"\ntarget = \"de\"",
            "5:1: `target` has no effect: corpus `reverse` has no languages",
            "target",
        ),
        (
            MT,
            "[train]\naverage = 3",
            "4:1: `average` has no effect: it counts with `select = \"average\"` only",
            "average",
        ),
        (
            TASK,
            "mix = [\"V\", \"R\"]\n[model]\nmixing = \"sum\"",
            "4:1: `mixing` has no effect: no mix has two terms",
            "mixing",
        ),
        (LM, "[data]\nhistory = 2", "4:1: `history` has no effect: it is for dialogue", "history"),
        (
            LM,
            "[data]\nwindow = 64\nmax_tokens = 80",
            "5:1: `max_tokens` has no effect: windows cut no line; `window` says how long they are",
            "max_tokens",
        ),
        (
            LM,
            "[data]\nnoise_density = 0.15",
            "4:1: `noise_density` has no effect: it is for masked language modelling",
            "noise_density",
        ),
        (MT, "[data]\nmean_span = 3.0", "4:1: `mean_span` has no effect: it is for masked language modelling", "mean_span"),
        (MASKED, "[decode]\nbeam = 4", "3:2: `decode` has no effect: gaps are filled greedily", "decode"),
        (
            MASKED,
            "[data]\nmax_tokens = 80",
            "4:1: `max_tokens` has no effect: windows cut no line; `window` says how long they are",
            "max_tokens",
        ),
        (CLASS, "[data]\ntoo_long = \"cut\"", "4:1: `too_long` has no effect: long texts are always cut", "too_long"),
        (
            CLASS,
            "[model]\ndecoder_layers = 2",
            "4:1: `decoder_layers` has no effect: classification has no decoder",
            "decoder_layers",
        ),
        (CLASS, "[decode]\nbeam = 2", "3:2: `decode` has no effect: this task writes no target", "decode"),
        (
            TALK,
            "[data]\npersonas = false",
            "4:1: `personas` has no effect: this corpus has no persona lines",
            "personas",
        ),
        (
            TALK,
            "[decode]\nmax_extra = 3",
            "4:1: `max_extra` has no effect: only a translation's length follows its source",
            "max_extra",
        ),
        (
            TALK,
            "[data]\ncorpus = \"persona-chat\"\ntrain = \"p.json\"\ndev = \"p.json\"",
            "6:1: `dev` has no effect: the one file of `persona-chat` holds all splits",
            "dev",
        ),
        // what can't work
        (
            TALK,
            "[data]\ncorpus = \"news-titles\"",
            "4:10: corpus `news-titles` has nothing for task `dialogue`",
            "\"news-titles\"",
        ),
        (CLASS, "[train]\nbatch_tokens = 99", "4:16: `batch_tokens = 99` has no room for `max_length = 256`", "99"),
        (CLASS, "[data]\ncorpus = \"imdb\"", "4:10: `folder` isn't given", "\"imdb\""),
        (
            CLASS,
            "[data]\ncorpus = \"glue\"\nfolder = \"data/glue\"\nset = \"BoolQ\"",
            "6:7: `glue` has no task `BoolQ`",
            "\"BoolQ\"",
        ),
        (TALK, "[decode]\nmin_length = 256", "4:14: `min_length = 256` is above `max_tokens = 255`", "256"),
        (MASKED, "[data]\nwindow = 0", "4:10: `window = 0` is below 2", "0"),
        (MASKED, "[data]\nnoise_density = 1.0", "4:17: `noise_density = 1` is outside (0, 1)", "1.0"),
        (MASKED, "[data]\nmean_span = 0.5", "4:13: `mean_span = 0.5` is outside [1, ∞)", "0.5"),
        // 300 - 45 + 15 + 1
        (
            MASKED,
            "[data]\nwindow = 300",
            "4:10: `max_length = 256` has no room for `window = 300`: with sentinels and end mark its source has 271 tokens and its target 62",
            "300",
        ),
        (
            MASKED,
            "[train]\nbatch_tokens = 200",
            "4:16: `batch_tokens = 200` has no room for `window = 256`: with sentinels and end mark its source has 232 tokens and its target 53",
            "200",
        ),
        (MASKED, "[data]\ncorpus = \"news-titles\"", "4:10: corpus `news-titles` has nothing for task `masked-language-modelling`", "\"news-titles\""),
        (LM, "[data]\nwindow = 257", "4:10: `max_length = 256` has no room for `window = 257`", "257"),
        (
            TALK,
            "[data]\nmax_source_tokens = 256",
            "4:21: `max_length = 256` has no room for `max_source_tokens = 256` and a begin or end mark",
            "256",
        ),
        (
            LM,
            "[data]\ncorpus = \"home-assistant\"",
            "4:10: corpus `home-assistant` has nothing for task `language-modelling`",
            "\"home-assistant\"",
        ),
        (
            LM,
            "[data]\ncorpus = \"text\"\ntrain = [[\"a\", \"b\"]]\ndev = \"a\"\ntest = \"a\"",
            "5:9: an entry of `train` is 2 files, but task `language-modelling` needs one file",
            "[[\"a\", \"b\"]]",
        ),
        (MT, "[data]\ntarget = \"en\"", "4:10: `source` and `target` are both `en`", "\"en\""),
        (MT, "[data]\nvocabulary = 259", "4:14: `vocabulary = 259` is below 260", "259"),
        (MT, "[model]\nd_model = 128\nheads = 5", "5:9: `heads = 5` does not divide `d_model = 128`", "5"),
        (
            MT,
            "[model]\nd_model = 127\nheads = 1",
            "4:11: `d_model = 127` is odd, but sinusoid positions come in pairs of sine and cosine",
            "127",
        ),
        (MT, "[model]\nmax_length = 0", "4:14: `max_length = 0` is below 1", "0"),
        (
            MT,
            "[model]\nmax_length = 64",
            "4:14: `max_length = 64` has no room for `max_tokens = 255` and a begin or end mark",
            "64",
        ),
        (
            MT,
            "[data]\nmax_tokens = 300",
            "4:14: `max_length = 256` has no room for `max_tokens = 300` and a begin or end mark",
            "300",
        ),
        (MT, "[model]\ndropout = 1.0", "4:11: `dropout = 1` is outside [0, 1)", "1.0"),
        (MT, "[model]\ndropout = nan", "4:11: `dropout = NaN` is outside [0, 1)", "nan"),
        (MT, "[train]\nsteps = 0", "4:9: `steps = 0` is below 1", "0"),
        (
            MT,
            "[train]\nbatch_tokens = 100",
            "4:16: `batch_tokens = 100` has no room for `max_tokens = 255` and a begin or end mark",
            "100",
        ),
        (
            MT,
            "[train]\nschedule = \"linear\"\nsteps = 100\nwarmup = 100",
            "6:10: `warmup = 100` leaves nothing of `steps = 100` for the linear decay",
            "100",
        ),
        (MT, "[train]\nwarmup = 0", "4:10: `warmup = 0` is below 1", "0"),
        (MT, "[train]\nlearning_rate = -1", "4:17: `learning_rate = -1` is outside (0, ∞)", "-1"),
        (MT, "[train]\nlabel_smoothing = 1", "4:19: `label_smoothing = 1` is outside [0, 1)", "1"),
        (
            MT,
            "[train]\nprecision = \"float16\"",
            "4:13: `precision` can't be `float16`",
            "\"float16\"",
        ),
        (
            MT,
            "[train]\ntf32 = true\nprecision = \"bfloat16\"",
            "4:8: `tf32 = true` has no effect with `precision = \"bfloat16\"`, which makes all products coarser than that",
            "true",
        ),
        (MT, "[decode]\nbeam = 0", "4:8: `beam = 0` is below 1", "0"),
        (MT, "[decode]\nlength_penalty = -0.5", "4:18: `length_penalty = -0.5` is outside [0, 10]", "-0.5"),
        (MT, "[model]\nd_ff = 9999999999999", "4:8: `d_ff = 9999999999999` is above 2147483647", "9999999999999"),
    ];
    for (head, rest, message, marked) in cases {
        let found = problems(&format!("{head}{rest}\n"));
        assert_eq!(found, [(message.to_string(), marked.to_string())], "{rest}");
    }
}

/// What the user reads, whole.
#[test]
fn a_message_shows_file_line_caret_and_what_to_do() {
    let read = |text: &str| plan_at("my.toml", text).expect_err("a problem").to_string();
    assert_eq!(
        read("task = \"translation\"\nmix = \"V\"\n\n[model]\n\td_modle = 128 # tab\n"),
        "my.toml:5:2: unknown key `d_modle` in [model]\n  |\n5 | \td_modle = 128 # tab\n  | \t^^^^^^^\n  \
         did you mean `d_model`? Allowed: `d_model`, `heads`, `encoder_layers`, `decoder_layers`, `d_ff`, `max_length`, \
         `dropout`, `attention_dropout`, `relu_dropout`, `mixing`"
    );
    assert_eq!(
        read("task = \"language-modeling\"\nmix = \"V\"\n"),
        "my.toml:1:8: `task` can't be `language-modeling`\n  |\n1 | task = \"language-modeling\"\n  |        ^^^^^^^^^^^^^^^^^^^\n  \
         did you mean `language-modelling`? Allowed: `translation`, `language-modelling`, `masked-language-modelling`, `summarization`, `dialogue`, `classification`"
    );
    assert_eq!(
        read("task = \"translation\"\nmix = \"RV\"\n"),
        "my.toml:2:8: there is no attention function `RV`; there are V, D, R, Rfix, FR, FD, LC, DC, Lin, FFT, Mixer\n  |\n2 | mix = \"RV\"\n  |        ^\n  \
         did you mean `R+V`?"
    );
    let misplaced = read("task = \"translation\"\nmix = \"V\"\nheads = 4\n");
    assert!(misplaced.contains("it belongs in [model]; allowed: `title`, `task`"), "{misplaced}");
}

/// serde alone would stop at the first.
#[test]
fn all_problems_of_a_file_are_told_in_its_order() {
    let typed = "titel = \"x\"\ntask = \"translatoin\"\nmix = [\"V\", 3]\n[model]\nheads = \"4\"\nhaeds = 4\n[[variant]]\nnam = \"x\"\n\
                 [variant.train]\nstep = 1\n";
    let found: Vec<String> = problems(typed).into_iter().map(|(text, _)| text).collect();
    assert_eq!(
        found,
        [
            "1:1: unknown key `titel`",
            "2:8: `task` can't be `translatoin`",
            "3:13: an element of `mix` is the integer `3`, but must be a string",
            "5:9: `heads` is the string \"4\", but must be a whole number",
            "6:1: unknown key `haeds` in [model]",
            "8:1: unknown key `nam` in [[variant]]",
            "10:1: unknown key `step` in [variant.train]",
        ]
    );
    let resolved = "task = \"translation\"\nmix = \"V\"\nseeds = [1, 2]\n[model]\nheads = 3\n[train]\naverage = 2\n[decode]\nbeam = 0\n";
    let found: Vec<String> = problems(resolved).into_iter().map(|(text, _)| text).collect();
    assert_eq!(
        found,
        [
            "5:9: `heads = 3` does not divide `d_model = 512`",
            "7:1: `average` has no effect: it counts with `select = \"average\"` only",
            "9:8: `beam = 0` is below 1",
        ]
    );
    let text = format!("{MT}[data]\ncorpus = \"text\"\ntarget = \"de\"\ntrain = [\"a\"]\ndev = [\"a\", \"b\"]\n");
    assert_eq!(
        problems(&text),
        [
            ("4:10: `source` isn't given, the language of one side of the text", "\"text\""),
            ("4:10: `test` names no file", "\"text\""),
            (
                "6:9: an entry of `train` is one file, but task `translation` needs a source and a target file",
                "[\"a\"]"
            ),
        ]
        .map(|(text, marked)| (text.to_string(), marked.to_string()))
    );
}

/// A variant's own key is to blame before the experiment's.
#[test]
fn a_problem_of_a_variant_points_into_the_variant() {
    let text = format!("{MT}[model]\nheads = 8\n[[variant]]\nname = \"a\"\nmix = \"V\"\n[variant.model]\nheads = 3\n");
    assert_eq!(problems(&text)[0].0, "9:9: `heads = 3` does not divide `d_model = 512`");
    let text =
        format!("{MT}[model]\nheads = 8\n[[variant]]\nname = \"a\"\nmix = \"V\"\n[variant.model]\nd_model = 100\n");
    assert_eq!(problems(&text)[0].0, "4:9: `heads = 8` does not divide `d_model = 100`");
}

/// `average` in the experiment counts as soon as one variant selects by it.
#[test]
fn a_key_that_only_a_variant_uses_has_effect() {
    let text =
        format!("{MT}[train]\naverage = 3\n[[variant]]\nname = \"a\"\nmix = \"V\"\ntrain.select = \"average\"\n");
    assert_eq!(plan(&text).runs[2].run.train.average, 3);
}

proptest::proptest! {
    /// Whatever is typed ends in a plan or in messages that can be printed.
    #[test]
    fn no_text_panics(at in 0usize..2000, cut in 0usize..12, put in "[\\[\\]\"'=.,#\n\t{}+()a-f0-9é-]{0,6}") {
        let text: Vec<char> = std::fs::read_to_string(MINI).expect("ours").chars().collect();
        let at = at.min(text.len());
        let typed: String = text[..at].iter().chain(put.chars().collect::<Vec<_>>().iter())
            .chain(&text[(at + cut).min(text.len())..]).collect();
        if let Err(problems) = plan_at(MINI, &typed) {
            proptest::prop_assert!(problems.to_string().starts_with(MINI));
        }
    }
}
