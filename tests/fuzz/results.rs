//! Files under results, as report and verify read them.

use crate::mutate::{bytes, files, repository};
use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::path::Path;
use synthesizer::experiment::Run;
use synthesizer::report::published::Published;
use synthesizer::report::read::{attention, bench, cost, log, runs, Tail};
use synthesizer::report::render;
use synthesizer::task::evaluation;
use synthesizer::verify::{verify, Options};

/// One mutated CSV, read by the reader of its kind.
pub fn sheets(rng: &mut StdRng, folder: &Path) -> Result<()> {
    type Read = fn(&Path) -> Result<()>;
    let kinds: [(&str, Read); 13] = [
        ("results/mini/table2/ende.csv", |path| Ok(runs::read(path).map(drop)?)),
        ("results/mini/table7/agnews.csv", |path| Ok(runs::read(path).map(drop)?)),
        ("results/mini/table2/ende/R+V-s1/log.csv", |path| Ok(log::read(path).map(drop)?)),
        ("results/mini/table2/ende/R+V-s1/attention.csv", |path| Ok(attention::read(path).map(drop)?)),
        ("results/mini/table1/cost.csv", |path| Ok(cost::read_cost(path).map(drop)?)),
        ("results/mini/table1/time.csv", |path| Ok(cost::read_time(path, Tail::Growing).map(drop)?)),
        ("results/bench/attention.csv", |path| Ok(bench::read_attention(path, "core").map(drop)?)),
        ("results/bench/train.csv", |path| Ok(bench::read_train(path).map(drop)?)),
        ("results/bench/decode.csv", |path| Ok(bench::read_decode(path).map(drop)?)),
        ("experiments/published/table2.csv", |path| Ok(Published::read(path.parent().unwrap(), "table2").map(drop)?)),
        ("tests/fixtures/report/results/mini/table2/ende/V-s1/config.toml", |path| {
            let run = Run::from_toml(&std::fs::read_to_string(path)?)?;
            assert_eq!(Run::from_toml(&run.to_toml()).unwrap().hash(), run.hash());
            Ok(())
        }),
        ("tests/fixtures/data/train.en", |path| evaluation::read_lines(path).map(drop)),
        ("results/mini/table2/lm1b.csv", |path| {
            let classes = ["no", "yes"].map(String::from);
            evaluation::read_losses(path).map(drop).and(evaluation::read_predictions(path, &classes).map(drop))
        }),
    ];
    let (sample, read) = kinds.choose(rng).unwrap();
    let mut content = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(sample))?;
    if sample.contains("lm1b") {
        content = match rand::Rng::random_bool(rng, 0.5) {
            true => b"rows,tokens,nll\n7,31,99.25\n1,3,0.5\n".to_vec(),
            false => {
                b"group,gold,predicted,number,candidate,answers\n0,yes,no,-0.5,Ann,\"[\"\"Ann\"\"]\"\n0,no,no,1,Bo,\n"
                    .to_vec()
            }
        };
    }
    content.truncate(40_000);
    let path = folder.join(Path::new(sample).file_name().unwrap());
    std::fs::write(&path, bytes(rng, &content, &[]))?;
    read(&path)
}

/// A table with one or two mutated files, made and verified.
pub fn tables(rng: &mut StdRng, folder: &Path) -> Result<()> {
    let table = *["table1", "table2", "table3", "table7"].choose(rng).unwrap();
    let root = folder.join("results/mini").join(table);
    files(rng, &root, &repository(&format!("tests/fixtures/report/results/mini/{table}")));
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/published");
    let rendered = render(&root, "mini", &published);
    for (path, text) in rendered.iter().flatten() {
        std::fs::write(path, text)?;
    }
    let verified = verify(&Options { results: folder.join("results"), published })?;
    // what can be made agrees with itself
    if rendered.is_ok() {
        let of_tables = verified.problems().filter(|problem| problem.check.name() == "tables").count();
        assert_eq!(of_tables, 0, "{:?}", verified.problems().collect::<Vec<_>>());
    }
    Ok(rendered.map(drop)?)
}
