//! Experiment files: what is wrong in them, told by place.

#[path = "common/experiments.rs"]
mod experiments;

use experiments::*;
use std::path::Path;
use synthesizer::experiment::Experiment;

/// `line:column: text` of each problem, and the marked characters.
fn problems(text: &str) -> Vec<(String, String)> {
    let found = plan_at("x.toml", text).expect_err("a problem");
    let describe = |problem: &synthesizer::experiment::Problem| {
        let place = problem.place.as_ref().expect("a place");
        let marked: String = place.excerpt.chars().skip(place.column - 1 - place.skipped).take(place.width).collect();
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
        // one mix under two spellings
        (TASK, "mix = [\"R+V\", \"V+R\"]", "2:15: mix `V+R` is `R+V` again", "\"V+R\""),
        (TASK, "mix = [\"R+V\", \"D\", \"V + R\"]", "2:20: mix `V+R` is `R+V` again", "\"V + R\""),
        (TASK, "mix = [\"FR(k=8)+V\", \"V+FR\"]", "2:21: mix `V+FR` is `FR(k=8)+V` again", "\"V+FR\""),
        (TASK, "mix = [\"D\", \"D(hidden=64)\"]", "2:13: mix `D(hidden=64)` is `D` again", "\"D(hidden=64)\""),
        (TASK, "mix = [\"V(rank=64)\", \"V\"]", "2:22: mix `V` is `V(rank=64)` again", "\"V\""),
        (TASK, "mix = [\"FD(b=16,a=16)\", \"FD\"]", "2:25: mix `FD` is `FD(b=16,a=16)` again", "\"FD\""),
        (TASK, "mix = [\"LC\", \"LC(kernel=31)\"]", "2:14: mix `LC(kernel=31)` is `LC` again", "\"LC(kernel=31)\""),
        (
            MT,
            "[[variant]]\nname = \"a\"\nmix = [\"V+R\", \"R+V\"]\nmodel.d_ff = 8",
            "5:15: mix `R+V` is `V+R` again",
            "\"R+V\"",
        ),
        (
            MT,
            "[[variant]]\nname = \"a\"\nmix = \"R+V\"\nmodel.d_ff = 8\n[[variant]]\nname = \"b\"\nmix = \"V+R\"\nmodel.d_ff = 8",
            "9:7: row `V+R` has the settings of row `R+V` of variant `a`",
            "\"V+R\"",
        ),
        // titles and names
        (MT, "title = \"a\\nb\"", "3:9: `title` holds a line break (U+000A)", "\"a\\nb\""),
        (MT, "title = \"a\\u0000b\"", "3:9: `title` holds a control character (U+0000)", "\"a\\u0000b\""),
        (MT, "title = \"a\u{85}b\"", "3:11: `title` holds a line break (U+0085)", "\u{fffd}"),
        (MT, "title = \"ab\u{2028}\"", "3:12: `title` holds a line break (U+2028)", "\u{fffd}"),
        (MT, "title = \"\u{2029}\"", "3:10: `title` holds a line break (U+2029)", "\u{fffd}"),
        (
            MT,
            "title = \"a \u{202e}b\"",
            "3:12: `title` holds an invisible formatting character (U+202E)",
            "\u{fffd}",
        ),
        (MT, "title = \"a\u{ffff}\"", "3:11: `title` holds an invisible formatting character (U+FFFF)", "\u{fffd}"),
        (MT, "title = \" \"", "3:9: `title` is blank", "\" \""),
        (
            "task = \"translation\"\nmix = \"V\"\n",
            "[data]\ncorpus = \"text\"\nsource = \"e\\nn\"\ntarget = \"de\"\ntrain = [\"a\", \"b\"]\ndev = [\"a\", \"b\"]\ntest = [\"a\", \"b\"]",
            "5:10: `source` is no name of a language: `e\\u{a}n`",
            "\"e\\nn\"",
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
        (MT, "[model]\nd_ff = 9999999999999", "4:8: `d_ff = 9999999999999` is above 1048576", "9999999999999"),
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

/// Texts, folders and paths have room for so much.
#[test]
fn long_names_are_refused_before_anything_is_trained() {
    let first = |text: &str| problems(text)[0].0.clone();
    assert_eq!(first(&format!("title = \"{}\"\n{MT}", "é".repeat(121))), "1:9: `title` has 121 characters");
    let plan = plan(&format!("title = \"{}\"\n{MT}", "é".repeat(120)));
    assert_eq!(plan.title.chars().count(), 120);
    let variant = |name: &str| format!("{MT}[[variant]]\nname = \"{name}\"\nmix = \"V\"\nmodel.d_ff = 8\n");
    let clipped = format!("{}…", "n".repeat(60));
    assert_eq!(
        first(&variant(&"n".repeat(300))),
        format!("4:8: `{clipped}` can't be part of a folder's name: it has 300 bytes, and 100 are the most")
    );
    plan_at("x.toml", &variant(&"n".repeat(64))).expect("a plan");
    // each parameter of a function is in the run's name
    let mix = "FD(hidden=100000,a=256,b=1)+FR(k=100000)+V(rank=100000)+D(hidden=100000)+R";
    let text = format!(
        "task = \"translation\"\nmix = \"{mix}\"\n[[variant]]\nname = \"{}\"\nmix = \"{mix}\"\nmodel.d_ff = 8\n",
        "n".repeat(64)
    );
    assert!(plan_at("x.toml", &text).is_ok(), "under 150 letters");
    let results = Path::new("/").join("r".repeat(3900));
    let problems = Experiment::parse(Path::new("x.toml"), MT).expect("parsed").plan(&results).expect_err("a problem");
    assert!(problems.to_string().contains("the path of the run's folder has 39"), "{problems}");
}

/// The mixes of a file differ by what they make, not by how they are typed.
#[test]
fn a_default_is_that_of_the_models_sizes() {
    // d_h is 64 in the experiment and 32 in the variant
    let text =
        |rank: i64| format!("{MT}[[variant]]\nname = \"a\"\nmix = [\"V\", \"V(rank={rank})\"]\nmodel.d_model = 256\n");
    assert_eq!(problems(&text(32))[0].0, "5:13: mix `V(rank=32)` is `V` again");
    assert_eq!(plan(&text(64)).runs.len(), 4);
    // another order of terms is another spelling, in the folder's name too
    assert_eq!(plan("task = \"translation\"\nmix = \"V+R\"\n").runs[0].name, "V+R-s1");
}

/// Sizes that the program cannot hold are refused when the file is read; each was accepted before.
#[test]
fn every_size_has_an_upper_bound() {
    let cases = [
        ("model", "d_model", 1_048_578i64, "`d_model = 1048578` is above 1048576"),
        ("model", "heads", 1_048_577, "`heads = 1048577` is above 1048576"),
        ("model", "max_length", 1_048_577, "`max_length = 1048577` is above 1048576"),
        ("model", "d_ff", 1_048_577, "`d_ff = 1048577` is above 1048576"),
        ("model", "decoder_layers", 1001, "`decoder_layers = 1001` is above 1000"),
        ("model", "encoder_layers", 1001, "`encoder_layers = 1001` is above 1000"),
        ("data", "vocabulary", 1_000_001, "`vocabulary = 1000001` is above 1000000"),
        ("data", "vocabulary", i64::from(i32::MAX), "`vocabulary = 2147483647` is above 1000000"),
        ("decode", "batch", 65_537, "`batch = 65537` is above 65536"),
        ("decode", "beam", 1025, "`beam = 1025` is above 1024"),
        ("train", "accumulate", 65_537, "`accumulate = 65537` is above 65536"),
        ("train", "batch_tokens", 1 << 31, "`batch_tokens = 2147483648` is above 2147483647"),
        ("train", "steps", i64::MAX, "`steps = 9223372036854775807` is above 2147483647"),
    ];
    for (section, key, value, message) in cases {
        let found = problems(&format!("{MT}[{section}]\n{key} = {value}\n"));
        let at = format!("4:{}: {message}", key.len() + 4);
        assert!(found.iter().any(|(text, _)| *text == at), "{key}: {found:?}");
    }
    let many = |count: usize, what: &str| vec![what; count].join(", ");
    let mixes: Vec<String> = (1..=1001).map(|k| format!("\"FR(k={k})\"")).collect();
    let first = |text: String| problems(&text)[0].0.clone();
    assert_eq!(
        first(format!("{TASK}mix = [{}]\n", mixes.join(", "))),
        "2:7: `mix` names 1001 mixes; a list may have up to 1000"
    );
    let seeds: Vec<String> = (0..=1000).map(|seed| seed.to_string()).collect();
    assert_eq!(
        first(format!("{MT}seeds = [{}]\n", seeds.join(","))),
        "3:9: `seeds` has 1001 numbers; a file may have up to 1000"
    );
    assert_eq!(
        first(format!("{MT}seeds = [{}]\n", seeds[..501].join(","))),
        "3:9: 2 rows of 501 seeds are more than 1000 runs"
    );
    let lm = "[data]\ncorpus = \"text\"\ndev = \"a\"\ntest = \"a\"\ntrain";
    assert_eq!(
        first(format!("{LM}{lm} = [{}]\n", many(1001, "\"a\""))),
        "7:9: `train` has 1001 names; a list may have up to 1000"
    );
    let variants: String =
        (0..101).map(|n| format!("[[variant]]\nname = \"v{n}\"\nmix = \"V\"\nmodel.d_ff = {}\n", n + 8)).collect();
    assert_eq!(first(format!("{MT}{variants}")), "403:1: there are 101 variants; a file may have up to 100");
}

/// Rates that are rarely meant: warnings, with a place, of a plan that stands.
#[test]
fn unusual_settings_are_warnings_with_a_place() {
    let warnings = |text: &str| -> Vec<String> {
        let plan = plan_at("x.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let place = |problem: &synthesizer::experiment::Problem| problem.place.as_ref().expect("a place").line;
        plan.warnings.iter().map(|warning| format!("{}: {}", place(warning), warning.text)).collect()
    };
    let linear = "[train]\nschedule = \"linear\"\nwarmup = 1\n";
    for (rest, message) in [
        ("learning_rate = 5.0", "6: `learning_rate = 5` is outside the usual range, 1e-6 to 0.1"),
        ("learning_rate = 1e-9", "6: `learning_rate = 0.000000001` is outside the usual range, 1e-6 to 0.1"),
        ("beta1 = 0.995", "6: `beta1 = 0.995` is above 0.99, the usual limit"),
        ("beta2 = 0.5", "6: `beta2 = 0.5` is outside the usual range, 0.9 to 0.9999"),
        ("epsilon = 0.1", "6: `epsilon = 0.1` is outside the usual range, 1e-12 to 1e-3"),
        ("weight_decay = 2.0", "6: `weight_decay = 2` is above 1, the usual limit"),
        ("clip_norm = 1e-5", "6: `clip_norm = 0.00001` leaves next to nothing of a gradient"),
        ("label_smoothing = 0.9", "6: `label_smoothing = 0.9` is above 0.4, the usual limit"),
        (
            "select = \"average\"\nsteps = 100\nevaluate_every = 50",
            "4: `average = 5`, but there are only 2 evaluations in `steps = 100`, one every 50 steps",
        ),
    ] {
        let found = warnings(&format!("{MT}{linear}{rest}\n"));
        let expected: Vec<&str> = message.split_once(": ").map(|(_, text)| text).into_iter().collect();
        let texts: Vec<&str> = found.iter().filter_map(|text| text.split_once(": ").map(|(_, text)| text)).collect();
        assert_eq!(texts, expected, "{rest}");
        if !rest.starts_with("select") {
            assert_eq!(found, [message], "{rest}");
        }
    }
    // 2 / √512 / √8000 · 8000 is the peak of the paper's schedule; 100 steps of its warm-up get to an 80th of it
    assert_eq!(
        warnings(&format!("{MT}[train]\nsteps = 100\n")),
        ["4: the warm-up never ends: `warmup = 8000` is not below `steps = 100`"]
    );
    let high = warnings(&format!("{MT}[train]\nwarmup = 1\nlearning_rate = 20\n"));
    assert_eq!(
        high,
        ["5: `learning_rate = 20` gives a peak rate of 8.8e-1 (at step 1), outside the usual range, 1e-6 to 0.1"]
    );
    assert_eq!(
        warnings(&format!("{MT}[model]\ndropout = 0.9\n")),
        ["4: `dropout = 0.9` is above 0.7, the usual limit"]
    );
    assert_eq!(warnings(MT), [""; 0]);
}

/// No experiment of ours is told off.
#[test]
fn our_experiments_have_no_warnings() {
    let plans = synthesizer::experiment::plan_all(&["experiments".into()], Path::new("results")).unwrap();
    for (experiment, plan) in plans {
        assert_eq!(plan.warnings, [], "{}", experiment.source.path.display());
    }
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
