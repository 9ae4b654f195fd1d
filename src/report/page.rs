//! `plots/<profile>/index.html`: all tables and figures of a profile, or of the benchmarks, on one page, without scripts or addresses of others.

use super::export::html::{escape, Html};
use super::export::Exporter;
use super::table::Table;

/// A figure on the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// SVG, relative to the page.
    pub svg: String,
    /// PNG, relative to the page.
    pub png: String,
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// What it shows, for readers who can't see it.
    pub title: String,
    /// The line under it.
    pub caption: String,
}

/// One table's part of the page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// A table and its figures.
    Made(Table, Vec<Picture>),
    /// A table whose files can't be read: its name and why.
    Broken(String, String),
}

impl Section {
    fn name(&self) -> &str {
        match self {
            Section::Made(table, _) => &table.name,
            Section::Broken(name, _) => name,
        }
    }
}

const STYLE: &str = "
:root { color-scheme: light; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.55 system-ui, \"Segoe UI\", Roboto, \"Helvetica Neue\", \"DejaVu Sans\", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 1px solid #ccc; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .75rem 0; padding: 0; }
a { color: #005a9c; }
a:focus-visible, .scroll:focus-visible { outline: 2px solid #005a9c; outline-offset: 2px; }
figure { margin: 1.5rem 0 2.5rem; }
.scroll { overflow-x: auto; }
img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .5rem; max-width: 60rem; font-size: .9rem; color: #444; }
figcaption ul { margin: .4rem 0 0; padding-left: 1.2rem; }
figcaption li { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: bottom; white-space: nowrap; }
thead th { font-weight: 600; border-bottom: 1px solid #888; }
thead th[scope=col] { white-space: normal; }
th.group { text-align: center; border-bottom: 1px solid #ccc; }
tbody th { font-weight: 400; }
.text { text-align: left; }
.first { padding-left: 1.6rem; }
tbody tr:nth-child(even) { background: #f5f5f5; }
.broken { border-left: 4px solid #d55e00; padding-left: .8rem; }
@media print { .scroll { overflow: visible; } }
";

/// The whole page of a subject, such as `profile mini`.
pub fn page(subject: &str, sections: &[Section]) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Synthesizer, {0}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Synthesizer: tables and figures of {0}</h1>\n\
         <p>Made by <code>synthesizer report</code> from the result files alone.</p>\n",
        escape(subject)
    );
    text += "<nav aria-label=\"Tables\"><ul>\n";
    for section in sections {
        let name = escape(section.name());
        text += &format!("<li><a href=\"#{name}\">{}</a></li>\n", escape(&heading(section.name())));
    }
    text += "</ul></nav>\n</header>\n<main>\n";
    for section in sections {
        text +=
            &format!("<section id=\"{}\">\n<h2>{}</h2>\n", escape(section.name()), escape(&heading(section.name())));
        match section {
            Section::Made(table, pictures) => {
                text += &Html.export(table);
                pictures.iter().for_each(|p| text += &picture(p));
            }
            Section::Broken(_, why) => text += &format!("<p class=\"broken\">{}</p>\n", escape(why)),
        }
        text += "</section>\n";
    }
    text + "</main>\n</body>\n</html>\n"
}

fn picture(p: &Picture) -> String {
    format!(
        "<figure>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
         <img src=\"{svg}\" alt=\"{title}\" width=\"{w}\" height=\"{h}\" loading=\"lazy\" style=\"max-width:{w}px;min-width:{least}px\"></div>\n\
         <figcaption>{caption} <a href=\"{svg}\">SVG</a>, <a href=\"{png}\">PNG</a></figcaption>\n</figure>\n",
        title = escape(&p.title),
        svg = escape(&p.svg),
        png = escape(&p.png),
        w = p.width,
        h = p.height,
        // Below this its labels would be too small to read: narrow screens scroll.
        least = p.width.min(680.0),
        caption = escape(&p.caption),
    )
}

/// `table2` is Table 2, with the tasks that it shows; benchmarks have names of their own.
fn heading(name: &str) -> String {
    let tasks = match name {
        "table1" => ": the synthesizing functions",
        "table2" => ": translation and language modelling",
        "table3" => ": summarization and dialogue",
        "table4" => ": GLUE",
        "table5" => ": SuperGLUE",
        "table6" => ": masked language modelling against convolutions",
        "table7" => ": classification of texts",
        "attention-core" => return "The core of attention against PyTorch".into(),
        "attention-layer" => return "The attention layer against PyTorch".into(),
        "train" => return "Training against PyTorch".into(),
        "decode" => return "Decoding against PyTorch".into(),
        "growth" => return "Growth with the length".into(),
        "batch" => return "Growth with the batch".into(),
        _ => "",
    };
    match name.strip_prefix("table") {
        Some(number) if number.parse::<u32>().is_ok() => format!("Table {number}{tasks}"),
        _ => name.to_string(),
    }
}
