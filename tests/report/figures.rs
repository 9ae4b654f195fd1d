//! Figures and the page that shows them.

use super::{files, made_figures, Work};
use synthesizer::report::figure::canvas::{Bounds, Canvas};

#[test]
fn svgs_name_every_mix_and_pngs_are_drawn() {
    let work = Work::of(&["table1", "table2", "table3", "table4", "table7"]);
    work.text(&[]);
    let expected = [
        ("table1/cost-quality", vec!["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V"]),
        ("table1/time-length", vec!["V", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V", "64", "1024"]),
        ("table1/news-training", vec!["V", "FD", "R+V"]),
        (
            "table2/ende-quality",
            vec!["V", "V (control)", "Rfix", "R", "FR", "D", "FD", "R+D", "D+V", "R+V", "28.47", "not run", "diverged"],
        ),
        ("table2/ende-training", vec!["V", "V (control)", "R+V", "FD, diverged"]),
        ("table2/ende-alpha", vec!["R+V: α of R (seed 1)", "R+D: α of R (seed 1)", "encoder 1", "decoder 2"]),
        ("table2/ende-attention-encoder", vec!["V", "R", "D", "R+V", "layer 1", "layer 2"]),
        ("table2/ende-attention-decoder", vec!["V", "R", "D", "R+V"]),
        ("table2/lm1b-quality", vec!["V", "R+V", "measured word perplexity", "50.52"]),
        ("table2/lm1b-training", vec!["V", "training loss, nats per token", "dev perplexity"]),
        (
            "table3/table3-bars",
            vec![
                "News to titles: ROUGE-1 by mix (higher is better)",
                "News to titles: ROUGE-Lsum by mix (higher is better)",
                "Chatter: CIDEr by mix (higher is better)",
                "Chatter: embedding average by mix (higher is better)",
                "published, own axis",
                "V",
                "D+V",
                "84.95",
            ],
        ),
        ("table3/summarization-quality", vec!["V", "R", "D", "D+V", "R+V", "38.57"]),
        ("table4/table4-bars", vec!["GLUE score by mix (higher is better)", "tasks missing", "92.0/88.7"]),
        ("table4/mrpc-quality", vec!["measured mean of F1/accuracy", "92.0/88.7"]),
        (
            "table7/table7-bars",
            vec![
                "News topics: accuracy by mix (higher is better)",
                "Review sentences: accuracy by mix (higher is better)",
                "V",
                "FR",
                "FR+V",
                "89.1",
            ],
        ),
        ("table7/agnews-training", vec!["V", "FR+V", "training loss", "dev loss"]),
    ];
    for (figure, labels) in expected {
        let svg = work.read(&format!("plots/mini/{figure}.svg"));
        for label in labels {
            assert!(svg.contains(&format!(">\n{label}\n<")), "{figure}.svg has no label {label}");
        }
        let png = std::fs::read(work.path(&format!("plots/mini/{figure}.png"))).unwrap();
        // Width and height stand in the header: twice those of the SVG.
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert!(png.starts_with(b"\x89PNG") && svg.contains(&format!("width=\"{}\"", width / 2)), "{figure}.png");
    }
}

pub fn overlaps(canvas: &Canvas) -> Vec<String> {
    let texts: Vec<_> = canvas.texts().collect();
    let mut faults = Vec::new();
    for (i, a) in texts.iter().enumerate() {
        let bounds = a.bounds();
        if bounds.left < 0.0 || bounds.top < 0.0 || bounds.right > canvas.width || bounds.bottom > canvas.height {
            faults.push(format!("\"{}\" is cut off", a.text));
        }
        if a.size < 12.0 {
            faults.push(format!("\"{}\" is too small", a.text));
        }
        let inner = Bounds { top: bounds.top + 1.0, bottom: bounds.bottom - 1.0, ..bounds };
        for b in texts[i + 1..].iter().filter(|b| b.bounds().overlaps(&inner)) {
            faults.push(format!("\"{}\" is on \"{}\"", a.text, b.text));
        }
    }
    faults
}

#[test]
fn no_words_are_cut_off_or_on_top_of_others() {
    for table in ["table1", "table2", "table3", "table4", "table5", "table7"] {
        for figure in made_figures(table) {
            assert_eq!(overlaps(&figure.canvas), Vec::<String>::new(), "{table}/{}", figure.stem);
        }
    }
}

#[test]
fn the_page_shows_every_table_and_figure() {
    let work = Work::of(&["table1", "table2", "table7"]);
    work.text(&[]);
    let page = work.read("plots/mini/index.html");
    for (path, _) in files(&work.path("plots/mini")) {
        let path = path.strip_prefix(work.path("plots/mini")).unwrap().to_string_lossy().into_owned();
        assert!(path == "index.html" || page.contains(&format!("\"{path}\"")), "{path} is not on the page");
    }
    assert!(page.contains("<h2>Table 7: classification of texts</h2>"));
    assert!(page.contains("10.86 ± 0.24 (3)") && page.contains("<td class=\"text\">D+V</td>"));
    assert!(!page.contains("http"), "the page must not need the network");
    // A report of one table leaves the other on the page.
    work.text(&["results/mini/table1"]);
    assert_eq!(work.read("plots/mini/index.html"), page);
}
